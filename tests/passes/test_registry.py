"""Passes are found by their files: adding one is a new file and no edit elsewhere."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

import infer_opt.passes
from infer_opt.passes import Pipeline
from infer_opt.passes.engine import registry

NEW = '''
from dataclasses import dataclass, field
from typing import ClassVar

from infer_opt.passes.engine.base import Outcome, Pass
from infer_opt.passes.simplify import Simplify  # imported, not defined here: no second registration


@dataclass(frozen=True)
class Extra(Pass):
    """One more."""

    name: ClassVar[str] = "extra"
    deep: bool = field(default=False, metadata={"help": "how far to look"})

    def apply(self, model):
        return Outcome()
'''


def test_every_file_of_the_room_is_a_pass() -> None:
    """Its name is that of the file."""
    files = {file.stem for file in Path(infer_opt.passes.__file__).parent.glob("*.py")} - {"__init__"}
    assert set(registry.available()) == files
    assert list(registry.available()) == sorted(files)


@pytest.mark.parametrize("name", registry.available())
def test_every_pass_can_be_shown_to_a_user(name: str) -> None:
    """It has a docstring, works with no options given, and each option has a default and a line of help."""
    kind = registry.find(name)
    assert kind.__doc__
    assert str(kind()) == name
    for option in dataclasses.fields(kind):
        assert option.metadata["help"]
        assert option.default is not dataclasses.MISSING


def test_a_new_file_is_a_new_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be named in a pipeline; a boolean option is read and printed as a word."""
    (tmp_path / "extra.py").write_text(NEW, encoding="utf-8")
    monkeypatch.setattr(registry, "_FOLDER", tmp_path)
    monkeypatch.setattr(infer_opt.passes, "__path__", [str(tmp_path)])
    monkeypatch.setitem(sys.modules, "infer_opt.passes.extra", None)
    del sys.modules["infer_opt.passes.extra"]
    registry._shipped.cache_clear()
    try:
        assert list(registry.available()) == ["extra"]
        assert str(Pipeline.parse("extra{deep=true}")) == "extra{deep=true}"
        assert str(Pipeline.parse("extra{deep=false}")) == "extra"
        with pytest.raises(infer_opt.errors.UsageError) as caught:
            Pipeline.parse("extra{deep=yes}")
        assert (caught.value.message, caught.value.hint) == (
            "`deep` of pass `extra` cannot be `yes`",
            "use true or false",
        )
    finally:
        registry._shipped.cache_clear()
