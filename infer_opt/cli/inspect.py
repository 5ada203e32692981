"""`infer-opt inspect`: what is in a model, and what a profile would do with it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infer_opt.cli.artifacts import onnx_file
from infer_opt.cli.choices import Json, Plugins, Shapes, load_plugins, load_profile
from infer_opt.cli.output import bytes_text, facts, listing, write, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from infer_opt import ir

__all__ = ["inspect_command"]

_MOST_NAMES = 3


def inspect_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL|ARTIFACT", help="An ONNX file, or an artifact folder.")],
    *,
    target: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Tell what this profile could do with each region.")
    ] = None,
    shapes: Shapes = None,
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Show what is in a model, and what a profile could do.

    Operators, parameters, multiply-adds, memory of activations, inputs and outputs. What depends on a dynamic
    dimension is listed as not counted. With --target, the regions that the device would run as one kernel, the
    precisions each could have, and why not lower.
    """
    from infer_opt import ir

    load_plugins(plugins)
    path = onnx_file(model)
    profile = load_profile(target) if target else None
    fixed = [ir.InputShape.parse(text) for text in shapes or ()]
    loaded = ir.load(path)
    ir.fix_input_shapes(loaded, fixed)
    table = {"schema": 1, "model": str(path), **_counts(loaded), "target": None, "regions": None}
    if profile is not None:
        from infer_opt.compile import regions_of

        table |= {"target": profile.name, "regions": [_region(region) for region in regions_of(loaded, profile)]}
    if as_json:
        write_json(table)
        return
    facts(_rows(table), title=str(path))
    write("")
    listing(("operator", "nodes"), [(name, str(count)) for name, count in table["operators"].items()], numbers=[1])
    if table["regions"] is not None:
        write("")
        facts(_region_rows(table["regions"]), title=f"regions for {table['target']}, after its graph passes")


def _counts(model: ir.Model) -> dict[str, Any]:
    from infer_opt import ir

    interface = ir.interface(model)
    sized = ir.clone(model)
    ir.infer_shapes(sized, outputs=True)  # the file may leave sizes of outputs open that its inputs decide
    kept, work, peak, sparsity = (
        ir.stored(model),
        ir.multiply_adds(sized),
        ir.activation_peak(sized),
        ir.sparsity(model),
    )
    return {
        "opsets": {domain or "ai.onnx": version for domain, version in sorted(model.opset_imports.items())},
        "inputs": [_port(port) for port in interface.inputs],
        "outputs": [_port(port) for port in interface.outputs],
        "nodes": sum(ir.operators(model).values()),
        "operators": ir.operators(model),
        "parameters": kept.parameters,
        "weight_bytes": kept.bytes,
        "multiply_adds": {"known": work.multiply_adds, "unknown_nodes": list(work.unknown)},
        "activation_peak": {"bytes": peak.bytes, "node": peak.node, "unsized_values": list(peak.unknown)},
        "sparse_2_4": {"groups": sparsity.groups, "sparse": sparsity.sparse, "share": sparsity.share},
    }


def _port(port: ir.Port) -> dict[str, Any]:
    shape = None if port.shape is None else list(port.shape)
    return {"name": port.name, "dtype": port.dtype, "shape": shape, "optional": port.optional}


def _region(region: Any) -> dict[str, Any]:
    return {
        "name": region.name,
        "op_type": region.op_type,
        "nodes": list(region.origin),
        "precisions": list(region.precisions),
        "reason": region.reason,
    }


def _rows(table: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "opset", ", ".join(f"{domain} {version}" for domain, version in table["opsets"].items())
    yield from (("inputs", _port_text(port)) for port in table["inputs"])
    yield from (("outputs", _port_text(port)) for port in table["outputs"])
    yield "nodes", str(table["nodes"])
    yield "parameters", f"{table['parameters']:,}"
    weights = table["weight_bytes"]
    yield "weights", ", ".join(f"{bytes_text(size)} {dtype}" for dtype, size in weights.items()) or "none"
    work, peak, sparsity = table["multiply_adds"], table["activation_peak"], table["sparse_2_4"]
    yield "multiply-adds", _open(f"{work['known']:,}", work["unknown_nodes"], "nodes whose shapes are dynamic")
    peak_text = bytes_text(peak["bytes"]) + (f", during `{peak['node']}`" if peak["node"] else "")
    yield "activations", _open(peak_text, peak["unsized_values"], "values whose shapes are dynamic")
    groups = f"of {sparsity['groups']:,} groups of four weights"
    yield "2:4 sparse", "no weight is eligible" if sparsity["share"] is None else f"{sparsity['share']:.1%} {groups}"
    open_inputs = [port for port in table["inputs"] if any(not isinstance(size, int) for size in port["shape"] or ())]
    if open_inputs and (work["unknown_nodes"] or peak["unsized_values"]):
        yield "hint", f"to count what is dynamic, pass {' '.join(map(_shape_option, open_inputs))}"


def _port_text(port: dict[str, Any]) -> str:
    shape = "unknown rank" if port["shape"] is None else f"[{', '.join(_dimension(size) for size in port['shape'])}]"
    return f"{port['name']}: {port['dtype']} {shape}" + (" (optional)" if port["optional"] else "")


def _shape_option(port: dict[str, Any]) -> str:
    """The option that fixes an input's shape: a batch of 1, and any other open dimension by its name."""
    sizes = ["1" if axis == 0 and not isinstance(size, int) else size for axis, size in enumerate(port["shape"])]
    return f"--shape {port['name']}:{'x'.join(map(_dimension, sizes))}"


def _dimension(size: int | str | None) -> str:
    return "?" if size is None else str(size)


def _open(text: str, unknown: Sequence[str], what: str) -> str:
    """A count, with what could not be counted."""
    return f"{text}; not counted: {len(unknown)} {what} (first: `{unknown[0]}`)" if unknown else text


def _region_rows(regions: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """One row for each set of precisions and reason, the commonest first."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for region in regions:
        groups.setdefault((" or ".join(region["precisions"]), region["reason"] or ""), []).append(region)
    for (precisions, reason), members in sorted(groups.items(), key=lambda item: -len(item[1])):
        kinds = ", ".join(
            f"{count} {name}" for name, count in Counter(item["op_type"] for item in members).most_common()
        )
        names = ", ".join(f"`{item['name']}`" for item in members[:_MOST_NAMES])
        more = ", ..." if len(members) > _MOST_NAMES else ""
        yield precisions, f"{kinds}: {reason} ({names}{more})" if reason else f"{kinds} ({names}{more})"
