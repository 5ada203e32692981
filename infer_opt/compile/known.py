"""What is known before a compile measures anything."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from infer_opt import ir, profiles
from infer_opt.calibrate.digest import digest
from infer_opt.calibrate.journal import cache_folder
from infer_opt.calibrate.latency_table import LatencyTable
from infer_opt.calibrate.sensing import Means
from infer_opt.targets import host_isa

if TYPE_CHECKING:
    from infer_opt.calibrate.deadline import Deadline
    from infer_opt.compile.request import Request

__all__ = ["known_latencies", "means_of"]


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


def means_of(request: Request, latencies: LatencyTable, deadline: Deadline) -> Means:
    """What sensing has at hand, with the journals of earlier runs.

    Noises hold for the profile, which decides how a plan is written, and for a CPU like this one, whose kernels they
    are of. A plugin's reference may change while the model that calls it does not: nothing is kept then.
    """
    cache = None if ir.registered_references() else cache_folder()
    setting = digest(profiles.to_table(request.profile), platform.machine(), host_isa())
    return Means(latencies, cache, setting, deadline, request.thread_count)
