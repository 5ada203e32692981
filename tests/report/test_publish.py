"""The artifact folder: what may be replaced, and that it appears whole or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from infer_opt.errors import InputError
from infer_opt.report.manifest import MANIFEST
from infer_opt.report.publish import check_out, publish, staging


def filled(folder: Path, content: str, *, manifest: bool = True) -> Path:
    """A folder with a model, and with a manifest where it is an artifact."""
    folder.mkdir()
    (folder / "model.onnx").write_text(content, encoding="utf-8")
    if manifest:
        (folder / MANIFEST).write_text("{}", encoding="utf-8")
    return folder


def content_of(folder: Path) -> str:
    """What the model of `filled` holds."""
    return (folder / "model.onnx").read_text(encoding="utf-8")


def refusal(out: Path, *, force: bool) -> tuple[str, str | None]:
    """Message and hint."""
    with pytest.raises(InputError) as caught:
        check_out(out, force=force)
    return caught.value.message, caught.value.hint


def test_a_new_or_an_empty_folder_is_free(tmp_path: Path) -> None:
    """With and without --force; a relative name counts from here."""
    (tmp_path / "empty").mkdir()
    for force in (False, True):
        check_out(tmp_path / "new", force=force)
        check_out(tmp_path / "empty", force=force)
        check_out(Path("surely-not-there"), force=force)


def test_an_artifact_is_replaced_by_force_only(tmp_path: Path) -> None:
    """The manifest tells that it is one."""
    out = filled(tmp_path / "out", "old")
    assert refusal(out, force=False) == (
        f"`{out}` holds an artifact already",
        "pass --force to replace it, or another --out",
    )
    check_out(out, force=True)


@pytest.mark.parametrize("force", [False, True])
def test_anything_else_is_never_replaced(tmp_path: Path, force: bool) -> None:  # noqa: FBT001
    """Somebody's files, a file, links to an artifact or to nothing, and a place without a parent."""
    mine = filled(tmp_path / "mine", "thesis", manifest=False)
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "link").symlink_to(filled(tmp_path / "artifact", "old"))
    (tmp_path / "broken").symlink_to(tmp_path / "nothing")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / ".git").mkdir()
    for out, words in [
        (mine, "holds files that infer-opt did not write"),
        (hidden, "holds files that infer-opt did not write"),
        (tmp_path / "file", "exists and is not a folder"),
        (tmp_path / "link", "exists and is not a folder"),
        (tmp_path / "broken", "exists and is not a folder"),
    ]:
        message, hint = refusal(out, force=force)
        assert message == f"`{out}` {words}"
        assert hint is not None
        assert hint.startswith("pass another --out")
    check_out(tmp_path / "no" / "out", force=force)  # parents are made when there is something to put into them
    assert refusal(tmp_path / "file" / "out", force=force)[0] == f"`{tmp_path / 'file'}` is not a folder"


def test_parents_are_made_and_go_with_what_was_not_published(tmp_path: Path) -> None:
    """As `mkdir -p` makes them; a compile that fails leaves none of them behind."""
    out = tmp_path / "a" / "b" / "out"
    with pytest.raises(RuntimeError), staging(out):
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    with staging(out) as folder:
        (folder / "model").mkdir()
        publish(folder / "model", out)
    assert out.is_dir()


def test_parents_that_another_compile_uses_stay(tmp_path: Path) -> None:
    """Two stagings in one new folder: the one that made it ends first, without an artifact."""
    out = tmp_path / "a" / "b" / "out"
    with ExitStack() as maker:
        maker.enter_context(staging(out.with_name("other")))
        with staging(out) as folder:
            maker.close()
            assert list(out.parent.iterdir()) == [folder]
            publish(filled(folder / "int8", "new"), out)
    assert content_of(out) == "new"
    assert list(out.parent.iterdir()) == [out]


def test_parents_that_are_gone_already_are_no_error(tmp_path: Path) -> None:
    """Another compile, or somebody, took them away; the error is still that of the work."""
    with pytest.raises(ZeroDivisionError), staging(tmp_path / "a" / "b" / "out"):  # noqa: PT012
        shutil.rmtree(tmp_path / "a")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_parents_go_where_no_folder_can_be_made_in_them(tmp_path: Path) -> None:
    """A name as long as the file system takes leaves no room for the staging folder's."""
    out = tmp_path / "a" / ("o" * 250)
    with pytest.raises(InputError, match="cannot be written to: File name too long"), staging(out):
        pytest.fail("staged under too long a name")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [".", "..", "/"])
