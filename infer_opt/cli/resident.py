"""Resident memory: of this process, and of a model in a process of its own, so that nothing else is counted."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from infer_opt.calibrate.sample_set import Feed

__all__ = ["peak_resident", "resident_bytes"]

_RUNS = 3


def peak_resident(file: Path, feed: Feed, threads: int) -> int | None:
    """Peak resident bytes of loading and running a model, beyond what the process had before it loaded it.

    Returns:
        None where the operating system does not tell, or ended the process.
    """
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    # Spawned, not forked: a fork would begin with all of this process's memory. Ctrl-C is for this process alone,
    # which then ends the other.
    calm = signal.signal, (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(1, get_context("spawn"), *calm) as pool:
        try:
            return pool.submit(_measure, file, feed, threads).result()
        except BrokenProcessPool:
            return None


def _measure(file: Path, feed: Feed, threads: int) -> int | None:
    from infer_opt.calibrate.runner import Runner

    before = resident_bytes("VmRSS")
    runner = Runner(file, f"`{file}`", threads=threads)
    for _ in range(_RUNS):
        runner.run(feed)
    peak = resident_bytes("VmHWM")
    return None if before is None or peak is None else max(0, peak - before)


def resident_bytes(field: Literal["VmRSS", "VmHWM"]) -> int | None:
    """Resident bytes of this process: what it has now (VmRSS), or has had at most (VmHWM).

    From /proc/self/status; not getrusage, whose peak is inherited from the parent process.

    Returns:
        None where the operating system does not tell.
    """
    if not sys.platform.startswith("linux"):
        return None
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    return int(found[1]) * 1024 if found else None
