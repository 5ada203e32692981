"""report.html: report.json for people, on one page that needs nothing else.

Everything on it comes from report.json, so the two cannot tell different figures. Names come from models of strangers:
the template escapes every text, control characters stand as escapes, and the page allows itself no script but its own.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
from typing import TYPE_CHECKING, Any

from infer_opt.errors import printable
from infer_opt.report.page_facts import facts_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["PAGE", "missing_for_page", "page", "write_page"]

PAGE = "report.html"
_NEEDED = ("jinja2", "matplotlib")  # the extra `report`
_SCRIPT = "report.js"


def missing_for_page() -> str | None:
    """What has to be installed before a page can be written, in words, or None."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    return f"{PAGE} needs {' and '.join(missing)}: pip install 'infer-opt[report]'" if missing else None


def write_page(table: Mapping[str, Any], folder: Path) -> None:
    """Write report.html, where what it needs is installed.

    Args:
        table: the content of report.json.
    """
    if missing_for_page() is None:
        (folder / PAGE).write_text(page(table), encoding="utf-8")


def page(table: Mapping[str, Any]) -> str:
    """The page as HTML.

    Args:
        table: the content of report.json.
    """
    import jinja2

    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("infer_opt.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["prose"] = _prose
    source, _, _ = jinja2.PackageLoader("infer_opt.report", "templates").get_source(templates, _SCRIPT)
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    facts = facts_of(_printable(table))
    text = templates.get_template("report.html.j2").render(facts, script_source=source, script_digest=digest)
    return text if text.endswith("\n") else f"{text}\n"


def _prose(text: str) -> Any:
    """A sentence as HTML, escaped, with what stands between backticks set as code."""
    import markupsafe

    pieces = [markupsafe.escape(piece) for piece in text.split("`")]
    if len(pieces) % 2 == 0:  # a name with a backtick in it
        return markupsafe.escape(text)
    return markupsafe.Markup("").join(
        markupsafe.Markup("<code>{}</code>").format(piece) if index % 2 else piece for index, piece in enumerate(pieces)
    )


def _printable(content: Any) -> Any:
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, dict):
        return {_printable(key): _printable(value) for key, value in content.items()}
    return [_printable(item) for item in content] if isinstance(content, list) else content
