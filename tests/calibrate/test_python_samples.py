"""Functions of the user's are run anew for each iteration, and whatever goes wrong in them has a line."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from infer_opt.calibrate import python_samples
from infer_opt.calibrate.samples import InputSpec, load_samples, split
from infer_opt.errors import InputError

X = InputSpec("x", np.dtype("f4"), ("n", 2))
YIELD = "yield one dict of arrays, keyed by input name, for each sample"
CONTRACT = "the function takes no arguments and yields one dict of arrays for each sample"


def source_of(tmp_path: Path, body: str, function: str = "feeds") -> str:
    """FILE.py:function for a file with NumPy imported in line 1 and `body` from line 2 on."""
    (tmp_path / "calib.py").write_text(f"import numpy as np\n{body}", encoding="utf-8")
    return f"{tmp_path / 'calib.py'}:{function}"


def words(source: str, inputs: tuple[InputSpec, ...] = (X,)) -> tuple[str, str | None]:
    """The words of the InputError that loading raises, with the file's path as `FILE`."""
    with pytest.raises(InputError) as caught:
        load_samples(source, inputs)
    assert "\n" not in caught.value.message
    path = source.rpartition(":")[0] if not source.endswith(".py") else source
    return caught.value.message.replace(path, "FILE"), (caught.value.hint or "").replace(path, "FILE")


COUNT_TO_10 = """
calls = 0
def feeds():
    global calls
    calls += 1
    for i in range(10):
        yield {"x": np.full((1, 2), i, np.float64)}
"""


def test_feeds_are_what_the_function_yields(tmp_path: Path) -> None:
    """Taken as float32, sliced and split as any other set; each iteration calls the function once."""
    source = source_of(tmp_path, COUNT_TO_10)
    samples = load_samples(source, [X])
    file = str((tmp_path / "calib.py").resolve())
    [calls] = [vars(module) for module in [*sys.modules.values()] if getattr(module, "__file__", None) == file]
    assert len(samples) == 10
    for _ in range(2):
        assert [feed["x"].tolist() for feed in samples] == [[[i, i]] for i in range(10)]
    assert calls["calls"] == 3
    assert [feed["x"][0, 0] for feed in samples.feeds(4, 6)] == [4, 5]
    assert [feed["x"][0, 0] for feed in samples.feeds(9, 10)] == [9]
    assert list(samples.feeds(0, 0)) == list(samples.feeds(10, 10)) == []
    assert [feed["x"][0, 0] for feed in split(samples)[1]] == [8, 9]
    assert next(iter(samples))["x"].dtype == np.float32
    assert samples.describe(3) == f"{source} sample 3"


def test_the_digest_is_that_of_the_feeds(tmp_path: Path) -> None:
    """The same feeds from other code have the same digest; one other number has another."""
    first = load_samples(source_of(tmp_path, COUNT_TO_10), [X]).sha256
    same = "def f():\n    return ({'x': np.full((1, 2), i, 'f4')} for i in range(10))"
    assert load_samples(source_of(tmp_path, same, "f"), [X]).sha256 == first
    other = same.replace("i, 'f4'", "i + (i == 9), 'f4'")
    assert load_samples(source_of(tmp_path, other, "f"), [X]).sha256 != first
    assert first is not None
    assert len(first) == 64


def test_a_reused_buffer_is_copied(tmp_path: Path) -> None:
    """A generator may fill one array again and again; feeds that are kept stay what they were."""
    body = """
def feeds():
    x = np.zeros((1, 2), np.float32)
    for i in range(3):
        x[:] = i
        yield {"x": x}
"""
    feeds = list(load_samples(source_of(tmp_path, body), [X]))
    assert [feed["x"][0, 0] for feed in feeds] == [0, 1, 2]


