"""What is known before a compile measures anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.calibrate.latency_table import LatencyTable

if TYPE_CHECKING:
    from infer_opt.compile.request import Request

__all__ = ["known_latencies"]


def known_latencies(request: Request) -> LatencyTable:
    """The table that `--latency-table` names, or an empty one that takes what is measured.

    Raises:
        InputError: the file is none, or about another model, profile or number of threads.
    """
    about = {
        "model": ir.source_sha256(request.model),
        "target": request.profile.name,
        "threads": request.thread_count,
    }
    if request.latency_table is None:
        return LatencyTable(about)
    return LatencyTable.read(request.latency_table, about)
