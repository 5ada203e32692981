"""Outputs that are a recurrent operator's last state, and the inputs that start it."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer_opt import ir
from tests.onnx_text import load

PLAIN = "float[7,1,4] x, float[1,1,3] h, float[1,1,3] c"
LSTM = "LSTM<hidden_size=3>(x, w, r, , ,"
WEIGHTS = "<float[1,12,4] w, float[1,12,3] r, float[1,9,4] gw, float[1,9,3] gr, float[1,3,4] rw, float[1,3,3] rr>"


@pytest.mark.parametrize(
    ("inputs", "outputs", "body", "state"),
    [
        pytest.param(
            PLAIN,
            "float[7,1,1,3] y, float[1,1,3] hn, float[1,1,3] cn",
            f"y, hn, cn = {LSTM} h, c)",
            {"hn": "h", "cn": "c"},
            id="LSTM",
        ),
        pytest.param(
            PLAIN,
            "float[7,1,1,3] y, float[1,1,3] cn",
            f"y, hn, cn = {LSTM} h, c)",
            {"cn": "c"},
            id="half of it handed on",
        ),
        pytest.param(
            PLAIN,
            "float[7,1,1,3] y, float[1,1,3] hn",
            "y, hn = GRU<hidden_size=3>(x, gw, gr, , , h)",
            {"hn": "h"},
            id="GRU",
        ),
        pytest.param(
            PLAIN,
            "float[7,1,1,3] y, float[1,1,3] hn",
            "y, hn = RNN<hidden_size=3>(x, rw, rr, , , h)",
            {"hn": "h"},
            id="RNN",
        ),
        pytest.param(
            "float[7,1,4] x, float[1,3] h, float[1,1,3] c",
            "float[7,1,1,3] y, float[1,3] hn, float[1,1,3] cn",
            f"h1 = Unsqueeze(h, first)  y, h2, cn = {LSTM} h1, c)  hn = Squeeze(h2, first)",
            {"hn": "h", "cn": "c"},
            id="Unsqueeze and Squeeze",
        ),
        pytest.param(
            PLAIN,
            "float[7,1,1,3] y, float[1,1,3] hn, float[1,1,3] cn",
            f"h1 = Transpose<perm=[1,0,2]>(h)  c1 = Identity(c)  y, h2, c2 = {LSTM} h1, c1)"
            "  hn = Transpose<perm=[1,0,2]>(h2)  c3 = Reshape(c2, shape)  cn = Identity(c3)",
            {"hn": "h", "cn": "c"},
            id="Transpose, Reshape and Identity",
        ),
        pytest.param(
            PLAIN,
            "float[1,3] seen, float[1,1,3] hn",
            f"y, hn, cn = {LSTM} h, c)  seen = Squeeze(hn, first)",
            {"hn": "h"},
            id="the state also as a result of another rank",
        ),
        pytest.param(
            PLAIN,
            "float[7,1,1,3] y, float[1,3] hn",
            f"y, h2, cn = {LSTM} h, c)  hn = Squeeze(h2, first)",
            {},
            id="of another rank only",
        ),
        pytest.param(
            PLAIN,
            "float[7,1,1,3] y, float[1,1,3] hn",
            f"y, h2, cn = {LSTM} h, c)  hn = Relu(h2)",
            {},
            id="computed with",
        ),
        pytest.param(
            PLAIN,
            "float[7,1,1,3] y, float[1,1,3] hn",
            f"h1 = Relu(h)  y, hn, cn = {LSTM} h1, c)",
            {},
            id="computed before",
        ),
        pytest.param(
            "float[7,1,4] x",
            "float[7,1,1,3] y, float[1,1,3] hn",
            "y, hn, cn = LSTM<hidden_size=3>(x, w, r)",
            {},
            id="starts from nothing",
        ),
        pytest.param(PLAIN, "float[7,1,1,3] y", f"y, hn, cn = {LSTM} h, c)", {}, id="not handed on"),
        pytest.param(
            PLAIN,
            "float[1,1,3] hn, float[1,1,3] cn",
            f"y, hn, cn = {LSTM} h, c)",
            {},
            id="nothing but a state",
        ),
        pytest.param("float[1,1,3] h", "float[1,1,3] hn", "hn = Relu(h)", {}, id="nothing recurrent"),
    ],
)
def test_the_state_of_a_recurrent_operator(
    inputs: str, outputs: str, body: str, state: dict[str, str], tmp_path: Path
) -> None:
    """By output, the input of the next run; moved about as an exporter does, and never computed with."""
    constants = WEIGHTS.replace("<", "").replace(">", "")
    text = (
        f"m ({inputs}, {constants}) => ({outputs}) <int64[1] first = {{0}}, int64[3] shape = {{1, 1, 3}}> {{ {body} }}"
    )
    assert ir.recurrent_state(load(text, tmp_path)) == state
