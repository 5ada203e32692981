"""Groups: regions that are lowered together, since the ones gain nothing without the others, and the ways to do so.

A convolution starts a group; the activations, sums and moves of data behind it, which have integer kernels only for
what is in integers already, belong to it. An operator that joins several groups is one of its own. Where several plans
each lower a group their own way, these are its alternatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.calibrate.plan import Plan

__all__ = ["Alternative", "Group", "alternatives"]


@dataclass(frozen=True)
class Group:
    """Regions by name; the first, which it is called after, does the work."""

    regions: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of its first region."""
        return self.regions[0]


@dataclass(frozen=True)
class Alternative:
    """One way to lower a group.

    Args:
        plan: the name of the plan that lowers it so: the precision that it gives.
        regions: those of the group that the plan lowers; the others stay as they are.
    """

    group: Group
    plan: str
    regions: tuple[str, ...]


def alternatives(plans: Sequence[Plan]) -> tuple[Alternative, ...]:
    """Every way to lower every group, by group in the order of the graph, then by plan in the order given.

    Args:
        plans: of the same regions, each of which lowers all that it may its own way. The first that lowers a region
            says which group it belongs to.
    """
    lowered = {plan.name: {region.name for region, _ in plan.lowered()} for plan in plans}
    found = (
        Alternative(group, plan, tuple(name for name in group.regions if name in names))
        for group in _groups(plans)
        for plan, names in lowered.items()
    )
    return tuple(alternative for alternative in found if alternative.regions)


def _groups(plans: Sequence[Plan]) -> tuple[Group, ...]:
    schemes = {region.name: scheme for plan in reversed(plans) for region, scheme in plan.lowered()}
    members: dict[str, list[str]] = {}
    group_of: dict[str, str] = {}  # of each value that a lowered region writes
    for region in plans[0].regions if plans else ():
        scheme = schemes.get(region.name)
        if scheme is None:
            continue
        before = {group_of[value] for value in scheme.reads if value in group_of}
        name = before.pop() if scheme.follows and len(before) == 1 else region.name
        members.setdefault(name, []).append(region.name)
        group_of.update(dict.fromkeys(scheme.writes, name))
    return tuple(Group(tuple(regions)) for regions in members.values())
