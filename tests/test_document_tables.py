"""The tables and the limits in the documents are those of the code."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
import yaml

from infer_opt import profiles, targets
from infer_opt.calibrate import augment, choice, drift, equality, front, instrument, judging, mixing, sketch, verifying
from infer_opt.calibrate.metrics import METRICS, class_scores, directions, numbers, shares
from infer_opt.calibrate.quantization import Format
from infer_opt.passes.engine.registry import available
from infer_opt.passes.rewrites.clean_up.no_ops import NO_OPS
from infer_opt.passes.rewrites.formulas import activations, norm_parameters
from infer_opt.passes.rewrites.linear import affine_chains
from infer_opt.passes.rewrites.opsets.opset_adapters import ADAPTERS, NEWEST
from tests.documents import table, text_of
from tests.passes import rule_names


def percent(words: str) -> str:
    """With a blank before the sign, as the documents write it."""
    return words.replace("%", " %")


def first_column(document: str, mark: str) -> list[str]:
    """Every name of the first column, of which a cell may hold several between commas."""
    return [name for row in table(document, mark) for name in row[0].split(", ")]


def test_every_pass_and_option_is_in_the_document() -> None:
    """A section for each pass, a row for each option with its default."""
    rows = [tuple(row[:3]) for row in table("docs/passes.md", "options")]
    expected = [
        (name, field.name, str(field.default))
        for name, kind in available().items()
        for field in dataclasses.fields(kind)
    ]
    expected += [(name, "", "") for name, kind in available().items() if not dataclasses.fields(kind)]
    assert rows == sorted(expected)
    assert {f"## {name}" for name in available()} <= set(text_of("docs/passes.md").splitlines())


def test_every_rule_is_in_the_document() -> None:
    """Rows of `fuse` stand in the order in which its rules are tried, the others in any."""
    listed = first_column("docs/passes.md", "rules: fuse")
    assert sorted(listed) == sorted(rule_names.FUSE)
    assert families(listed) == families(rule_names.FUSE)
    others = [*first_column("docs/passes.md", "rules: legalize"), *first_column("docs/passes.md", "rules: simplify")]
    assert sorted(others) == sorted([*rule_names.walks(), *rule_names.SIMPLIFY])


def families(names: list[str]) -> list[str]:
    """What the names begin with, in order: the rules that put one operator into several are a family."""
    return list(dict.fromkeys(re.sub(r" into .*", "", name) for name in names))


def test_every_no_op_and_adapter_is_in_the_document() -> None:
    """One name for each row of the tables in the code."""
    assert sorted(first_column("docs/passes.md", "no-ops")) == sorted(NO_OPS)
    adapters = [(row[0], int(row[1])) for row in table("docs/passes.md", "adapters")]
    assert sorted(adapters) == sorted(ADAPTERS)


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_readme_names_every_profile(name: str) -> None:
    """And no other; the English one with its backend."""
    rows = re.findall(r"^\| `([\w@-]+)` \|(?:[^|]*\| `(\w+)` \|)?", text_of(name), re.MULTILINE)
    rows = [(profile, backend) for profile, backend in rows if profile != "--target"]
    assert [profile for profile, _ in rows] == profiles.names()
    loaded = [profiles.load(profile, backends=targets.backends()).backend for profile in profiles.names()]
    assert [backend for _, backend in rows] == (loaded if name == "README.md" else [""] * len(loaded))


def dialect_row(name: str) -> list[str]:
    """What docs/quantization.md has to say of a profile's dialect."""
    dialect = profiles.load(name, backends=targets.backends()).dialect
    assert dialect is not None
    bits = None if dialect.weight_bits == 8 else dialect.weight_bits
    low, high = Format(dialect.weight_dtype, symmetric=True, narrow=True, bits=bits).limits()
    zero = "zero point 0" if dialect.activation_symmetric else "any zero point"
    behind = "needed" if dialect.output_q else "not needed"
    return [name, f"{dialect.activation_dtype}, {zero}", f"int8 in [{low}, {high}]", dialect.bias, behind]


def test_the_dialects_are_those_of_the_profiles() -> None:
    """Every profile's dtype, zero point, range of weights, bias and output."""
    assert [row[:5] for row in table("docs/quantization.md", "dialects")] == list(map(dialect_row, profiles.names()))


def test_the_inputs_of_the_action_are_in_the_document() -> None:
    """In order, with their defaults."""
    inputs = yaml.safe_load(text_of("action.yml"))["inputs"]
    expected = [[name, "required" if item.get("required") else item["default"]] for name, item in inputs.items()]
    assert [row[:2] for row in table("docs/ci.md", "inputs")] == expected


