"""The plot of error against time, as inline SVG: the front as predicted, the candidates as they were measured."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Mark", "front_plot"]

# What matplotlib draws in these becomes a variable of the page's style, so that light and dark pages both suit it.
_INK, _MUTED, _GRID, _PAPER = "#010101", "#020202", "#030303", "#040404"
_SERIES = ("#110101", "#120101", "#130101", "#140101", "#150101", "#160101")
_COLOURS = {
    _INK: "--ink",
    _MUTED: "--muted",
    _GRID: "--line",
    _PAPER: "--paper",
    **{colour: f"--series-{index}" for index, colour in enumerate(_SERIES, 1)},
}
_MARKERS = ("o", "s", "^", "v", "D", "P")
_MOST_DB = 70.0  # drawn: beyond it an error is next to none


@dataclass(frozen=True)
class Mark:
    """One choice or candidate: how far right, and SQNR in dB by part of the outputs."""

    x: float
    sqnr: Mapping[str, float]
    name: str = ""

    def y(self, part: str) -> float:
        """Where it is drawn: at the edge what is beyond it."""
        return min(max(self.sqnr[part], 0.0), _MOST_DB)


def front_plot(front: Sequence[Mark], built: Sequence[Mark], parts: Sequence[str], x_label: str) -> str:
    """An `svg` element: a line for each part over the front, a filled diamond for each candidate.

    Args:
        front: as predicted, from left to right; those that were built with their candidate's name.
        built: as measured on held-out samples, with names.
        parts: at most six; the first has the first colour of the page, and so on.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: Any = {  # matplotlib types its keys one by one
        "font.size": 11,
        "font.family": "sans-serif",
        "svg.fonttype": "none",
        "svg.hashsalt": "infer-opt",
        "text.parse_math": False,
        "axes.edgecolor": _MUTED,
        "axes.labelcolor": _INK,
        "text.color": _INK,
        "xtick.color": _MUTED,
        "ytick.color": _MUTED,
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(6.6, 4.0), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        for index, part in enumerate(parts):
            _draw(axes, front, built, part, index)
        _label(axes, built, parts)
        axes.set_xlabel(x_label)
        axes.set_ylabel(f"SQNR in dB, {_MOST_DB:g} and more at {_MOST_DB:g}")
        axes.grid(visible=True, color=_GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.1)
        axes.set_ylim(-4.0, _MOST_DB + 4.0)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(stream.getvalue())


def _draw(axes: Any, front: Sequence[Mark], built: Sequence[Mark], part: str, index: int) -> None:
    colour, marker = _SERIES[index], _MARKERS[index]
    line = [(mark.x, mark.y(part)) for mark in front if part in mark.sqnr]
    if line:
        axes.plot(
            *zip(*line, strict=True), color=colour, marker=marker, markersize=5, markerfacecolor=_PAPER, linewidth=1.6
        )
    real = [(mark.x, mark.y(part)) for mark in built if part in mark.sqnr]
    if real:
        axes.scatter(*zip(*real, strict=True), color=colour, marker=marker, s=64, zorder=3)
    predicted = {mark.name: mark for mark in front if mark.name and part in mark.sqnr}
    for mark in built:
        if mark.name in predicted and part in mark.sqnr:
            other = predicted[mark.name]
            axes.plot([other.x, mark.x], [other.y(part), mark.y(part)], color=colour, linewidth=1, linestyle=":")


def _label(axes: Any, built: Sequence[Mark], parts: Sequence[str]) -> None:
    """A candidate's name stands at its weakest part, below and above in turns, so that neighbours do not touch."""
    for index, mark in enumerate(sorted(built, key=lambda mark: mark.x)):
        values = [mark.y(part) for part in parts if part in mark.sqnr]
        if values:
            offset, side = ((7, -4), "top") if index % 2 == 0 else ((7, 5), "bottom")
            axes.annotate(
                mark.name, (mark.x, min(values)), xytext=offset, textcoords="offset points", va=side, fontsize=10
            )


def _inline(text: str) -> str:
    """Only the element, sized by the page, in the page's colours and without what tells of the program."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg [^>]*?)width="[^"]*" ', r"\1", text, count=1)
    text = re.sub(r'(<svg [^>]*?)height="[^"]*" ', r"\1", text, count=1)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)  # names of its parts, which nothing refers to
    for colour, name in _COLOURS.items():
        text = text.replace(colour, f"var({name})")
    return text.replace("<svg ", '<svg role="img" aria-label="error against time" ', 1).strip()
