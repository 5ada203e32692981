"""What is said of plugins that are wrong: the user's file and line, one line, and never a traceback."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from infer_opt import ir
from infer_opt.errors import InputError
from infer_opt.passes import Outcome, Pass, Pipeline, register_pass
from infer_opt.passes.engine import plugins
from infer_opt.passes.engine.loading import load_plugin
from tests.onnx_text import load
from tests.passes.plugin_texts import CALLED, RENAMING, TWICE, TWO_FOR_TWO, fused, saved, words

pytestmark = pytest.mark.usefixtures("registries")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import infer_opt\n\n1 / 0\n", "`plugin.py` line 3: ZeroDivisionError: division by zero"),
        ("x = 1\ndef broken(:\n", "`plugin.py` line 2: SyntaxError: invalid syntax (plugin.py, line 2)"),
        (
            "import nowhere_to_be_found",
            "`plugin.py` line 1: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
        ),
        ("raise SystemExit", "`plugin.py` line 1: SystemExit"),
        (
            TWO_FOR_TWO.replace('root="Relu"', 'root="Neg"'),
            "`plugin.py` line 9: ValueError: the pattern ends in `Relu`, not in the root `Neg` of the standard",
        ),
        (
            TWO_FOR_TWO.replace("op.Neg(x))", 'op.Neg(x), _domain="x.y")'),
            "`plugin.py` line 9: ValueError: the pattern ends in `x.y::Relu`, not in the root `Relu` of the standard",
        ),
        (
            TWO_FOR_TWO.replace("return op.Relu(op.Neg(x))", "op.Relu(op.Neg(x))"),
            "`plugin.py` line 9: TypeError: the pattern returns NoneType, and not what an operator gave",
        ),
        (
            TWO_FOR_TWO.replace("return op.Relu(op.Neg(x))", "return x"),
            "`plugin.py` line 9: TypeError: the pattern returns Var, and not what an operator gave",
        ),
        (
            TWO_FOR_TWO.replace("op.Neg(x)", "op.Neg(z)"),
            "`plugin.py` line 11: NameError: name 'z' is not defined",
        ),
        (
            "from infer_opt import ir\nir.register_reference('ConvRelu', print)",
            "`plugin.py` line 2: ValueError: an operator with a reference is written `DOMAIN::OP`, not `ConvRelu`",
        ),
    ],
)
def test_what_is_wrong_when_a_plugin_is_loaded(text: str, message: str, tmp_path: Path) -> None:
    """File and line, and nothing is registered."""
    with pytest.raises(InputError) as caught:
        load_plugin(saved(tmp_path, text))
    assert words(caught, tmp_path) == (
        message,
        "correct the code; a plugin registers fusion patterns, passes and references",
    )
    assert plugins.registered_rules() == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("def apply", "def apple"), "TypeError: `Rename` is no Pass with a method `apply`"),
        (("Rename(Pass)", "Rename"), "TypeError: `Rename` is no Pass with a method `apply`"),
        (
            ('name: ClassVar[str] = "rename"', "label = 1"),
            "ValueError: pass `Rename` needs a `name: ClassVar[str]` of letters, digits, `_` and `-`",
        ),
        (
            ('"rename"', '"re name"'),
            "ValueError: pass `Rename` needs a `name: ClassVar[str]` of letters, digits, `_` and `-`",
        ),
        (
            ('= "rename"', '= "rename"\n    stage: ClassVar[str] = "plan"'),
            "ValueError: pass `rename` has the stage `plan`; passes of plugins change the graph",
        ),
        (
            ('default="Neg", ', "kw_only=True, "),
            "TypeError: option `old` of pass `rename` has no default",
        ),
        (
            ("times: int", "times: list[int]"),
            "TypeError: option `times` of pass `rename` is no bool, int, float, str or Literal",
        ),
    ],
)
def test_what_is_wrong_with_a_pass(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    """It is said when it is registered, not when a pipeline names it."""
    assert change[0] in RENAMING
    with pytest.raises(InputError) as caught:
        load_plugin(saved(tmp_path, RENAMING.replace(*change)))
    found, _ = words(caught, tmp_path)
    assert re.fullmatch(r"`plugin.py` line \d+: (.*)", found)[1] == message
    assert plugins.registered_passes() == {}


def test_a_pass_cannot_have_the_name_of_a_shipped_one(tmp_path: Path) -> None:
    """It would stand for it in every profile's pipeline, without a word."""
    load_plugin(saved(tmp_path, RENAMING.replace('= "rename"', '= "fuse"')))
    with pytest.raises(InputError) as caught:
        Pipeline.parse("simplify")
    assert words(caught, tmp_path) == (
        "`plugin.py` line 20: there is a pass `fuse` that comes with infer-opt",
        "give it another name",
    )


CHECK = "a check returns facts for the replacement, or raises Decline(reason)"
REPLACEMENT = "a replacement takes (op, match, facts) and returns the value of its last op.node()"


