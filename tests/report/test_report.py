"""The report as JSON: numbers are those of the best candidate, and the file is JSON to every reader."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from infer_opt.calibrate.choice import Judged
from infer_opt.calibrate.metrics import OutputError
from infer_opt.calibrate.plan import Choice, Plan, Region, Scheme
from infer_opt.calibrate.quantization import Format
from infer_opt.calibrate.timing import Latency
from infer_opt.report import REPORT, PassReport, Report, write_report
from infer_opt.report.report import count_rules
from tests.calibrate.metrics.made_errors import classes, error_of, floats, integers, mask, with_sqnr

INT8 = Scheme("int8", Format("uint8", symmetric=False))
REGION = Region("conv", ("conv", "relu"), ("conv_17", "bn_17", "relu"), "Conv", schemes=(INT8,))
PLAN = Plan("int8", (REGION,), {"conv": Choice("int8", "legal in the dialect, ranges finite")})
FLOAT = Judged("fp32", 400, (), Latency(2.0, 2.5, 3.0, 15, 1.0), None)
EXACT = with_sqnr(20)


def report(best: Judged, *others: Judged, **changes: Any) -> Report:
    """A report whose artifact is `best`."""
    facts = {
        "source": "net.onnx",
        "target": "x86-avx2",
        "out": "net-x86-avx2",
        "pipeline": "simplify,quantize",
        "why": "it is fastest",
        "plan": PLAN,
        "passes": (PassReport("simplify", 9, 7, 0.01, {"no-op": 2}, (("fuse", "add", "two readers"),), None),),
        "original_latency": Latency(2.2, 2.5, 3.0, 15),
        "float_modelled": None,
        "latency_note": None,
        "original_bytes": 410,
        "artifact_bytes": best.bytes,
        "samples": {
            "source": "calib.npz",
            "calibration": 12,
            "verification": 4,
            "random": False,
            "also_verified": 12,
            "changed": {"noise": 4},
        },
        "checked": "run",
        "unchecked": (),
        "warnings": ("only 4 samples",),
        "budget_faults": (),
        "stages": {"load": 0.123456},
    }
    return Report(chosen=best.name, candidates=(*others, best), **(facts | changes))


def table_of(made: Report, folder: Path) -> dict[str, Any]:
    """What a strict reader finds in the file."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    write_report(made, folder)
    return json.loads((folder / REPORT).read_text(encoding="utf-8"), parse_constant=refuse)


def test_the_numbers_are_those_of_the_best_candidate(tmp_path: Path) -> None:
    """Errors, sizes and latency, rounded; the others are listed beside it."""
    best = Judged("int8", 100, (EXACT,), Latency(1.00004, 1.5, 2.0, 15, 2.2), None)
    made = report(best, FLOAT)
    table = table_of(made, tmp_path)
    assert made.best is best
    assert made.speedup == 2.2
    assert table["chosen"] == "int8"
    assert table["bytes"] == {"original": 410, "artifact": 100}
    assert table["latency"] == {
        "kind": "measured",
        "note": None,
        "original_ms": 2.2,
        "artifact_ms": 1.0,
        "speedup": 2.2,
        "rounds": 15,
    }
    assert table["outputs"] == [
        {
            "name": "boxes",
            "sqnr_db": 20.0,
            "largest_error": 0.0,
            "unequal": 0,
            "elements": 100,
            "kind": "numbers",
            "judged": True,
            "drop": None,
        }
    ]
    assert [(item["name"], item["min_sqnr_db"], item["speedup"]) for item in table["candidates"]] == [
        ("fp32", None, 1.0),
        ("int8", 20.0, 2.2),
    ]
    assert [(item["refused"], item["failed"]) for item in table["candidates"]] == [(None, None), (None, None)]
    assert table["stages"] == {"load": 0.1235}


