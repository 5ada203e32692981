"""Groups: regions that are lowered together, since the ones gain nothing without the others.

A convolution starts a group; the activations, sums and moves of data behind it, which have integer kernels only for
what is in integers already, belong to it. An operator that joins several groups is one of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infer_opt.calibrate.plan import Plan

__all__ = ["Group", "groups"]


@dataclass(frozen=True)
class Group:
    """Regions of a plan by name; the first, which it is called after, does the work."""

    regions: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of its first region."""
        return self.regions[0]


def groups(plan: Plan) -> tuple[Group, ...]:
    """The groups of a plan's lowered regions, in the order of the graph."""
    members: dict[str, list[str]] = {}
    group_of: dict[str, str] = {}  # of each value that a lowered region writes
    for region, scheme in plan.lowered():
        before = {group_of[value] for value in scheme.reads if value in group_of}
        name = before.pop() if scheme.follows and len(before) == 1 else region.name
        members.setdefault(name, []).append(region.name)
        group_of.update(dict.fromkeys(scheme.writes, name))
    return tuple(Group(tuple(regions)) for regions in members.values())