def test_memory_does_not_grow_with_the_samples(tmp_path: Path) -> None:
    """Counting and iterating over 64 MiB stays under 8 MiB."""
    body = "def feeds():\n    for i in range(256):\n        yield {'x': np.full((64, 1024), i, 'f4')}"
    source = source_of(tmp_path, body)
    tracemalloc.start()
    try:
        samples = load_samples(source, [InputSpec("x", np.dtype("f4"), (64, 1024))])
        assert [feed["x"][0, 0] for feed in samples] == list(range(256))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_a_list_and_its_neighbours_may_be_used(tmp_path: Path) -> None:
    """Any iterable will do, imports find files beside the script, dataclasses and scalars work."""
    (tmp_path / "beside_calib.py").write_text("VALUE = 7", encoding="utf-8")
    body = """
from __future__ import annotations
from dataclasses import dataclass
from beside_calib import VALUE
@dataclass
class Holder:
    value: int
def feeds():
    return [{"x": np.float32(Holder(VALUE).value)}]
""".lstrip()
    (tmp_path / "calib.py").write_text(body.replace("from beside", "import numpy as np\nfrom beside"), encoding="utf-8")
    before = list(sys.path)
    [feed] = load_samples(f"{tmp_path / 'calib.py'}:feeds", [InputSpec("x", np.dtype("f4"), ())])
    assert feed["x"] == 7
    assert feed["x"].shape == ()
    assert sys.path == before


def test_prints_go_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Our own stdout is data, and is ours again while the feeds are used."""
    body = "print('one')\ndef feeds():\n    print('two')\n    yield {'x': np.zeros((1, 2), 'f4')}"
    samples = load_samples(source_of(tmp_path, body), [X])
    for _ in samples:
        sys.stdout.write("ours")
    out, err = capsys.readouterr()
    assert out == "ours"
    assert err == "one\ntwo\ntwo\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def feeds(:\n    pass", "`FILE` line 2: SyntaxError: "),
        ("\n1 / 0", "`FILE` line 3: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)", "`FILE` line 3: SystemExit: 3"),
        ("import no_such_module", "`FILE` line 2: ModuleNotFoundError: No module named 'no_such_module'"),
        ("def feeds():\n    yield {}['x']", "`FILE` line 3: KeyError: 'x'"),
        ("def feeds():\n    raise ValueError", "`FILE` line 3: ValueError"),
        ("def feeds():\n    raise ValueError('a\\n  b')\n    yield", "`FILE` line 3: ValueError: a b"),
        ("def feeds():\n    yield np.zeros(3).reshape(2)", "`FILE` line 3: ValueError: cannot reshape array"),
        (
            "def feeds(n):\n    yield",
            "`FILE`: TypeError: feeds() missing 1 required positional argument: 'n'",
        ),
        (
            "def g():\n    next(iter([]))\ndef feeds():\n    yield g()",
            "`FILE` line 3: RuntimeError: generator raised",
        ),
    ],
)
def test_an_exception_in_the_code_has_a_line(tmp_path: Path, body: str, message: str) -> None:
    """The innermost line of the user's own file, however deep in a library the exception arose."""
    found, hint = words(source_of(tmp_path, body))
    assert found.startswith(message)
    assert hint == f"correct the code; {CONTRACT}"


