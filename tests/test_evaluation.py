"""Evaluation: the same outcomes wherever episodes are played, and actions that there are."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from hostile import Lines
from playing import CONTEXT, PLACES, Walker, facts, lines, play, pool_of, task_of
from support import content_hashes, probe_suite, run_suite

from l2bench.actions import checker
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.errors import ActionRefused, RunFailed
from l2bench.evaluation import Episode


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


@pytest.mark.parametrize("action", [1.5, 2**31, np.array([1]), 1 + 0j, "1", None, np.nan, np.inf])
def test_a_large_discrete_space_is_not_searched_for_what_is_not_in_it(action):
    check = checker(Discrete(2**31), "asked")
    with pytest.raises(ActionRefused, match=r"not in Discrete\(2147483648\)"):
        check(action)
    for fine in (0, np.int64(5), 2.0, np.array(7), True):
        check(fine)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ([0.0, np.nan], "not finite"),
        (np.array([0.0, np.inf]), "not finite"),
        (np.zeros(3), "an action of shape (3,), which is not in Box"),
        (["1", "2"], "['1', '2'], which is not in Box"),
        (np.array([1j, 0]), "[1j, 0j], which is not in Box"),
        (0.0, "an action of shape (), which is not in Box"),
        (["a", "b"], "['a', 'b'], which is not in Box"),
        (np.array(["a", "b"]), "['a', 'b'], which is not in Box"),
        (np.array([None, object()]), "which is not in Box"),
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
