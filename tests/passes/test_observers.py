"""`--dump-ir`: the graph before the first pass and after each that changed it."""

from __future__ import annotations

from pathlib import Path

from infer_opt import ir
from infer_opt.passes import Pipeline
from infer_opt.passes.engine.observers import DumpGraphs
from tests.onnx_text import load

TEXT = """<ir_version: 9, opset_import: ["": 20]>
    m (float[N,2] x) => (float[N,3] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}, float[3] b = {1, 2, 3}> {
    a = Identity(x)  t = MatMul(a, w)  y = Add(t, b) }"""


def test_each_pass_that_changed_something_leaves_text_and_model(tmp_path: Path) -> None:
    """The files are numbered by the place of the pass; one that found nothing leaves none."""
    model = load(TEXT, tmp_path)
    folder = tmp_path / "dump" / "here"
    _, steps = Pipeline.parse("legalize,simplify,fuse").run(model, [DumpGraphs(folder)])
    names = ["00-original.txt", "02-simplify.onnx", "02-simplify.txt", "03-fuse.onnx", "03-fuse.txt"]
    assert sorted(file.name for file in folder.iterdir()) == names
    assert (folder / "00-original.txt").read_text(encoding="utf-8") == ir.text(model)
    for step in steps[1:]:
        name = folder / f"{step.index + 1:02d}-{step.ran.name}"
        assert name.with_suffix(".txt").read_text(encoding="utf-8") == ir.text(step.after)
        assert ir.fingerprint(ir.load(name.with_suffix(".onnx"))) == ir.fingerprint(step.after)


def test_a_dump_objects_to_nothing(tmp_path: Path) -> None:
    """The result is the same as without it."""
    model = load(TEXT, tmp_path)
    pipeline = Pipeline.parse("simplify,fuse")
    watched, steps = pipeline.run(model, [DumpGraphs(tmp_path / "dump")])
    assert [step.undone for step in steps] == [None, None]
    assert ir.text(watched) == ir.text(pipeline.run(model)[0])
