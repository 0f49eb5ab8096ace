"""Mistakes of worker processes and memory that users of other benchmarks met."""

from __future__ import annotations

import gc
import json
import multiprocessing
import signal
import sys
import time
from typing import ClassVar

import numpy as np
import pytest
from gymnasium.spaces import Discrete
from gymnasium.wrappers import Autoreset
from hostile import KINDS, Line, Lines
from playing import by_place, play
from stubs import Stub, stubbed
from support import content_hashes, probe_suite, run_suite

from l2bench.builtin.probe import Probe, ProbeEnvironment
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.environment import TaskInfo
from l2bench.errors import RunFailed, Unsupported
from l2bench.plugins import Registry
from l2bench.report.origin import memory_slope
from l2bench.suite import Learning, Task
from l2bench.testing import check_agent


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return a function that installs a module as the plugin ``mine``, for new processes too."""
    folder = tmp_path / "site"

    def install(body: str) -> None:
        (folder / "mine-1.dist-info").mkdir(parents=True)
        (folder / "mine-1.dist-info" / "METADATA").write_text("Name: mine\nVersion: 1\n")
        entry = "[l2bench]\nmine = plugin_of_mine\n"
        (folder / "mine-1.dist-info" / "entry_points.txt").write_text(entry)
        (folder / "plugin_of_mine.py").write_text(MINE + body)
        monkeypatch.syspath_prepend(str(folder))

    yield install
    sys.modules.pop("plugin_of_mine", None)


MINE = """
import multiprocessing
from l2bench.builtin.probe import Probe, ProbeEnvironment
from l2bench.hookspecs import hookimpl
@hookimpl
def l2bench_environments():
    return {"odd": Odd}
"""


def one_task(environment: str, **more):
    suite = probe_suite(1, every=None, amount=1, **more)
    task = suite.tasks[0].model_copy(update={"environment": environment})
    return suite.model_copy(update={"tasks": (task,)})


def episodes_in(folder):
    (path,) = find_bundles(folder)
    return read_bundle(path).lifetime.episodes


def test_par_01_what_fails_in_a_worker_is_told_here(site, tmp_path):
    """PAR-01: a simulator that cannot be built in the worker: its own words, at once."""
    site("""
class Odd(ProbeEnvironment):
    def make(self, task):
        if multiprocessing.parent_process() is not None:
            raise ValueError("no licence for a second one")
        return Probe()
""")
    words = r"task 'task-1' \(mine/odd\), episode 0 failed: ValueError: no licence for a second"
    how = {"workers": 1, "start_method": "spawn"}
    with pytest.raises(RunFailed, match=words):
        run_suite(Registry(), one_task("mine/odd"), "random", tmp_path / "run", **how)
    (bundle,) = find_bundles(tmp_path / "run")
    events = [json.loads(line) for line in (bundle / "events.jsonl").read_text().splitlines()]
    assert "ValueError" in next(e["traceback"] for e in events if e["event"] == "error")


class Patient(Stub):
    def learn(self, lesson, task):
        while lesson.remaining:
            lesson.reset()
            while not any(lesson.step(0)[2:4]):
                pass


class Counting(Patient):
    """Answers by the number of its steps in an episode."""

    def learn(self, lesson, task):
        self.at: dict[int, int] = {}
        super().learn(lesson, task)

    def act(self, observations, acting):
        for slot, first in zip(acting.slots, acting.first, strict=True):
            self.at[slot] = 0 if first else self.at[slot] + 1
        return np.array([self.at[slot] % 2 for slot in acting.slots])


def test_par_02_memories_of_episodes_side_by_side_do_not_mix(tmp_path):
    """PAR-02: what an agent counts by slot is the same in one process and in four."""
    suite = one_task("l2bench/lines", scenario={"episodes": 9})
    task = suite.tasks[0].model_copy(update={"task": "line", "horizon": 50, "measure": "return",
                                             "score_range": (0.0, 9.0)})  # fmt: skip
    suite = suite.model_copy(update={"tasks": (task,)})
    for workers in (0, 4):
        registry = stubbed(Counting, lines=Lines)
        run_suite(registry, suite, "stub", tmp_path / str(workers), workers=workers, traces=1)
    assert content_hashes(tmp_path / "0") == content_hashes(tmp_path / "4")
    assert len(set(episodes_in(tmp_path / "0")["return"].to_pylist())) > 1


def test_par_02_an_agent_with_one_counter_for_all_fails_its_check():
    """PAR-02: the check of agents finds what depends on who else is asked."""

    class OneForAll(Stub):
        calls = 0

        def act(self, observations, acting):
            self.calls += 1
            return np.full(len(observations), self.calls % 4)

    learning = Learning(source="interaction", unit="episodes", amount=1)
    task = Task(id="a", environment="l2bench/probe", task="probe_1", horizon=1, learning=learning)
    with pytest.raises(AssertionError, match=r"depends on the rest of its batch|changed the agent"):
        check_agent(OneForAll, ProbeEnvironment(), task)


HANDLE = """
handle = None
class Seer(Probe):
    def reset(self, *, seed=None, options=None):
        self.saw = handle is not None
        return super().reset(seed=seed, options=options)
    def step(self, action):
        observation, reward, _, _, _ = super().step(action)
        return observation, reward, True, False, {"success": self.saw}
