"""The GitHub Action: its inputs are used, its script passes them on, and the worked example fits it."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from infer_opt import profiles, targets

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
EXAMPLE_TEXT = (ROOT / "examples" / "ci" / "compile.yml").read_text(encoding="utf-8")
EXAMPLE = yaml.safe_load(EXAMPLE_TEXT)
COMPILE = next(step for step in ACTION["runs"]["steps"] if step.get("id") == "compile")

# Stands in for the command: leaves its arguments, one a line, and exits as it is told to.
RECORDER = """#!/usr/bin/env bash
printf '%s\\n' "$@" > "$RECORDED"
exit "$STATUS"
"""


@dataclass(frozen=True)
class Ran:
    """One run of the script: its exit code, what it called the command with, the step's outputs, the log."""

    status: int
    arguments: list[str]
    outputs: list[str]
    log: list[str]


def run_script(folder: Path, status: int, **inputs: str) -> Ran:
    """Run the action's script with a command that exits with `status`."""
    command = folder / "infer-opt"
    command.write_text(RECORDER, encoding="utf-8")
    command.chmod(0o755)
    outputs, recorded = folder / "outputs", folder / "recorded"
    outputs.touch()
    environment = {
        **dict.fromkeys(COMPILE["env"], ""),
        **inputs,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_OUTPUT": str(outputs),
        "RECORDED": str(recorded),
        "STATUS": str(status),
    }
    # The flags are those that GitHub gives to `shell: bash`.
    script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", COMPILE["run"]]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    arguments = recorded.read_text(encoding="utf-8").splitlines()
    return Ran(done.returncode, arguments, outputs.read_text().splitlines(), done.stdout.splitlines())


def test_every_declared_input_is_used_and_every_used_input_is_declared() -> None:
    """An input that nothing reads would be silently ignored; one not declared would be silently empty."""
    used = set(re.findall(r"inputs\.([a-z-]+)", yaml.safe_dump(ACTION["runs"])))
    assert used == set(ACTION["inputs"])


def test_every_output_comes_from_the_script() -> None:
    """Each output names a key that the script writes."""
    for name, output in ACTION["outputs"].items():
        assert output["value"] == f"${{{{ steps.compile.outputs.{name} }}}}"
        assert f'echo "{name}=' in COMPILE["run"]


def test_inputs_never_become_text_of_the_script() -> None:
    """The script reads its inputs from variables only, and reads each of them."""
    assert "${{" not in COMPILE["run"]
    for variable in COMPILE["env"]:
        assert f"${variable}" in COMPILE["run"]


def test_the_script_passes_on_what_is_given(tmp_path: Path) -> None:
    """Each input becomes its option; a path with a blank stays one argument; `args` is split at blanks."""
    inputs = {"MODEL": "a model.onnx", "TARGET": "t4", "CALIB": "a b.npz", "OUT": "made"}
    budget = {"MAX_DROP": "0.01", "MIN_SPEEDUP": "1.2", "ARGS": "--seed 3  --threads 1"}
    ran = run_script(tmp_path, 0, **inputs, **budget)
    expected = ["compile", "a model.onnx", "--target", "t4", "--out", "made", "--force", "--calib", "a b.npz"]
    expected += ["--max-drop", "0.01", "--min-speedup", "1.2", "--seed", "3", "--threads", "1"]
    assert (ran.status, ran.arguments) == (0, expected)
    assert ran.outputs == ["artifact=made", "report=made/report.json"]


def test_the_script_leaves_out_what_is_not_given(tmp_path: Path) -> None:
    """An empty input gives no option at all, not an option with an empty value."""
    ran = run_script(tmp_path, 0, MODEL="m.onnx", TARGET="t4", OUT="made")
    assert ran.arguments == ["compile", "m.onnx", "--target", "t4", "--out", "made", "--force"]


def test_a_missed_budget_fails_the_build_and_keeps_the_report(tmp_path: Path) -> None:
    """Exit code 3 passes through, with an annotation and with the outputs set."""
    ran = run_script(tmp_path, 3, MODEL="m.onnx", TARGET="t4", OUT="made")
    assert ran.status == 3
    assert ran.outputs == ["artifact=made", "report=made/report.json"]
    assert ran.log == ["::error file=m.onnx::compiled for t4, but the artifact misses its budget"]


@pytest.mark.parametrize("code", [1, 2, 70])
def test_any_other_failure_passes_through_without_outputs(tmp_path: Path, code: int) -> None:
    """There is no artifact then, and the build fails with the command's own code."""
    ran = run_script(tmp_path, code, MODEL="m.onnx", TARGET="t4", OUT="made")
    assert (ran.status, ran.outputs, ran.log) == (code, [], [])


def test_the_worked_example_fits_the_action() -> None:
    """It gives only declared inputs and every required one, states a budget, and its files are here."""
    [step] = [step for step in EXAMPLE["jobs"]["compile"]["steps"] if step.get("uses") == "./"]
    given = step["with"]
    required = {name for name, declared in ACTION["inputs"].items() if declared.get("required")}
    assert required <= set(given) <= set(ACTION["inputs"])
    assert {"max-drop", "min-speedup"} <= set(given)
    for name in ("model", "target", "calib"):
        assert (ROOT / given[name]).is_file()


def test_the_worked_example_is_timed_on_any_runner() -> None:
    """Or else --min-speedup would fail on a CPU that is not the profile's."""
    [target] = re.findall(r"target: (\S+)", EXAMPLE_TEXT)
    profile = profiles.load(str(ROOT / target), backends=targets.backends())
    assert (profile.arch, profile.isa) == (None, ())
    assert targets.create(profile).timed_here() is None


def test_the_worked_example_reads_only_outputs_that_exist() -> None:
    """It reads each output of the action, and no other."""
    assert set(re.findall(r"steps\.compile\.outputs\.([a-z-]+)", EXAMPLE_TEXT)) == set(ACTION["outputs"])
