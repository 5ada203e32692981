"""Running passes: in order, on clones, checked after each, dropped where an observer objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from infer_opt import ir
from infer_opt.errors import InputError, UsageError
from infer_opt.passes import Change, Outcome, Pass, Pipeline, Step
from infer_opt.passes.legalize import Legalize
from infer_opt.passes.quantize import Quantize
from infer_opt.passes.simplify import Simplify
from tests.onnx_text import HEADER, load, node_kinds

TEXT = "m (float[N] x) => (float[N] y) { a = Relu(x)  b = Identity(a)  y = Neg(b) }"


@dataclass(frozen=True)
class Rename(Pass):
    """Turn nodes of one operator into another; breaks the model when told to."""

    name: ClassVar[str] = "rename"
    stage: ClassVar[Literal["graph", "plan"]] = "graph"

    old: str = field(default="Relu", metadata={"help": "operator to look for"})
    new: str = field(default="Abs", metadata={"help": "operator to write"})
    harm: str = field(default="", metadata={"help": "what to break"})

    def apply(self, model: ir.Model) -> Outcome:
        """Rename, then do harm."""
        nodes = [node for node in model.graph if node.op_type == self.old]
        for node in nodes:
            node.op_type = self.new
        if self.harm == "order":
            last = list(model.graph)[-1]
            model.graph.remove(last)
            model.graph.insert_before(next(iter(model.graph)), last)
        if self.harm == "output":
            model.graph.outputs[0].name = "z"
        if self.harm == "shape":
            model.graph.outputs[0].shape = ir.Shape([3])
        return Outcome(tuple(Change("rename", ir.origin(node)) for node in nodes))


@dataclass
class Recorder:
    """Keeps the steps it is shown, and objects to those of one pass."""

    objects_to: str = ""
    steps: list[Step] = field(default_factory=list)

    def after_pass(self, step: Step) -> str | None:
        """A reason for the pass it objects to."""
        self.steps.append(step)
        return "it is not equal" if step.ran.name == self.objects_to else None


def test_passes_run_in_order_each_on_what_the_last_one_made(tmp_path: Path) -> None:
    """The model that was handed in stays as it is."""
    model = load(TEXT, tmp_path)
    before = ir.text(model)
    pipeline = Pipeline((Rename(), Simplify(), Rename("Abs", "Exp")))
    after, steps = pipeline.run(model)
    assert ir.text(model) == before
    assert node_kinds(after) == ["Exp", "Neg"]
    assert [step.index for step in steps] == [0, 1, 2]
    assert [node_kinds(step.before) for step in steps] == [
        ["Relu", "Identity", "Neg"],
        ["Abs", "Identity", "Neg"],
        ["Abs", "Neg"],
    ]
    assert [node_kinds(step.after) for step in steps] == [["Abs", "Identity", "Neg"], ["Abs", "Neg"], ["Exp", "Neg"]]
    assert all(step.seconds >= 0 and step.undone is None for step in steps)


def test_weights_are_shared_between_the_clones(tmp_path: Path) -> None:
    """A pass that leaves a weight alone costs no copy of it."""
    model = load("m (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Relu(x)  y = Add(a, w) }", tmp_path)
    after, _ = Pipeline((Rename(),)).run(model)
    assert after.graph.initializers["w"].const_value is model.graph.initializers["w"].const_value


def test_an_empty_pipeline_gives_the_model_itself(tmp_path: Path) -> None:
    """And no steps."""
    model = load(TEXT, tmp_path)
    assert Pipeline().run(model) == (model, [])


def test_a_pass_that_finds_nothing_gives_the_model_itself(tmp_path: Path) -> None:
    """There is a step, and nothing for observers to look at."""
    model = load(TEXT, tmp_path)
    recorder = Recorder()
    after, [step] = Pipeline((Rename("Sin", "Cos"),)).run(model, [recorder])
    assert after is model
    assert (step.outcome, step.after is model, recorder.steps) == (Outcome(), True, [])


def test_plan_passes_do_not_touch_the_graph(tmp_path: Path) -> None:
    """They speak to the planner, and are not counted among the steps."""
    model = load(TEXT, tmp_path)
    after, steps = Pipeline((Rename(), Quantize())).run(model)
    assert [step.ran.name for step in steps] == ["rename"]
    assert node_kinds(after) == ["Abs", "Identity", "Neg"]
    assert Quantize().apply(model) == Outcome()


def test_an_observer_can_undo_a_pass(tmp_path: Path) -> None:
    """Its reason is recorded, and the next pass starts from what was there before."""
    model = load(TEXT, tmp_path)
    recorders = [Recorder(), Recorder("rename")]
    after, steps = Pipeline((Rename(), Simplify())).run(model, recorders)
    assert node_kinds(after) == ["Relu", "Neg"]
    assert [step.undone for step in steps] == ["it is not equal", None]
    assert steps[1].before is model
    assert [len(recorder.steps) for recorder in recorders] == [2, 2]


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (
            "order",
            "after pass `rename{new=Exp,harm=order}`: node `Neg:y` (Neg) reads `b` before it is made",
        ),
        ("output", "pass `rename{new=Exp,harm=output}` changed the inputs or outputs of the model"),
        ("shape", "pass `rename{new=Exp,harm=shape}` changed the inputs or outputs of the model"),
    ],
)
def test_a_pass_that_breaks_the_model_is_named(harm: str, words: str, tmp_path: Path) -> None:
    """With its options: it is a bug, not the user's fault."""
    with pytest.raises(ir.IllegalModelError) as caught:
        Pipeline((Rename(new="Exp", harm=harm),)).run(load(TEXT, tmp_path))
    assert str(caught.value) == words


