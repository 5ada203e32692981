"""The interface of a model, and the parts of which an output is joined."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer_opt import ir
from tests.onnx_text import load


def test_inputs_and_outputs_by_name_dtype_and_shape(tmp_path: Path) -> None:
    """In order; a symbol is a word, an unknown dimension and an unknown rank are None."""
    text = "m (float16[N,3,?] x, int64 k, float[1] d = {1}) => (float16[N,3,?] y, float z) { y = Relu(x)  z = Neg(d) }"
    model = load(text, tmp_path)
    model.graph.outputs[1].shape = None
    assert ir.interface(model) == ir.Interface(
        inputs=(
            ir.Port("x", "float16", ("N", 3, None)),
            ir.Port("k", "int64", ()),
            ir.Port("d", "float", (1,), optional=True),
        ),
        outputs=(ir.Port("y", "float16", ("N", 3, None)), ir.Port("z", "float", None)),
    )


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        pytest.param("y = Concat<axis = 1>(a, b)", ir.Parts(1, (2, 3)), id="joined"),
        pytest.param("c = Concat<axis = -1>(b, a)  y = Identity(c)", ir.Parts(-1, (3, 2)), id="behind an Identity"),
        pytest.param("y = Concat<axis = 0>(a, a)", None, id="of unknown size"),
        pytest.param("y = Concat<axis = 1>(a)", None, id="of one"),
        pytest.param("c = Concat<axis = 1>(a, b)  y = Relu(c)", None, id="not last"),
    ],
)
def test_the_parts_of_an_output(body: str, parts: ir.Parts | None, tmp_path: Path) -> None:
    """Only of a Concat that makes it, where every size is known."""
    model = load(f"m (float[N,2] a, float[N,3] b) => (float[A,B] y) {{ {body} }}", tmp_path)
    assert ir.output_parts(model).get("y") == parts


def test_the_bounds_of_parts() -> None:
    """Begin and end, one after the other."""
    assert ir.Parts(1, (2, 3, 1)).bounds() == ((0, 2), (2, 5), (5, 6))