@pytest.mark.parametrize(
    ("old", "new", "message", "contract"),
    [
        ('print("checked")', "1 / 0", "`plugin.py` line 7: ZeroDivisionError: division by zero", CHECK),
        (
            'print("checked")',
            'match["w"]',
            "`plugin.py` line 7: LookupError: the match has no value `w`, but x",
            CHECK,
        ),
        (
            'print("checked")',
            'match.node("x")',
            "`plugin.py` line 7: LookupError: no node makes `x`: it is an input or a constant",
            CHECK,
        ),
        (
            "def check(match)",
            "def check()",
            "`plugin.py`: TypeError: check() takes 0 positional arguments but 1 was given",
            CHECK,
        ),
        (
            'match["x"]',
            "facts.weight",
            "`plugin.py` line 11: AttributeError: 'NoneType' object has no attribute 'weight'",
            REPLACEMENT,
        ),
        (
            'return op.node("Abs", [match["x"]])',
            "pass",
            "`plugin.py` line 10: it returned NoneType, and no value",
            REPLACEMENT,
        ),
        (
            'return op.node("Abs", [match["x"]])',
            "return match.root",
            "`plugin.py` line 10: it returned Node, and no value",
            REPLACEMENT,
        ),
    ],
)
def test_what_is_wrong_when_a_pattern_has_matched(
    old: str, new: str, message: str, contract: str, tmp_path: Path
) -> None:
    """File and line of the function that was called, and what it is to do."""
    assert old in CALLED
    load_plugin(saved(tmp_path, CALLED.replace(old, new)))
    with pytest.raises(InputError) as caught:
        fused(TWICE, tmp_path)
    assert words(caught, tmp_path) == (message, f"correct the code; {contract}")


def test_a_check_inside_a_pattern_that_raises(tmp_path: Path) -> None:
    """It is called while nodes are matched, before the check of the whole."""
    text = CALLED.replace("op.Neg(x)", "op.Neg(x, _check=lambda context, node: node.nothing)")
    load_plugin(saved(tmp_path, text))
    with pytest.raises(
        InputError, match=r"plugin\.py` line 16: AttributeError: 'Node' object has no attribute 'nothing'$"
    ):
        fused(TWICE, tmp_path)


def test_a_file_in_the_current_folder_is_named_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the user would name it."""
    load_plugin(saved(tmp_path, CALLED.replace('print("checked")', "1 / 0")))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^`plugin\.py` line 7: ZeroDivisionError"):
        fused(TWICE, tmp_path)


def test_what_a_plugin_prints_is_no_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What stdout holds is the command's answer."""
    load_plugin(saved(tmp_path, f"print('loading')\n{CALLED}"))
    fused(TWICE, tmp_path)
    assert capsys.readouterr() == ("", "loading\nchecked\nchecked\n")


def test_a_replacement_that_breaks_the_graph_is_named(tmp_path: Path) -> None:
    """It reads the value that it is to make; the pattern's name is all that is known."""
    load_plugin(saved(tmp_path, CALLED.replace('match["x"]]', "match.root.outputs[0]]")))
    with pytest.raises(InputError) as caught:
        fused(TWICE, tmp_path)
    assert words(caught, tmp_path) == (
        "after pass `fuse`: node `Relu:y` (Abs) reads `y` before it is made; patterns of plugins that fired: `pattern`",
        f"correct them; {REPLACEMENT}",
    )


APPLY = "correct the code; a pass changes the model in place and returns an Outcome"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("changes = []", "changes = model.nothing"),
            "`plugin.py` line 21: AttributeError: 'Model' object has no attribute 'nothing'",
        ),
        (
            ("return Outcome(tuple(changes[: self.times]))", "return changes"),
            "`plugin.py` line 20: it returned list, and no Outcome",
        ),
        (
            ('node.op_type = "Abs"', "model.graph.outputs.pop()"),
            "`plugin.py` line 20: pass `rename` changed the inputs or outputs of the model",
        ),
        (
            ('node.op_type = "Abs"', "node.replace_input_with(0, node.outputs[0])"),
            "`plugin.py` line 20: after pass `rename`: node `Neg:v` (Neg) reads `v` before it is made",
        ),
    ],
)
def test_what_is_wrong_when_a_pass_runs(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    """It is the plugin's fault, and no bug of infer-opt."""
    assert change[0] in RENAMING
    load_plugin(saved(tmp_path, RENAMING.replace(*change)))
    with pytest.raises(InputError) as caught:
        fused(TWICE, tmp_path, "rename")
    assert words(caught, tmp_path) == (message, APPLY)


def test_a_bug_of_a_shipped_pass_is_none_of_a_plugin(tmp_path: Path) -> None:
    """A pass that is not registered raises what it raises."""

    @dataclass(frozen=True)
    class Raises(Pass):
        """Nothing else."""

        name: ClassVar[str] = "raises"

        def apply(self, model: ir.Model) -> Outcome:
            """Raise."""
            raise ZeroDivisionError(model.graph.name)

    model = load("g (float[2] x) => (float[2] y) { y = Relu(x) }", tmp_path)
    with pytest.raises(ZeroDivisionError, match=r"^g$"):
        Pipeline((Raises(),)).run(model)
    register_pass(Raises)
    with pytest.raises(InputError, match=r"line \d+: ZeroDivisionError: g$"):
        Pipeline((Raises(),)).run(model)


def test_decline_is_an_answer_of_checks_only(tmp_path: Path) -> None:
    """In a replacement it comes too late."""
    load_plugin(saved(tmp_path, CALLED.replace('return op.node("Abs", [match["x"]])', 'raise Decline("too late")')))
    with pytest.raises(InputError, match=r"`.*plugin\.py` line 11: Decline: too late$"):
        fused(TWICE, tmp_path)
