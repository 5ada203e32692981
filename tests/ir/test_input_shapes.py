"""`--shape`: read from text, put on the inputs, and refused where the model says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer_opt import ir
from infer_opt.errors import UsageError
from tests.onnx_text import load

TEXT = """m (float[N,3,H,W] image, float[K] scale, float[2] bias) => (float[N,3,H,W] y, float[M] z)
    <int64[1] flat = {-1}> { t = Relu(image)  y = Neg(t)  z = Reshape(t, flat) }"""


def shaped(folder: Path, *shapes: str) -> ir.Model:
    """The model with input shapes given as on the command line."""
    model = load(TEXT, folder)
    ir.fix_input_shapes(model, [ir.InputShape.parse(shape) for shape in shapes])
    return model


def refusal(folder: Path, *shapes: str) -> tuple[str, str | None]:
    """Message and hint."""
    with pytest.raises(UsageError) as caught:
        shaped(folder, *shapes)
    return caught.value.message, caught.value.hint


def shapes_of(ports: tuple[ir.Port, ...]) -> dict[str, object]:
    """Shapes by name."""
    return {port.name: port.shape for port in ports}


def test_numbers_and_ranges_are_read() -> None:
    """A name may hold a colon; the last one counts."""
    assert ir.InputShape.parse("in:0:1..8x3x224x224") == ir.InputShape("in:0", ((1, 8), (3, 3), (224, 224), (224, 224)))


def test_fixed_dimensions_reach_inner_values_and_outputs(tmp_path: Path) -> None:
    """What follows from them is inferred anew."""
    model = shaped(tmp_path, "image:2x3x4x5")
    interface = ir.interface(model)
    assert shapes_of(interface.inputs) == {"image": (2, 3, 4, 5), "scale": ("K",), "bias": (2,)}
    assert shapes_of(interface.outputs) == {"y": (2, 3, 4, 5), "z": (120,)}
    assert ir.dims(next(iter(model.graph)).outputs[0]) == (2, 3, 4, 5)


def test_ranges_stay_symbolic(tmp_path: Path) -> None:
    """Each dimension keeps its symbol; a range of one size fixes it."""
    interface = ir.interface(shaped(tmp_path, "image:1..8x3x7..7x1..9"))
    assert shapes_of(interface.inputs)["image"] == ("N", 3, 7, "W")
    assert shapes_of(interface.outputs)["y"] == ("N", 3, 7, "W")


def test_no_shapes_change_nothing(tmp_path: Path) -> None:
    """Declared output symbols stay too."""
    assert ir.text(shaped(tmp_path)) == ir.text(load(TEXT, tmp_path))


def test_an_input_of_unknown_rank_gets_one(tmp_path: Path) -> None:
    """A range gets a symbol made of the input's name."""
    model = load("m (float x) => (float y) { y = Relu(x) }", tmp_path)
    model.graph.inputs[0].shape = None
    ir.fix_input_shapes(model, [ir.InputShape.parse("x:2x1..4")])
    assert shapes_of(ir.interface(model).inputs) == {"x": (2, "x_1")}


@pytest.mark.parametrize(
    ("shape", "message", "hint"),
    [
        ("1x3", "--shape `1x3` names no input", "write it like `input:1x3x224x224`"),
        (":1x3", "--shape `:1x3` names no input", "write it like `input:1x3x224x224`"),
        (
            "x:1xNx3",
            "--shape `x:1xNx3`: `N` is no dimension",
            "give numbers, like `1x3x224x224` or `1..8x3`",
        ),
        ("x:", "--shape `x:`: `` is no dimension", "give numbers, like `1x3x224x224` or `1..8x3`"),
        ("x:-1", "--shape `x:-1`: `-1` is no dimension", "give numbers, like `1x3x224x224` or `1..8x3`"),
        ("x:8..1", "--shape `x:8..1`: `8..1` is an empty range", "give sizes of 1 or more, smallest first"),
        ("x:0", "--shape `x:0`: `0` is an empty range", "give sizes of 1 or more, smallest first"),
    ],
)
def test_text_that_is_no_shape(shape: str, message: str, hint: str, tmp_path: Path) -> None:
    """The part at fault is named."""
    assert refusal(tmp_path, shape) == (message, hint)


@pytest.mark.parametrize(
    ("shape", "message", "hint"),
    [
        ("imag:1x3x4x4", "--shape: the model has no input `imag`", "did you mean `image`?"),
        ("q:1", "--shape: the model has no input `q`", "the inputs are `image`, `scale`, `bias`"),
        ("image:1x3", "--shape: input `image` has 4 dimensions, not 2", "the model declares ['N', 3, 'H', 'W']"),
        (
            "image:1x4x2x2",
            "--shape: dimension 1 of input `image` is fixed to 3 by the model",
            "export the model with a dynamic dimension there",
        ),
        (
            "bias:3..9",
            "--shape: dimension 0 of input `bias` is fixed to 2 by the model",
            "export the model with a dynamic dimension there",
        ),
    ],
)
def test_shapes_that_do_not_fit_the_model(shape: str, message: str, hint: str, tmp_path: Path) -> None:
    """Input and dimension are named."""
    assert refusal(tmp_path, shape) == (message, hint)


def test_sizes_of_values_follow_from_the_inputs(tmp_path: Path) -> None:
    """Of a model whose own dimensions are names; the model is left as it was, other inputs count for nothing."""
    model = load(TEXT, tmp_path)
    sizes = ir.value_sizes(model, {"image": (2, 3, 4, 5), "other": (7,)})
    assert sizes == {"image": 120, "bias": 2, "t": 120, "y": 120, "z": 120}
    assert ir.value_sizes(model, {}) == {"bias": 2}
