"""Progress on a terminal: one bar for the stage that runs."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infer_opt.calibrate.progress import Progress

__all__ = ["Bars", "progress"]


def progress() -> Progress:
    """Bars where stderr is a terminal, otherwise nothing."""
    from infer_opt.calibrate.progress import Silent

    return Bars() if sys.stderr.isatty() else Silent()


class Bars:
    """See `calibrate.progress.Progress`. A bar vanishes with its stage."""

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Callable[[], None]]:
        """Show a stage until it ends."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        one = total == 1  # a stage of one step has no share to show, only that it goes on
        columns = [TextColumn("{task.description:<10}"), BarColumn(), *([] if one else [MofNCompleteColumn()])]
        with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bars:
            task = bars.add_task(name, total=None if one else total)
            yield lambda: bars.advance(task)
