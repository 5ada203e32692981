"""Every rewrite: the graph it makes, as text; and that outputs and interface stay as they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from infer_opt import ir
from infer_opt.passes import Pipeline
from infer_opt.passes.rewrites.clean_up.no_ops import NO_OPS
from infer_opt.passes.rewrites.opsets.opset_adapters import ADAPTERS
from tests.onnx_text import parse, random_feed, run
from tests.passes import rule_names
from tests.passes.golden_cases import FEEDS, FOLDER, Case, files, read, render

CASES = [case for name in files() for case in read(name)]
IDS = [f"{case.file.removesuffix('.md')}: {case.title}" for case in CASES]


@pytest.mark.parametrize("name", files())
def test_the_graphs_are_those_of_the_golden_file(name: str, golden: Callable[[str, str], None], tmp_path: Path) -> None:
    """What each pipeline makes of each model is what the file says."""
    golden(f"passes/{name}", render(name, tmp_path))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_outputs_stay(case: Case, tmp_path: Path) -> None:
    """Bit for bit but for the sign of zero.

    With `fuse`, and where sums are reordered, within 1e-5 of a value plus 1e-6 of the largest.

    float16, rounded at every node that a fused operator does not have, has 4 units in the last place for each.
    """
    before, after, _ = case.run(tmp_path)
    proto = parse(case.model)
    symbols = {dim.dim_param for value in proto.graph.input for dim in value.type.tensor_type.shape.dim}
    for number in range(FEEDS):
        sizes = {symbol: case.size(symbol, number) for symbol in symbols}
        feed = random_feed(proto, sizes, number, case.below)
        for expected, actual in zip(run(ir.serialize(before), feed), run(ir.serialize(after), feed), strict=True):
            exact = "fuse" not in case.pipeline and not case.reordered
            compare(expected, actual, exact=exact, random=case.random)


def compare(expected: np.ndarray, actual: np.ndarray, *, exact: bool, random: bool) -> None:
    """Hold two outputs to each other; lists are sequences of tensors."""
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    if random:
        return
    if exact or expected.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected)
    else:
        largest = float(np.abs(expected[np.isfinite(expected)]).max(initial=1))
        half = 4 * float(np.finfo(np.float16).eps)
        relative, absolute = (half, half) if expected.dtype == np.float16 else (1e-5, 1e-6)
        np.testing.assert_allclose(actual, expected, rtol=relative, atol=absolute * largest)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_result_is_a_model_with_the_same_interface(case: Case, tmp_path: Path) -> None:
    """Names, dtypes and shapes of inputs and outputs stay; onnx's checker and ours find no fault."""
    before, after, _ = case.run(tmp_path)
    assert ir.interface(after) == ir.interface(before)
    ir.check_legal(after)
    onnx.checker.check_model(ir.serialize(after), full_check=True)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_second_run_changes_nothing(case: Case, tmp_path: Path) -> None:
    """The pipeline has settled."""
    _, after, _ = case.run(tmp_path)
    again, steps = Pipeline.parse(case.pipeline).run(after)
    assert [step.outcome.changes for step in steps] == [()] * len(steps)
    assert ir.text(again) == ir.text(after)


@pytest.mark.parametrize("name", files())
def test_every_file_has_cases_that_fire_and_cases_that_do_not(name: str) -> None:
    """A rewrite is known by both. Every heading is a case, and titles tell the cases of a file apart."""
    cases = read(name)
    assert len(cases) == (FOLDER / name).read_text(encoding="utf-8").count("\n## ")
    fired = [not case.expected.startswith("unchanged") for case in cases]
    assert any(fired)
    assert not all(fired)
    assert len({case.title for case in cases}) == len(cases)


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    """Rule and detail of every change that some case makes."""
    folder = tmp_path_factory.mktemp("cases")
    steps = [step for case in CASES for step in case.run(folder)[2]]
    return {(change.rule, change.detail) for step in steps for change in step.outcome.changes}


def test_every_rewrite_fires_in_some_case(changes: set[tuple[str, str]]) -> None:
    """A rewrite that no case shows could do anything."""
    assert {*rule_names.FUSE, *rule_names.SIMPLIFY, *rule_names.walks()} == {rule for rule, _ in changes}


def test_every_no_op_is_removed_in_some_case(changes: set[tuple[str, str]]) -> None:
    """Each row of the table is shown."""
    assert set(NO_OPS) - {detail for rule, detail in changes if rule == "no-op"} == set()


def test_every_adapter_fires_in_some_case(changes: set[tuple[str, str]]) -> None:
    """Each row of the table is shown; an operator that is renamed is recorded under its new name."""
    renamed = {"Upsample": "Resize", "Scatter": "ScatterElements"}
    wanted = {f"{renamed.get(operator, operator)} to opset {opset}" for operator, opset in ADAPTERS}
    assert wanted - {detail for rule, detail in changes if rule == "raise opset"} == set()
