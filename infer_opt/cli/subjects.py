"""What `bench` measures: a model or an artifact, on one feed of one batch size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infer_opt.cli.artifacts import open_artifact
from infer_opt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infer_opt.calibrate.runner import Runner
    from infer_opt.calibrate.sample_set import Feed, InputSpec
    from infer_opt.profiles import Profile

__all__ = ["Source", "Subject", "subjects_of"]


@dataclass(frozen=True)
class Source:
    """Where samples come from: `--data` (None for random numbers) and `--preprocess`."""

    data: str | None
    preprocess: str | None


@dataclass(frozen=True)
class Subject:
    """One thing to measure.

    Args:
        name: as the user named it.
        file: the ONNX file that is loaded.
        batch: samples in the feed.
        random: whether the feed is made up.
        note: why this host's latency is not the device's, or None.
    """

    name: str
    file: Path
    runner: Runner
    feed: Feed
    batch: int
    threads: int
    random: bool
    note: str | None


def subjects_of(
    name: str, profile: Profile | None, source: Source, threads: int | None, batches: Sequence[int]
) -> list[Subject]:
    """A model or an artifact, once for each batch size.

    Args:
        profile: what a model is meant for; an artifact has its own.
        threads: None takes the artifact's or the profile's, or 1.
        batches: empty takes the samples as they are.

    Raises:
        InputError: it cannot be loaded, or does not take the samples or a batch size.
    """
    from infer_opt import ir, targets
    from infer_opt.calibrate.feeding import input_specs
    from infer_opt.calibrate.runner import Runner
    from infer_opt.calibrate.samples import load_samples

    path = Path(name)
    compiled = open_artifact(path) if path.is_dir() else None
    profile = compiled.profile if compiled else profile
    file = path / compiled.manifest["model"] if compiled else path
    count = threads or (compiled.threads if compiled else profile.threads if profile else 1)
    inputs = input_specs(ir.load(file))
    runner = compiled.runner(count) if compiled else Runner(file, f"`{name}`", threads=count)
    feed = next(iter(load_samples(source.data or "random", inputs, preprocess=source.preprocess)))
    note = targets.create(profile).timed_here() if profile else None
    random = source.data in {None, "random"}
    found = []
    for each in [_batched(name, inputs, feed, batch) for batch in batches] or [feed]:
        runner.run(each, "the sample")  # an error here is named; while timing it would not be
        found.append(Subject(name, file, runner, each, _batch_of(each), count, random, note))
    return found


def _batched(name: str, inputs: Sequence[InputSpec], feed: Feed, batch: int) -> Feed:
    """The feed's first sample, repeated along axis 0."""
    import numpy as np

    for spec in inputs:
        first = spec.shape[0] if spec.shape else batch
        if isinstance(first, int) and first != batch:
            raise InputError(
                f"`{name}`: input `{spec.name}` has {first} for its batch, so --batch {batch} cannot be measured",
                "export the model with a dynamic batch, or leave --batch out",
            )
    return {key: np.concatenate([array[:1]] * batch) if array.ndim else array for key, array in feed.items()}


def _batch_of(feed: Feed) -> int:
    """Size of axis 0 where all inputs agree on it, otherwise 1: one sample in a run."""
    sizes = {array.shape[0] for array in feed.values() if array.ndim}
    return int(sizes.pop()) if len(sizes) == 1 else 1
