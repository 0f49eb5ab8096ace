"""Workers: an end to whatever hangs, dies or is left behind, and how they are started."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hostile import KINDS, Line, Lines
from playing import CONTEXT, by_place, lines, play, pool_of, task_of
from support import content_hashes, run_suite

from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.cast import Execution
from l2bench.errors import RunFailed
from l2bench.evaluation import Episode
from l2bench.evaluation.pools import LiveEnvironments
from l2bench.evaluation.starting import start_method
from l2bench.limits import TimeUp, time_limit


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    yield
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("kind", ["hanging", "stubborn"])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_environment_that_hangs_is_stopped_and_named(kind, workers):
    words = rf"task '{kind}' \(l2bench/lines\): episode \d hung within 0.4 s .*raise execution.epi"
    began = time.monotonic()
    with pytest.raises(RunFailed, match=words):
        play(workers, kind, episode_seconds=0.4)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("workers", [0, 1])
def test_a_simulator_whose_building_hangs_is_named(monkeypatch, workers):
    monkeypatch.setattr("l2bench.evaluation.pools.BUILD_SECONDS", 0.3)
    monkeypatch.setattr(Lines, "make", lambda self, task: time.sleep(600))
    with pytest.raises(RunFailed, match=r"the simulator was not built within 0\.3 s"):
        play(workers, episode_seconds=0.1, start_method="fork")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("killed", r"episode 0: the evaluation worker died \(killed by SIGKILL, most often because "
                   r"memory ran out\); continue with --resume, with fewer execution.workers"),
        ("segfault", r"episode 0: the evaluation worker died \(killed by SIGSEGV\)"),
        ("raising", r"task 'raising' \(l2bench/lines\), episode 0 failed: ValueError: the wheel"),
    ],
)  # fmt: skip
def test_what_a_worker_dies_of_is_one_line(kind, words):
    with pytest.raises(RunFailed, match=words) as caught:
        play(1, kind)
    assert "\n" not in str(caught.value)


def test_a_block_whose_worker_dies_is_not_sealed_and_can_be_resumed(tmp_path, monkeypatch):
    registry, suite = lines("killed")
    monkeypatch.setattr(KINDS["killed"], "place_of_death", 3)
    with pytest.raises(RunFailed, match="SIGKILL"):
        run_suite(registry, suite, "stub", tmp_path / "run", workers=2)
    (bundle,) = find_bundles(tmp_path / "run")
    manifest = read_bundle(bundle).manifest
    assert (manifest.status, manifest.counts.blocks_sealed) == ("failed", 0)
    monkeypatch.setattr(KINDS["killed"], "place_of_death", None)
    run_suite(registry, suite, "stub", tmp_path / "run", workers=2, resume=True)
    run_suite(registry, suite, "stub", tmp_path / "other", workers=0)
    assert content_hashes(tmp_path / "run") == content_hashes(tmp_path / "other")


def test_a_traceback_from_a_worker_is_in_the_events(tmp_path):
    registry, suite = lines("raising")
    with pytest.raises(RunFailed, match="the wheel came off"):
        run_suite(registry, suite, "stub", tmp_path / "run", workers=2)
    (bundle,) = find_bundles(tmp_path / "run")
    events = [json.loads(line) for line in (bundle / "events.jsonl").read_text().splitlines()]
    (error,) = [event for event in events if event["event"] == "error"]
    assert 'ValueError("the wheel came off")' in error["traceback"]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_close_that_hangs_does_not_hang_the_run(monkeypatch, caplog, workers):
    monkeypatch.setattr("l2bench.environment.CLOSE_SECONDS", 0.3)
    monkeypatch.setattr("l2bench.evaluation.workers.GRACE", 0.3)
    began = time.monotonic()
    assert len(play(workers, "closingforever")) == 7
    assert time.monotonic() - began < 20
    assert "closing an environment took more than" in caplog.text


def test_processes_that_an_environment_leaves_behind_end_with_its_worker(tmp_path, monkeypatch):
    litter = tmp_path / "litter"
    monkeypatch.setenv("L2BENCH_TEST_LITTER", str(litter))
    assert len(play(2, "littering", count=3)) == 3
    numbers = [int(line) for line in litter.read_text().split()]
    assert len(numbers) == 3
    until = time.monotonic() + 10
    while any(running(number) for number in numbers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(running(number) for number in numbers)


def running(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    """A parent that dies without a word leaves no worker behind, not even one that hangs."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys, os, signal\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import playing as t\n"
        "pool = t.pool_of(2, 'hanging')\n"
        "def act(observations, acting):\n"
        "    print(*[w.number for w in pool._workers], flush=True)\n"
        "    if observations[0, 0] == 2:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return t.by_place(observations, acting)\n"
        "list(pool.run(t.task_of('hanging'), t.CONTEXT, [t.Episode(0, 0, 0, None)], act))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    numbers = [int(word) for word in done.stdout.splitlines()[-1].split()]
    assert len(numbers) == 2
    until = time.monotonic() + 10
    while any(running(number) for number in numbers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(running(number) for number in numbers)


def starting(**execution) -> tuple[str, str]:
    return start_method(
        Execution(workers=2, **execution), {"l2bench/lines": Lines()}, [task_of("line")]
    )


def test_workers_are_forked_where_nothing_speaks_against_it(monkeypatch):
    monkeypatch.setattr("l2bench.evaluation.starting.GRAPHICS", ())
    assert starting() == ("fork", "nothing speaks against it")
    assert starting(start_method="spawn") == ("spawn", "asked for")


def test_a_fork_is_avoided_for_good_reasons(monkeypatch):
    monkeypatch.setattr("l2bench.evaluation.starting.GRAPHICS", ("json",))
    assert starting() == ("spawn", "json is loaded, and OpenGL does not survive a fork")
    assert starting(start_method="fork") == ("fork", "asked for")
    monkeypatch.setattr("l2bench.evaluation.starting.GRAPHICS", ())
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="busy")
    thread.start()
    assert starting() == ("spawn", "the thread 'busy' is running")
    over.set()
    thread.join()
    with monkeypatch.context() as patch:
        initialised = type("Cuda", (), {"is_initialized": staticmethod(lambda: True)})
        patch.setitem(sys.modules, "torch", type("Torch", (), {"cuda": initialised}))
        assert starting() == ("spawn", "CUDA is in use")
    monkeypatch.setattr(Lines, "forks", lambda self, task: False)
    assert starting() == ("spawn", "l2bench/lines does not say that it may be forked")


