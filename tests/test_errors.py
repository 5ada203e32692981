"""What the messages are made with."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_opt.errors import InputError, nearest, place_of, running_user_code

HERE = str(Path(__file__).relative_to(Path.cwd())) if Path(__file__).is_relative_to(Path.cwd()) else __file__


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("imgae", ["mask", "image"], "image"),
        ("fuze", iter(["simplify", "fuse"]), "fuse"),
        ("fuse", {"fuse": 1}, "fuse"),
        ("x", ["image"], None),
        ("", ["image"], None),
        ("image", [], None),
    ],
)
def test_the_nearest_name(name: str, known: list[str], meant: str | None) -> None:
    """The likeliest of any iterable of names; None where none resembles it."""
    assert nearest(name, known) == meant


def divide(by: int) -> float:
    """A function of a user's."""
    return 1 / by


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    """As users' decorators are."""

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return function(*arguments)

    return call


class Divider:
    """A callable object of a user's."""

    def __call__(self, by: int) -> float:
        """Divide."""
        return divide(by)


LINE = divide.__code__.co_firstlineno


@pytest.mark.parametrize("function", [divide, decorated(divide), functools.partial(divide), Divider()])
def test_what_a_users_function_raises_has_a_place(function: Callable[..., Any]) -> None:
    """The innermost line of its file, whatever it is wrapped in."""
    with pytest.raises(InputError) as caught, running_user_code(function, "it divides"):
        function(0)
    assert caught.value.message == f"`{HERE}` line {LINE + 2}: ZeroDivisionError: division by zero"
    assert caught.value.hint == "correct the code; it divides"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_the_place_of_a_function() -> None:
    """The line it begins in; its name where it was not written in Python."""
    assert (
        place_of(divide)
        == place_of(decorated(divide))
        == place_of(functools.partial(divide))
        == f"`{HERE}` line {LINE}"
    )
    assert place_of(Divider()) == f"`{HERE}` line {Divider.__call__.__code__.co_firstlineno}"
    assert place_of(sorted) == "`sorted`"


def test_a_place_is_not_named_twice() -> None:
    """Code of a user's that calls code of a user's: the inner place is the one to look at."""
    with (
        pytest.raises(InputError) as caught,
        running_user_code("outer.py", "outer"),
        running_user_code(divide, "inner"),
    ):
        divide(0)
    assert caught.value.message.startswith(f"`{HERE}` line ")
    assert caught.value.hint == "correct the code; inner"
    with pytest.raises(InputError) as caught, running_user_code("outer.py", "outer"):
        raise InputError("raised by the user's code", "mend it")
    assert caught.value.message == "`outer.py`: InputError: raised by the user's code"


def test_answers_pass_and_prints_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """An exception that is an answer is no fault; `sys.exit` is one, and Ctrl-C is the user's."""

    def answers() -> None:
        print("words")  # noqa: T201 - as the user's code may
        raise KeyError

    with pytest.raises(KeyError), running_user_code(answers, "", (KeyError,)):
        answers()
    assert capsys.readouterr() == ("", "words\n")
    with pytest.raises(InputError, match=r"^`file\.py`: SystemExit: 0$"), running_user_code("file.py", ""):
        sys.exit(0)
    with pytest.raises(KeyboardInterrupt), running_user_code("file.py", ""):
        raise KeyboardInterrupt
