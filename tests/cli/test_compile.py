"""`infer-opt compile`, from the words typed to the folder written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from tests.hosts import load, target_here

TARGET = ("--target", target_here())
MADE = f"net-{load(target_here()).name}"  # the folder, where no option names it
DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


def test_the_artifact_is_whole_and_right(infer_opt: Callable, fits: Callable, kit: Path) -> None:
    """The path alone on stdout; manifest and report fit their schemas; the artifact gives the original's classes."""
    ran = infer_opt("compile", "net.onnx", *TARGET, "--calib", "calib.npz", "--precision", "int8")
    assert (ran.code, ran.out) == (0, f"{MADE}\n")
    folder = Path(MADE)
    assert sorted(file.name for file in folder.iterdir()) == [
        "latency.json",
        "manifest.json",
        "model.onnx",
        "report.html",
        "report.json",
    ]
    fits("report", json.loads((folder / "report.json").read_text()))
    fits("manifest", json.loads((folder / "manifest.json").read_text()))
    samples = {"x": np.load(kit / "calib.npz")["x"]}
    [before], [after] = (
        onnxruntime.InferenceSession(model).run(None, samples) for model in (kit / "net.onnx", folder / "model.onnx")
    )
    assert 0 < np.abs(before - after).max() < 0.2 * np.abs(before).max()
    assert (before.argmax(1) == after.argmax(1)).mean() > 0.9


def test_the_summary_says_what_was_measured(infer_opt: Callable) -> None:
    """On stderr: what was chosen and why, nodes, regions, latency and error, each with its kind."""
    ran = infer_opt("compile", "net.onnx", *TARGET, "--calib", "calib.npz", "--precision", "int8")
    assert ": int8, " in ran.err.splitlines()[0]
    assert " the original (measured)" in ran.err.splitlines()[0]
    labels = [line.split()[0] for line in ran.err.splitlines()[1:] if line[2] != " "]
    assert labels == ["artifact", "why", "nodes", "regions", "latency", "size", "error"]
    assert "on 8 held-out and 8 calibration samples, against the original:" in ran.err
    assert "`scores` SQNR " in ran.err


def test_what_cannot_be_measured_is_said(infer_opt: Callable) -> None:
    """A GPU's latency is not this CPU's; without verification there are no errors either."""
    ran = infer_opt("compile", "net.onnx", "--target", "t4")
    assert ran.err.splitlines()[0].endswith("x all in FP32 (modelled)")
    assert "after (modelled by a roofline; not measured: the t4 is a GPU)" in ran.err
    assert "on 3 random inputs" in ran.err
    assert "no engine was built: run build.sh on the t4" in ran.err
    assert Path("net-t4/build.sh").stat().st_mode & 0o111
    unverified = infer_opt("compile", "net.onnx", *TARGET, "--no-verify")
    assert "error     not measured: nothing was run" in unverified.err


def test_json_is_the_report(infer_opt: Callable, fits: Callable) -> None:
    """One document on stdout, the same as report.json; the summary stays on stderr."""
    ran = infer_opt("compile", "net.onnx", *TARGET, "--json")
    fits("report", ran.json)
    assert ran.json == json.loads(Path(MADE, "report.json").read_text())
    assert f"artifact  {MADE}" in ran.err


def test_a_missed_budget_is_code_3_and_leaves_the_artifact(infer_opt: Callable, fits: Callable) -> None:
    """Every fault is named, on stderr and in the report."""
    budget = ("--min-sqnr", "190", "--min-speedup", "1000")
    ran = infer_opt("compile", "net.onnx", *TARGET, "--calib", "calib.npz", "--precision", "int8", *budget, "--json")
    assert ran.code == 3
    fits("report", ran.json)
    assert len(ran.json["budget_faults"]) == 2
    error = ran.err.splitlines()[-2]
    assert error.startswith(f"error: the budget is missed by `{MADE}`: ")
    for fault, option in zip(ran.json["budget_faults"], ("--min-sqnr 190", "--min-speedup 1000"), strict=True):
        assert option in fault
        assert fault in error
    assert Path(MADE, "manifest.json").is_file()


def test_a_budget_that_holds_is_code_0(infer_opt: Callable) -> None:
    """The same command line, with limits that are met."""
    budget = ("--min-sqnr", "10", "--min-speedup", "0.01")
    assert infer_opt("compile", "net.onnx", *TARGET, "--calib", "calib.npz", *budget).code == 0
    samples = DIGITS.parent / "calib.npz"
    assert infer_opt("compile", DIGITS, *TARGET, "--calib", samples, *budget, "--max-drop", "0.5").code == 0


def test_a_limit_that_nothing_can_check_is_code_3(infer_opt: Callable) -> None:
    """Five numbers of any size are no class scores: nobody knows what their largest means."""
    ran = infer_opt("compile", "net.onnx", *TARGET, "--calib", "calib.npz", "--max-drop", "0.5")
    assert ran.code == 3
    assert "--max-drop cannot be checked: no output of classes, shares or vectors was compared" in ran.err
    assert Path(MADE, "manifest.json").is_file()


