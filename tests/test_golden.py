"""The golden files are compared unless they are asked to be written, and never written in CI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

CASE = "def test_case(golden):\n    golden('letter.txt', 'as agreed\\n')\n"


def run_case(folder: Path, *options: str, ci: str = "") -> subprocess.CompletedProcess[str]:
    """Run a test with one golden file in a project of its own."""
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (folder / "test_case.py").write_text(CASE, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_missing_or_different_file_fails(tmp_path: Path) -> None:
    """Nothing is written without the option, and a file that differs fails with the difference."""
    missing = run_case(tmp_path)
    assert missing.returncode == 1
    assert "letter.txt is missing: run `make golden`" in missing.stdout
    (tmp_path / "golden").mkdir()
    (tmp_path / "golden" / "letter.txt").write_text("as it was\n", encoding="utf-8")
    different = run_case(tmp_path)
    assert different.returncode == 1
    assert "as it was" in different.stdout


def test_the_option_writes_what_then_holds(tmp_path: Path) -> None:
    """The file written is the text, and the next run agrees with it."""
    assert run_case(tmp_path, "--regenerate-golden").returncode == 0
    assert (tmp_path / "golden" / "letter.txt").read_text(encoding="utf-8") == "as agreed\n"
    assert run_case(tmp_path).returncode == 0


def test_the_option_is_refused_in_ci(tmp_path: Path) -> None:
    """Nothing is written there, and the run says why."""
    refused = run_case(tmp_path, "--regenerate-golden", ci="true")
    assert refused.returncode == 4
    assert "--regenerate-golden is not for CI" in refused.stderr
    assert not (tmp_path / "golden").exists()
