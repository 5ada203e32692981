"""The line on which a key stands."""

from __future__ import annotations

import pytest

from infer_opt.profiles.toml_files import Key, line_of

TEXT = """\
# name = "not this one"
name = "mine"
peak.int8_tops = 1
opset = { min = 13, max = 20 }
isa = [
    "a = b",
    "[dialect]",
]

[dialect]  # a comment
bias = "float"

[ source ]
"peak.int8_tops" = "sheet"
'dialect.bias' = "manual"
name = "plate"
"""


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("name",), 2),
        (("peak", "int8_tops"), 3),
        (("opset",), 4),
        (("opset", "max"), 4),
        (("isa",), 5),
        (("dialect",), 10),
        (("dialect", "bias"), 11),
        (("dialect", "output_q"), 10),
        (("source", "peak.int8_tops"), 14),
        (("source", "dialect.bias"), 15),
        (("source", "name"), 16),
        (("backend",), None),
    ],
)
def test_the_line_of_a_key(key: Key, line: int | None) -> None:
    """Bare, quoted and dotted keys, headers; a key inside `{ }` or missing stands where its table does."""
    assert line_of(TEXT, key) == line
