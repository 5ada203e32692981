"""Finding a profile and the words of what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer_opt import profiles
from infer_opt.errors import InputError, UsageError, UserError
from infer_opt.profiles import Problem

BACKENDS = {"onnxruntime", "tensorrt"}


def write(folder: Path, text: str, name: str = "mine.toml") -> str:
    """The path of a profile file with that text."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def refusal(name_or_path: str) -> UserError:
    """The error that loading ends with."""
    with pytest.raises(UserError) as caught:
        profiles.load(name_or_path, backends=BACKENDS)
    return caught.value


def problems(folder: Path, text: str) -> list[tuple[int | None, str, str | None]]:
    """What `check` finds in a file with that text: line, message, hint."""
    path = write(folder, text)
    found = profiles.check(path, backends=BACKENDS)
    assert {problem.where for problem in found} <= {path}
    return [(problem.line, problem.message, problem.hint) for problem in found]


HEAD = 'name = "mine"\nbackend = "onnxruntime"\n'


def test_two_keys_make_a_profile(tmp_path: Path) -> None:
    """Whatever is absent is None, and only the original's precision is offered."""
    profile = profiles.load(write(tmp_path, HEAD), backends=BACKENDS)
    assert (profile.name, profile.backend) == ("mine", "onnxruntime")
    assert profile.precisions == ("fp32",)
    assert profile.pipeline == "simplify,fuse"
    assert profile.memory_mb is profile.bandwidth_gbs is profile.dialect is profile.peak.int8_tops is None
    assert profile.verify == "rules"