class Odd(ProbeEnvironment):
    def make(self, task):
        return Seer()
"""


@pytest.mark.parametrize(("method", "seen"), [("auto", False), ("fork", True)])
def test_par_03_a_handle_of_the_parent_is_not_in_its_workers(
    site, tmp_path, monkeypatch, method, seen
):
    """PAR-03: a process that holds graphics is not forked unless asked to be."""
    site(HANDLE)
    registry = Registry()
    registry.resolve("environments", "mine/odd")
    monkeypatch.setattr(sys.modules["plugin_of_mine"], "handle", object())
    monkeypatch.setattr("l2bench.evaluation.starting.GRAPHICS", ("plugin_of_mine",))
    suite = one_task("mine/odd", scenario={"episodes": 2})
    run_suite(registry, suite, "random", tmp_path / "run", workers=1, start_method=method)
    assert set(episodes_in(tmp_path / "run")["success"].to_pylist()) == {seen}


def test_par_03_what_is_no_environment_is_named(tmp_path):
    """PAR-03: workers make environments by name, so no function has to be sent to them."""
    registry = stubbed(Stub, odd=lambda: ProbeEnvironment())
    with pytest.raises(
        Unsupported, match=r"'l2bench/odd' is registered as function; .*Environment"
    ):
        run_suite(registry, one_task("l2bench/odd"), "stub", tmp_path / "run")


class Three(Probe):
    """Three steps of reward 1."""

    action_space = Discrete(4)

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.at += 1
        observation, *_ = super().step(action)
        return observation, 1.0, self.at == 3, False, {"success": True}


class SameStep(Three):
    """Begins anew by itself within the last step of an episode."""

    def step(self, action):
        result = super().step(action)
        return (self.reset()[0], *result[1:]) if result[2] else result


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("live", [Three, lambda: Autoreset(Three()), SameStep])
def test_par_04_episodes_are_counted_here_not_by_the_environment(tmp_path, live, workers):
    """PAR-04: 3 steps of reward 1: length 3 and return 3, however the environment starts anew."""
    methods = {
        "make": lambda self, task: live(),
        "tasks": lambda self: {"probe_1": TaskInfo(frozenset({"interaction"}), horizon=9)},
    }
    registry = stubbed(Patient, odd=type("Odd", (ProbeEnvironment,), methods))
    suite = one_task("l2bench/odd", scenario={"episodes": 10})
    tasks = tuple(task.model_copy(update={"horizon": 9}) for task in suite.tasks)
    suite = suite.model_copy(update={"tasks": tasks})
    run_suite(registry, suite, "stub", tmp_path / "run", workers=workers)
    rows = episodes_in(tmp_path / "run")
    assert rows["length"].to_pylist() == [3] * 10
    assert rows["return"].to_pylist() == [3.0] * 10


class Deaf(Line):
    """Does not listen to SIGTERM, and never gets done with closing."""

    def reset(self, *, seed=None, options=None):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return super().reset(seed=seed, options=options)

    def close(self):
        while multiprocessing.parent_process() is not None:
            time.sleep(1)


def test_par_07_workers_that_do_not_listen_are_gone_at_the_end(monkeypatch):
    """PAR-07: asked, told, and then made to end; no child is left."""
    monkeypatch.setitem(KINDS, "deaf", Deaf)
    monkeypatch.setattr("l2bench.evaluation.workers.GRACE", 0.3)
    assert len(play(2, "deaf", start_method="fork")) == 7
    assert not multiprocessing.active_children()


# -- memory ---------------------------------------------------------------------------------------


class Alive(Probe):
    now, most = 0, 0

    def __init__(self):
        super().__init__()
        Alive.now += 1
        Alive.most = max(Alive.now, Alive.most)

    def close(self):
        Alive.now -= 1


class Forty(ProbeEnvironment):
    def tasks(self):
        return {f"probe_{n}": TaskInfo(frozenset({"interaction"}), horizon=1) for n in range(1, 41)}

    def make(self, task):
        return Alive()


@pytest.mark.parametrize(
    ("kept", "scarce", "most"), [(1, False, 1), (3, False, 3), (None, True, 1)]
)
def test_mem_01_simulators_are_built_when_needed_and_only_so_many(
    tmp_path, monkeypatch, kept, scarce, most
):
    """MEM-01: 40 tasks, and no more simulators than may be kept or the memory holds."""
    monkeypatch.setattr(Alive, "now", 0)
    monkeypatch.setattr(Alive, "most", 0)
    if scarce:
        monkeypatch.setattr("l2bench.evaluation.pools.available_memory", lambda: 1 << 20)
    suite = probe_suite(40, every=None, scenario={
        "kind": "blocks", "blocks": [{"evaluate": "all"}], "episodes": 1})  # fmt: skip
    tasks = tuple(t.model_copy(update={"environment": "l2bench/odd"}) for t in suite.tasks)
    suite = suite.model_copy(update={"tasks": tasks})
    registry = stubbed(Stub, odd=Forty)
    run_suite(registry, suite, "stub", tmp_path / "run", keep_environments=kept)
    assert (Alive.most, Alive.now) == (most, 0)
    assert episodes_in(tmp_path / "run").num_rows == 40


class Leaking(Line):
    """Keeps something of every episode; the reward of a step is how much that is by now."""

    leaked: ClassVar[list[bytes]] = []

    def reset(self, *, seed=None, options=None):
        self.leaked.append(bytes(1 << 20))
        return super().reset(seed=seed, options=options)

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float(len(self.leaked)) if self.place == 1 else 0.0, *rest


@pytest.mark.parametrize(("recycle", "most"), [(None, 24), (5, 5)])
def test_mem_02_a_worker_that_is_replaced_gives_back_what_leaked(monkeypatch, recycle, most):
    """MEM-02: one MiB an episode adds up to as many episodes as a worker plays."""
    monkeypatch.setitem(KINDS, "leaking", Leaking)
    how = {"start_method": "fork", "recycle": recycle, "traced": False}
    outcomes = play(1, "leaking", count=24, **how)
    assert max(outcome.reward for outcome in outcomes.values()) == most
    assert [outcomes[i].length for i in range(4)] == [5, 8, 7, 6]


def test_mem_02_replacing_workers_changes_no_result(registry, tmp_path):
    """MEM-02: spawned workers are replaced as well; the rows stay the same."""
    suite = probe_suite(1, every=None, amount=1, scenario={"episodes": 3})
    how = {"workers": 1, "recycle": 2, "start_method": "spawn"}
    run_suite(registry, suite, "random", tmp_path / "here")
    run_suite(registry, suite, "random", tmp_path / "there", **how)
    assert content_hashes(tmp_path / "here") == content_hashes(tmp_path / "there")


def test_mem_02_without_workers_there_is_nothing_to_replace(cli):
    """MEM-02: an option that would do nothing is refused."""
    code, _, errors = cli("plan", "quickstart", "execution.recycle=50")
    assert code == 2
    assert "recycle replaces worker processes; set workers to 1 or more" in errors


MIB = 1 << 20


@pytest.mark.parametrize(
    ("peaks", "slope"),
    [
        ([100 * MIB + n * 10 * MIB for n in range(21)], 10 * MIB),
        ([100 * MIB] * 5 + [900 * MIB] * 16, None),  # simulators were built, and that was it
        ([100 * MIB] * 19 + [900 * MIB] * 2, None),
        ([100 * MIB + n * MIB for n in range(21)], None),
        ([100 * MIB, 900 * MIB], None),
        ([], None),
    ],
)
def test_mem_02_growth_is_told_where_it_does_not_come_to_rest(peaks, slope):
    """MEM-02: the slope of the peak memory, block by block."""
    assert memory_slope(peaks) == slope


def test_mem_03_a_long_lifetime_holds_no_more_than_its_rows(registry, tmp_path):
    """MEM-03: the second half of many blocks leaves little more in memory than their rows."""
    marks = []
    suite = probe_suite(1, every=1, amount=60, scenario={"episodes": 1, "keep": "last"})

    def note(row, tables):
        if row["block_index"] in (40, 120):
            gc.collect()
            marks.append(sys.getallocatedblocks())

    plugin = next(plugin for plugin in registry.plugins if plugin.name == "l2bench")
    plugin.names["observers"] = {"note": note}
    try:
        run_suite(registry, suite, "random", tmp_path / "run", observers=("note",), traces=0)
    finally:
        plugin.names["observers"] = {}
    early, late = marks
    assert late - early < 80 * 100  # objects of 80 blocks


class Meeting(Line):
    """Succeeds only where four of its kind are in an episode at once."""

    barrier = multiprocessing.get_context("fork").Barrier(4)

    def reset(self, *, seed=None, options=None):
        self.barrier.wait(timeout=30)
        return super().reset(seed=seed, options=options)


def test_mem_04_workers_play_at_the_same_time(monkeypatch):
    """MEM-04: four episodes that wait for each other end with four workers."""
    monkeypatch.setitem(KINDS, "meeting", Meeting)
    outcomes = play(4, "meeting", by_place, count=8, start_method="fork")
    assert all(outcome.success for outcome in outcomes.values())


def test_mem_04_the_time_of_each_task_is_in_the_bundle(registry, tmp_path):
    """MEM-04: what each episode took is recorded with its task."""
    run_suite(registry, probe_suite(2), "random", tmp_path / "run")
    rows = episodes_in(tmp_path / "run")
    assert {"task_id", "wall_s"} <= set(rows.column_names)
    assert min(rows["wall_s"].to_pylist()) > 0
