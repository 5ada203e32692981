"""Trains the demo's digit classifier and writes `digits.onnx` and `calib.npz` beside this file.

Run it by hand when the model is to change (needs `pip install -e .[train]`, under a minute on two cores):

    python examples/digits/train.py

The same torch build on the same kind of processor gives the same weights. The graph is written from the
weights, not exported, so that every BatchNormalization is still there for the compiler to fuse.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch
from digits_data import Digits, load_split
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from torch import nn

HERE = Path(__file__).parent
CHANNELS = (16, 32, 32, 64, 64, 64, 64)
STRIDES = (1, 2, 1, 1, 1, 2, 1)
CLASSES = 10
CALIBRATION_IMAGES = 64
BATCH = 32
PEAK_LEARNING_RATE = 3e-3
SHIFT = 2  # pixels of random shift in training; a pixel of the 8x8 original is 4
OPSET = 17
IR_VERSION = 8  # the one that came with opset 17

console = Console(stderr=True)


class Block(nn.Module):
    """3x3 convolution without bias, batch normalization, ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)))


class Classifier(nn.Module):
    """Seven blocks, a global average, one linear layer: images [n, 1, 32, 32] to logits [n, 10]."""

    def __init__(self) -> None:
        super().__init__()
        inputs = (1, *CHANNELS[:-1])
        self.blocks = nn.ModuleList(map(Block, inputs, CHANNELS, STRIDES))
        self.head = nn.Linear(CHANNELS[-1], CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=(2, 3)))


def train(model: Classifier, digits: Digits, epochs: int) -> None:
    """Train in place: AdamW, one-cycle learning rate, random shifts of up to `SHIFT` pixels."""
    images, labels = torch.from_numpy(digits.images), torch.from_numpy(digits.labels)
    steps = len(images) // BATCH
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_LEARNING_RATE, epochs * steps)
    model.train()
    for epoch in range(epochs):
        order = torch.randperm(len(images))[: steps * BATCH]
        total = 0.0
        for batch in order.split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(shifted(images[batch])), labels[batch], label_smoothing=0.05)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        console.print(f"epoch {epoch + 1:2d}  loss {total / steps:.4f}")


def shifted(images: torch.Tensor) -> torch.Tensor:
    """The batch moved by one random offset, with empty paper coming in at the edges."""
    down, right = torch.randint(0, 2 * SHIFT + 1, (2,)).tolist()
    padded = nn.functional.pad(images, (SHIFT, SHIFT, SHIFT, SHIFT))
    return padded[:, :, down : down + images.shape[2], right : right + images.shape[3]]


def accuracy(model: Classifier, digits: Digits) -> float:
    """Share of `digits` whose largest logit is the right one."""
    model.eval()
    with torch.no_grad():
        logits = model(torch.from_numpy(digits.images)).numpy()
    return float((logits.argmax(axis=1) == digits.labels).mean())


def to_onnx(model: Classifier) -> onnx.ModelProto:
    """The model as an ONNX graph with BatchNormalization left apart, batch dimension `n`."""
    nodes, weights, last = [], {}, "image"
    for index, block in enumerate(model.blocks):
        name = f"block{index}"
        nodes += block_nodes(block, name, last)
        weights |= block_weights(block, name)
        last = f"{name}.relu"
    weights |= {"head.weight": model.head.weight, "head.bias": model.head.bias}
    nodes += [
        helper.make_node("GlobalAveragePool", [last], ["pooled"], name="pool"),
        helper.make_node("Flatten", ["pooled"], ["features"], name="flatten"),
        helper.make_node("Gemm", ["features", "head.weight", "head.bias"], ["logits"], name="head", transB=1),
    ]
    return checked_model(nodes, {name: value.detach().numpy() for name, value in weights.items()})


def block_nodes(block: Block, name: str, last: str) -> list[onnx.NodeProto]:
    """Conv, BatchNormalization and Relu of one block that reads the tensor `last`."""
    conv, norm, relu = (f"{name}.{part}" for part in ("conv", "norm", "relu"))
    statistics = [f"{norm}.{part}" for part in ("scale", "bias", "mean", "variance")]
    return [
        helper.make_node(
            "Conv",
            [last, f"{conv}.weight"],
            [conv],
            name=f"{name}/conv",
            strides=block.conv.stride,
            pads=[*block.conv.padding, *block.conv.padding],
        ),
        helper.make_node(
            "BatchNormalization", [conv, *statistics], [norm], name=f"{name}/norm", epsilon=block.norm.eps
        ),
        helper.make_node("Relu", [norm], [relu], name=f"{name}/relu"),
    ]


def block_weights(block: Block, name: str) -> dict[str, torch.Tensor]:
    """The tensors of one block by their names in the graph."""
    return {
        f"{name}.conv.weight": block.conv.weight,
        f"{name}.norm.scale": block.norm.weight,
        f"{name}.norm.bias": block.norm.bias,
        f"{name}.norm.mean": block.norm.running_mean,
        f"{name}.norm.variance": block.norm.running_var,
    }


def checked_model(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Put nodes and weights together and let onnx check the whole, shapes included."""
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 1, 32, 32])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="infer-opt digits demo")
    helper.set_model_props(model, {"classes": ",".join(map(str, range(CLASSES)))})
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write digits.onnx and calib.npz to")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    torch.use_deterministic_algorithms(mode=True)
    split, model = load_split(), Classifier()
    train(model, split.train, options.epochs)
    console.print(f"accuracy on {len(split.test.labels)} held-out digits: {accuracy(model, split.test):.4f}")
    onnx.save(to_onnx(model), options.out / "digits.onnx")
    np.savez_compressed(options.out / "calib.npz", image=split.train.images[:CALIBRATION_IMAGES])


if __name__ == "__main__":
    main()
