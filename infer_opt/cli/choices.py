"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from infer_opt.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.calibrate.augment import Augmentation
    from infer_opt.profiles import Profile

__all__ = [
    "Augment",
    "Json",
    "MaxDrop",
    "Metric",
    "MinSqnr",
    "Plugins",
    "Preprocess",
    "Seed",
    "Shapes",
    "Surgery",
    "Threads",
    "augmentations",
    "budget_number",
    "load_plugins",
    "load_profile",
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout (docs/schemas/).")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of a run; the profile's by default.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME:DIMS", help="Fix an input's shape, like `x:1x3x224x224`; may be repeated."),
]
Preprocess = Annotated[
    str | None, typer.Option(metavar="SPEC", help="How images become inputs, like `size=224x224,scale=1/255`.")
]
Augment = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[,...]",
        help="Calibrate on changed images too: noise, blur, brightness, contrast.",
    ),
]
MinSqnr = Annotated[
    float | None, typer.Option("--min-sqnr", metavar="DB", help="Least SQNR of every float output, in dB.")
]
MaxDrop = Annotated[
    float | None,
    typer.Option(
        "--max-drop", metavar="X", min=0.0, max=1.0, help="Largest drop of the metric, or of the score of --eval."
    ),
]
Metric = Annotated[
    Literal["auto", "sqnr", "cosine", "top1", "top5", "detection", "ctc"],
    typer.Option(help="How outputs are compared with the original's; `auto` tells by the output."),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin", metavar="FILE.py|MODULE", help="Python that registers fusions, passes, references; repeatable."
    ),
]
Surgery = Annotated[
    Path | None,
    typer.Option("--surgery", metavar="FILE.py", help="Functions that take an onnx-graphsurgeon Graph; run first."),
]


def load_plugins(named: Sequence[str] | None) -> None:
    """Load the plugins of installed packages, then those that `--plugin` names, in order.

    Raises:
        InputError: one is not there, or its code raises.
    """
    from infer_opt.passes.engine.loading import load_installed_plugins, load_plugin

    load_installed_plugins()
    for plugin in named or ():
        load_plugin(plugin)


def augmentations(text: str | None) -> tuple[Augmentation, ...]:
    """The changes that `--augment` names; none without it.

    Raises:
        UsageError: a name is unknown or comes twice.
    """
    from infer_opt.calibrate.augment import parse

    return () if text is None else parse(text)


def budget_number(option: str, value: float | None) -> float | None:
    """The value, unless it is a number that nothing can be compared with."""
    if value is not None and not math.isfinite(value):
        raise UsageError(f"{option} cannot be `{value}`", "give a number")
    return value


def load_profile(name: str, settings: Sequence[str] = ()) -> Profile:
    """The profile that `--target` names, with the facts of `--set` in place of its own.

    Raises:
        UsageError, InputError: there is none, it is at fault, or a setting is.
    """
    from infer_opt import profiles, targets

    overrides: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(f"--set `{setting}` gives no value", "write it like `--set memory_mb=512`")
        if key in overrides:
            raise UsageError(f"--set gives `{key}` twice", "keep one of the two")
        overrides[key] = value
    return profiles.load(name, backends=targets.backends(), overrides=overrides)
