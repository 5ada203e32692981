"""Judging candidates whose errors, failures and times the test makes up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest

from infer_opt.calibrate.budget import Budget
from infer_opt.calibrate.judging import ORIGINAL, Built, Candidate, Contest, Verdict, judge
from infer_opt.calibrate.plan import Choice, Plan, Region, Scheme
from infer_opt.calibrate.progress import Silent, Stages
from infer_opt.calibrate.quantization import Format
from infer_opt.calibrate.runner import RunError
from infer_opt.calibrate.target import Artifact
from infer_opt.calibrate.verifying import Verifying
from infer_opt.errors import InputError
from tests.targets.networks import Feed, Lazy, normal

REGION = Region("conv", ("conv",), ("conv",), "Conv", schemes=(Scheme("int8", Format("uint8", symmetric=False)),))
RIGHT, WRONG = 0.001, 0.09  # 60 dB and 20.9 dB
CLEAN = Lazy(lambda index: {"x": normal(1, 5, seed=index), "noisy": np.float32(0)}, 4, "clean")
NOISY = Lazy(lambda index: {"x": normal(1, 5, seed=index), "noisy": np.float32(1)}, 2, "noisy")


@dataclass(eq=False)
class Session:
    """A model that gives its input, off by a share of it: one share on clean samples, another on noisy ones."""

    what: str = "the original"
    clean: float = 0.0
    noisy: float = 0.0
    fails: bool = False
    time: float = 4e-3
    outputs: tuple[str, ...] = ("y",)
    runs: int = 0

    def run(self, feed: Feed, sample: str = "") -> Feed:
        """See `Runner`."""
        if self.fails:
            raise RunError(f"{self.what} fails on {sample}", "mend it")
        self.runs += 1
        return {"y": feed["x"] * (1 + (self.noisy if feed["noisy"] else self.clean))}

    def seconds(self, feed: Feed) -> float:
        """See `Runner`."""
        del feed
        return self.time


def session(clean: float = RIGHT, noisy: float | None = None, **facts: Any) -> Callable[[str], Session | None]:
    """How such a candidate opens; as exact on noisy samples as on clean ones unless told."""
    return lambda name: Session(name, clean, clean if noisy is None else noisy, **facts)


def refuses_to_load(name: str) -> None:
    """One that the host cannot load."""
    raise RunError(f"onnxruntime cannot load {name}", "mend it")


@dataclass
class Shop:
    """A workshop that writes empty artifacts, and notes what it is asked for."""

    folder: Path
    sessions: Mapping[str, Callable[[str], Session | None]]
    built: list[str] = field(default_factory=list)
    times: Mapping[str, float] = field(default_factory=dict)  # modelled
    opened: list[tuple[str, int]] = field(default_factory=list)  # with how many others were in memory then
    alive: WeakSet[Session] = field(default_factory=WeakSet)

    def build(self, candidate: Candidate) -> Built:
        """See `Workshop`."""
        self.built.append(candidate.name)
        folder = self.folder / candidate.name
        folder.mkdir()
        (folder / "model.onnx").write_bytes(b"1234")
        return Built(candidate.plan, folder, Artifact("model.onnx", ("model.onnx",), "run"))

    def open(self, built: Built) -> Session | None:
        """See `Workshop`."""
        name = built.plan.name
        self.opened.append((name, len(self.alive)))
        opened = self.sessions[name](name)
        if opened is not None:
            self.alive.add(opened)
        return opened

    def modelled(self, candidate: Candidate) -> float | None:
        """See `Workshop`."""
        return self.times.get(candidate.name)


def candidate(name: str) -> Candidate:
    """`fp32` and the original are float, all else is in INT8; `mixed` ones are searched."""
    choice = Choice("fp32" if name in {"fp32", ORIGINAL} else "int8", "")
    model: Any = None  # nobody looks at it
    return Candidate(Plan(name, (REGION,), {"conv": choice}), model, searched=name.startswith("mixed"))


@dataclass
class Contested:
    """A contest over made-up candidates."""

    folder: Path
    original: Session = field(default_factory=Session)

    def judge(
        self, sessions: Mapping[str, Callable[[str], Session | None]], stages: Stages | None = None, **facts: Any
    ) -> tuple[Verdict, Shop]:
        """The verdict on candidates of these names, in their order."""
        shop = Shop(self.folder, sessions)
        samples = Verifying(CLEAN, 4, {"noise": NOISY})
        original: Any = self.original
        contest = replace(Contest(original, samples, {}, {}, Budget(), timed=True), **facts)
        workshop: Any = shop
        return judge([candidate(name) for name in sessions], workshop, contest, stages or Stages(Silent())), shop


@pytest.fixture
def contested(tmp_path: Path) -> Contested:
    """With an original that runs."""
    return Contested(tmp_path)


def refused(verdict: Verdict) -> list[str]:
    """Names of those that were refused."""
    return [item.name for item in verdict.judged if item.refused is not None]


def test_a_search_ends_where_three_are_right(contested: Contested) -> None:
    """It goes on past those that are refused or do not run; what is not searched is built all the same."""
    verdict, shop = contested.judge(
        {
            "fp32": session(0.0),
            "int8": session(WRONG),
            "mixed-1": session(WRONG),
            "mixed-2": session(),
            "mixed-3": session(fails=True),
            "mixed-4": session(),
            "mixed-5": session(noisy=WRONG),
            "mixed-6": refuses_to_load,
            "mixed-7": session(),
            "mixed-8": session(),
            ORIGINAL: session(0.0),
        }
    )
    built = ["fp32", "int8", *(f"mixed-{index}" for index in range(1, 8)), ORIGINAL]
    assert shop.built == [item.name for item in verdict.judged] == [item.plan.name for item in verdict.built] == built
    assert refused(verdict) == ["int8", "mixed-1", "mixed-5"]
    assert {item.name: item.failed for item in verdict.judged if item.failed} == {
        "mixed-3": "mixed-3 fails on clean sample 0",
        "mixed-6": "onnxruntime cannot load mixed-6",
    }


def test_one_candidate_is_in_memory_until_they_are_timed(contested: Contested) -> None:
    """Also after one that failed; then all that are right, and no others."""
    _, shop = contested.judge(
        {"fp32": session(0.0), "int8": session(WRONG), "mixed-1": session(fails=True), "mixed-2": session()}
    )
    verified, timed = shop.opened[:4], shop.opened[4:]
    assert verified == [("fp32", 0), ("int8", 0), ("mixed-1", 0), ("mixed-2", 0)]
    assert timed == [("fp32", 0), ("mixed-2", 1)]


def test_latencies_are_of_those_that_may_win(contested: Contested) -> None:
    """By the original's time in the same rounds; a refused candidate has none."""
    verdict, _ = contested.judge(
        {"fp32": session(0.0, time=4e-3), "int8": session(WRONG, time=1e-3), "mixed-1": session(time=2e-3)}
    )
    assert [item.speedup for item in verdict.judged] == [1.0, None, 2.0]
    assert verdict.reference is not None
    assert verdict.reference.p50_ms == pytest.approx(4.0)


