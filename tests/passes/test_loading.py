"""How plugins are found: by a file's path, by a module's name, and among what is installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infer_opt.errors import InputError
from infer_opt.passes.engine import plugins
from infer_opt.passes.engine.loading import ENTRY_POINTS, load_installed_plugins, load_plugin
from tests.passes.plugin_texts import TWO_FOR_TWO, saved, words

pytestmark = pytest.mark.usefixtures("registries")

CONTRACT = "correct the code; a plugin registers fusion patterns, passes and references"
SEARCHED = "pass the path of a file that ends in .py, or a module that Python finds"


def names() -> list[str]:
    """Patterns that were registered."""
    return [rule.name for rule in plugins.registered_rules()]


def test_a_path_ends_in_py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Absolute, or from the current folder."""
    file = saved(tmp_path, TWO_FOR_TWO)
    load_plugin(file)
    assert names() == ["two for two"]
    monkeypatch.chdir(tmp_path)
    load_plugin("plugin.py")
    load_plugin(os.path.join(".", "plugin.py"))  # noqa: PTH118 - a Path would lose the dot
    assert names() == ["two for two"]


def test_a_module_is_one_that_python_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its dotted name."""
    saved(tmp_path, "", "plugin_package_one/__init__.py")
    saved(tmp_path, TWO_FOR_TWO, "plugin_package_one/inner.py")
    monkeypatch.syspath_prepend(tmp_path)
    load_plugin("plugin_package_one.inner")
    assert names() == ["two for two"]


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        ("missing.py", "`missing.py` is no file", "pass the path of a Python file"),
        ("no_such_plugin", "no module is called `no_such_plugin`", SEARCHED),
        ("no_such_plugin.inner", "no module is called `no_such_plugin.inner`", SEARCHED),
        ("json.no_such_plugin", "no module is called `json.no_such_plugin`", SEARCHED),
        ("json.decoder.no_such_plugin", "no module is called `json.decoder.no_such_plugin`", SEARCHED),
        ("plugins/two", "`plugins/two` is no name of a module", SEARCHED),
        ("", "`` is no name of a module", SEARCHED),
        ("forgotten", "no module is called `forgotten`", "pass `forgotten.py`"),
    ],
)
def test_what_is_not_there(
    source: str, message: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in the current folder is no module, but its name is near."""
    saved(tmp_path, TWO_FOR_TWO, "forgotten.py")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        load_plugin(source)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("broken_plugin_one", "\n1 / 0", "`broken_plugin_one.py` line 2: ZeroDivisionError: division by zero"),
        ("broken_plugin_two", "x = (", "`broken_plugin_two.py` line 1: SyntaxError: '(' was never closed"),
        (
            "broken_plugin_three",
            "import nowhere_to_be_found",
            "`broken_plugin_three.py` line 1: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
        ),
    ],
)
def test_a_module_that_raises(
    name: str, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file and line are named; what it imports and is missing is not taken for the module itself."""
    saved(tmp_path, text, f"{name}.py")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError) as caught:
        load_plugin(name)
    found, hint = words(caught, tmp_path)
    assert (found.partition(" (broken")[0], hint) == (message, CONTRACT)


def test_an_outer_package_that_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is imported to look for the module."""
    saved(tmp_path, "1 / 0", "broken_package_one/__init__.py")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError) as caught:
        load_plugin("broken_package_one.inner")
    assert words(caught, tmp_path)[0] == "`broken_package_one.inner`: ZeroDivisionError: division by zero"


def install(folder: Path, module: str, text: str) -> None:
    """A package as pip leaves it: a module, and metadata with an entry point."""
    saved(folder, text, f"{module}.py")
    metadata = f"Metadata-Version: 2.1\nName: {module}-package\nVersion: 1.0\n"
    saved(folder, metadata, f"{module}_package-1.0.dist-info/METADATA")
    points = f"[other.group]\nx = nowhere\n\n[{ENTRY_POINTS}]\nmine = {module}\n"
    saved(folder, points, f"{module}_package-1.0.dist-info/entry_points.txt")


def test_installed_plugins_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the entry points of their group, and of no other."""
    install(tmp_path, "installed_plugin_one", TWO_FOR_TWO)
    load_installed_plugins()
    assert names() == []
    monkeypatch.syspath_prepend(tmp_path)
    load_installed_plugins()
    load_installed_plugins()
    assert names() == ["two for two"]


def test_an_installed_plugin_that_raises_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No command line names it, so whoever reads the error has to be told where it is from."""
    install(tmp_path, "installed_plugin_two", "\n\n1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError) as caught:
        load_installed_plugins()
    package = "plugin `mine` of the installed package `installed_plugin_two-package`"
    assert words(caught, tmp_path) == (
        f"{package}: `installed_plugin_two.py` line 3: ZeroDivisionError: division by zero",
        f"correct the package or uninstall it: {CONTRACT}",
    )
