"""Time and memory of the graph passes against the size of the model.

    python benchmarks/scaling.py chain [--nodes 20000]     # passes on a chain, and on one twice as long
    python benchmarks/scaling.py weights [--gigabytes 1.6] # load, clean and save of a model with external weights

Every figure is measured on the machine that runs it: wall-clock seconds, and peak resident memory of the process.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from infer_opt import ir
from infer_opt.cli.resident import resident_bytes
from infer_opt.passes import Pipeline

PIPELINE = "legalize,simplify,fuse"
BLOCK = 10  # nodes of one repeated piece of the chain


def chain(nodes: int) -> onnx.ModelProto:
    """A chain of small convolution blocks with what exporters leave behind: nodes to fuse, and no-ops."""
    rng = np.random.default_rng(0)
    made, weights, value = [], [], "x"
    for block in range(nodes // BLOCK):
        w = rng.standard_normal((4, 4, 1, 1), np.float32)
        s = rng.standard_normal((4, 1, 1), np.float32)
        weights += [onnx.numpy_helper.from_array(w, f"w{block}"), onnx.numpy_helper.from_array(s, f"s{block}")]
        steps = [
            ("Conv", [f"w{block}"]),
            ("Mul", [f"s{block}"]),
            ("Relu", []),
            ("Identity", []),
            ("Add", [f"s{block}"]),
            ("Sigmoid", []),
            ("Dropout", []),
            ("Transpose", []),
            ("Transpose", []),
            ("Tanh", []),
        ]
        for index, (op, extra) in enumerate(steps):
            attributes = {"perm": [0, 1, 3, 2]} if op == "Transpose" else {}
            out = f"v{block}_{index}"
            made.append(helper.make_node(op, [value, *extra], [out], f"n{block}_{index}", **attributes))
            value = out
    shape = ["n", 4, 8, 8]
    graph = helper.make_graph(
        made,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def time_chain(nodes: int, folder: Path) -> float:
    """Seconds of the passes alone."""
    path = folder / "chain.onnx"
    onnx.save(chain(nodes), path)
    model = ir.load(path)
    started = time.perf_counter()
    result, _ = Pipeline.parse(PIPELINE).run(model)
    seconds = time.perf_counter() - started
    left = sum(1 for graph in result.graphs() for _ in graph)
    print(f"{nodes:>7} nodes: passes {seconds:6.2f} s (measured), {left} nodes left")
    return seconds


def big_model(gigabytes: float, folder: Path) -> Path:
    """A chain of matrix products whose weights lie in a file of their own; the file is written in chunks."""
    width = 4096
    layers = max(1, round(gigabytes * 1e9 / (width * width * 4)))
    nodes, weights, value = [], [], "x"
    data = folder / "big.bin"
    with data.open("wb") as file:
        for layer in range(layers):
            np.random.default_rng(layer).standard_normal((width, width), np.float32).tofile(file)
            tensor = TensorProto(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[width, width])
            tensor.data_location = TensorProto.EXTERNAL
            entries = {"location": data.name, "offset": layer * width * width * 4, "length": width * width * 4}
            for key, entry in entries.items():
                tensor.external_data.add(key=key, value=str(entry))
            weights.append(tensor)
            nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [f"v{layer}"], f"matmul{layer}"))
            value = f"v{layer}"
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])] for name in ("x", value)]
    graph = helper.make_graph(nodes, "big", ports[0], ports[1], weights)
    path = folder / "big.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def time_weights(gigabytes: float, folder: Path) -> None:
    """Load, passes and save of a model larger than what may stay in memory."""
    path = big_model(gigabytes, folder)
    started = time.perf_counter()
    model = ir.load(path)
    result, _ = Pipeline.parse(PIPELINE).run(model)
    ir.save(result, folder / "saved.onnx")
    seconds = time.perf_counter() - started
    peak = resident_bytes("VmHWM")
    memory = "unknown" if peak is None else f"{peak / 1e6:.0f} MB resident"
    print(f"{gigabytes:.1f} GB of weights: {seconds:.2f} s, peak {memory} (measured)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["chain", "weights"])
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--gigabytes", type=float, default=1.6)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if options.what == "weights":
            time_weights(options.gigabytes, Path(name))
            return
        once, twice = (time_chain(count, Path(name)) for count in (options.nodes, 2 * options.nodes))
        print(f"twice the nodes: {twice / once:.2f} times the time")


if __name__ == "__main__":
    main()