def test_where_none_is_right_all_that_run_are_timed(contested: Contested) -> None:
    """So that it can be said what they would be."""
    verdict, _ = contested.judge({"int8": session(WRONG, time=2e-3), "mixed-1": session(fails=True)})
    assert [item.speedup for item in verdict.judged] == [2.0, None]


def test_nothing_is_timed_where_this_hosts_latency_does_not_count(contested: Contested) -> None:
    """Each is opened once, to be verified."""
    verdict, shop = contested.judge({"fp32": session(0.0), "int8": session()}, timed=False)
    assert [item.latency for item in verdict.judged] == [None, None]
    assert (verdict.reference, len(shop.opened)) == (None, 2)


def test_the_original_and_orders_are_never_refused(contested: Contested) -> None:
    """However wrong: the original is what all are held to, and whoever orders a precision gets it."""
    strict = Budget(min_sqnr=90)
    verdict, _ = contested.judge(
        {"fp32": session(WRONG), "int8": session(WRONG), ORIGINAL: session(WRONG)}, budget=strict
    )
    assert refused(verdict) == ["fp32", "int8"]
    assert verdict.judged[1].refused == "output `y` keeps 20.9 dB of --min-sqnr 90"


@pytest.mark.parametrize("noisy", [WRONG, 1.0])
def test_an_order_is_built_whatever_it_loses(contested: Contested, noisy: float) -> None:
    """Without a budget nothing is refused, on clean samples and on noisy ones."""
    verdict, _ = contested.judge({"int8": session(WRONG, noisy)}, budget=None)
    [int8] = verdict.judged
    assert (int8.refused, int8.failed) == (None, None)
    assert int8.errors[0].sqnr == pytest.approx(20.9, abs=0.1)