def test_a_file_is_found_by_ending_separator_or_existence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mine.toml`, `./mine` and `mine` where such a file lies here are paths."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, HEAD)
    write(tmp_path, HEAD, "mine")
    for path in ("mine.toml", "./mine", "mine"):
        assert profiles.load(path, backends=BACKENDS).name == "mine"


def test_a_shipped_name_wins_over_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a script calls `t4` does not change with the folder it runs in."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, HEAD, "t4")
    assert profiles.load("t4", backends=BACKENDS).backend == "tensorrt"
    assert profiles.load("./t4", backends=BACKENDS).backend == "onnxruntime"


LIST = "list the shipped profiles with `infer-opt profiles list`"


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("x86-avx512-vnn", "x86-avx512-vnni"), ("T4", "t4"), ("arm-a77", "arm-a78"), ("x86_avx2", "x86-avx2")],
)
def test_a_near_miss_is_named(asked: str, meant: str) -> None:
    """The nearest shipped name and the command that lists them."""
    error = refusal(asked)
    assert isinstance(error, UsageError)
    assert error.message == f"no profile is named `{asked}`"
    assert error.hint == f"pass `{meant}`, or {LIST}"


@pytest.mark.parametrize("asked", ["toaster", "", "x" * 5000])
def test_a_name_like_no_other(asked: str) -> None:
    """Nothing is guessed."""
    error = refusal(asked)
    assert isinstance(error, UsageError)
    assert error.hint == f"{LIST}, or pass the path of a `.toml` file"


def test_a_base_is_no_target(tmp_path: Path) -> None:
    """Neither a shipped one nor a file of the user's."""
    error = refusal("onnxruntime-cpu")
    assert isinstance(error, UsageError)
    assert error.message == "`onnxruntime-cpu` is only a base for other profiles"
    assert error.hint == "pass one of " + ", ".join(f"`{name}`" for name in profiles.names())
    path = write(tmp_path, f"abstract = true\n{HEAD}")
    error = refusal(path)
    assert isinstance(error, InputError)
    assert error.message == f"`{path}`, line 1: is only a base for other profiles"
    assert error.hint == "extend it in a file of your own, or remove `abstract`"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"1,2,3\n", ", line 1: is not TOML: expected '=' after a key in a key/value pair"),
        (b'name = "mine\n', ", line 1: is not TOML: illegal character '\\n'"),
        (b'name = "a"\nname = "b"\n', ", line 2: is not TOML: cannot overwrite a value"),
        (b"[peak\n", ", line 1: is not TOML: expected ']' at the end of a table declaration"),
        (b"\xff\xfe\x00", ": is not a profile: not UTF-8 text"),
    ],
)
def test_a_file_that_is_not_toml(content: bytes, words: str, tmp_path: Path) -> None:
    """File, line where there is one, and what the reader stumbled over."""
    file = tmp_path / "plain.txt"
    file.write_bytes(content)
    error = refusal(str(file))
    assert isinstance(error, InputError)
    assert error.message == f"`{file}`{words}"
    assert profiles.check(file, backends=BACKENDS)[0].error().message == error.message


def test_a_path_that_leads_nowhere(tmp_path: Path) -> None:
    """A missing file and a folder are told apart."""
    missing = refusal(str(tmp_path / "no.toml"))
    assert isinstance(missing, InputError)
    assert missing.message == f"`{tmp_path / 'no.toml'}`: no such file"
    folder = refusal(f"{tmp_path}/")
    assert folder.message == f"`{tmp_path}`: is a folder, not a profile"


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    """Some editors write one."""
    file = tmp_path / "mine.toml"
    file.write_bytes(b"\xef\xbb\xbf" + HEAD.encode())
    assert profiles.load(str(file), backends=BACKENDS).name == "mine"


def test_an_unknown_key_is_named_with_the_nearest(tmp_path: Path) -> None:
    """The whole error as the command line shows it."""
    path = write(tmp_path, HEAD + 'precisons = ["fp32"]\n')
    error = refusal(path)
    assert isinstance(error, InputError)
    assert error.message == f"`{path}`, line 3: unknown key `precisons`"
    assert error.hint == "write `precisions`"


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("colour = 1", 3, "unknown key `colour`", "use one of name, backend, summary, precisions"),
        ("weight_bits = 7", 3, "unknown key `weight_bits`", "move `weight_bits` under `[dialect]`"),
        ("[peak]\nthreads = 2", 4, "unknown key `peak.threads`", "move `threads` above the first `[table]`"),
        ("peak = { int8_top = 2 }", 3, "unknown key `peak.int8_top`", "write `peak.int8_tops`"),
        ('threads = "4"', 3, '`threads` must be a whole number above 0, not "4"', None),
        ("threads = 0", 3, "`threads` must be a whole number above 0, not 0", None),
        ("threads = true", 3, "`threads` must be a whole number above 0, not true", None),
        ("threads = 1.5", 3, "`threads` must be a whole number above 0, not 1.5", None),
        ("bandwidth_gbs = nan", 3, "`bandwidth_gbs` must be a number above 0, not nan", None),
        ("bandwidth_gbs = -1", 3, "`bandwidth_gbs` must be a number above 0, not -1", None),
        ("sparse_2_4 = 1", 3, "`sparse_2_4` must be true or false, not 1", None),
        ("arch = ['arm']", 3, "`arch` must be a text, not a list", None),
        ("isa = 'avx2'", 3, '`isa` must be a list of texts, not "avx2"', None),
        ("isa = ['avx2', 2]", 3, "`isa` may hold texts, not 2", None),
        ("peak = 65", 3, "`peak` must be a table, not 65", None),
        (
            "precisions = ['fp32', 'fp8']",
            3,
            '`precisions` may hold "fp32", "fp16", "bf16", "int8", "int4", not "fp8"',
            None,
        ),
        (
            "verify = 'emulate'",
            3,
            '`verify` must be one of "run", "emulated", "parsed", "rules", not "emulate"',
            'write "emulated"',
        ),
        ("precisions = []", 3, "`precisions` is empty", 'write at least `precisions = ["fp32"]`'),
        ("opset = { min = 20, max = 13 }", 3, "`opset.min` 20 is above `opset.max` 13", "swap the two"),
        ("[opset]\nmin = 13", 3, "missing `opset.max`", "give it a whole number above 0"),
        (
            "[dialect]\nbias = 'flaot'",
            4,
            '`dialect.bias` must be one of "float", "int32", not "flaot"',
            'write "float"',
        ),
        ("unknown = ['colour']", 3, "`unknown` names `colour`, which is no key of a profile", "name a key"),
        ("unknown = ['core']", 3, "`unknown` names `core`, which is no key of a profile", "write `cores`"),
        (
            "unknown = ['cores']",
            3,
            "`cores` is listed in `unknown` without a line in `source`",
            'add `cores = "where it was looked for"` under `[source]`',
        ),
        (
            "cores = 2\nunknown = ['cores']\n[source]\ncores = 'x'",
            4,
            "`cores` is listed in `unknown` and has a value",
            "remove one of the two",
        ),
        ("[source]\ncore = 'x'", 4, "`source` names `core`, which is no key of a profile", "write `cores`"),
        ("[source]\ncores = 1", 4, "`source.cores` must be a text, not 1", None),
        ("source = 'manual'", 3, '`source` must be a table, not "manual"', None),
        ("abstract = 'yes'", 3, '`abstract` must be true or false, not "yes"', None),
        ("extends = 1", 3, "`extends` must be a text, not 1", None),
    ],
)
def test_the_words_of_each_problem(text: str, line: int, message: str, hint: str | None, tmp_path: Path) -> None:
    """Line, key, what is wanted and what was found; the hint where something can be proposed."""
    found = [problem for problem in problems(tmp_path, HEAD + text) if not problem[1].startswith("missing `d")]
    assert [problem[:2] for problem in found] == [(line, message)]
    assert (found[0][2] or "").startswith(hint or "")
    assert (found[0][2] is None) == (hint is None)


