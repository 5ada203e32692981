"""Golden cases of rewrites: a title, a pipeline, a model as ONNX text, and what the pipeline makes of it.

A case in a file of `tests/golden/passes/` reads

    ## Title that says what holds

    `pipeline`, where N is 1, 4; i is below 3

    ```
    the model, as `tests.onnx_text.parse` reads it
    ```

    ```
    the graph afterwards, or `unchanged`
    # why a rewrite did not fire
    ```

What follows `where` is optional: sizes of symbolic dimensions, one a feed, and upper bounds of integer inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from infer_opt import ir
from infer_opt.passes import Pipeline, Step
from tests.onnx_text import load

FOLDER = Path(__file__).parents[1] / "golden" / "passes"
FEEDS = 3

_CASE = re.compile(
    r"^## (?P<title>[^\n]+)\n\n`(?P<pipeline>[^`]+)`(?P<where>[^\n]*)\n\n"
    r"```\n(?P<model>.*?)```\n\n```\n(?P<expected>.*?)```\n",
    re.MULTILINE | re.DOTALL,
)
_SIZES = re.compile(r"(\w+) is ([\d, ]+)")
_BELOW = re.compile(r"(\w+) is below (\d+)")


@dataclass(frozen=True)
class Case:
    """One case of a file.

    Args:
        sizes: of each symbolic dimension, one a feed; (1, 2, 5) where the case names none.
        below: upper bounds of integer inputs.
        random: whether the outputs differ from run to run, and only their shapes can be compared.
        reordered: whether numbers are added in another order, which rounds them otherwise.
    """

    file: str
    title: str
    pipeline: str
    model: str
    expected: str
    sizes: dict[str, list[int]]
    below: dict[str, int]
    random: bool
    reordered: bool

    def size(self, symbol: str, feed: int) -> int:
        """Size of a symbolic dimension in one of the feeds."""
        sizes = self.sizes.get(symbol, [1, 2, 5])
        return sizes[feed % len(sizes)]

    def run(self, folder: Path) -> tuple[ir.Model, ir.Model, list[Step]]:
        """The model as loaded, what the pipeline makes of it, and the steps."""
        model = load(self.model, folder)
        return model, *Pipeline.parse(self.pipeline).run(model)


def read(name: str) -> list[Case]:
    """The cases of a file, in order."""
    return [_case(name, match) for match in _CASE.finditer((FOLDER / name).read_text(encoding="utf-8"))]


def _case(name: str, match: re.Match[str]) -> Case:
    sizes = {key: [int(size) for size in value.split(",")] for key, value in _SIZES.findall(match["where"])}
    return Case(
        file=name,
        title=match["title"],
        pipeline=match["pipeline"],
        model=match["model"],
        expected=match["expected"],
        sizes=sizes,
        below={key: int(value) for key, value in _BELOW.findall(match["where"])},
        random="outputs are random" in match["where"],
        reordered="sums are reordered" in match["where"],
    )


def files() -> list[str]:
    """The files, in order."""
    return sorted(file.name for file in FOLDER.glob("*.md"))


def render(name: str, folder: Path) -> str:
    """The text of a file with what the pipelines make now in the place of what is expected."""
    text = (FOLDER / name).read_text(encoding="utf-8")

    def with_result(match: re.Match[str]) -> str:
        start = match.start("expected") - match.start()
        end = match.end("expected") - match.start()
        return match[0][:start] + _result(_case(name, match), folder) + match[0][end:]

    return _CASE.sub(with_result, text)


def _result(case: Case, folder: Path) -> str:
    _, after, steps = case.run(folder)
    changed = any(step.outcome.changes for step in steps)
    return (ir.text(after) if changed else "unchanged\n") + "".join(_misses(steps))


def _misses(steps: list[Step]) -> Iterator[str]:
    for step in steps:
        for rule, reason in dict.fromkeys((miss.rule, miss.reason) for miss in step.outcome.misses):
            yield f"# {rule}: {reason}\n"
