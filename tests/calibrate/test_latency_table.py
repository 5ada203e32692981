"""Latency tables: measured once, read back as equal, and nothing measured where one was read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infer_opt.calibrate.kernel_times import RegionTimes
from infer_opt.calibrate.latency_table import LatencyTable
from infer_opt.calibrate.timing import Latency
from infer_opt.errors import InputError

ABOUT = {"model": "5e1f", "target": "x86-avx2", "threads": 1}
TIMES = RegionTimes({"conv": 1.1e-5, "relu": 0.1 + 0.2}, 1e-6)
RUNS = {"reference": Latency(2.0, 2.5, 3.0, 15), "int8": Latency(1.0, 1.5, 2.0, 15, 2.0)}


def never() -> object:
    """Measuring, where nothing may be measured."""
    raise AssertionError


def written(folder: Path) -> Path:
    """A table with all of the above."""
    table = LatencyTable(ABOUT)
    assert table.times("int8", lambda: TIMES) is TIMES
    assert table.latencies(RUNS, lambda: RUNS) == RUNS
    file = folder / "latency.json"
    file.write_text(json.dumps(table.table()))
    return file


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    """In the same compile, and in the next that gets the file; equal to the last bit."""
    again = LatencyTable.read(written(tmp_path), ABOUT)
    assert again.times("int8", never) == TIMES  # type: ignore[arg-type]
    assert again.latencies(["int8"], never) == {"int8": RUNS["int8"]}  # type: ignore[arg-type]


def test_what_a_table_lacks_is_an_error(tmp_path: Path) -> None:
    """Measured, it would make the artifact depend on the hour."""
    table = LatencyTable.read(written(tmp_path), ABOUT)
    with pytest.raises(InputError, match=r"latency.json` has no kernel times of `fp32`"):
        table.times("fp32", lambda: TIMES)
    with pytest.raises(InputError, match=r"latency.json` has no latency of `mixed`"):
        table.latencies(["int8", "mixed"], lambda: RUNS)


@pytest.mark.parametrize(("key", "value"), [("model", "other"), ("target", "t4"), ("threads", 2)])
def test_a_table_of_something_else_is_refused(tmp_path: Path, key: str, value: object) -> None:
    """Named by what differs."""
    with pytest.raises(InputError, match=f"is a table of another {key}: `{ABOUT[key]}`, not `{value}`"):
        LatencyTable.read(written(tmp_path), ABOUT | {key: value})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"about": {}}', '{"about": 3, "kernels": {}, "runs": {}}', "\0"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    """In one line that names it."""
    file = tmp_path / "latency.json"
    file.write_text(text)
    with pytest.raises(InputError, match=r"latency\.json`") as caught:
        LatencyTable.read(file, ABOUT)
    assert caught.value.hint is not None
    with pytest.raises(InputError, match=r"cannot be read: .*No such file"):
        LatencyTable.read(tmp_path / "none.json", ABOUT)
