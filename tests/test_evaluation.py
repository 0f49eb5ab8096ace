"""Evaluation: the same outcomes wherever episodes are played, and an end to whatever hangs."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pyarrow.parquet as pq
import pytest
from gymnasium.spaces import Box
from hostile import KINDS, Line, Lines
from support import content_hashes, probe_suite, run_suite
from test_runner import Stub, stubbed

from l2bench.actions import checker
from l2bench.agent import TaskContext
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.cast import Execution
from l2bench.environment import Environment, Spaces
from l2bench.errors import ActionRefused, RunFailed, Unsupported, UsageError
from l2bench.evaluation import Episode, LocalPool, WorkerPool, digest
from l2bench.evaluation.pools import LiveEnvironments
from l2bench.evaluation.starting import start_method
from l2bench.evaluation.video import encode
from l2bench.limits import TimeUp, time_limit
from l2bench.seeding import chosen
from l2bench.suite import Task

CONTEXT = TaskContext(Spaces(Line.observation_space, Line.action_space))
PLACES = [(0, "auto"), (1, "fork"), (2, "fork"), (4, "fork")]


def task_of(kind: str, horizon: int | None = 50) -> Task:
    return Task(id=kind, environment="l2bench/lines", task=kind, horizon=horizon)


def pool_of(workers: int = 0, kind: str = "line", **execution):
    how = Execution(workers=workers, **execution)
    environments: dict[str, Environment] = {"l2bench/lines": Lines()}
    if workers:
        return WorkerPool(environments, how, [task_of(kind)])
    return LocalPool(environments, how)


def play(
    workers: int = 0, kind: str = "line", act=None, count=7, chunk=1, traced=True, **execution
):
    """Return outcomes by episode index."""
    pool = pool_of(workers, kind, **execution)
    episodes = [Episode(i, 3 * i, i, None, traced=traced) for i in range(count)]
    try:
        played = pool.run(task_of(kind), CONTEXT, episodes, act or by_place, chunk)
        return {episode.index: outcome for episode, outcome in played}
    finally:
        pool.close()


class Walker(Stub):
    """Learns nothing, episode by episode."""

    def learn(self, lesson, task):
        while lesson.remaining:
            lesson.reset()
            while not any(lesson.step(0)[2:4]):
                pass


def lines(kind: str, agent=Walker, **more):
    """A registry with the hostile environments, and a suite of one of their tasks."""
    suite = probe_suite(1, every=None, amount=2, scenario={"pretest": True, "episodes": 3}, **more)
    task = suite.tasks[0].model_copy(
        update={"environment": "l2bench/lines", "task": kind, "horizon": 50}
    )
    return stubbed(agent, lines=Lines), suite.model_copy(update={"tasks": (task,)})


def by_place(observations, acting):
    return (observations[:, 0].astype(int) + [g.integers(2) for g in acting.generators]) % 2


def facts(outcomes):
    return {
        index: (o.score, o.success, o.reward, o.length, o.terminated, o.truncated, o.trace)
        for index, o in sorted(outcomes.items())
    }


@pytest.mark.parametrize(("workers", "method"), [*PLACES[1:], (2, "spawn")])
def test_outcomes_do_not_depend_on_where_episodes_are_played(registry, tmp_path, workers, method):
    """CFG-07: the number of workers is a matter of speed alone."""
    suite = probe_suite(2, scenario={"episodes": 7})
    run_suite(registry, suite, "random", tmp_path / "here", traces=0.5)
    how = {"workers": workers, "start_method": method, "traces": 0.5}
    run_suite(registry, suite, "random", tmp_path / "there", **how)
    here, there = (content_hashes(tmp_path / name)[0] for name in ("here", "there"))
    assert here == there
    assert "traces" in here
    (bundle,) = find_bundles(tmp_path / "there")
    execution = read_bundle(bundle).provenance.segments[-1].execution
    assert execution["started_by"] == method


@pytest.mark.parametrize(("workers", "method"), PLACES[1:])
def test_traces_and_random_choices_are_those_of_one_process(workers, method):
    assert facts(play(workers, start_method=method)) == facts(play())


def test_the_length_of_an_episode_is_that_of_its_seed():
    assert [outcome.length for _, outcome in sorted(play().items())] == [5, 8, 7, 6, 5, 8, 7]


# -- chunks -------------------------------------------------------------------------------------


def planned(size):
    def act(observations, acting):
        ahead = observations[:, :1].astype(int) + np.arange(size)
        return ahead % 2

    return act


def one_by_one(observations, acting):
    return planned(1)(observations, acting)[:, 0]


@pytest.mark.parametrize("kind", ["line", "quietline"])
@pytest.mark.parametrize(("workers", "method"), PLACES[:3])
def test_a_plan_of_several_actions_is_carried_out_as_if_asked_each_time(kind, workers, method):
    single = facts(play(kind=kind, act=one_by_one, traced=False))
    for size, chunk in ((3, 3), (8, 3), (2, 3), (50, 50)):
        many = play(workers, kind, planned(size), chunk=chunk, traced=False, start_method=method)
        assert facts(many) == single


def test_nothing_is_observed_inside_a_chunk():
    asked = []

    def act(observations, acting):
        asked.append(observations[0, 0])
        return planned(3)(observations, acting)

    pool, task = pool_of(), task_of("quietline")
    env = pool._live.get(Lines(), task)
    ((_, outcome),) = pool.run(task, CONTEXT, [Episode(0, 2, 0, None, traced=True)], act, 3)
    assert asked == [0, 3, 6]
    assert outcome.length == 7
    assert env.looks == 3  # at the start and after each whole chunk
    assert [at for at, step in enumerate(outcome.trace) if step.digest is not None] == [2, 5]
    assert [step.action for step in outcome.trace] == [(float(at % 2),) for at in range(7)]


def test_a_plan_without_a_row_of_actions_is_refused():
    with pytest.raises(RunFailed, match=r"a row of shape \(\) for an agent with chunk 2"):
        play(act=lambda o, a: np.zeros(len(o), int), chunk=2)
    with pytest.raises(RunFailed, match=r"a row of shape \(0,\)"):
        play(act=lambda o, a: np.zeros((len(o), 0), int), chunk=2)


# -- actions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("workers", "method"), PLACES[:2])
@pytest.mark.parametrize("action", [2, -1, 0.5, np.nan, None, (0, 1)])
@pytest.mark.parametrize("chunk", [1, 2])
def test_an_action_that_there_is_not_never_reaches_the_environment(workers, method, action, chunk):
    def act(observations, acting):
        rows = [action] if chunk == 1 else [[0, action]]
        return rows * len(observations)

    words = re.escape(f"task 'line' (l2bench/lines): act() returned {action}, which is not in Dis")
    with pytest.raises(ActionRefused, match=words):
        play(workers, act=act, chunk=chunk, count=1, start_method=method)


def test_whatever_equals_an_action_is_one():
    whole = facts(play(act=lambda o, a: [1] * len(o)))
    for other in (np.int64(1), np.uint8(1), 1.0, True, np.array(1)):
        assert facts(play(act=lambda o, a, other=other: [other] * len(o))) == whole


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ([0.0, np.nan], "not finite"),
        (np.array([0.0, np.inf]), "not finite"),
        (np.zeros(3), "an action of shape (3,), which is not in Box"),
        (0.0, "an action of shape (), which is not in Box"),
        (["a", "b"], "['a', 'b'], which is not in Box"),
    ],
)
def test_numbers_have_to_be_finite_and_of_their_shape(action, words):
    check = checker(Box(-1.0, 1.0, (2,), np.float32), "act() returned")
    with pytest.raises(ActionRefused, match=re.escape(words)):
        check(action)


def test_numbers_beyond_the_bounds_or_too_large_to_be_squared_are_the_environments_business():
    check = checker(Box(-1.0, 1.0, (2,), np.float32), "act() returned")
    for fine in ([0, 0], np.array([3, -3]), np.full(2, 1e30, np.float32), np.full(2, 1e200)):
        check(fine)
    checker(Box(-1.0, 1.0, (2, 2)), "act() returned")(np.ones((2, 2)))


def test_whose_action_was_refused_is_said(tmp_path):
    class Astray(Walker):
        def act(self, observations, acting):
            return np.full(len(observations), 7)

    registry, suite = lines("line", Astray)
    words = (
        r"evaluating \(block 0, pretest\) with agent 'l2bench/stub': task 'task-1' "
        r"\(l2bench/lines\): act\(\) returned 7, which is not in Discrete\(2\)$"
    )
    with pytest.raises(RunFailed, match=words):
        run_suite(registry, suite, "stub", tmp_path / "run")


def test_an_agent_says_itself_how_far_it_plans(tmp_path):
    queries = []

    class Planner(Walker):
        chunk = 4

        def act(self, observations, acting):
            queries.append(observations[0, 0])
            return np.zeros((len(observations), 4), dtype=int)

    registry, suite = lines("line", Planner)
    run_suite(registry, suite, "stub", tmp_path / "run")
    assert set(queries) == {0, 4}
    assert queries.count(0) == 2 * 3  # once an episode, in two blocks


# -- hostile environments ---------------------------------------------------------------------


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
        "import test_evaluation as t\n"
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


# -- how workers are started --------------------------------------------------------------------


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


# -- simulators kept ----------------------------------------------------------------------------


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


# -- limits, digests, traces ----------------------------------------------------------------------


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


def test_digests_tell_observations_apart():
    one = np.arange(6, dtype=np.float32)
    known = [
        one, one.astype(np.float64), one.reshape(2, 3), {"a": one}, {"b": one}, {"a": {"b": one}},
        {"a": one, "b": one}, (one,), 1, np.int64(2),
    ]  # fmt: skip
    digests = [digest(each) for each in known]
    assert len(set(digests)) == len(known)
    assert all(len(each) == 16 for each in digests)
    assert digest({"a": one, "b": one * 2}) == digest({"b": one * 2, "a": one})
    assert digest(one.reshape(2, 3).T) == digest(np.ascontiguousarray(one.reshape(2, 3).T))
    expected = hashlib.blake2b(b"x\0<f4\0(6,)\0" + one.tobytes(), digest_size=16).digest()
    assert digest({"x": one}) == expected


def test_who_is_traced_follows_from_suite_seed_and_episode():
    drawn = [
        chosen(0.05, "sha256:" + "ab" * 32, 7, "traces", block, 0, episode)
        for block in range(50)
        for episode in range(40)
    ]
    assert 60 < sum(drawn) < 140
    assert not any(chosen(0, "sha256:" + "ab" * 32, 7, "traces", 1, 0, k) for k in range(100))
    assert all(chosen(1, "sha256:" + "ab" * 32, 7, "traces", 1, 0, k) for k in range(100))


def test_a_trace_can_be_replayed_without_the_agent(tmp_path):
    class Zigzag(Walker):
        def act(self, observations, acting):
            return by_place(observations, acting)

    registry, suite = lines("line", Zigzag)
    run_suite(registry, suite, "stub", tmp_path / "run", traces=1)
    (bundle,) = find_bundles(tmp_path / "run")
    episodes = read_bundle(bundle).lifetime.episodes.to_pylist()
    traces = pq.read_table(bundle / "tables" / "traces.parquet").to_pylist()
    assert len(traces) == sum(row["length"] for row in episodes)
    env = Line()
    key = ("block_index", "task_index", "episode_index")
    for row in episodes:
        env.reset(seed=row["env_seed"])
        mine = [step for step in traces if all(step[part] == row[part] for part in key)]
        assert [step["step"] for step in mine] == list(range(row["length"]))
        for step in mine:
            seen, reward, _, _, info = env.step(int(step["action"][0]))
            assert step["state_digest"] == digest(seen)
            assert step["reward"] == reward
        assert info["success"] == row["success"]


def test_no_trace_no_table(tmp_path):
    registry, suite = lines("line")
    run_suite(registry, suite, "stub", tmp_path / "run", traces=0)
    (bundle,) = find_bundles(tmp_path / "run")
    assert "traces" not in read_bundle(bundle).manifest.tables
    assert not (bundle / "tables" / "traces.parquet").exists()


# -- options of environments ----------------------------------------------------------------------


def test_options_go_to_the_environments_they_name(registry, tmp_path):
    told = []

    class Told(Lines):
        def configure(self, options):
            told.append(dict(options))

        def conduct(self):
            return {"engine": told[-1].get("engine", "usual")}

    registry, suite = lines("line")
    registry = stubbed(Walker, lines=Told)
    options = {"l2bench": {"engine": "a", "other": 1}, "l2bench/lines": {"engine": "b"}}
    run_suite(registry, suite, "stub", tmp_path / "run", environments=options)
    assert told == [{"engine": "b", "other": 1}]
    (bundle,) = find_bundles(tmp_path / "run")
    execution = read_bundle(bundle).provenance.segments[-1].execution
    assert execution["environments"] == {"l2bench/lines": {"engine": "b"}}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"l2bench": {"engin": 1}}, "Lines has no execution option 'engin'"),
        ({"l2bnch": {}}, r"names 'l2bnch' \(did you mean 'l2bench'\?\), which takes no part"),
    ],
)
def test_options_that_nobody_takes_are_refused(tmp_path, options, words):
    registry, suite = lines("line")
    with pytest.raises(UsageError, match=words):
        run_suite(registry, suite, "stub", tmp_path / "run", environments=options)
    assert not (tmp_path / "run").exists()


# -- videos ---------------------------------------------------------------------------------------


def frames_of(path, height, width):
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", path]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3).astype(int)


@pytest.mark.parametrize(
    ("videos", "workers", "kept"),
    [("none", 0, []), ("first", 0, [0]), ("failed", 2, None), ("all", 2, [0, 1, 2])],
)
def test_videos_show_the_episodes_asked_for(tmp_path, videos, workers, kept):
    registry, suite = lines("filmed")
    (task,) = suite.tasks
    suite = suite.model_copy(update={"tasks": (task.model_copy(update={"horizon": 6}),)})
    run_suite(registry, suite, "stub", tmp_path / "run", videos=videos, workers=workers)
    (bundle,) = find_bundles(tmp_path / "run")
    rows = [r for r in read_bundle(bundle).lifetime.episodes.to_pylist() if r["block_index"] == 0]
    if kept is None:
        kept = [row["episode_index"] for row in rows if not row["success"]]
        assert 0 < len(kept) < 3
    paths = sorted(path.name for path in bundle.glob("videos/block-000000__*"))
    assert paths == [f"block-000000__task-1__{index:04d}.mp4" for index in kept]
    recorded = read_bundle(bundle).manifest.files
    for index, path in zip(kept, paths, strict=True):
        assert f"videos/{path}" in recorded
        frames = frames_of(bundle / "videos" / path, 16, 24)
        assert len(frames) == rows[index]["length"] + 2
        assert np.abs(frames[3] - 60).max() < 8


def test_a_task_without_frames_is_told_once(tmp_path, caplog):
    registry, suite = lines("line")
    run_suite(registry, suite, "stub", tmp_path / "run", videos="all")
    told = [message for message in caplog.messages if "no video" in message]
    assert told == ["no video of task 'task-1': its environment offers no rgb_array frames"]


def test_odd_sides_are_no_hindrance(tmp_path):
    (tmp_path / "odd.mp4").write_bytes(encode([np.full((17, 25, 3), 200, np.uint8)] * 3, {}))
    frames = frames_of(tmp_path / "odd.mp4", 18, 26)
    assert len(frames) == 4
    assert np.abs(frames - 200).max() < 8


def test_frames_that_are_no_images_are_refused():
    with pytest.raises(RunFailed, match=r"frames of shape \(5, 5\); expected \(H, W, 3\)"):
        encode([np.zeros((5, 5))], {})


def test_a_missing_library_is_named_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("l2bench.cast.find_spec", lambda name: None)
    registry, suite = lines("filmed")
    with pytest.raises(
        Unsupported, match=r"videos=all needs imageio-ffmpeg.*pip install 'l2bench\[video"
    ):
        run_suite(registry, suite, "stub", tmp_path / "run", videos="all")
    assert not (tmp_path / "run").exists()
