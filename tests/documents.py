"""The documents of the repository, and how tests read them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

__all__ = ["DOCS", "FENCED", "NAMES", "ROOT", "infer_opt", "table", "text_of"]

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NAMES = ["README.md", "README.zh.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md"]
NAMES += sorted(str(document.relative_to(ROOT)) for document in DOCS.rglob("*.md"))

FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""A fenced block: its language, and its text."""


def text_of(document: str) -> str:
    """The text of a document, by its path from the root of the repository."""
    return (ROOT / document).read_text(encoding="utf-8")


def table(document: str, mark: str) -> list[list[str]]:
    """The rows, without the header, of the table between `<!-- MARK -->` and its end; cells without backticks."""
    found = re.search(rf"<!-- {mark} -->\n(.*?)<!-- /{mark.partition(':')[0]} -->", text_of(document), re.DOTALL)
    assert found, f"{document} has no table {mark}"
    rows = [line for line in found[1].splitlines() if line.startswith("|")][2:]
    return [[cell.strip().replace("`", "") for cell in row.strip("|").split("|")] for row in rows]


def infer_opt(package: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line of the package in a folder, in another folder."""
    environment = {**os.environ, "PYTHONPATH": str(package)}
    command = [sys.executable, "-m", "infer_opt", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