def test_an_output_that_collapsed_is_code_3_without_any_budget(infer_opt: Callable, loud: tuple[str, str]) -> None:
    """An order of INT8 does not cover it; a limit that allows it does."""
    model, samples = loud
    order = ("compile", model, *TARGET, "--calib", samples, "--precision", "int8", "--out", "made")
    ran = infer_opt(*order)
    assert (ran.code, ran.out) == (3, "made\n")
    assert "error: the budget is missed by `made`: output `y` collapsed: it keeps " in ran.err
    assert Path("made/manifest.json").is_file()
    assert infer_opt(*order, "--force", "--min-sqnr=-50").code == 0
    assert infer_opt("compile", model, *TARGET, "--calib", samples, "--out", "made", "--force").code == 0


def test_explain_says_where_no_pass_made_the_artifact(infer_opt: Callable) -> None:
    """The original wins where graph passes miss the budget: then they have nothing to tell, and that is said."""
    ran = infer_opt("compile", DIGITS, *TARGET, "--min-sqnr", "190", "--explain", "fuse")
    assert ": original, " in ran.err.splitlines()[0]
    lines = [line.strip() for line in ran.err.splitlines()]
    assert lines[lines.index("passes:") + 1].startswith("none made the artifact: original is fastest of ")
    assert not any(line.startswith("fuse") for line in lines)


def test_several_targets(infer_opt: Callable, fits: Callable) -> None:
    """A folder for each inside --out, a path a line, and with --json a list of reports."""
    ran = infer_opt("compile", "net.onnx", "--target", "x86-avx2,t4", "--out", "made")
    assert (ran.code, ran.out) == (0, "made/x86-avx2\nmade/t4\n")
    assert Path("made/t4/manifest.json").is_file()
    again = infer_opt("compile", "net.onnx", "--target", "x86-avx2,t4", "--out", "made", "--force", "--json")
    assert [report["target"] for report in again.json] == ["x86-avx2", "t4"]
    for report in again.json:
        fits("report", report)


@pytest.mark.parametrize("target", ["x86-avx2,toaster", "x86-avx2,x86-avx2", "x86-avx2,"])
def test_several_targets_are_checked_before_any_work(infer_opt: Callable, target: str) -> None:
    """A name that is wrong or stands twice ends the command before a folder is made."""
    ran = infer_opt("compile", "net.onnx", "--target", target, "--out", "made")
    assert ran.code == 2
    assert list(Path().iterdir()) == []


def test_what_was_made_before_a_failure_is_told(infer_opt: Callable) -> None:
    """The first target's artifact stays and is printed; the second's is in the way."""
    Path("made/t4").mkdir(parents=True)
    Path("made/t4/notes.txt").touch()
    ran = infer_opt("compile", "net.onnx", "--target", "x86-avx2,t4", "--out", "made")
    assert (ran.code, ran.out) == (1, "made/x86-avx2\n")
    assert "`made/t4` holds files that infer-opt did not write" in ran.err


def test_a_dry_run_writes_nothing(infer_opt: Callable, fits: Callable) -> None:
    """It tells all that a real run would, on stderr or as JSON, and prints no path."""
    options = ("compile", "net.onnx", *TARGET, "--calib", "calib.npz", "--dry-run")
    ran = infer_opt(*options)
    assert (ran.code, ran.out) == (0, "")
    assert f"artifact  {MADE} (not written: --dry-run)" in ran.err
    assert "  regions   " in ran.err
    fits("report", infer_opt(*options, "--json").json)
    assert list(Path().iterdir()) == []


def test_an_artifact_is_replaced_only_by_force(infer_opt: Callable) -> None:
    """Without --force the old one stays as it is; a folder of other things stays even with it."""
    options = ("compile", "net.onnx", *TARGET, "--out", "made")
    assert infer_opt(*options).code == 0
    written = Path("made/manifest.json").stat().st_mtime_ns
    refused = infer_opt(*options)
    assert (refused.code, Path("made/manifest.json").stat().st_mtime_ns) == (1, written)
    assert "pass --force to replace it" in refused.err
    assert infer_opt(*options, "--force").code == 0
    Path("other").mkdir()
    Path("other/notes.txt").touch()
    assert infer_opt("compile", "net.onnx", *TARGET, "--out", "other", "--force").code == 1
    assert [file.name for file in Path("other").iterdir()] == ["notes.txt"]


