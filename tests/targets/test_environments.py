"""Environments of their own: made by pip from a folder of wheels, whole or not at all."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from infer_opt.errors import InputError
from infer_opt.targets.environments import ENVIRONMENTS, Environment

TOOL = Environment("tool", ("tiny-tool==1.0",), 1, "a test")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def wheels(folder: Path, version: str = "1.0") -> Path:
    """A folder with one wheel of one module."""
    folder.mkdir(exist_ok=True)
    info = f"tiny_tool-{version}.dist-info"
    files = {
        "tiny_tool.py": "ANSWER = 42\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tiny-tool\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(folder / f"tiny_tool-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return folder


def test_it_is_installed_without_the_index(tmp_path: Path, cache: Path) -> None:
    """Below the user's cache; its Python has what was asked for."""
    assert TOOL.python is None
    folder = TOOL.install(wheels(tmp_path / "wheels"))
    assert folder == cache / "infer-opt" / "environments" / "tool"
    python = TOOL.python
    assert python is not None
    program = "import tiny_tool; print(tiny_tool.ANSWER)"
    said = subprocess.run([str(python), "-c", program], capture_output=True, check=True)
    assert said.stdout.strip() == b"42"


def test_other_packages_are_another_environment(tmp_path: Path) -> None:
    """What an older infer-opt installed is not taken for what this one wants."""
    TOOL.install(wheels(tmp_path / "wheels"))
    newer = Environment("tool", ("tiny-tool==2.0",), 1, "a test")
    assert newer.python is None
    newer.install(wheels(tmp_path / "wheels", "2.0"))
    assert newer.python is not None
    assert TOOL.python is None


def test_what_pip_cannot_find_is_told_and_not_half_there(tmp_path: Path) -> None:
    """In one line, with what to do."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as caught:
        TOOL.install(tmp_path / "empty")
    assert "tool could not be installed: ERROR: Could not find a version that satisfies" in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint is not None
    assert TOOL.python is None


def test_an_installation_cut_short_is_none(tmp_path: Path) -> None:
    """The mark is written last."""
    folder = TOOL.install(wheels(tmp_path / "wheels"))
    (folder / "ready").unlink()
    assert TOOL.python is None


def test_packages_are_pinned() -> None:
    """The same tool on every machine."""
    assert all("==" in package for item in ENVIRONMENTS.values() for package in item.packages)
