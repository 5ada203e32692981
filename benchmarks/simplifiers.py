"""Nodes and latency after simplification: infer-opt beside onnxslim, onnxsim and onnxruntime's own optimizer.

    python benchmarks/simplifiers.py MODELS FEEDS [--peers PYTHON] [--names a,b] [--markdown]

MODELS is a folder of .onnx files, FEEDS one of folders of .npz feeds by model name. PYTHON is an interpreter with
onnxslim and onnxsim, which stay out of infer-opt's own environment. Nodes are counted with subgraphs, local functions
inlined and Constant nodes left out. Latency is the measured median of interleaved rounds in onnxruntime, one thread.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnxruntime

from infer_opt import ir
from infer_opt.calibrate.metrics import OutputError
from infer_opt.calibrate.runner import RunError, Runner
from infer_opt.calibrate.timing import interleaved
from infer_opt.passes import Pipeline

OURS = "infer-opt"
PIPELINE = "legalize,simplify,fuse"
PEERS = {
    "onnxslim": "import onnxslim, sys; onnxslim.slim(sys.argv[1], sys.argv[2])",
    "onnxsim": "import onnx, onnxsim, sys; onnx.save(onnxsim.simplify(sys.argv[1])[0], sys.argv[2])",
}
EXTENDED = "onnxruntime"


@dataclass
class Row:
    """One model: nodes, milliseconds and decibels by tool."""

    name: str
    nodes: dict[str, int] = field(default_factory=dict)
    own: dict[str, int] = field(default_factory=dict)  # of them, operators outside the standard
    milliseconds: dict[str, float] = field(default_factory=dict)
    ratio: dict[str, float] = field(default_factory=dict)
    decibels: dict[str, float] = field(default_factory=dict)


def count(path: Path) -> tuple[int, int]:
    """Nodes without constants, and how many of them are no operators of the standard."""
    nodes = [node for graph in ir.load(path).graphs() for node in graph if node.op_type != "Constant"]
    return len(nodes), sum(1 for node in nodes if node.domain)


def simplify(tool: str, model: Path, out: Path, peers: str) -> bool:
    """Write what a tool makes of a model; False where it fails."""
    if tool == OURS:
        ir.save(Pipeline.parse(PIPELINE).run(ir.load(model))[0], out)
    elif tool == EXTENDED:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(out)
        options.log_severity_level = 4
        onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    else:
        done = subprocess.run([peers, "-c", PEERS[tool], str(model), str(out)], capture_output=True, check=False)
        return done.returncode == 0 and out.exists()
    return True


def feeds(folder: Path, most: int = 4) -> list[dict[str, np.ndarray]]:
    return [dict(np.load(path)) for path in sorted(folder.glob("*.npz"))[:most]]


def decibels(original: Runner, candidate: Runner, samples: list[dict[str, np.ndarray]]) -> float:
    """SQNR of the worst output over all samples."""
    errors = {name: OutputError(name) for name in original.outputs}
    for feed in samples:
        expected, got = original.run(feed), candidate.run(feed)
        for name, error in errors.items():
            error.add(expected[name], got[name])
    return min(error.sqnr for error in errors.values())


def measure(model: Path, samples: list[dict[str, np.ndarray]], peers: str, folder: Path) -> Row:
    row = Row(model.stem)
    runners = {"original": Runner(model, model.name)}
    row.nodes["original"], row.own["original"] = count(model)
    for tool in (*PEERS, EXTENDED, OURS):
        out = folder / f"{model.stem}-{tool}.onnx"
        if not simplify(tool, model, out, peers):
            continue
        row.nodes[tool], row.own[tool] = count(out)
        try:
            runners[tool] = Runner(out, tool)
            row.decibels[tool] = decibels(runners["original"], runners[tool], samples)
        except RunError as error:
            print(f"{model.stem}: {tool}: {error}", file=sys.stderr)
            runners.pop(tool, None)
    for tool, latency in interleaved(runners, samples[0], rounds=25, seconds=12).items():
        row.milliseconds[tool], row.ratio[tool] = latency.p50_ms, latency.ratio
    return row


def cell(row: Row, tool: str) -> str:
    if tool not in row.nodes:
        return "fails"
    own = f" ({row.own[tool]})" if row.own[tool] else ""
    time = f"{row.milliseconds[tool]:.2f}" if tool in row.milliseconds else "does not run"
    return f"{row.nodes[tool]}{own} / {time}"


def table(rows: list[Row]) -> str:
    tools = ["original", *PEERS, EXTENDED, OURS]
    lines = [
        f"| model | {' | '.join(tools)} | speed-up | SQNR dB |",
        f"|---|{'---|' * len(tools)}---|---|",
    ]
    for row in rows:
        cells = " | ".join(cell(row, tool) for tool in tools)
        lines.append(f"| {row.name} | {cells} | {row.ratio[OURS]:.2f} | {row.decibels[OURS]:.0f} |")
    best = [min(row.nodes[tool] for tool in PEERS if tool in row.nodes) for row in rows]
    ratio = math.exp(sum(math.log(row.nodes[OURS] / peer) for row, peer in zip(rows, best, strict=True)) / len(rows))
    more = [row.name for row, peer in zip(rows, best, strict=True) if row.nodes[OURS] > peer]
    lines.append("")
    lines.append(
        f"Nodes beside the better of onnxslim and onnxsim, geometric mean: {ratio:.3f}; more on: {more or 'none'}."
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("feeds", type=Path)
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--names", default="")
    options = parser.parse_args()
    wanted = set(filter(None, options.names.split(",")))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in sorted(options.models.glob("*.onnx")):
            if not wanted or model.stem in wanted:
                rows.append(measure(model, feeds(options.feeds / model.stem), options.peers, Path(folder)))
                print(f"{model.stem}: {cell(rows[-1], OURS)}, {rows[-1].ratio[OURS]:.2f}x", file=sys.stderr)
    print(table(rows))


if __name__ == "__main__":
    main()