def test_failure_leaves_no_file(infer_opt: Callable, tmp_path: Path) -> None:
    """One line that names the culprit, a hint, and the folder as it was."""
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    ran = infer_opt("compile", tmp_path / "bad.onnx", *TARGET)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 2)
    assert ran.err.startswith(f"error: `{tmp_path / 'bad.onnx'}`")
    assert [file.name for file in tmp_path.iterdir()] == ["bad.onnx"]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--out", ".."), 1, "`..` cannot be replaced as a whole"),
        (("--out", "."), 1, "`.` cannot be replaced as a whole"),
        (("--out", "file/made"), 1, "file` is not a folder"),
        (("--out", "file/place"), 1, "file` is not a folder"),
        (("--set", "threads"), 2, "--set `threads` gives no value"),
        (("--set", "threads=2", "--set", "threads=3"), 2, "--set gives `threads` twice"),
        (("--set", "treads=2"), 2, "unknown key `treads`"),
        (("--shape", "x:1x3"), 2, "input `x` has 4 dimensions, not 2"),
        (("--shape", "x"), 2, "--shape `x` names no input"),
        (("--pipeline", "simplify,fuze"), 2, "no pass is called `fuze`"),
        (("--explain", "fuze"), 2, "no pass is called `fuze`"),
        (("--precision", "int4"), 1, "offers no int4"),
        (("--precision", "int8"), 1, "INT8 needs samples"),
        (("--min-sqnr", "inf"), 2, "--min-sqnr"),
        (("--dump-ir", "file"), 1, "--dump-ir `file` exists and is not a folder"),
        (("--calib", "nope.npz"), 1, "nope.npz"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_bad_options(infer_opt: Callable, options: tuple[str, ...], code: int, said: str) -> None:
    """Code, culprit and hint; nothing is written."""
    Path("file").touch()
    ran = infer_opt("compile", "net.onnx", *TARGET, *options)
    assert (ran.code, ran.out) == (code, "")
    error, hint = ran.err.splitlines()
    assert error.startswith("error: ")
    assert said in error
    assert hint.startswith("hint: ")
    assert [file.name for file in Path().iterdir()] == ["file"]


def test_explain_tells_what_did_not_happen(infer_opt: Callable) -> None:
    """Of all passes without a name, of one with its name; wherever the option stands."""
    options = ("compile", "net.onnx", *TARGET, "--calib", "calib.npz", "--precision", "int8", "--force")
    fuse = "fuse{without=GroupNormalization+PRelu,also=MatMul}:"  # as the profile has it
    everything = infer_opt(*options, "--explain").err.splitlines()
    assert {"simplify:", fuse, "precision of each region:"} <= set(everything)
    assert any("`conv` (Conv): " in line for line in everything)
    between = infer_opt("compile", "--explain", "--force", "net.onnx", *TARGET, "--precision", "fp32").err.splitlines()
    assert fuse in between
    only = infer_opt(*options, "--explain", "fuse").err.splitlines()
    assert fuse in only
    assert not {"simplify:", "precision of each region:"} & set(only)


def test_settings_reach_the_artifact(infer_opt: Callable) -> None:
    """--set, --threads, --shape and --pipeline are in the manifest; --dump-ir writes what changed."""
    options = ("--set", "arch=null", "--threads", "2", "--shape", "image:4x1x32x32", "--pipeline", "fuse")
    assert infer_opt("compile", DIGITS, *TARGET, *options, "--dump-ir", "dumped", "--out", "made").code == 0
    manifest = json.loads(Path("made/manifest.json").read_text())
    assert manifest["profile"]["source"]["arch"] == "set on the command line"
    assert manifest["run"]["threads"] == 2
    assert manifest["inputs"][0]["shape"] == [4, 1, 32, 32]
    assert manifest["pipeline"] == "fuse"
    assert {path.suffix for path in Path("dumped").glob("*-fuse.*")} == {".txt", ".onnx"}


def test_a_custom_operator_passes_only_by_name(infer_opt: Callable) -> None:
    """Refused with the option to pass; let through, unverified, when it is passed."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "my.ops" : 1]> g (float[1,4] x) => (float[1,4] y)'
        "{ a = Relu(x) y = my.ops.Frob(a) }"
    )
    onnx.save(model, "custom.onnx")
    refused = infer_opt("compile", "custom.onnx", *TARGET)
    assert refused.code == 1
    assert "my.ops::Frob" in refused.err
    assert "--allow-op" in refused.err
    allowed = infer_opt("compile", "custom.onnx", *TARGET, "--allow-op", "my.ops::Frob", "--json")
    assert allowed.code == 0
    report = json.loads(allowed.out)
    assert report["checked"] == "rules"
    assert any("my.ops::Frob" in warning for warning in report["warnings"])
    assert infer_opt("compile", "custom.onnx", *TARGET, "--force", "--allow-op", "my.ops::Other").code == 1


def test_augment_is_read(infer_opt: Callable) -> None:
    """An unknown change is a fault of usage, with the nearest; no images to change is one of the model."""
    unknown = infer_opt("compile", "net.onnx", *TARGET, "--calib", "calib.npz", "--augment", "noise,blurr")
    assert (unknown.code, unknown.err) == (2, "error: --augment knows no `blurr`\nhint: pass `blur`\n")
    small = infer_opt("compile", "net.onnx", *TARGET, "--calib", "calib.npz", "--augment", "noise")
    assert (small.code, small.err.splitlines()[0]) == (
        1,
        "error: --augment changes images, and the model takes none; its inputs are `x`",
    )
