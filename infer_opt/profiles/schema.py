"""What a hardware profile holds: facts about one device, as frozen data without logic.

The second argument of each `Annotated` is the key's line in docs/profiles.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias

__all__ = [
    "RESERVED",
    "ActivationType",
    "Confidence",
    "Cutoffs",
    "Dialect",
    "HostCheck",
    "OpsetRange",
    "Peak",
    "Precision",
    "Profile",
    "ProfileFile",
    "Runtime",
]

Precision: TypeAlias = Literal["fp32", "fp16", "bf16", "int8", "int4"]
ActivationType: TypeAlias = Literal["uint8", "int8"]
HostCheck: TypeAlias = Literal["run", "emulated", "parsed", "rules"]
Confidence: TypeAlias = Literal["measured", "documented", "reported"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpsetRange:
    """The opsets of the default ONNX domain that the runtime takes, both ends included."""

    min: Annotated[int, "oldest opset in which the artifact can be written; older models are converted up"]
    max: Annotated[int, "newest opset that the runtime takes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The program on the device that loads the artifact."""

    name: Annotated[str, "name of the runtime or SDK"]
    version: Annotated[str | None, "oldest version for which the profile is known to hold"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Peak arithmetic rates, dense unless named sparse, as the maker states them."""

    fp32_gflops: Annotated[float | None, "FP32, 10^9 operations a second"] = None
    fp16_tflops: Annotated[float | None, "FP16, 10^12 operations a second"] = None
    int8_tops: Annotated[float | None, "INT8, 10^12 operations a second"] = None
    sparse_int8_tops: Annotated[float | None, "INT8 with 2:4 sparse weights, 10^12 operations a second"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The rules by which the backend's Q/DQ graph must be written for its INT8 kernels to be used."""

    activation_dtype: Annotated[ActivationType, "integer type of quantized activations"]
    activation_symmetric: Annotated[bool, "whether the zero point of an activation must be 0"]
    weight_dtype: Annotated[Literal["int8"], "integer type of quantized weights"]
    weight_bits: Annotated[
        Literal[8, 7],
        "bits of a weight in use; 7 keeps weights in [-64, 64] where pairs of products saturate 16 bits",
    ]
    weight_symmetric: Annotated[bool, "whether the zero point of a weight must be 0"]
    weight_per_channel: Annotated[bool, "whether a weight has one scale for each output channel"]
    bias: Annotated[Literal["float", "int32"], "how a bias is written: as float, or as a dequantized int32"]
    output_q: Annotated[bool, "whether the output of a compute op must be quantized for its INT8 kernel"]
    float_output_ops: Annotated[
        tuple[str, ...],
        "compute ops whose INT8 kernel can write float, so that `output_q` does not bind them",
    ] = ()
    absorb_activations: Annotated[
        tuple[str, ...],
        "activations that vanish into the op before them when the range of the quantizer after them fits",
    ]
    compute_ops: Annotated[tuple[str, ...], "ops that get quantized inputs: they have INT8 kernels that gain"]
    same_scale_ops: Annotated[
        tuple[str, ...],
        "ops that only move data: one scale and zero point before and after (Resize: mode nearest only)",
    ]
    dynamic_ops: Annotated[
        tuple[str, ...],
        "ops with a constant weight whose INT8 kernel gains though it finds the range of what it reads at run time",
    ] = ()
    concat_shares_scale: Annotated[bool, "whether all inputs and the output of a Concat need one scale"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoffs:
    """Below what INT8 kernels are not expected to gain; `auto` leaves such a node alone, an order does not."""

    channels: Annotated[int | None, "fewest input and output channels of a Conv, or K and N of a matrix product"] = None
    rows: Annotated[int | None, "fewest rows of a matrix product: with 1 it is a matrix-vector product"] = None
    group_channels: Annotated[int | None, "of what the output channels of a grouped Conv must be a multiple"] = None
    group_kernel: Annotated[int | None, "smallest kernel of a grouped Conv, along every axis"] = None
    activation_products: Annotated[bool | None, "whether a product of two activations (attention) gains"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One device, or one hardware revision of it, with the runtime that loads the artifact."""

    name: Annotated[str, "what `--target` takes; a revision is `NAME@revision`"]
    backend: Annotated[str, "the backend that writes the artifact"]
    summary: Annotated[str, "one line for `infer-opt profiles list`"] = ""
    precisions: Annotated[tuple[Precision, ...], "precisions that `compile` may choose from"] = ("fp32",)
    pipeline: Annotated[str, "the passes that run by default, as `--pipeline` reads them"] = "simplify,fuse"
    soc: Annotated[str | None, "chip, as its maker names it"] = None
    hw_revision: Annotated[str | None, "hardware revision of the board"] = None
    arch: Annotated[str | None, "processor architecture"] = None
    compute_capability: Annotated[str | None, "CUDA compute capability"] = None
    isa: Annotated[
        tuple[str, ...],
        "instruction-set extensions of the CPU; latency counts on hosts that have them and the same INT8 kernels",
    ] = ()
    cores: Annotated[int | None, "CPU cores, streaming multiprocessors or NPU cores"] = None
    threads: Annotated[int, "threads for planning and `bench` unless `--threads` is given"] = 1
    memory_mb: Annotated[int | None, "memory that a model can use, MiB"] = None
    unified_memory: Annotated[bool | None, "whether the accelerator shares the memory of the CPU"] = None
    bandwidth_gbs: Annotated[float | None, "peak memory bandwidth, 10^9 bytes a second"] = None
    peak: Annotated[Peak, "peak arithmetic rates"] = field(default_factory=Peak)
    sparse_2_4: Annotated[bool | None, "whether 2:4 sparse weights run faster"] = None
    opset: Annotated[OpsetRange | None, "opsets the runtime takes"] = None
    dynamic_shapes: Annotated[bool | None, "whether dimensions may stay unknown until run time"] = None
    runtime: Annotated[Runtime | None, "the program that loads the artifact"] = None
    verify: Annotated[
        HostCheck,
        "the most that the host can check: `run` the artifact; run its arithmetic but not the device's "
        "kernels (`emulated`); parse it with the vendor's parser (`parsed`); apply our own `rules`",
    ] = "rules"
    dialect: Annotated[Dialect | None, "rules of the Q/DQ graph, for a backend that reads one"] = None
    cutoffs: Annotated[Cutoffs, "below what INT8 is not expected to gain"] = field(default_factory=Cutoffs)
    source: Annotated[
        Mapping[str, str],
        'table: where each fact comes from, by key; a key in a table goes in quotes, `"peak.int8_tops"`',
    ] = field(default_factory=dict[str, str], hash=False)
    unknown: Annotated[
        tuple[str, ...], "keys looked for and not found (TOML has no null); each needs a line in `source`"
    ] = ()
    confidence: Annotated[
        Confidence | None,
        "weakest kind of source in use: `measured` by running, `documented` by the maker, `reported` by others",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFile(Profile):
    """A profile as a file writes it: with the profile it starts from."""

    extends: Annotated[
        str | None, "profile to start from: a shipped name, or the path of a `.toml` relative to this file"
    ] = None
    abstract: Annotated[bool, "true for a file that is only extended, never a target"] = False


_COST = "not used yet: the roofline, for devices that cannot be timed here"

RESERVED: Mapping[str, str] = MappingProxyType(
    {
        "soc": "not used yet: `doctor`, to recognise the device it runs on",
        "hw_revision": "not used yet: `verify`, to refuse the artifact of another revision",
        "cores": _COST,
        "memory_mb": "not used yet: `compile`, to refuse a model that does not fit",
        "unified_memory": _COST,
        "peak.sparse_int8_tops": _COST,
        "sparse_2_4": "not used yet: `compile`, to try sparse kernels",
        "dynamic_shapes": "not used yet: `compile`, to refuse dynamic inputs where the device needs fixed ones",
        "runtime.name": "not used yet: `doctor`, to look for the runtime on the device",
        "dialect.weight_symmetric": "not used yet: the planner, which makes all weights symmetric",
        "unknown": "not used yet: the roofline, to say which figures it does without",
        "confidence": "not used yet: the report, to say how far the profile can be trusted",
    }
)
"""Keys that profiles may state and that nothing reads yet, each with what will; `--set` refuses them."""