def test_forked_workers_share_what_was_built_here(monkeypatch):
    built = []
    monkeypatch.setattr(Line, "build", lambda self: built.append(os.getpid()), raising=False)
    pool = pool_of(3, start_method="fork")
    try:
        for _ in range(2):
            episodes = [Episode(i, i, i, None) for i in range(6)]
            assert len(list(pool.run(task_of("line"), CONTEXT, episodes, by_place))) == 6
        assert built == [os.getpid()]
        workers = [worker.number for worker in pool._workers]
        list(pool.run(task_of("quietline"), CONTEXT, episodes, by_place))
        assert built == [os.getpid()] * 2
        assert not set(workers) & {worker.number for worker in pool._workers}
        list(pool.run(task_of("line"), CONTEXT, episodes, by_place))
        assert len(built) == 2
        assert pool.peak_memory() > 3 * 2**20
    finally:
        pool.close()


def test_only_so_many_simulators_are_kept(monkeypatch):
    closed = []
    monkeypatch.setattr(Line, "close", lambda self: closed.append(type(self).__name__))
    live, lines = LiveEnvironments(2), Lines()
    first = live.get(lines, task_of("line"))
    live.get(lines, task_of("quietline"))
    assert live.get(lines, task_of("line")) is first
    live.get(lines, task_of("hanging"))
    assert closed == ["QuietLine"]
    live.close()
    assert sorted(closed) == ["Hanging", "Line", "QuietLine"]


def test_simulators_are_closed_where_memory_runs_out(monkeypatch):
    closed = []
    monkeypatch.setattr(Line, "close", lambda self: closed.append(type(self).__name__))
    left = {"bytes": 1 << 40}
    monkeypatch.setattr("l2bench.evaluation.pools.available_memory", lambda: left["bytes"])
    live, lines = LiveEnvironments(None), Lines()
    for kind in ("line", "quietline", "hanging"):
        live.get(lines, task_of(kind))
    assert not closed
    left["bytes"] = 1 << 20
    live.get(lines, task_of("killed"))
    assert closed == ["Line", "QuietLine", "Hanging"]
    live.close()


def test_a_time_limit_leaves_an_earlier_alarm_as_it_was():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
    kept = signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        began = time.monotonic()
        with pytest.raises(TimeUp), time_limit(0.1):
            time.sleep(5)
        while not rung and time.monotonic() - began < 5:
            time.sleep(0.01)
        assert rung[0] - began >= 0.25
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *kept)


def test_a_time_limit_that_is_kept_changes_nothing():
    with time_limit(30):
        pass
    with time_limit(None):
        pass
    with pytest.raises(ValueError, match="x"), time_limit(30):
        raise ValueError("x")
