"""The text form of models: one line a node, equal exactly where the computations are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from infer_opt import ir
from tests.onnx_text import HEADER, load

EVERYTHING = f"""{HEADER.replace("]", ', "com.microsoft": 1]')}
m (float[N,3,H] x, bool p, float[1] d = {{2}}) => (float[N,3,H] y, int64[?] k, string[1] s)
<float[9] long = {{1, 2, 3, 4, 5, 6, 7, 8, 9}}, double[2] exact = {{0.1, -1e300}}, int8[0] none = {{}},
 float16 half = {{11878}}, bool[2] flags = {{1, 0}}, string[1] words = {{"a"}}>
{{
  a = LeakyRelu<alpha = 0.1>(x)
  b = com.microsoft.Gelu(a)
  c = Clip(b, , d)
  e, = TopK<axis = 2, largest = 0>(c, n)
  n = Constant<value = int64[1] {{2}}>()
  f = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric">(c, , scales)
  scales = Constant<value_floats = [1.0, 1.0, 1.0]>()
  y = If(p) <
    then_branch = g () => (float[N,3,H] t) <float[1] w = {{1}}> {{ t = Mul(f, w) }},
    else_branch = h () => (float[N,3,H] u) {{ u = Neg(f) }}
  >
  k = NonZero(e)
  s = Identity(words)
}}"""


def test_the_text_of_a_model_with_everything_in_it(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    """Opsets, symbols, defaults, long and short constants of each dtype, empty inputs and outputs, branches."""
    golden("ir/text.txt", ir.text(load(EVERYTHING, tmp_path)))


def test_long_constants_without_their_digests(tmp_path: Path) -> None:
    """`weights=False` reads no large content."""
    model = load(EVERYTHING, tmp_path)
    assert "  long = float[9]\n" in ir.text(model, weights=False)
    assert "  long = float[9] sha256:" in ir.text(model)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(np.float32, 0.1), (np.float32, 16777216), (np.float64, 0.1), (np.float64, 1e300), (np.int64, 2**62)],
)
def test_neighbouring_numbers_have_different_texts(dtype: type, value: float, tmp_path: Path) -> None:
    """As many digits are printed as tell a number from the next one of its dtype, and no rounding is lost."""
    number = np.array([value], dtype)
    following = number + 1 if dtype is np.int64 else np.nextafter(number, np.array([np.inf], dtype))
    texts = []
    for content in (number, following):
        model = load("m (float[N] x) => (float[N] y) { y = Relu(x) }", tmp_path)
        ir.add_initializer(model.graph, "w", content)
        texts.append(ir.text(model))
        printed = texts[-1].split("{")[1].split("}")[0]
        assert dtype(printed) == content[0]
    assert texts[0] != texts[1]


def test_long_constants_of_strings(tmp_path: Path) -> None:
    """They have a digest too."""
    words = ", ".join(f'"{letter}"' for letter in "abcdefghij")
    text = (
        f"m (float[N] x) => (float[N] y, string[10] s) <string[10] k = {{{words}}}> {{ y = Relu(x)  s = Identity(k) }}"
    )
    assert "  k = string[10] sha256:" in ir.text(load(text, tmp_path))