def test_a_folder_that_cannot_be_moved_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Where one stands, and what is above it."""
    monkeypatch.chdir(tmp_path)
    message, hint = refusal(Path(name), force=True)
    assert message == f"`{name}` cannot be replaced as a whole"
    assert hint == "name a folder of its own"


def test_a_finished_folder_moves_to_its_place(tmp_path: Path) -> None:
    """And nothing else is left behind."""
    out = tmp_path / "out"
    with staging(out) as folder:
        assert folder.parent == tmp_path
        publish(filled(folder / "int8", "new"), out)
        filled(folder / "fp32", "loser")
    assert content_of(out) == "new"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("empty", [False, True])
def test_the_old_artifact_is_replaced(tmp_path: Path, empty: bool) -> None:  # noqa: FBT001
    """Wholly: no file of it is left among the new ones."""
    out = tmp_path / "out"
    if empty:
        out.mkdir()
    else:
        (filled(out, "old") / "model.onnx.data").write_text("weights", encoding="utf-8")
    with staging(out) as folder:
        publish(filled(folder / "int8", "new"), out)
    assert content_of(out) == "new"
    assert sorted(path.name for path in out.iterdir()) == [MANIFEST, "model.onnx"]
    assert list(tmp_path.iterdir()) == [out]


def test_a_failure_midway_leaves_nothing(tmp_path: Path) -> None:
    """No folder where there was none; the old one, untouched, where there was one."""

    def fail_halfway(out: Path) -> None:
        with staging(out) as folder:
            filled(folder / "int8", "half")
            raise ZeroDivisionError

    old = filled(tmp_path / "old", "old")
    for out in (tmp_path / "new", old):
        with pytest.raises(ZeroDivisionError):
            fail_halfway(out)
    assert list(tmp_path.iterdir()) == [old]
    assert content_of(old) == "old"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system than `tmp_path`, from which nothing can be renamed there."""
    shared_memory = Path("/dev/shm")  # noqa: S108 - wanted for being another file system
    if not shared_memory.is_dir() or os.stat(shared_memory).st_dev == os.stat(tmp_path).st_dev:  # noqa: PTH116
        pytest.skip("this host has no second file system to write to")
    folder = Path(tempfile.mkdtemp(dir=shared_memory))
    yield folder
    shutil.rmtree(folder)


def test_the_old_artifact_comes_back_where_the_new_one_cannot_be_moved(tmp_path: Path, elsewhere: Path) -> None:
    """The last step is a rename; when that fails, the old folder is there again."""
    out = filled(tmp_path / "out", "old")
    with pytest.raises(OSError, match="cross-device"):
        publish(filled(elsewhere / "int8", "new"), out)
    assert content_of(out) == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_a_parent_that_is_a_link_is_followed(tmp_path: Path) -> None:
    """Only the last name must be a folder of its own."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "models").symlink_to(tmp_path / "disk")
    out = tmp_path / "models" / "out"
    check_out(out, force=False)
    with staging(out) as folder:
        publish(filled(folder / "int8", "new"), out)
    assert content_of(tmp_path / "disk" / "out") == "new"


def test_a_parent_that_cannot_be_made_is_an_input_error(tmp_path: Path) -> None:
    """Between the check and the work, a file took its place."""
    (tmp_path / "taken").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be written to"), staging(tmp_path / "taken" / "out"):
        pytest.fail("staged in a file")


def test_what_a_killed_run_left_goes_with_the_next(tmp_path: Path) -> None:
    """The folder that a run holds stays, of this output and of others; so does what somebody else named alike."""
    out = tmp_path / "out"
    mine = [tmp_path / ".out-settings", tmp_path / ".out", tmp_path / ".outer.infer-opt-abcdefgh"]
    for folder in mine:
        filled(folder, "mine")
    filled(tmp_path / ".out.infer-opt-abcdefgh", "half")
    (tmp_path / ".out.infer-opt-a-link").symlink_to(mine[0])
    with staging(out) as running, staging(out) as folder:
        assert set(tmp_path.iterdir()) == {*mine, running, folder, tmp_path / ".out.infer-opt-a-link"}
        publish(filled(folder / "int8", "new"), out)
    assert content_of(out) == "new"
    assert [content_of(folder) for folder in mine] == ["mine"] * 3


def test_a_run_that_is_killed_lets_go(tmp_path: Path) -> None:
    """By SIGKILL, in the middle of its work, in another process."""
    code = "import sys; from pathlib import Path; from infer_opt.report.publish import staging\n"
    code += "with staging(Path(sys.argv[1])) as folder: (folder / 'half').touch(); print(folder, flush=True); input()"
    command = [sys.executable, "-c", code, str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        left = Path(run.stdout.readline().strip())
        with staging(tmp_path / "out"):
            assert (left / "half").exists()
        run.kill()
    assert (left / "half").exists()
    with staging(tmp_path / "out"):
        assert not left.exists()
    assert list(tmp_path.iterdir()) == []
