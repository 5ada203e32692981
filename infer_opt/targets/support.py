"""Refusing what a device cannot run, before any work: the first node by name, and how many others there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_opt import ir
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from infer_opt.profiles import Profile

__all__ = ["refuse_newer_opset", "refuse_unsupported", "stand_ins"]


def refuse_unsupported(
    model: ir.Model, supported: Callable[[ir.Node], bool], allowed: Collection[str], backend: str, hint: str
) -> None:
    """Look at every node, subgraphs included.

    Args:
        allowed: operators, as `DOMAIN::OP`, that the user vouches for.

    Raises:
        InputError: for the first node of an operator that `supported` refuses.
    """
    passed = {*allowed, *ir.registered_references()}
    nodes = (node for graph in ir.all_graphs(model) for node in graph)
    refused = [node for node in nodes if not supported(node) and ir.operator_name(node) not in passed]
    if not refused:
        return
    first = refused[0]
    operator = ir.operator_name(first)
    kinds = sorted({node.op_type for node in refused} - {first.op_type})
    others = f" ({len(refused) - 1} more nodes: {', '.join(kinds) or first.op_type})" if len(refused) > 1 else ""
    raise InputError(f"node `{first.name}`: {backend} has no operator `{operator}`{others}", hint)


def stand_ins(model: ir.Model) -> list[str]:
    """What of the custom operators in an artifact could not be checked here, as its `unchecked` says it."""
    return [
        f"the kernel of `{name}` was not run: on this host its reference stands for it"
        for name in ir.referenced_operators(model)
    ]


def refuse_newer_opset(model: ir.Model, profile: Profile) -> None:
    """A model of an opset that the runtime does not take yet; older ones are raised later.

    Raises:
        InputError: names both opsets.
    """
    opset = model.opset_imports.get("", 0)
    if profile.opset is not None and opset > profile.opset.max:
        raise InputError(
            f"the model has opset {opset}; `{profile.name}` takes {profile.opset.max} at most",
            f"export the model with opset {profile.opset.max} or older",
        )
