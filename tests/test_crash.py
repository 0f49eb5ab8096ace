"""Real processes, killed, stopped and run twice: nothing sealed is lost or half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import ROOT, content_hashes

RUN = [sys.executable, "-m", "l2bench", "run"]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    start(folder).communicate(timeout=100)
    return folder


def start(folder: Path, *more: str, suite: str = "quickstart") -> subprocess.Popen:
    arguments = [*RUN, str(ROOT / "suites" / f"{suite}.yaml"), "profile=smoke", "-o", str(folder)]
    return subprocess.Popen(
        [*arguments, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=heed_interrupts,
    )  # fmt: skip


def heed_interrupts() -> None:
    """Take interrupts as usual, even where the tests run in the background, which ignores them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def sealed_blocks(folder: Path) -> int:
    journals = list(folder.glob("*.l2b/work/journal.jsonl"))
    return journals[0].read_bytes().count(b"\n") if journals else 0


def kill_after(folder: Path, blocks: int, sign: signal.Signals, *more: str) -> subprocess.Popen:
    """Start a run and send a signal once this many blocks are sealed."""
    process = start(folder, *more)
    while sealed_blocks(folder) < blocks and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(sign)
    process.communicate(timeout=60)
    return process


def test_killed_in_the_middle_and_resumed_equals_unbroken(tmp_path, unbroken):
    folder = tmp_path / "run"
    killed = 0
    for blocks in (1, 4, 7, 12, 16):
        process = kill_after(folder, blocks, signal.SIGKILL, *(["--resume"] if killed else []))
        killed += process.returncode == -signal.SIGKILL
    assert killed >= 3, "the run ended before it could be killed"
    (bundle,) = folder.glob("*.l2b")
    before = sealed_blocks(folder)
    done = start(folder, "--resume")
    _, errors = done.communicate(timeout=100)
    assert done.returncode == 0, errors
    assert content_hashes(folder) == content_hashes(unbroken)
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["counts"]["discarded_attempts"] >= 1
    events = [json.loads(line) for line in (bundle / "events.jsonl").read_text().splitlines()]
    resumed = [event["sealed_blocks"] for event in events if event["event"] == "resume"]
    assert resumed == sorted(resumed)
    assert resumed[-1] >= before - 1
    assert not (bundle / "work").exists()


def test_a_torn_journal_line_is_cut_and_the_block_run_again(tmp_path, unbroken):
    folder = tmp_path / "run"
    kill_after(folder, 6, signal.SIGKILL)
    (journal,) = folder.glob("*.l2b/work/journal.jsonl")
    text = journal.read_bytes()
    journal.write_bytes(text[:-20])
    finish(folder, unbroken)


def test_a_damaged_state_falls_back_to_the_one_before(tmp_path, unbroken):
    folder = tmp_path / "run"
    kill_after(folder, 6, signal.SIGKILL)
    (work,) = folder.glob("*.l2b/work")
    newest = max(work.glob("agent/block-*/table.npz"))
    newest.write_bytes(newest.read_bytes()[:100])
    finish(folder, unbroken)
    (events,) = folder.glob("*.l2b/events.jsonl")
    assert "state_damaged" in events.read_text()


def test_a_damaged_segment_is_run_again(tmp_path, unbroken):
    folder = tmp_path / "run"
    kill_after(folder, 6, signal.SIGKILL)
    segment = min(folder.glob("*.l2b/work/segments/block-000003.*"))
    segment.write_bytes(segment.read_bytes()[:50])
    finish(folder, unbroken)


def finish(folder: Path, unbroken: Path) -> None:
    done = start(folder, "--resume")
    _, errors = done.communicate(timeout=100)
    assert done.returncode == 0, errors
    assert content_hashes(folder) == content_hashes(unbroken)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_a_clear_state(tmp_path, sign, unbroken):
    folder = tmp_path / "run"
    process = kill_after(folder, 3, sign)
    assert process.returncode == 130
    (manifest,) = folder.glob("*.l2b/manifest.json")
    status = json.loads(manifest.read_text())
    assert status["status"] == "interrupted"
    assert status["counts"]["blocks_sealed"] >= 3
    for command in ("score", "report"):
        asked = subprocess.run(
            [sys.executable, "-m", "l2bench", command, str(folder)], capture_output=True, text=True
        )
        assert asked.returncode == 4, asked.stderr
        assert "--resume" in asked.stderr
        assert "Traceback" not in asked.stderr
    finish(folder, unbroken)


def test_an_existing_folder_is_refused_and_left_alone(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("precious")
    process = start(folder)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "exists already" in errors
    assert "--resume" in errors
    assert [p.name for p in folder.iterdir()] == ["thesis.txt"]


def test_a_complete_run_is_not_run_again(tmp_path, unbroken):
    before = {p: p.stat().st_mtime_ns for p in unbroken.rglob("*.parquet")}
    process = start(unbroken, "--resume", f"execution.data={tmp_path / 'empty'}")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert not (tmp_path / "empty").exists()  # nor are its experts
    assert {p: p.stat().st_mtime_ns for p in unbroken.rglob("*.parquet")} == before


def test_resuming_with_other_settings_is_refused(tmp_path, unbroken):
    for override in ("scenario.episodes=4", "agent.settings.epsilon=0.2"):
        process = start(unbroken, "--resume", override)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 2
        assert "was started with another" in errors


def test_two_processes_on_one_folder(tmp_path):
    folder = tmp_path / "run"
    first = start(folder)
    while not list(folder.glob("*.l2b/work/journal.jsonl")) and first.poll() is None:
        time.sleep(0.002)
    second = start(folder, "--resume")
    _, errors = second.communicate(timeout=60)
    first.communicate(timeout=100)
    assert first.returncode == 0
    assert second.returncode == 0 or "another process" in errors


def test_a_folder_that_cannot_be_written(tmp_path):
    if os.geteuid() == 0:
        target = Path("/proc/l2bench-run")  # not even root can create this
    else:
        tmp_path.chmod(0o500)
        target = tmp_path / "run"
    process = start(target)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "cannot create" in errors
    assert "Traceback" not in errors