def test_floats_are_refused_by_stated_limits_only(contested: Contested) -> None:
    """The defaults are about quantization; graph passes have a check of their own."""
    verdict, _ = contested.judge({"fp32": session(WRONG), "int8": session(WRONG)})
    assert refused(verdict) == ["int8"]
    assert verdict.judged[1].refused == "output `y` keeps 20.9 dB, under 32 dB"


def test_an_error_that_grows_with_noise_is_refused(contested: Contested) -> None:
    """Right on samples as they are."""
    verdict, _ = contested.judge({"int8": session(RIGHT, noisy=WRONG)})
    [int8] = verdict.judged
    assert int8.refused == (
        "the error of output `y` is 90 times as large on samples with noise: calibrated on cleaner inputs than those"
    )
    assert int8.errors[0].sqnr == pytest.approx(60, abs=0.1)


def test_of_an_order_the_growth_is_told(contested: Contested) -> None:
    """It stands, and whoever ordered it knows."""
    verdict, _ = contested.judge({"int8": session(RIGHT, noisy=WRONG)}, budget=None)
    [int8] = verdict.judged
    assert int8.refused is None
    assert int8.drifts is not None
    assert int8.drifts.startswith("the error of output `y` is 90 times as large on samples with noise")


def test_floats_and_what_is_refused_already_run_on_no_changed_samples(contested: Contested) -> None:
    """They have nothing to prove there."""
    contested.judge({"fp32": session(0.0), "int8": session(WRONG)}, timed=False)
    assert contested.original.runs == len(CLEAN)


def test_the_original_runs_each_sample_once(contested: Contested) -> None:
    """Clean and noisy, for all candidates together."""
    contested.judge({"fp32": session(0.0), "int8": session(), "mixed-1": session()}, timed=False)
    assert contested.original.runs == len(CLEAN) + len(NOISY)


def test_a_failure_of_the_original_is_told_as_its_own(contested: Contested) -> None:
    """No candidate is blamed for it."""
    contested.original.fails = True
    with pytest.raises(InputError, match=r"^the original fails on clean sample 0$"):
        contested.judge({"fp32": session(0.0)})


def test_int8_that_cannot_be_run_here_is_refused_unless_ordered(contested: Contested, tmp_path: Path) -> None:
    """Nothing tells whether it is right enough; floats need no proof."""
    sessions: dict[str, Callable[[str], Session | None]] = dict.fromkeys(("fp32", "int8"), lambda _: None)
    verdict, _ = contested.judge(sessions)
    assert [item.refused for item in verdict.judged] == [
        None,
        "it cannot be run here, so nothing tells whether it is right enough",
    ]
    assert [item.runs for item in verdict.built] == [False, False]
    (tmp_path / "other").mkdir()
    ordered, _ = Contested(tmp_path / "other").judge({"int8": sessions["int8"]}, budget=None)
    assert ordered.judged[0].refused is None


@pytest.mark.parametrize("missing", ["original", "samples"])
def test_where_nothing_can_be_verified_nothing_is_opened(contested: Contested, missing: str) -> None:
    """Candidates are built, and nothing is known of them but their size."""
    verdict, shop = contested.judge({"fp32": session(), "int8": session(WRONG)}, **{missing: None})
    assert shop.opened == []
    assert [(item.errors, item.refused, item.latency, item.bytes) for item in verdict.judged] == [
        ((), None, None, 4)
    ] * 2
    assert verdict.reference is None


def test_each_sample_is_a_step_of_progress(contested: Contested) -> None:
    """As many as were announced, for a candidate that is right everywhere."""
    told: list[tuple[str, int, int]] = []

    class Told(Silent):
        @contextmanager
        def stage(self, name: str, total: int) -> Iterator[Callable[[], None]]:
            steps: list[int] = []
            yield lambda: steps.append(1)
            told.append((name, total, len(steps)))

    contested.judge({"int8": session()}, Stages(Told()), timed=False)
    assert told == [("emit", 1, 0), ("verify", 6, 6)]
