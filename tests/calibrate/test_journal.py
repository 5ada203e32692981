"""Journals: what was measured is there in the next run, and half a line is nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infer_opt.calibrate import journal
from infer_opt.calibrate.journal import Journal, cache_folder


def test_results_are_there_in_the_next_run(tmp_path: Path) -> None:
    """Equal to the last bit, under their digest only."""
    first = Journal(tmp_path / "new", "aa")
    first.add("one", {"power": 0.1 + 0.2, "infinite": float("inf")})
    first.add("two", {"power": 5e-324})
    again = Journal(tmp_path / "new", "aa")
    assert again.get("one") == {"power": 0.30000000000000004, "infinite": float("inf")}
    assert again.get("two") == {"power": 5e-324}
    assert again.get("three") is None
    assert Journal(tmp_path / "new", "bb").get("one") is None


def test_a_line_that_was_cut_counts_as_not_measured(tmp_path: Path) -> None:
    """As a killed run leaves it; what is added next stands on a line of its own."""
    first = Journal(tmp_path, "aa")
    first.add("one", {"power": 1.0})
    first.add("two", {"power": 2.0})
    file = tmp_path / "aa.jsonl"
    file.write_bytes(file.read_bytes()[:-7])
    second = Journal(tmp_path, "aa")
    assert second.get("one") == {"power": 1.0}
    assert second.get("two") is None
    second.add("two", {"power": 2.0})
    third = Journal(tmp_path, "aa")
    assert (third.get("one"), third.get("two")) == ({"power": 1.0}, {"power": 2.0})


@pytest.mark.parametrize("text", ["", "text\n", '{"key": 1}\n', "[]\n", '{"key": "one", "result": 3}\n', "\xff\n"])
def test_a_file_that_is_none_of_ours_is_empty(tmp_path: Path, text: str) -> None:
    """Never an error: results are measured anew."""
    (tmp_path / "aa.jsonl").write_text(text, encoding="latin-1")
    assert Journal(tmp_path, "aa").get("one") is None


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    """None, or one that cannot be made; the result stands for this run."""
    (tmp_path / "file").write_text("")
    for folder in (None, tmp_path / "file" / "below"):
        kept = Journal(folder, "aa")
        kept.add("one", {"power": 1.0})
        assert kept.get("one") == {"power": 1.0}
        assert Journal(folder, "aa").get("one") is None


def test_the_oldest_journals_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a new one begins."""
    line = json.dumps({"key": "one", "result": {"power": 1.0}}) + "\n"
    for index, name in enumerate(("old", "middle", "young")):
        (tmp_path / f"{name}.jsonl").write_text(line)
        os.utime(tmp_path / f"{name}.jsonl", (index, index))
    monkeypatch.setattr(journal, "_MOST_BYTES", 2 * len(line))
    Journal(tmp_path, "new").add("one", {"power": 1.0})
    assert sorted(file.stem for file in tmp_path.iterdir()) == ["middle", "new", "young"]


def test_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its own variable first, `off` for none."""
    monkeypatch.setenv("INFER_OPT_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("INFER_OPT_CACHE", "off")
    assert cache_folder() is None
    monkeypatch.delenv("INFER_OPT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "infer-opt"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "infer-opt"
    monkeypatch.setenv("INFER_OPT_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the specification has it ignored
    assert cache_folder() == tmp_path / ".cache" / "infer-opt"


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container with a user that nobody made."""

    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.delenv("INFER_OPT_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder() is None


def test_several_runs_keep_one_journal(tmp_path: Path) -> None:
    """Lines longer than any buffer, from three processes at once: all are there, and whole."""
    code = (
        "import sys; from pathlib import Path; from infer_opt.calibrate.journal import Journal\n"
        "kept = Journal(Path(sys.argv[1]), 'aa')\n"
        "result = {'powers': dict.fromkeys(map(str, range(2000)), 0.1)}\n"
        "for index in range(50): kept.add(f'{sys.argv[2]} {index}', result)"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "abc"]
    assert [run.wait() for run in runs] == [0, 0, 0]
    kept = Journal(tmp_path, "aa")
    expected = {"powers": dict.fromkeys(map(str, range(2000)), 0.1)}
    assert all(kept.get(f"{name} {index}") == expected for name in "abc" for index in range(50))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="nothing is closed to the superuser")
def test_a_folder_that_is_closed_is_no_error(tmp_path: Path) -> None:
    """Neither to read nor to write."""
    Journal(tmp_path / "closed", "aa").add("one", {"power": 1.0})
    (tmp_path / "closed").chmod(0)
    kept = Journal(tmp_path / "closed", "aa")
    assert kept.get("one") is None
    kept.add("one", {"power": 2.0})
    assert kept.get("one") == {"power": 2.0}
    (tmp_path / "closed").chmod(0o700)
    assert Journal(tmp_path / "closed", "aa").get("one") == {"power": 1.0}
