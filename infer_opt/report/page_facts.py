"""What report.html shows, worked out from report.json: rows in the order in which they stand, plots, words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from infer_opt.calibrate.choice import TIE
from infer_opt.calibrate.metrics import EXACT_DB
from infer_opt.report.front_plot import Mark, front_plot
from infer_opt.report.report import samples_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["facts_of"]

_MOST_PARTS = 6
_MOST_RANGES = 20
_SHARED_BY = 3  # rows


def facts_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the template names."""
    sensitivity = table["sensitivity"]
    parts, layers = _parts(table), _layers(table)
    shared = _shared_reason(layers)
    return {
        "report": table,
        "parts": parts,
        "plot": _plot(table, parts),
        "front": [] if sensitivity is None else sensitivity["front"],
        "layers": [row | {"reason": row["reason"].removeprefix(shared)} for row in layers],
        "shared_reason": shared.removesuffix("; "),
        "timed": sensitivity is not None and sensitivity["region_ms"] is not None,
        "ranges": _ranges(table["ranges"][:_MOST_RANGES]),
        "precisions": _precisions(table["regions"]),
        "weakest": min((item["sqnr_db"] for item in table["outputs"] if item["sqnr_db"] is not None), default=None),
        "scored": any(item["score"] is not None for item in table["candidates"]),
        "drops": any(item["drop"] is not None for item in table["outputs"]),
        "judged_on": samples_in_words(table["samples"]),
        "latency_head": "Latency, modelled" if table["latency"]["kind"] == "modelled" else "Latency, P50",
        "tie": round(100 * (TIE - 1)),
        "audit": table["samples"].get("audit"),
        "exact_db": EXACT_DB,
        "decibels": decibels,
        "size": size,
        "number": number,
    }


def decibels(value: float | None) -> str:
    """SQNR for people: no digits that say nothing."""
    if value is None:
        return "–"
    if value >= EXACT_DB:
        return "exact"
    return "lost" if value <= -EXACT_DB else f"{value:.1f} dB"


def size(count: int) -> str:
    """Bytes: `812 B`, `3.24 MB`; 1 kB is 1000 bytes."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def number(value: float | None, digits: int = 3) -> str:
    """A number to so many significant digits; – for none."""
    return "–" if value is None else f"{value:.{digits}g}"


def _parts(table: Mapping[str, Any]) -> list[str]:
    """What outputs are made of, the weakest first: a whole output only where it has no parts of its own."""
    front = [] if table["sensitivity"] is None else table["sensitivity"]["front"]
    found: dict[str, float] = {}
    for errors in [point["sqnr_db"] for point in front] or [
        {item["name"]: item["sqnr_db"] for item in table["outputs"] if item["sqnr_db"] is not None}
    ]:
        for name, value in errors.items():
            found[name] = min(value, found.get(name, EXACT_DB))
    whole = {name.rpartition("[")[0] for name in found if name.endswith("]") and "[" in name}
    return sorted((name for name in found if name not in whole), key=lambda name: found[name])[:_MOST_PARTS]


def _plot(table: Mapping[str, Any], parts: Sequence[str]) -> str | None:
    """None where there is no front to draw."""
    sensitivity = table["sensitivity"]
    if sensitivity is None or len(sensitivity["front"]) < 2 or not parts:
        return None
    timed = sensitivity["times"] is not None
    front = [
        Mark(point["modelled_speedup"] if timed else len(point["groups"]), point["sqnr_db"], point["candidate"] or "")
        for point in sensitivity["front"]
    ]
    label = "speed-up over all in float" if timed else "groups at INT8"
    return front_plot(front, _built(table, timed=timed), parts, label)


def _built(table: Mapping[str, Any], *, timed: bool) -> list[Mark]:
    """Candidates with integers, with the errors of held-out samples, and how much faster than all in float.

    One that was refused before it was timed stands at the speed-up that was modelled for it.
    """
    points = {entry["candidate"]: entry for entry in table["sensitivity"]["front"] if entry["candidate"]}
    base = next((item["p50_ms"] for item in table["candidates"] if item["name"] == "fp32"), None)
    base = base or table["latency"].get("original_ms") or table["sensitivity"]["front"][0]["modelled_ms"]
    found = []
    for item in table["candidates"]:
        errors = {error["name"]: error["sqnr_db"] for error in item["outputs"] if error["sqnr_db"] is not None}
        integers = any(precision.startswith("int") for precision in item["precisions"])
        point = points.get(item["name"])
        if timed:
            taken = item["p50_ms"] or item["modelled_ms"]
            measured = base / taken if base and taken else None
            place = measured or (point and point["modelled_speedup"])
        else:
            place = len(point["groups"] if point else table["sensitivity"]["groups"])
        if errors and integers and place:
            found.append(Mark(place, errors, item["name"]))
    return found


def _layers(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every region, the longest in float first where that was measured, else in the order of the graph."""
    sensitivity = table["sensitivity"]
    ways_of: dict[str, list[Mapping[str, Any]]] = {}
    times: Mapping[str, Sequence[float]] = {}
    if sensitivity is not None:
        for way in sensitivity["groups"]:
            for name in way["regions"]:
                ways_of.setdefault(name, []).append(way)
        times = sensitivity["region_ms"] or {}
    rows = []
    for index, region in enumerate(table["regions"]):
        ways = ways_of.get(region["name"], [])
        measured = [1e3 * milliseconds for milliseconds in times.get(region["name"], ())]
        rows.append(
            region
            | {
                "index": index,
                "alone_db": max((min(way["sqnr_db"].values()) for way in ways if way["sqnr_db"]), default=None),
                "member": any(way["name"] != region["name"] for way in ways),
                "float_us": measured[0] if measured else None,
                "int8_us": measured[1] if len(measured) > 1 else None,
            }
        )
    return sorted(rows, key=lambda row: (-(row["float_us"] or 0.0), row["index"]))


def _shared_reason(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the reasons of many rows begin with, up to a semicolon: it is told once, above them; "" for nothing."""
    counts = Counter(f"{begin}; " for row in rows for begin, mark, _ in [row["reason"].partition("; ")] if mark)
    [(begin, count)] = counts.most_common(1) or [("", 0)]
    return begin if count >= _SHARED_BY else ""


def _ranges(ranges: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """With the place and the width of both bars in per cent: each row has a scale of its own."""
    rows = []
    for item in ranges:
        lowest, highest = min(item["minimum"], item["low"]), max(item["maximum"], item["high"])
        scale = 100 / ((highest - lowest) or 1.0)
        rows.append(
            dict(item)
            | {
                "seen": _bar(item["minimum"], item["maximum"], lowest, scale),
                "held": _bar(item["low"], item["high"], lowest, scale),
                "clipped": item["maximum"] - item["minimum"] > 1.01 * (item["high"] - item["low"]),
            }
        )
    return rows


def _bar(low: float, high: float, lowest: float, scale: float) -> tuple[float, float]:
    return round(scale * (low - lowest), 2), round(scale * (high - low), 2)


def _precisions(regions: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    found = Counter(region["precision"] for region in regions)
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))