def test_a_profile_needs_a_name_and_a_backend_that_exists(tmp_path: Path) -> None:
    """What is missing belongs to the file, not to a line of it."""
    assert problems(tmp_path, "") == [
        (None, "missing `name`", "give it a text"),
        (None, "missing `backend`", "give it a text"),
    ]
    assert problems(tmp_path, 'name = "a/b"\nbackend = "tensorflow"\n') == [
        (
            1,
            '`name` is "a/b", which cannot be part of a folder name',
            "use letters, digits, `.`, `_`, `+`, `-`, and one `@` before a revision",
        ),
        (2, "unknown backend `tensorflow`", "use `onnxruntime` or `tensorrt`"),
    ]


def test_an_op_cannot_both_compute_and_move(tmp_path: Path) -> None:
    """The two lists of a dialect are read as one decision for each op."""
    text = f'extends = "t4"\n{HEAD}[dialect]\ncompute_ops = ["Conv", "MaxPool"]\n'
    assert problems(tmp_path, text) == [
        (
            5,
            "`MaxPool` stands in both `dialect.compute_ops` and `dialect.same_scale_ops`",
            "remove it from one of the two",
        )
    ]


def test_check_finds_everything_at_once(tmp_path: Path) -> None:
    """In the order of the file; what is missing comes last; `load` stops at the first."""
    text = """
extends = "t4"
nmae = "mine"
threads = "two"
bandwidth_gbs = "fast"
unknown = ["memory_mb", "colour"]
[dialect]
weight_bits = 9
compute_ops = ["MaxPool"]
[source]
peek = "x"
"""
    found = problems(tmp_path, text)
    assert [(line, message.split("`")[1]) for line, message, _ in found] == [
        (3, "nmae"),
        (4, "threads"),
        (5, "bandwidth_gbs"),
        (6, "memory_mb"),
        (6, "unknown"),
        (8, "dialect.weight_bits"),
        (9, "MaxPool"),
        (11, "source"),
        (None, "name"),
    ]
    path = write(tmp_path, text)
    assert refusal(path).message == f"`{path}`, line 3: unknown key `nmae`"


def test_a_problem_without_a_line_names_the_file_alone() -> None:
    """How a problem reads as an error."""
    error = Problem("mine.toml", None, "missing `name`", "give it a text").error()
    assert (error.message, error.hint) == ("`mine.toml`: missing `name`", "give it a text")
