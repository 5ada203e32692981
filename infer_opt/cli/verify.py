"""`infer-opt verify`: an artifact against the model it was compiled from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infer_opt.cli.artifacts import Compiled, open_artifact
from infer_opt.cli.choices import (
    Json,
    MaxDrop,
    MinSqnr,
    Plugins,
    Preprocess,
    Seed,
    Surgery,
    Threads,
    budget_number,
    load_plugins,
)
from infer_opt.cli.output import facts, write_json
from infer_opt.cli.surgery import operated_model
from infer_opt.errors import BudgetError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from infer_opt import ir
    from infer_opt.calibrate.expected import Expected
    from infer_opt.calibrate.metrics import OutputError
    from infer_opt.calibrate.runner import Runner
    from infer_opt.calibrate.sample_set import SampleSet

__all__ = ["verify_command"]


def verify_command(
    artifact: Annotated[Path, typer.Argument(metavar="ARTIFACT", help="A folder that `compile` wrote.")],
    *,
    data: Annotated[
        str | None, typer.Option(metavar="DATA", help="Samples, as `compile --calib` takes them; random ones if none.")
    ] = None,
    original: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="The model it was compiled from; looked for beside it if none."),
    ] = None,
    preprocess: Preprocess = None,
    max_drop: MaxDrop = None,
    min_sqnr: MinSqnr = None,
    plugins: Plugins = None,
    surgery: Surgery = None,
    threads: Threads = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Check an artifact against the model it was made from.

    Compares its files with the manifest, and its outputs with the original's. Exit code 3 where it is broken (a
    file was changed, an output has another shape, NaN where the original has none, or next to nothing of it left) or
    misses a stated budget.
    """
    from infer_opt import ir
    from infer_opt.calibrate.budget import Budget
    from infer_opt.calibrate.expected import Expected
    from infer_opt.calibrate.runner import Runner
    from infer_opt.calibrate.samples import load_samples

    load_plugins(plugins)
    compiled = _open(artifact)
    source = _original(compiled, original)
    _check_surgery(compiled, surgery)
    budget = Budget(max_drop=budget_number("--max-drop", max_drop), min_sqnr=budget_number("--min-sqnr", min_sqnr))
    with operated_model(source, surgery) as operated:
        file = operated or source
        model = ir.load(file)
        samples = load_samples(data or "random", compiled.input_specs(model), preprocess=preprocess, seed=seed)
        count = threads or compiled.threads
        expected = Expected(Runner.of_file(file, f"`{source}`", threads=count), ir.recurrent_state(model))
        errors = _errors(expected, compiled.runner(count), samples, ir.output_parts(model))
    # A range that real inputs gave says nothing of made-up ones, which may lie beyond it: only what is broken counts.
    judged = [error for error in errors if error.broken] if samples.source == "random" else errors
    faults = [*budget.collapses(judged), *budget.faults(errors, None), *budget.unchecked(errors)]
    table = _table(compiled, source, samples, errors, faults)
    if as_json:
        write_json(table)
    else:
        facts(_rows(table, errors), title=f"{artifact} against {source}")
    if faults:
        raise BudgetError(f"`{artifact}`: {'; '.join(faults)}", "compile the model again, or loosen the budget")


def _open(folder: Path) -> Compiled:
    from infer_opt.report import BrokenArtifactError

    try:
        return open_artifact(folder)
    except BrokenArtifactError as error:
        raise BudgetError(error.message, error.hint) from None


def _original(compiled: Compiled, given: Path | None) -> Path:
    """The original model, proved to be it, external weights included, by its SHA-256."""
    from infer_opt import ir

    source = compiled.manifest["source"]
    beside = [folder / source["path"] for folder in (compiled.folder.parent, Path(), compiled.folder)]
    found = given or next((path for path in beside if path.is_file()), None)
    if found is None:
        raise InputError(
            f"the original `{source['path']}` is not beside `{compiled.folder}`", "name it with --original MODEL"
        )
    if not found.is_file():
        raise InputError(f"`{found}` is no file", "name the model that was compiled")
    if ir.source_sha256(found) != source["sha256"]:
        raise InputError(
            f"`{found}` is not the model that `{compiled.folder}` was compiled from: its SHA-256 differs",
            "name that model with --original MODEL",
        )
    return found


def _check_surgery(compiled: Compiled, script: Path | None) -> None:
    """Raises InputError unless it is the script that the artifact was compiled with, or none for none."""
    from infer_opt import ir

    entry = compiled.manifest.get("surgery")
    if entry is None and script is not None:
        raise InputError(f"`{compiled.folder}` was compiled without --surgery", "leave it out")
    if entry is None:
        return
    made = f"`{compiled.folder}` was compiled after surgery by `{entry['path']}`"
    if script is None:
        raise InputError(made, f"pass it with --surgery {entry['path']}")
    if script.is_file() and ir.file_sha256(script) != entry["sha256"]:
        raise InputError(f"{made}, and `{script}` is another: its SHA-256 differs", "pass the one of then")


def _errors(
    expected: Expected, candidate: Runner, samples: SampleSet, parts: Mapping[str, ir.Parts]
) -> list[OutputError]:
    from infer_opt.calibrate.progress import Stages
    from infer_opt.calibrate.verification import compare
    from infer_opt.cli.progress import progress

    missing = [name for name in expected.runner.outputs if name not in candidate.outputs]
    if missing:
        raise BudgetError(f"{candidate.what} has no output `{missing[0]}`", "compile the model again")
    with Stages(progress())("verify", len(samples)) as advance:
        return compare(expected, candidate, samples, samples.describe, parts=parts, advance=advance)


def _table(
    compiled: Compiled, source: Path, samples: SampleSet, errors: Sequence[OutputError], faults: Sequence[str]
) -> dict[str, Any]:
    from infer_opt.report import error_table

    return {
        "schema": 1,
        "artifact": str(compiled.folder),
        "original": str(source),
        "target": compiled.profile.name,
        "checked": compiled.manifest["checked"],
        "samples": {"source": samples.source, "count": len(samples), "random": samples.source == "random"},
        "outputs": [error_table(error) for error in errors],
        "faults": list(faults),
    }


def _rows(table: dict[str, Any], errors: Sequence[OutputError]) -> Iterator[tuple[str, str]]:
    from infer_opt.cli.summary import error_text

    samples = table["samples"]
    kind = "random inputs, which say little of real ones" if samples["random"] else f"samples of `{samples['source']}`"
    yield "files", "as they were compiled (SHA-256)"
    yield "data", f"{samples['count']} {kind}"
    yield from (("error", error_text(error)) for error in errors)
    yield "checked", f"{table['checked']}, for {table['target']}"
