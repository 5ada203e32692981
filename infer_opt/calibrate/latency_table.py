"""The latency table: every time that decides in a compile, so that it can decide the same way again.

Times differ from run to run, and so may what they choose. The table of one compile, given to the next, takes the place
of measuring: then the same inputs give the same artifact.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from infer_opt.calibrate.kernel_times import RegionTimes
from infer_opt.calibrate.timing import Latency
from infer_opt.errors import InputError

__all__ = ["LatencyTable"]

_SCHEMA = 1
_AGAIN = "compile without --latency-table, and take the latency.json of that artifact"


@dataclass
class LatencyTable:
    """Times by what was timed; read from a file, or filled while a compile measures.

    Args:
        about: of what: the model's SHA-256, the profile's name, the number of threads.
        pinned: the file that it was read from; nothing is measured then.
        kernels: seconds of each region in one run, by plan.
        runs: latency of whole runs, by candidate.
    """

    about: Mapping[str, Any]
    pinned: Path | None = None
    kernels: dict[str, RegionTimes] = field(default_factory=dict)
    runs: dict[str, Latency] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path, about: Mapping[str, Any]) -> LatencyTable:
        """Read a table that an artifact holds.

        Raises:
            InputError: it is missing, is no such table, or is about something else.
        """
        try:
            table = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"--latency-table `{file}` cannot be read: {error}", _AGAIN) from error
        try:
            other = next((key for key, value in about.items() if table["about"][key] != value), None)
            kernels = {name: RegionTimes(**times) for name, times in table["kernels"].items()}
            runs = {name: Latency(**times) for name, times in table["runs"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"`{file}` is no latency table", _AGAIN) from error
        if other is not None:
            raise InputError(
                f"`{file}` is a table of another {other}: `{table['about'][other]}`, not `{about[other]}`", _AGAIN
            )
        return cls(about, file, kernels, runs)

    def times(self, plan: str, measure: Callable[[], RegionTimes]) -> RegionTimes:
        """Kernel times of a plan: as they are known, or measured now.

        Raises:
            InputError: the table was read, and lacks them.
        """
        if plan not in self.kernels:
            self._may_measure(f"kernel times of `{plan}`")
            self.kernels[plan] = measure()
        return self.kernels[plan]

    def latencies(self, names: Iterable[str], measure: Callable[[], Mapping[str, Latency]]) -> dict[str, Latency]:
        """Latency of each candidate, likewise; they are measured together or not at all."""
        wanted = list(names)
        missing = [name for name in wanted if name not in self.runs]
        if missing:
            self._may_measure(f"latency of `{missing[0]}`")
            self.runs.update(measure())
        return {name: self.runs[name] for name in wanted if name in self.runs}  # one may not run here after all

    def _may_measure(self, what: str) -> None:
        if self.pinned is not None:
            raise InputError(f"`{self.pinned}` has no {what}", _AGAIN)

    def table(self) -> dict[str, Any]:
        """JSON-able form."""
        return {
            "schema": _SCHEMA,
            "about": dict(self.about),
            "kernels": {name: asdict(times) for name, times in self.kernels.items()},
            "runs": {name: asdict(latency) for name, latency in self.runs.items()},
        }
