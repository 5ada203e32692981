"""What infer-opt makes of models beside what other quantizers make of them.

    python benchmarks/rivals.py MODELS [--calib FOLDER] [--recipes FILE.py] [--names a,b] [--engines a,b] [--work DIR]

MODELS is a folder of .onnx files; FOLDER, `MODELS/calib` by default, has a folder of .npz feeds by each model's name.
The last quarter of the feeds is held out: no engine gets it. Each engine makes its artifact in a process of its own;
NNCF's runs under `$RIVAL_PYTHON_NNCF`. Measured are the seconds and peak resident MB of that process, the SQNR of the
worst output over the held-out feeds, and latency beside FP32 in onnxruntime on the first of them: one thread, both on
the same core, in turns, medians of paired ratios.

FILE.py has a function `score(name, session) -> float`, higher for better, or None where it knows no task for the model.
The session has onnxruntime's `run(names, feed)`, `get_inputs()` and `get_outputs()`. The change from FP32 decides which
artifacts keep the metric. The table goes to stdout, all figures to `rivals.json` in DIR, where the artifacts stay.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rival_makers import MAKERS, PYTHONS, fresh, make, missing_packages, python_of
from rival_reports import KEPT, Row, cell, means, table
from rival_sessions import Feed, Session, SessionError

from infer_opt.calibrate.metrics import OutputError
from infer_opt.calibrate.timing import in_turns
from infer_opt.calibrate.user_code import load_function
from infer_opt.errors import UserError, running_user_code

CONTRACT = "it takes a model's name and a session, and returns a number, higher for better, or None"
ROUNDS, SECONDS = 50, 8.0  # of timing an artifact

Score = Callable[[str, Session], float | None]


@dataclass(frozen=True)
class Setting:
    """What is the same for all models."""

    calib: Path
    work: Path
    target: str
    engines: tuple[str, ...]
    score: Score | None
    limit: float


def present(engines: list[str]) -> tuple[str, ...]:
    """The engines that can be run; the others are named on stderr."""
    found = []
    for engine in engines:
        missing = missing_packages(engine)
        if missing:
            other = f"; set ${PYTHONS[engine]} to one that has" if engine in PYTHONS else ""
            lacks = f"`{python_of(engine)}` has no {', '.join(missing)}{other}"
            print(f"{engine} is left out: {lacks}", file=sys.stderr)
        else:
            found.append(engine)
    if not found:
        raise UserError("no engine is left", "install what they need, or name others by --engines")
    return tuple(found)


def divide(feeds: Path, work: Path) -> tuple[Path, list[Path]]:
    """A folder of links to the feeds that makers get, and the held-out ones: the last quarter, and at least one."""
    files = sorted(feeds.glob("*.npz"))
    if len(files) < 2:
        raise UserError(f"`{feeds}` holds {len(files)} .npz files", "give at least 2: the last quarter is held out")
    given = fresh(work / "calib")
    border = len(files) - max(1, len(files) // 4)
    for file in files[:border]:
        (given / file.name).symlink_to(file.resolve())
    return given, files[border:]


def load(path: Path) -> Feed:
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def sqnr(original: Session, candidate: Session, held: list[Path]) -> float:
    """Of the worst output, pooled over the held-out feeds; of float ones, where there are any."""
    names = [port.name for port in original.get_outputs()]
    errors = [OutputError(name) for name in names]
    for path in held:
        feed = load(path)
        for error, expected, got in zip(errors, original.run(names, feed), candidate.run(names, feed), strict=True):
            error.add(np.asarray(expected), np.asarray(got))
    return min(error.sqnr for error in ([error for error in errors if error.floats] or errors))


def time_both(row: Row, original: Session, candidate: Session, feed: Feed) -> None:
    timers = {"fp32": partial(original.seconds, feed), "candidate": partial(candidate.seconds, feed)}
    found = in_turns(timers, rounds=ROUNDS, seconds=SECONDS)
    row.fp32_ms, row.ms, row.speedup = found["fp32"].p50_ms, found["candidate"].p50_ms, found["candidate"].ratio


def judge(row: Row, path: Path, original: Session, held: list[Path], setting: Setting) -> None:
    """Run what was made beside the original, and score it."""
    python = python_of("nncf-openvino") if path.suffix == ".xml" else sys.executable
    try:
        with Session(path, python) as candidate:
            row.sqnr_db = sqnr(original, candidate, held)
            time_both(row, original, candidate, load(held[0]))
            score = scored(setting, row.model, candidate)
            row.score = (
                score if score is not None and math.isfinite(score) else None
            )  # NaN is no JSON, and keeps nothing
    except (SessionError, UserError) as error:
        row.fails = f"artifact: {str(error)[:200]}"


def scored(setting: Setting, name: str, session: Session) -> float | None:
    """The task metric; None where there is none.

    Raises:
        SessionError: the model does not run.
        UserError: the function raises anything else.
    """
    if setting.score is None:
        return None
    with running_user_code(setting.score, CONTRACT, (SessionError,)):
        found = setting.score(name, session)
        return None if found is None else float(found)


def opened(model: Path, feed: Feed) -> Session:
    """The original, which has run once, so that what fails later is an artifact."""
    try:
        session = Session(model)
        session.run(None, feed)
    except SessionError as error:
        raise UserError(f"`{model}` does not run: {error}", "check the model and its feeds in onnxruntime") from error
    return session


def compare(model: Path, setting: Setting) -> list[Row]:
    """All engines on one model."""
    name, work = model.stem, setting.work / model.stem
    feeds, held = divide(setting.calib / name, work)
    rows = []
    with opened(model, load(held[0])) as original:
        score = scored(setting, name, original)
        if score is not None and not math.isfinite(score):
            raise UserError(f"the score of `{name}` in FP32 is {score}", "correct the recipe, or return None")
        for engine in setting.engines:
            made = make(engine, model, feeds, work / engine, setting.target, limit=setting.limit)
            row = Row(name, engine, made.seconds, made.peak_mb, fails=made.fails, fp32_score=score)
            if made.artifact:
                row.artifact, row.artifact_mb = os.path.relpath(made.artifact, setting.work), made.megabytes
                judge(row, made.artifact, original, held, setting)
            rows.append(row)
            print(f"{name}: {engine}: {row.fails or cell(row)}", file=sys.stderr)
    return rows


def write(rows: list[Row], path: Path) -> None:
    """What is known so far, so that a run cut short leaves it."""
    found = means(rows)
    document = {
        "schema": 1,
        "kind": "measured",
        "most_lost": KEPT,
        "rows": [{**asdict(row), "change": row.change, "keeps": row.keeps} for row in rows],
        "means": asdict(found) if found else None,
    }
    path.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, metavar="MODELS")
    parser.add_argument("--calib", type=Path, metavar="FOLDER", help="feeds by model name; MODELS/calib by default")
    parser.add_argument("--recipes", metavar="FILE.py", help="has `score(name, session) -> float`")
    parser.add_argument("--names", default="", metavar="NAME[,...]", help="of models; all that have feeds by default")
    parser.add_argument("--engines", default=",".join(MAKERS), metavar="NAME[,...]", help="%(default)s")
    parser.add_argument("--work", type=Path, default=Path("build/rivals"), metavar="DIR", help="%(default)s")
    parser.add_argument("--target", default="x86-avx512-vnni", help="infer-opt's profile; %(default)s by default")
    parser.add_argument("--limit", type=float, default=1800.0, metavar="SECONDS", help="for a maker; %(default)s")
    options = parser.parse_args()
    unknown = sorted(set(words(options.engines)) - set(MAKERS))
    if unknown:
        parser.error(f"no engine {', '.join(unknown)}: there are {', '.join(MAKERS)}")
    return options


def words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def chosen(folder: Path, calib: Path, names: list[str]) -> list[Path]:
    """The models of the folder, or those named; one without feeds is left out by name."""
    models = [folder / f"{name}.onnx" for name in names] or sorted(folder.glob("*.onnx"))
    for model in models:
        if not model.is_file():
            raise UserError(f"`{model}` is no file", "name models of the folder by --names, without .onnx")
        if not (calib / model.stem).is_dir():
            print(f"{model.stem} is left out: `{calib}` has no folder of feeds for it", file=sys.stderr)
    found = [model for model in models if (calib / model.stem).is_dir()]
    if not found:
        raise UserError(f"`{folder}` has no model with feeds in `{calib}`", "put .npz feeds in a folder by its name")
    return found


def warn_if_busy() -> None:
    """Others' work on the machine falls on the longer of two runs more often."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores:
        print(
            f"warning: {load:.1f} processes on {cores} cores: latencies and ratios are of a busy host", file=sys.stderr
        )


def run(options: argparse.Namespace) -> list[Row]:
    calib = options.calib or options.models / "calib"
    models = chosen(options.models, calib, words(options.names))
    score = load_function(f"{options.recipes}:score", CONTRACT) if options.recipes else None
    engines = present(words(options.engines))
    warn_if_busy()
    options.work.mkdir(parents=True, exist_ok=True)
    setting = Setting(calib, options.work, options.target, engines, score, options.limit)
    rows: list[Row] = []
    for model in models:
        rows += compare(model, setting)
        write(rows, options.work / "rivals.json")
    return rows


def main() -> None:
    options = parsed()
    try:
        print(table(run(options)))
    except UserError as error:
        sys.exit(f"error: {error.message}\nhint: {error.hint}")


if __name__ == "__main__":
    main()
