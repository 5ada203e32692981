"""Random small graphs over the operators that the rewrites know, for hypothesis to draw and to shrink.

All weights, and the inputs that `feed` makes, are small multiples of a power of two, and so are all scales: float32
holds every sum and product exactly as long as it needs no more than 24 bits, whatever the order of the additions. Two
graphs that compute the same can therefore be held to each other far more closely than their operators would allow,
but for those with a formula that rounds.
"""

from __future__ import annotations

import math

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.passes import random_formulas as formulas
from tests.passes import random_layouts as layouts
from tests.passes import random_operators as single
from tests.passes import random_patterns as several
from tests.passes import random_products as products
from tests.passes import random_repeats as repeats
from tests.passes import random_sizes as sizes
from tests.passes.random_attention import attention
from tests.passes.random_drawing import Draw, Drawing

BATCH = 2
MOST_ELEMENTS = 2000
# An operator of each formula whose numbers float32 does not hold.
ROUNDING = frozenset({"Clip", "Erf", "Exp", "InstanceNormalization", "Pow", "Softmax", "Sqrt", "Tanh"})

OPERATORS = (
    *(single.unary, single.elementwise, single.per_channel, single.conv, single.conv_transpose),
    *(single.batch_normalization, single.matmul, single.gemm, single.pad, single.casts, single.reshape),
    *(single.transpose, single.slices, single.concat, single.join),
    *(several.hard_swish, several.gelu, several.layer_normalization, several.transposes, several.joined_transposes),
    *(formulas.normalization, formulas.group_normalization, formulas.gelu_by_tanh, formulas.clip, formulas.hinge),
    *(formulas.softmax, formulas.blocks, formulas.focus),
    *(several.concats, several.two_slices, several.reshapes, several.padded_pool, several.negated),
    *(layouts.between_transposes, layouts.flattened_product),
    *(repeats.clamps, repeats.repeated, repeats.parts, repeats.unsqueezed),
    *(sizes.expanded, sizes.cut_to_size, sizes.moved, sizes.flat_softmax),
    *(products.convs, products.matrices, products.scaled, products.einsum, attention),
)
# What often follows an operator, so that there is something to fuse.
FOLLOWERS = {
    **dict.fromkeys(
        ("Conv", "ConvTranspose", "Gemm", "MatMul"),
        (
            single.per_channel,
            single.batch_normalization,
            single.elementwise,
            single.matmul,
            several.negated,
            single.unary,
        ),
    ),
    **dict.fromkeys(
        ("Mul", "Div", "Add", "Sub", "BatchNormalization"),
        (single.conv, single.gemm, single.matmul, single.conv_transpose, single.per_channel, single.elementwise),
    ),
    **dict.fromkeys(("Relu", "LeakyRelu"), (single.per_channel,)),
    "Pad": (single.conv,),
    "Transpose": (single.transpose, several.transposes),
    "Reshape": (several.reshapes,),
}
# What leaves a shape as it is: two branches of these end alike.
SHAPED = (single.unary, several.negated, single.per_channel)


@st.composite
def models(draw: Draw) -> onnx.ModelProto:
    """A model of up to eight operators; values are read several times, and any of them may be an output."""
    d = Drawing(draw)
    d.opset = d.one_of(13, 11, 20, 23)
    d.shapes["x"] = d.one_of((BATCH, 3), (BATCH, 2, 4, 4), (BATCH, 2, 4), (BATCH, 4, 3, 3), (BATCH, 1, 6))
    last = "x"
    for _ in range(draw(st.integers(2, 8))):
        source = last if draw(st.integers(0, 5)) else d.one_of(*d.shapes)
        before = d.nodes[-1].op_type if d.nodes and source == last else ""
        made = d.one_of(*FOLLOWERS[before] if before in FOLLOWERS and d.flip() else (*OPERATORS, branches))(d, source)
        if made is not None and math.prod(d.shapes[made]) <= MOST_ELEMENTS:
            last = made
    return _model(d, last)


def branches(d: Drawing, x: str) -> str:
    """An If whose branches read x, or anything else of its shape, and what is computed around them."""
    here = d.shapes[x]
    graphs = {}
    for name in ("then_branch", "else_branch"):
        inner = Drawing(d.draw, d.opset, f"{d.prefix}{name[0]}{len(d.nodes)}_", shapes=dict(d.shapes))
        last = x
        for _ in range(d.one_of(1, 2, 3)):
            alike = [value for value, shape in inner.shapes.items() if shape == here]
            made = d.one_of(*SHAPED, several.hard_swish, several.gelu, several.transposes)(
                inner, d.one_of(last, *alike)
            )
            last = made if made is not None and inner.shapes[made] == here else last
        made = inner.inner("Identity", [last])
        info = helper.make_tensor_value_info(made, TensorProto.FLOAT, [None] * len(here))
        graphs[name] = helper.make_graph(inner.nodes, name, [], [info], inner.initializers)
    return d.node("If", [_condition(d)], here, **graphs)


def _condition(d: Drawing) -> str:
    """A constant, or something of the input, which no rewrite rounds: both branches happen."""
    if d.rarely():
        return d.constant(np.array(d.flip()))
    greatest = d.inner("ReduceMax", ["x"], keepdims=0)
    least = d.inner("ReduceMin", ["x"], keepdims=0)
    total = d.inner("Add", [greatest, least])
    return d.inner("Greater", [total, d.number(0.0)])


def _model(d: Drawing, last: str) -> onnx.ModelProto:
    made = [name for name in d.shapes if name != "x"]
    if not made:
        made = [d.node("Relu", ["x"], d.shapes["x"])]
    last = last if last in made else made[-1]
    outputs = list(dict.fromkeys([last, *d.draw(st.lists(st.sampled_from(made), max_size=1))]))
    first = d.one_of(BATCH, "N")
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [first, *d.shapes["x"][1:]])]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * len(d.shapes[name])) for name in outputs]
    graph = helper.make_graph(d.nodes, "random", inputs, infos, d.initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", d.opset)], ir_version=8)


def feed(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Random multiples of an eighth between -2 and 2 for the input."""
    dims = model.graph.input[0].type.tensor_type.shape.dim
    shape = [dim.dim_value or BATCH for dim in dims]
    return {"x": (np.random.default_rng(seed).integers(-16, 17, shape) / 8).astype(np.float32)}


def rounds(model: onnx.ModelProto) -> bool:
    """Whether some formula of the model, in a branch or not, has numbers that float32 does not hold."""
    graphs = [model.graph, *(attr.g for node in model.graph.node for attr in node.attribute if attr.HasField("g"))]
    return any(node.op_type in ROUNDING for graph in graphs for node in graph.node)