def test_a_graph_pass_cannot_follow_a_plan_pass() -> None:
    """The graph is final once precision is planned."""
    with pytest.raises(UsageError) as caught:
        Pipeline.parse("simplify,quantize,fuse")
    assert (caught.value.message, caught.value.hint) == (
        "pass `fuse` cannot follow `quantize`: the graph is final once precision is planned",
        "put `fuse` before `quantize`",
    )


OLD = HEADER.replace("13", "{opset}")


@pytest.mark.parametrize(
    ("pipeline", "text", "message", "hint"),
    [
        pytest.param(
            "legalize{opset=22}",
            OLD.format(opset=11) + TEXT,
            "opset 11 cannot be raised to 22, only up to 20",
            "export the model with opset 22",
            id="beyond the table",
        ),
        pytest.param(
            "legalize{opset=21}",
            OLD.format(opset=20) + TEXT,
            "opset 20 cannot be raised to 21, only up to 20",
            "export the model with opset 21",
            id="beyond the table from its end",
        ),
        pytest.param(
            "legalize",
            OLD.format(opset=8) + "m (float[1,N] x) => (float[1,N] y) { y = Scan(x) <num_scan_inputs = 1,"
            " body = b (float[A] i) => (float[A] o) { o = Relu(i) }> }",
            "node `Scan:y`: Scan of opset 8 cannot be raised to 20",
            "export the model with opset 20",
            id="Scan",
        ),
        pytest.param(
            "legalize",
            OLD.format(opset=8)
            + "m (float[N,2] x, float[2] s) => (float[N,2] y) { y = BatchNormalization<spatial = 0>(x, s, s, s, s) }",
            "node `BatchNormalization:y`: BatchNormalization with spatial=0, one mean for each element, "
            "ended with opset 8",
            "export the model again with opset 13 or newer",
            id="BatchNormalization",
        ),
        pytest.param(
            "legalize",
            OLD.format(opset=10) + "m (float[N] x) => (float[N] y, bool[N] k) { y, k = Dropout(x) }",
            "node `Dropout:y`: the mask of Dropout is read, and was not defined before opset 12",
            "export the model again with opset 13 or newer",
            id="Dropout",
        ),
        pytest.param(
            "legalize",
            OLD.format(opset=13) + "m (float[N,2] x, float[2] s) => (float[N,2] y, float[2] t)"
            " { y, a, b, t, c = BatchNormalization(x, s, s, s, s) }",
            "node `BatchNormalization:y`: the saved statistics of BatchNormalization are read, and ended with opset 13",
            "export the model again in inference mode",
            id="BatchNormalization in training mode",
        ),
    ],
)
def test_what_cannot_be_legalized_is_refused(pipeline: str, text: str, message: str, hint: str, tmp_path: Path) -> None:
    """In one line that names the node."""
    with pytest.raises(InputError) as caught:
        Pipeline.parse(pipeline).run(load(text, tmp_path))
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_an_opset_beyond_the_table_that_is_there_already_is_no_fault(tmp_path: Path) -> None:
    """Nothing has to be raised."""
    model = load(OLD.format(opset=22) + TEXT, tmp_path)
    assert Pipeline((Legalize(22),)).run(model)[0] is model
