"""Catch against recorded values of csuite's own, and the variants against their rules."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from l2bench.builtin.catch import COLUMNS, PLANNER_RATE, RANDOM_RATE, Catch, CatchEnvironment
from l2bench.errors import UsageError
from l2bench.suite import Task


def make(name: str, **settings) -> Catch:
    task = Task(id="t", environment="l2bench/catch", task=name, settings=settings)
    return CatchEnvironment().make(task)


@pytest.mark.parametrize(
    ("name", "balls", "rate"),
    [("catch", 10_175, 0.2061), ("nonstationary_catch", 10_177, 0.2055)],
)
def test_random_play_reproduces_csuite(name, balls, rate):
    """Seed 0, actions from default_rng(123): digest of 2,000 steps, balls and rate of 100,000."""
    env, actions, digest = make(name), np.random.default_rng(123), hashlib.sha256()
    env.reset(seed=0)
    landed = caught = 0
    for step in range(100_000):
        observation, reward, terminated, truncated, info = env.step(int(actions.integers(3)))
        assert not terminated
        assert not truncated
        if step < 2_000:
            digest.update(observation.tobytes() + np.float32(reward).tobytes())
        landed += reward != 0
        caught += reward > 0
    assert digest.hexdigest().startswith("c5e2661c74d1bec3")
    assert landed == balls
    assert round(caught / landed, 4) == rate
    assert info["catch_rate"] == caught / landed
    assert abs(rate - RANDOM_RATE) < 0.01 < PLANNER_RATE - rate


def test_swaps_come_every_period_and_accumulate():
    env, still = make("nonstationary_catch", swap_every=10), make("catch")
    env.reset(seed=3)
    still.reset(seed=3)
    boards, plain = [], []
    for _ in range(10):
        boards.append(env.step(1)[0])
        plain.append(still.step(1)[0])
    for step in range(9):
        assert (boards[step] == plain[step]).all()
    for _ in range(200):
        env.step(1)
    shown = env._shown_at
    assert sorted(shown) == list(range(50))
    assert sum(at != cell for cell, at in enumerate(shown)) > 10


def test_the_swap_is_visible_in_the_observation_of_its_own_step():
    env = make("nonstationary_catch", swap_every=1)
    env.reset(seed=0)
    for _ in range(50):
        observation, *_ = env.step(1)
        cells = [env._shown_at[45 + env._paddle]]
        cells += [env._shown_at[r * COLUMNS + c] for r, c in env._balls]
        assert sorted(np.flatnonzero(observation)) == sorted(cells)


def test_mirrored_exchanges_left_and_right():
    plain, mirrored = make("catch"), make("mirrored_catch")
    plain.reset(seed=1)
    mirrored.reset(seed=1)
    actions = np.random.default_rng(0).integers(3, size=200)
    for action in actions:
        ours = plain.step(int(action))
        theirs = mirrored.step(2 - int(action))
        assert (ours[0] == theirs[0]).all()
        assert ours[1] == theirs[1]


def test_wind_moves_every_ball_around_the_edge():
    env = make("windy_catch")
    observation, _ = env.reset(seed=0)
    (start,) = np.flatnonzero(observation[:5])
    for row in range(1, 9):
        observation = env.step(1)[0]
        assert observation[row * COLUMNS + (start + row) % COLUMNS] == 1


def test_unknown_settings_name_the_nearest():
    environment = CatchEnvironment()
    task = Task(id="t", environment="x", task="catch", settings={"swap_evry": 3})
    with pytest.raises(UsageError, match=r"did you mean 'swap_every'"):
        environment.check(task)