@pytest.mark.parametrize("name", ["README.md", "README.zh.md", "docs/ci.md", "docs/cli.md"])
def test_every_document_has_the_same_exit_codes(name: str) -> None:
    """A script that relies on one of them is not told another by the next page."""
    codes = re.findall(r"^\| (\d+) \|", text_of(name), re.MULTILINE)
    assert codes == ["0", "1", "2", "3", "70", "130"]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("docs/quantization.md", f"at most {instrument.SUBSAMPLE} evenly spaced elements"),
        ("docs/quantization.md", f"The histogram has {sketch.BINS} bins"),
        ("docs/quantization.md", percent(f"original's on at least {class_scores._LEAST_AGREEMENT:.0%} of rows")),
        (
            "docs/quantization.md",
            percent(f"by the original's own scores is at most {class_scores._LARGEST_LOSS:.0%}"),
        ),
        ("docs/quantization.md", f"mean divergence is at most {class_scores._LARGEST_DIVERGENCE} nats"),
        ("docs/quantization.md", f"of rank 3 over {class_scores._SMALLEST_VOCABULARY} words or more"),
        ("docs/quantization.md", f"SQNR is at least {class_scores._LEAST_DB:g} dB"),
        (
            "docs/quantization.md",
            percent(
                f"right on less than {class_scores._COLLAPSE_AGREEMENT:.0%} of rows, "
                f"or SQNR under {class_scores._LEAST_DB:g} dB"
            ),
        ),
        ("docs/quantization.md", f"at least {class_scores._FEWEST_LOGITS} columns, numbers of both signs"),
        ("docs/quantization.md", f"fewer than {class_scores._FEWEST_LOGITS} classes"),
        ("docs/quantization.md", f"them within {class_scores._WIDEST_LOGITS:g} of each other"),
        ("docs/quantization.md", f"the top class at least {class_scores._LEAST_PEAK:g}, on the mean"),
        ("docs/quantization.md", f"log odds that move by more than {class_scores._SMALL_ODDS:g}"),
        ("docs/quantization.md", f"two thirds of them within {shares._SURE:g} of an end"),
        ("docs/quantization.md", f"F1 of the places over {shares._YES:g} is at least {shares._LEAST_F1:g}"),
        ("docs/quantization.md", f"original has {shares._ENOUGH} or more"),
        ("docs/quantization.md", f"the overlap is at least {shares._LEAST_OVERLAP:g}"),
        ("docs/quantization.md", f"overlap under {shares._COLLAPSE_OVERLAP:g}"),
        ("docs/quantization.md", f"rows of {directions._FEWEST_ENTRIES} numbers or more"),
        ("docs/quantization.md", f"mean cosine is at least {directions._LEAST_COSINE:g}"),
        (
            "docs/quantization.md",
            percent(f"at most {directions._MOST_TURNED:.0%} of the vectors have one under {directions._TURNED:g}"),
        ),
        ("docs/quantization.md", f"softmax is at most {directions._LARGEST_DIVERGENCE:g} nats"),
        ("docs/quantization.md", f"mean cosine under {directions._COLLAPSE_COSINE:g}"),
        ("docs/quantization.md", f"SQNR of at least {numbers._LEAST_DB:g} dB"),
        ("docs/quantization.md", f"and of at least {numbers._LEAST_CHANNEL_DB:g} dB at every index"),
        ("docs/quantization.md", f"where that axis is 2 to {numbers._MOST_CHANNELS} long"),
        ("docs/quantization.md", f"SQNR under {numbers.COLLAPSE_DB:g} dB"),
        ("docs/quantization.md", f"stay between 0 and {numbers._SHOWN:g} in every sample"),
        ("docs/quantization.md", f"from {front.LEVELS[-2]:g} to {front.LEVELS[0]:g} dB"),
        ("docs/quantization.md", f"for {mixing._SPARE_DB:g} dB more than that"),
        ("docs/quantization.md", f"After {judging._ENOUGH} candidates of this series"),
        ("docs/quantization.md", f"fewer than {verifying._ENOUGH}, samples that calibrated follow"),
        ("docs/quantization.md", f"up to {verifying._MOST_CHANGED} of the held-out ones"),
        ("docs/quantization.md", percent(f"sigma {augment.Noise().strength:.0%} of the image's range")),
        ("docs/quantization.md", f"sigma {augment.Blur().strength:g} pixel at a side of {augment._REFERENCE_SIDE}"),
        ("docs/quantization.md", f"more than {drift._GROWTH:g} times as large"),
        ("docs/cli.md", f"that is under {verifying._ENOUGH}"),
        ("README.md", f"{numbers._LEAST_DB:g} dB, and {numbers._LEAST_CHANNEL_DB:g} dB at each of its channels"),
        ("README.md", f"masks an F1 of {shares._LEAST_F1:g}, embeddings a cosine of {directions._LEAST_COSINE:g}"),
        ("docs/passes.md", f"never lowers it, and reaches {NEWEST}."),
        ("docs/passes.md", f"may be off by {activations._TOLERANCE * 100:g} %"),
        ("docs/passes.md", f"It moves there only if it is at most {affine_chains._LARGEST_MOVE:g} then"),
        ("docs/passes.md", f"of at most {norm_parameters._LARGEST} elements"),
        ("docs/passes.md", f"Where SQNR falls under {equality.LEAST_DB:g} dB"),
        ("docs/passes.md", f"less {equality._MARGIN_DB:g} dB"),
        ("README.md", f"difference within {(choice.TIE - 1) * 100:.0f} % is a tie"),
        ("docs/ci.md", f"Differences within {(choice.TIE - 1) * 100:.0f} % are ties"),
    ],
)
def test_limits_are_those_of_the_code(document: str, words: str) -> None:
    """A limit that is changed in the code is changed in the document too."""
    assert words in " ".join(text_of(document).split())


@pytest.mark.parametrize("name", ["report", "verify"])
def test_the_schemas_know_every_kind(name: str) -> None:
    """Those that an output is told by, and those that `--metric` names."""
    kinds = {kind.name for metric in METRICS.values() for kind in metric.kinds()}
    listed: list[list[str]] = []

    def note_kinds(part: dict[str, Any]) -> dict[str, Any]:
        listed.extend([part["enum"]] if numbers.Numbers.name in part.get("enum", ()) else [])
        return part

    json.loads(text_of(f"docs/schemas/{name}.schema.json"), object_hook=note_kinds)
    assert listed
    for known in listed:
        assert set(known) == {*kinds, numbers.Numbers.name, "integers"}


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    """Every name of `--metric`, and the outputs that it takes."""
    [table] = re.findall(r"<!-- metrics -->\n(.*?)<!-- /metrics -->", text_of("docs/cli.md"), re.DOTALL)
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    assert {row[0].strip("`"): row[1] for row in rows} == {name: metric.takes for name, metric in METRICS.items()}