@pytest.mark.parametrize(
    ("body", "function", "message", "hint"),
    [
        (
            "def feed(): ...\ndef g(): ...",
            "feeds",
            "`FILE` has no function `feeds`",
            "pass `FILE:feed`; the file's functions are `feed`, `g`",
        ),
        (
            "def abc(): ...",
            "feeds",
            "`FILE` has no function `feeds`",
            "pass `FILE:abc`; the file's functions are `abc`",
        ),
        (
            "feeds = 3\nfrom os.path import join",
            "feeds",
            "`FILE` has no function `feeds`",
            f"define a function in it; {CONTRACT}",
        ),
        (
            "def feeds(): ...",
            "",
            "`FILE:` names no function",
            "pass `FILE:feeds`; the file's functions are `feeds`",
        ),
        ("def feeds(): ...", "feeds", "`FILE:feeds` returns NoneType, which cannot be iterated", YIELD),
        ("def feeds(): return 3", "feeds", "`FILE:feeds` returns int, which cannot be iterated", YIELD),
        (
            "async def feeds(): yield 3",
            "feeds",
            "`FILE:feeds` returns async_generator, which cannot be iterated",
            YIELD,
        ),
        ("def feeds(): yield from ()", "feeds", "`FILE:feeds` yields no samples", YIELD),
        ("def feeds(): yield [1]", "feeds", "`FILE:feeds sample 0` is list, not a dict", YIELD),
        (
            "def feeds(): yield {'x': [[1., 2.]]}",
            "feeds",
            "`FILE:feeds sample 0`: `x` is list, not a NumPy array",
            "convert it with `numpy.asarray`",
        ),
        (
            "def feeds(): yield {'y': np.zeros((1, 2), 'f4')}",
            "feeds",
            "`FILE:feeds sample 0` holds `y`, which is no input of the model",
            "remove it; the model's inputs are `x`",
        ),
        (
            "def feeds(): yield {1: np.zeros((1, 2), 'f4')}",
            "feeds",
            "`FILE:feeds sample 0` holds `1`, which is no input of the model",
            "remove it; the model's inputs are `x`",
        ),
        (
            "def feeds(): yield {}",
            "feeds",
            "`FILE:feeds sample 0` has no array for the input `x`",
            "add an array of that name; it holds none",
        ),
        (
            "def feeds(): yield {'x': np.zeros((1, 2), object)}",
            "feeds",
            "`FILE:feeds sample 0`: `x` holds Python objects, and the model wants float32",
            "save it as numbers of type float32",
        ),
        (
            "def feeds(): yield {'x': np.zeros((1, 2), 'f2')}",
            "feeds",
            "`FILE:feeds sample 0`: `x` is float16, and the model wants float32",
            "save it as numbers of type float32",
        ),
        (
            "def feeds(): yield {'x': np.zeros(2, 'f4')}",
            "feeds",
            "`FILE:feeds sample 0`: `x` has rank 1, shape [2], and the model wants rank 2",
            "add the batch dimension with `array[None]`; the model declares [n, 2]",
        ),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, body: str, function: str, message: str, hint: str) -> None:
    """The function, the sample and the input at fault."""
    assert words(source_of(tmp_path, body, function)) == (message, hint)


def test_a_later_misfit_has_its_number(tmp_path: Path) -> None:
    """All feeds are checked while they are counted."""
    body = "def feeds():\n    for n in (1, 5, 2, 0):\n        yield {'x': np.zeros((1, max(n, 2)), 'f4')}"
    message, _ = words(source_of(tmp_path, body))
    assert message == "`FILE:feeds sample 1`: `x` gives a feed of shape [1, 5], and the model wants [n, 2]"


def test_a_file_without_a_function_is_an_error(tmp_path: Path) -> None:
    """The hint completes what was passed."""
    source = source_of(tmp_path, "def feeds(): ...").removesuffix(":feeds")
    assert words(source) == (
        "`FILE` names no function",
        "pass `FILE:feeds`; the file's functions are `feeds`",
    )


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """Before anything is executed."""
    message, hint = words(f"{tmp_path / 'none.py'}:feeds")
    assert message == "`FILE` is no file"
    assert hint == "pass FILE.py:function with the path of a Python file"


@pytest.mark.parametrize(("later", "now"), [(2, "only 2"), (4, "more")])
def test_another_count_in_a_later_iteration_is_an_error(tmp_path: Path, later: int, now: str) -> None:
    """Neither are samples dropped nor is the set cut short without a word."""
    body = f"""
counts = iter([3, {later}])
def feeds():
    for i in range(next(counts)):
        yield {{"x": np.zeros((1, 2), "f4")}}
"""
    source = source_of(tmp_path, body)
    samples = load_samples(source, [X])
    with pytest.raises(InputError) as caught:
        list(samples)
    assert caught.value.message == f"`{source}` yielded 3 samples when they were counted, and now {now}"
    assert caught.value.hint == "make the function yield the same samples at each call"


def test_a_function_without_end_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting stops at a limit."""
    monkeypatch.setattr(python_samples, "_MOST_FEEDS", 20)
    body = "def feeds():\n    while True:\n        yield {'x': np.zeros((1, 2), 'f4')}"
    assert words(source_of(tmp_path, body)) == (
        "`FILE:feeds` yields more than 20 samples",
        "make the function end",
    )


def test_exceptions_of_the_consumer_are_its_own(tmp_path: Path) -> None:
    """What is raised while a feed is used is not blamed on the function."""
    samples = load_samples(source_of(tmp_path, COUNT_TO_10), [X])
    with pytest.raises(ZeroDivisionError):
        [1 / (feed["x"][0, 0].item() - 2) for feed in samples]
