"""Golden files: texts under `tests/golden/` that a test's text must equal, written anew by `make golden`."""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from infer_opt.ir import references
from infer_opt.passes.engine import plugins

FOLDER = Path(__file__).parent / "golden"
OPTION = "--regenerate-golden"
BACKEND = "INFER_OPT_TEST_BACKEND"  # name of an environment whose tests are to run
CONTEXT = 12  # lines around a difference, so that it shows which case of a file it is in


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that `make golden` gives."""
    parser.addoption(OPTION, action="store_true", help="write the golden files instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    """Keep no cache; refuse the option in CI, where it would make every comparison hold."""
    os.environ["INFER_OPT_CACHE"] = "off"  # what one test measured must not answer another
    if not os.environ.get(BACKEND):  # nor what this user has installed; `make test-backend` asks for just that
        cache = tempfile.mkdtemp(prefix="infer-opt-tests-")  # onnxruntime keeps a file of its own there
        config.add_cleanup(lambda: shutil.rmtree(cache, ignore_errors=True))
        os.environ["XDG_CACHE_HOME"] = cache
    if config.getoption(OPTION) and os.environ.get("CI"):
        message = f"{OPTION} is not for CI: write the files at your desk and commit them"
        raise pytest.UsageError(message)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """A function `golden(name, text)` that holds `text` to the file `tests/golden/NAME`."""

    def check(name: str, text: str) -> None:
        file = FOLDER / name
        if request.config.getoption(OPTION):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.is_file(), f"{file} is missing: run `make golden`, read it and commit it"
        agreed = file.read_text(encoding="utf-8")
        if text != agreed:
            lines = agreed.splitlines(), text.splitlines()
            difference = difflib.unified_diff(*lines, f"{name} as agreed", f"{name} now", n=CONTEXT, lineterm="")
            pytest.fail("\n".join(difference), pytrace=False)

    return check


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What plugins register is gone after the test, and none was there before."""
    monkeypatch.setattr(references, "_REFERENCES", {})
    monkeypatch.setattr(plugins, "_RULES", {})
    monkeypatch.setattr(plugins, "_PASSES", {})