def test_candidates_that_were_refused_or_do_not_run_are_told(tmp_path: Path) -> None:
    """Each by its reason, and without numbers that nobody has."""
    lost = Judged("int8", 100, (EXACT,), Latency(1.0, 1.0, 1.0, 15, 2.0), "too far off")
    dead = Judged("int4", 50, (), None, None, "no kernel")
    candidates = table_of(report(FLOAT, lost, dead), tmp_path)["candidates"]
    assert [(item["name"], item["refused"], item["failed"], item["p50_ms"]) for item in candidates] == [
        ("int8", "too far off", None, 1.0),
        ("int4", None, "no kernel", None),
        ("fp32", None, None, 2.0),
    ]


def test_passes_and_regions_are_told_in_the_originals_names(tmp_path: Path) -> None:
    """What each did, what nearly happened, and what the device runs as one kernel."""
    table = table_of(report(FLOAT), tmp_path)
    [done] = table["passes"]
    assert done["changes"] == {"no-op": 2}
    assert done["misses"] == [["fuse", "add", "two readers"]]
    assert table["regions"] == [
        {
            "name": "conv",
            "nodes": ["conv_17", "bn_17", "relu"],
            "op_type": "Conv",
            "precision": "int8",
            "reason": "legal in the dialect, ranges finite",
        }
    ]


def test_latency_that_was_not_measured_says_why(tmp_path: Path) -> None:
    """And has no number at all."""
    made = report(Judged("fp32", 400, (), None, None), original_latency=None, latency_note="the t4 is a GPU")
    assert made.speedup is None
    assert table_of(made, tmp_path)["latency"] == {"kind": "not measured", "note": "the t4 is a GPU"}


def test_latency_that_was_modelled_is_called_so(tmp_path: Path) -> None:
    """By all in FP32, and no speed-up over the original, which nothing timed."""
    best = Judged("int8", 400, (), None, None, modelled=5e-4)
    made = report(best, original_latency=None, latency_note="the t4 is a GPU", float_modelled=2e-3)
    assert made.speedup is None
    assert table_of(made, tmp_path)["latency"] == {
        "kind": "modelled",
        "note": "the t4 is a GPU",
        "float_ms": 2.0,
        "artifact_ms": 0.5,
        "speedup_over_float": 4.0,
    }


def test_a_broken_output_is_still_json(tmp_path: Path) -> None:
    """JSON has neither NaN nor infinity: a largest error beyond measure is null."""
    error = OutputError("logits")
    error.add(np.array([[1, 2]], np.float32), np.array([[np.nan, 2]], np.float32))
    assert math.isinf(error.largest)
    [output] = table_of(report(Judged("int8", 1, (error,), None, None)), tmp_path)["outputs"]
    assert output["largest_error"] is None
    assert output["sqnr_db"] == -200


def test_each_output_is_told_by_its_kind(tmp_path: Path) -> None:
    """Integers are equal or not; a drop has the unit of the kind, and what is judged elsewhere has none."""
    half = error_of(mask(100, 400), mask(50, 400), "mask")  # F1 is 100 / 150
    state = OutputError("hn", state=True)
    state.add(floats(0.9, 0.1), floats(0.1, 0.9))
    errors = (integers(2), classes(3, 4), half, with_sqnr(20), state)
    outputs = table_of(report(Judged("int8", 1, errors, None, None)), tmp_path)["outputs"]
    assert (outputs[0]["sqnr_db"], outputs[0]["unequal"]) == (None, 2)
    assert [(output["name"], output["kind"], output["judged"], output["drop"]) for output in outputs] == [
        ("top", "integers", False, None),
        ("logits", "class scores", True, 0.25),
        ("mask", "shares", True, 0.333333),
        ("boxes", "numbers", True, None),
        ("hn", "class scores", False, None),
    ]


def test_rules_are_counted_most_often_first() -> None:
    """As a report lists them."""
    assert list(count_rules(["a", "b", "b", "c", "b", "a"]).items()) == [("b", 3), ("a", 2), ("c", 1)]
