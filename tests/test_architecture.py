"""The shape of the house: which room may import which, who may import onnx, and how long a file may be."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "infer_opt"
LONGEST_FILE = 400

# A room imports itself and rooms of a smaller rank; rooms of one rank do not know each other.
RANKS = {
    "__init__": 0,
    "errors": 0,
    "ir": 1,
    "calibrate": 2,
    "profiles": 2,
    "passes": 3,
    "report": 3,
    "targets": 3,
    "compile": 4,
    "cli": 5,
    "__main__": 6,
}

# Libraries that only some rooms may import.
OWNERS = {
    "onnx": {"ir"},
    "onnx_ir": {"ir"},
    "onnxscript": {"passes"},
    "rich": {"cli"},
    "typer": {"cli"},
}

# Names that say nothing of what a file holds, and so collect everything.
GRAB_BAGS = {"common", "helper", "helpers", "misc", "util", "utils"}

# Where a package is imported under another name than it is installed by.
IMPORT_NAMES = {"onnx-ir": "onnx_ir", "pillow": "PIL", "protobuf": "google", "scikit-learn": "sklearn"}


@dataclass(frozen=True)
class Import:
    """One import statement's target: `infer_opt.ir.load` or `numpy`; `typing_only` under TYPE_CHECKING."""

    target: str
    line: int
    typing_only: bool


def python_files() -> list[Path]:
    """Every Python file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def module_name(file: Path) -> str:
    """`infer_opt/ir/load.py` is `infer_opt.ir.load`; a package's `__init__.py` has the package's name."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """The room of a module of infer_opt: its second name, `__init__` for the package itself."""
    return [*module.split("."), "__init__"][1]


def imports_of(file: Path, modules: set[str]) -> list[Import]:
    """Every import of a file, those inside functions too."""
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            targets = targets_of_from(node, file, modules)
        else:
            continue
        found += [Import(target, node.lineno, id(node) in guarded) for target in dict.fromkeys(targets)]
    return found


def targets_of_from(node: ast.ImportFrom, file: Path, modules: set[str]) -> list[str]:
    """`from infer_opt.ir import load` imports the module `infer_opt.ir.load` if there is one."""
    base = node.module or ""
    if node.level:
        package = file.relative_to(ROOT).parent.parts
        base = ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])
    return [f"{base}.{name.name}" if f"{base}.{name.name}" in modules else base for name in node.names]


def every_import() -> dict[str, list[Import]]:
    """The imports of every module of the package."""
    files = {module_name(file): file for file in python_files()}
    return {module: imports_of(file, set(files)) for module, file in files.items()}


IMPORTS = every_import()


def top(name: str) -> str:
    """The outermost package of a dotted name."""
    return name.partition(".")[0]


def test_the_package_is_there() -> None:
    """Without files every other test here would hold of nothing."""
    rooms = {room_of(module) for module in IMPORTS}
    assert rooms >= {"errors", "ir", "passes", "calibrate", "profiles", "targets", "report", "compile", "cli"}


def test_every_module_belongs_to_a_room() -> None:
    """A new room gets a rank before it gets code."""
    assert {room_of(module) for module in IMPORTS} <= set(RANKS)


def test_imports_go_one_way() -> None:
    """Down the ranks: cli -> compile -> passes | targets | report -> calibrate | profiles -> ir -> errors."""
    wrong = [
        f"{module}:{found.line} imports {found.target}"
        for module, imports in IMPORTS.items()
        for found in imports
        if top(found.target) == "infer_opt"
        and room_of(found.target) != room_of(module)
        and RANKS[room_of(found.target)] >= RANKS[room_of(module)]
    ]
    assert wrong == []


def test_only_its_room_imports_a_library() -> None:
    """The border to onnx is in one place, and so is the one to the terminal."""
    wrong = [
        f"{module}:{found.line} imports {found.target}"
        for module, imports in IMPORTS.items()
        for found in imports
        if room_of(module) not in OWNERS.get(top(found.target), RANKS)
    ]
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count: they hide a circle, they do not undo it."""
    graph = {
        module: {
            found.target
            for found in imports
            if top(found.target) == "infer_opt" and not found.typing_only and found.target != module
        }
        for module, imports in IMPORTS.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_every_imported_package_is_a_declared_dependency() -> None:
    """Nothing works only because something else happens to bring it along."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (names for extra, names in project["optional-dependencies"].items() if extra != "dev")
    requirements = [*project["dependencies"], *(name for names in extras for name in names)]
    distributions = [re.split(r"[^\w-]", requirement)[0] for requirement in requirements]
    declared = {IMPORT_NAMES.get(name, name) for name in distributions}
    imported = {top(found.target) for imports in IMPORTS.values() for found in imports}
    standard = sys.stdlib_module_names | {"tomllib"}  # which Python 3.10 does not know yet
    assert imported - declared - standard == {"infer_opt"}


def test_no_file_is_a_grab_bag() -> None:
    """A file is named for the one thing it holds."""
    assert [str(file) for file in python_files() if file.stem.strip("_") in GRAB_BAGS] == []


def test_no_file_is_too_long() -> None:
    """A file that outgrows the limit holds more than one thing."""
    lengths = {str(file): len(file.read_text(encoding="utf-8").splitlines()) for file in python_files()}
    assert {file: length for file, length in lengths.items() if length > LONGEST_FILE} == {}


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("import infer_opt.ir.load", "infer_opt.ir.load"),
        ("from infer_opt.ir import load", "infer_opt.ir.load"),
        ("from infer_opt.ir import Model", "infer_opt.ir"),
        ("from infer_opt.ir.load import load_model", "infer_opt.ir.load"),
        ("from . import load", "infer_opt.ir.load"),
        ("from .load import load_model", "infer_opt.ir.load"),
        ("from .. import errors", "infer_opt.errors"),
        ("from ..errors import InputError", "infer_opt.errors"),
        ("def f():\n    from infer_opt.ir import load", "infer_opt.ir.load"),
        ("import onnx.helper", "onnx.helper"),
    ],
)
def test_the_reader_of_imports_finds(line: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way to write an import is seen; a rule that misses one would hold by luck."""
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    file = tmp_path / "infer_opt" / "ir" / "save.py"
    file.parent.mkdir(parents=True)
    file.write_text(line, encoding="utf-8")
    modules = {"infer_opt", "infer_opt.errors", "infer_opt.ir", "infer_opt.ir.load", "infer_opt.ir.save"}
    assert [found.target for found in imports_of(file, modules)] == [target]
