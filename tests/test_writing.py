"""Output is whole or not there, whoever else writes there, and whatever lies beside it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from threading import Thread

import pytest

from l2bench.bundle.files import new_folder, read_json, why, write_atomically
from l2bench.bundle.locks import held
from l2bench.errors import Unsupported, UsageError


def test_what_is_called_like_a_temporary_file_is_left_alone(tmp_path):
    (tmp_path / "out.tmp").mkdir()
    (tmp_path / "out.tmp" / "thesis.txt").write_text("precious")
    (tmp_path / "page.tmp").write_text("precious")
    with new_folder(tmp_path / "out") as inside:
        (inside / "a").write_text("a")
    write_atomically(tmp_path / "page", b"page")
    assert (tmp_path / "out.tmp" / "thesis.txt").read_text() == "precious"
    assert (tmp_path / "page.tmp").read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "out.tmp", "page", "page.tmp"]


def test_a_folder_being_written_is_refused_to_others_and_stays_whole(tmp_path):
    with new_folder(tmp_path / "out") as inside:
        (inside / "a").write_text("a")
        with (
            pytest.raises(UsageError, match="another process"),
            new_folder(tmp_path / "out", replace=False),
        ):
            pass
    assert (tmp_path / "out" / "a").read_text() == "a"


def test_what_another_process_has_finished_meanwhile_is_not_replaced(tmp_path):
    def late() -> None:
        with new_folder(tmp_path / "out", replace=False) as inside:
            (inside / "a").write_text("late")
            (tmp_path / "out").mkdir()

    with pytest.raises(UsageError, match="exists already"):
        late()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert not list((tmp_path / "out").iterdir())


def test_what_fails_leaves_the_earlier_folder_and_nothing_else(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text("earlier")
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "out") as inside:
        (inside / "a").write_text("half")
        raise ZeroDivisionError
    assert (tmp_path / "out" / "a").read_text() == "earlier"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


KILLED = """
import os, signal, sys
from pathlib import Path
from l2bench.bundle.files import new_folder
rename = Path.rename
def dying(self, target):
    if target == Path(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)
Path.rename = dying
with new_folder(Path(sys.argv[1])) as inside:
    (inside / "a").write_text("new")
"""


def test_what_a_killed_process_was_replacing_comes_back(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "a").write_text("earlier")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(out)])
    assert killed.returncode == -signal.SIGKILL
    assert not out.exists()
    with pytest.raises(ZeroDivisionError), new_folder(out):
        raise ZeroDivisionError
    assert (out / "a").read_text() == "earlier"
    with new_folder(out) as inside:
        assert not list(inside.iterdir())
        (inside / "a").write_text("new")
    assert (out / "a").read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_processes_write_one_file_in_turn(tmp_path):
    contents = [letter * 100_000 for letter in (b"a", b"b", b"c", b"d")]
    writers = [Thread(target=write_atomically, args=(tmp_path / "x", c)) for c in contents * 5]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert (tmp_path / "x").read_bytes() in contents
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_changes_of_one_folder_happen_in_turn(tmp_path):
    seen: list[str] = []

    def other() -> None:
        with held(tmp_path):
            seen.append("other")

    with held(tmp_path):
        thread = Thread(target=other)
        thread.start()
        thread.join(0.2)
        seen.append("first")
    thread.join()
    assert seen == ["first", "other"]
    assert not list(tmp_path.iterdir())
    with held(tmp_path / "nowhere"):
        assert not (tmp_path / "nowhere").exists()


TERMINATED = """
import sys
from pathlib import Path
import l2bench.cli.main as main
from l2bench.bundle.files import new_folder
def invoke(arguments):
    import time
    with new_folder(Path(arguments[0])) as inside:
        (inside / "a").write_text("half")
        print("begun", flush=True)
        time.sleep(60)
main.cli.main = lambda arguments, **_: invoke(arguments)
main.main()
"""


def test_SIGTERM_ends_any_command_as_an_interrupt_does(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", TERMINATED, str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.terminate()
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "l2bench: interrupted\n")
    assert not list(tmp_path.iterdir())


def test_names_that_are_no_text_are_printed_with_escapes(tmp_path):
    odd = os.fsdecode(b"\xff")
    for command in (["score", odd], ["score", odd, "--json"], ["run", odd, "--json"]):
        asked = subprocess.run(
            [sys.executable, "-m", "l2bench", *command], cwd=tmp_path, capture_output=True
        )
        assert asked.returncode == 2, asked.stderr
        assert b"Traceback" not in asked.stderr and b"internal" not in asked.stderr
        if "--json" in command:
            assert odd in json.loads(asked.stdout)["error"]["message"]


def test_half_a_character_in_a_document_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"a": "\\uD83D"}')
    with pytest.raises(Unsupported, match=r"x\.json is not readable JSON"):
        read_json(tmp_path / "x.json")
    (tmp_path / "x.json").write_text('{"a": "\\uD83D\\uDE00"}')
    assert read_json(tmp_path / "x.json") == {"a": "\U0001f600"}


@pytest.mark.parametrize("error", [MemoryError(), UnicodeEncodeError("utf-8", "\udcff", 0, 1, "")])
def test_what_any_command_may_run_into_is_no_internal_error(error, monkeypatch, capsys):
    import l2bench.cli.main as main

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(main.cli, "main", fail)
    assert main.invoke(["score"]) == 1
    assert "internal" not in capsys.readouterr().err


def test_a_failed_write_says_of_which_file_and_why(tmp_path):
    with pytest.raises(OSError) as caught:
        write_atomically(tmp_path, b"a folder is in the way")
    assert caught.value.filename == str(tmp_path)
    assert not list(tmp_path.parent.glob(".*l2bench-tmp"))
    copying = shutil.Error([("a", "b", "[Errno 28] No space left"), ("c", "d", "too long")])
    assert [why(copying), why(OSError(28, "No space left"))] == ["too long", "No space left"]
