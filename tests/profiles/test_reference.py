"""docs/profiles.md tells every key, and its examples are true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infer_opt import profiles
from infer_opt.profiles.reference import key_table
from infer_opt.profiles.schema import ProfileFile
from infer_opt.profiles.tables import key_types

DOCUMENT = Path(__file__).parents[2] / "docs" / "profiles.md"
BACKENDS = {"onnxruntime", "tensorrt"}
KEYS = re.compile(r"(?<=<!-- keys -->\n)(.*?)(?=\n<!-- /keys -->)", re.DOTALL)


def examples() -> list[tuple[str, str]]:
    """File name and text of each TOML example that starts with `# FILE.toml`."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return re.findall(r"```toml\n# (\S+\.toml)\n(.*?)```", text, re.DOTALL)


def test_the_table_of_keys_is_up_to_date(request: pytest.FixtureRequest) -> None:
    """`make golden` writes it anew from the dataclasses."""
    text = DOCUMENT.read_text(encoding="utf-8")
    if request.config.getoption("--regenerate-golden"):
        text = KEYS.sub(lambda _: key_table(), text)
        DOCUMENT.write_text(text, encoding="utf-8")
    assert KEYS.findall(text) == [key_table()]


def test_the_table_holds_every_key() -> None:
    """One row each, with a meaning."""
    rows = [row.split(" | ") for row in key_table().splitlines()[2:]]
    assert sorted(row[0].strip("| `") for row in rows) == sorted(key_types(ProfileFile))
    assert all(len(row) == 4 and row[3].strip("| ") for row in rows)


def test_the_examples_are_sound(tmp_path: Path) -> None:
    """All but the one that shows problems load, in one folder, as the text tells."""
    for name, text in examples():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = {name: profiles.check(tmp_path / name, backends=BACKENDS) for name, _ in examples()}
    assert len(found) == 3
    assert [name for name, problems in found.items() if problems] == ["broken.toml"]


def test_the_shown_output_of_check_is_what_it_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document shows the problems of `broken.toml` word for word."""
    monkeypatch.chdir(tmp_path)
    (text,) = (text for name, text in examples() if name == "broken.toml")
    Path("broken.toml").write_text(text, encoding="utf-8")
    lines: list[str] = []
    for problem in profiles.check("broken.toml", backends=BACKENDS):
        error = problem.error()
        lines += [error.message, f"hint: {error.hint}"]
    assert "\n".join(lines) in DOCUMENT.read_text(encoding="utf-8")
