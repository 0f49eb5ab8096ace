"""Canaries: a simulator that moves what should rest is found out before anything is scored."""

import copy
import re

import pytest

from l2bench.errors import RunFailed
from l2bench.suite import Task
from l2bench_libero import canaries, tasks
from l2bench_libero.environment import Spatial

VICTIM = tasks.find("libero_spatial", 5)


@pytest.fixture(autouse=True)
def nothing_passed(monkeypatch):
    """Let every test begin as a fresh process does."""
    monkeypatch.setattr(canaries, "_passed", set())


class Still:
    """An environment of which only the task is known."""

    def __init__(self, task):
        self.task = task


def slid():
    """Return the readings of MuJoCo 3.4: the bowl has slid off its ramekin and tilts."""
    found = copy.deepcopy(canaries.recorded(VICTIM))
    found["akita_black_bowl_1"] = [-0.212, 0.168, 0.943, 0.3, 0.8, 0.52]
    return found


def test_every_task_has_a_record_of_the_pinned_simulator():
    assert canaries._recorded()["mujoco"] == "3.3.0"
    for suite in tasks.SUITES:
        for task in tasks.tasks(suite):
            record = canaries.recorded(task)
            assert record
            assert all(len(values) == 6 for values in record.values())
    assert canaries.recorded(tasks.find("libero_goal", 0, "swap")) is None


def test_a_record_agrees_with_itself_and_within_tolerance():
    record = canaries.recorded(VICTIM)
    assert canaries.compare(record, record) == ""
    near = copy.deepcopy(record)
    near["plate_1"][2] += 0.9 * canaries.POSITION
    assert canaries.compare(record, near) == ""
    near["plate_1"][2] += 0.2 * canaries.POSITION
    assert canaries.compare(record, near).startswith("position (m) of plate_1: expected (")
    near["plate_1"][2] = float("nan")
    assert "nan" in canaries.compare(record, near)
    del near["plate_1"]
    assert canaries.compare(record, near) == "other bodies than recorded: plate_1"


def test_a_bowl_that_slid_stops_the_run_in_one_line(monkeypatch):
    """SEED-07: an object that rests elsewhere than recorded stops the run."""
    monkeypatch.setattr(canaries, "measure", lambda env: slid())
    with pytest.raises(RunFailed) as caught:
        canaries.check(Still(VICTIM))
    text = str(caught.value)
    assert re.match(rf"canary of {VICTIM.id}: \S.* of akita_black_bowl_1: expected \(", text)
    assert "after 10 idle steps with mujoco 3.3.0; the record is of mujoco 3.3.0: run: pip" in text
    assert text.endswith("or set canaries: off for a run that deviates")
    assert "\n" not in text


def test_a_task_is_measured_once_a_process(monkeypatch):
    calls = []
    monkeypatch.setattr(
        canaries, "measure", lambda env: calls.append(1) or canaries.recorded(env.task)
    )
    canaries.check(Still(VICTIM))
    canaries.check(Still(VICTIM))
    canaries.check(Still(tasks.find("libero_spatial", 5, "swap")))
    assert calls == [1]


@pytest.mark.sim
@pytest.mark.parametrize("setting", [None, "off", False])
def test_a_scored_environment_is_checked_at_its_first_reset(monkeypatch, setting):
    monkeypatch.setattr(canaries, "measure", lambda env: slid())
    settings = {} if setting is None else {"canaries": setting}
    task = Task(id="bowl", environment="libero/x", task=VICTIM.name, settings=settings)
    env = Spatial().make(task)
    try:
        if setting is None:
            with pytest.raises(RunFailed, match="canary of libero_spatial/"):
                env.reset(seed=0)
        else:
            env.reset(seed=0)
    finally:
        env.close()


@pytest.mark.sim
def test_the_known_victim_rests_and_a_check_changes_no_episode(simulators):
    env = simulators("libero_spatial", 5)
    env.reset(seed=3, options={"initial_state": 2})
    before = env.state()
    canaries.check(env)
    assert VICTIM.id in canaries._passed
    env.reset(seed=3, options={"initial_state": 2})
    assert (env.state() == before).all()
