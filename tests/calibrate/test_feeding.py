"""Which samples calibrate, which verify, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infer_opt.calibrate.feeding import Feeding, feeding, input_specs
from infer_opt.errors import InputError
from tests.targets.networks import Network, normal

NETWORK = Network("net (float[N,4] x, float[N] scale) => (float[N,4] y) { u = Unsqueeze(scale, one) y = Mul(x, u) }")
WITH_DEFAULT = Network(NETWORK.text, {"scale": np.ones(1, np.float32), "one": np.array([1])})


def fed(count: int, folder: Path) -> Feeding:
    """Feeding from a stacked file of so many samples."""
    source = folder / "calib.npz"
    np.savez(source, x=np.arange(count * 4, dtype=np.float32).reshape(count, 1, 4))
    return feeding(WITH_DEFAULT.load(folder), str(source), None, 0)


def test_inputs_with_a_default_need_no_samples(tmp_path: Path) -> None:
    """The caller may feed them; nobody has to."""
    [spec] = input_specs(WITH_DEFAULT.load(tmp_path))
    assert (spec.name, spec.dtype, spec.shape) == ("x", np.dtype(np.float32), ("N", 4))


@pytest.mark.parametrize(("count", "held_out"), [(8, 2), (12, 3), (100, 25)])
def test_the_last_quarter_is_held_out(tmp_path: Path, count: int, held_out: int) -> None:
    """Calibration and verification have no sample in common."""
    found = fed(count, tmp_path)
    assert found.calibration is not None
    assert (len(found.calibration), found.verification_count) == (count - held_out, held_out)
    first = [feed["x"][0, 0] for feed in found.verification()]
    assert first == [4.0 * index for index in range(count - held_out, count)]
    assert found.warnings == ()
    assert not found.is_random
    assert found.table() == {
        "source": str(tmp_path / "calib.npz"),
        "calibration": count - held_out,
        "verification": held_out,
        "random": False,
        "augment": [],
    }


def test_few_samples_do_both_with_a_warning(tmp_path: Path) -> None:
    """Under 8."""
    found = fed(7, tmp_path)
    assert found.calibration is not None
    assert (len(found.calibration), found.verification_count) == (7, 7)
    assert found.warnings == (
        "only 7 samples: calibration and verification share them; a few hundred typical inputs are usual",
    )


def test_two_held_out_samples_prove_equality(tmp_path: Path) -> None:
    """Or the only one there is."""
    assert [feed["x"][0, 0] for feed in fed(12, tmp_path).for_equality()] == [36.0, 40.0]
    assert len(fed(1, tmp_path).for_equality()) == 1


def test_without_data_only_verification_is_fed(tmp_path: Path) -> None:
    """By random numbers, which calibrate nothing; a few, always the same."""
    model = WITH_DEFAULT.load(tmp_path)
    found = feeding(model, None, None, 0)
    assert found.calibration is None
    assert found.is_random
    assert found.warnings == ()
    assert found.verification_count == 3
    again = feeding(model, None, None, 0)
    for one, other in zip(found.verification(), again.verification(), strict=True):
        np.testing.assert_array_equal(one["x"], other["x"])
    assert found.table() == {"source": "random", "calibration": 0, "verification": 3, "random": True, "augment": []}


def test_random_calibration_is_asked_for_by_name_and_warned_of(tmp_path: Path) -> None:
    """Nothing is calibrated on noise silently."""
    found = feeding(WITH_DEFAULT.load(tmp_path), "random", None, 0)
    assert found.calibration is not None
    assert found.is_random
    assert found.warnings == ("calibrated on random numbers: ranges and errors say nothing about real inputs",)


def test_the_seed_decides_the_random_numbers(tmp_path: Path) -> None:
    """Another seed, other numbers."""
    model = WITH_DEFAULT.load(tmp_path)
    one, other = (next(feeding(model, "random", None, seed).verification())["x"] for seed in (0, 1))
    assert (one != other).any()


def test_data_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    """File and input are named."""
    source = tmp_path / "calib.npz"
    np.savez(source, x=normal(9, 1, 5))
    with pytest.raises(InputError, match=r"calib\.npz.*`x`"):
        feeding(WITH_DEFAULT.load(tmp_path), str(source), None, 0)
