"""Lessons: exact budgets, no way past them, and no experience that vanishes."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from hypothesis import given
from hypothesis import strategies as st

from l2bench.batches import DemonstrationLesson, SampleLesson
from l2bench.environment import Demonstrations, Samples
from l2bench.errors import BudgetExceeded, RunFailed
from l2bench.interaction import InteractionLesson
from l2bench.suite import Learning


class Count(gymnasium.Env):
    """Episodes of a fixed length with reward 1 a step; success on the third step."""

    def __init__(self, length: int | None = 5, success: bool = False) -> None:
        self.observation_space, self.action_space = Box(0, 1, (1,)), Discrete(2)
        self.length, self.success, self.seeds = length, success, []

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self.at = 0
        return np.zeros(1), {"success": False} if self.success else {}

    def step(self, action):
        self.at += 1
        info = {"success": self.at == 3} if self.success else {}
        return np.zeros(1), 1.0, self.at == self.length, False, info


def interact(env, unit, amount, *, horizon=None, start=0, stop=None, experience=None):
    learning = Learning(source="interaction", unit=unit, amount=amount, experience=experience)
    lesson = InteractionLesson(
        env, learning, start, stop or amount, horizon=horizon, measure="return",
        seed_of=lambda episode: 100 + episode,
    )  # fmt: skip
    while lesson.remaining:
        lesson.reset()
        over = False
        while not over and lesson.remaining:
            *_, terminated, truncated, _ = lesson.step(0)
            over = terminated or truncated
    return lesson


def rows(lesson):
    return [(e.length, e.reward, e.status) for e in lesson.experiences]


def test_a_budget_that_ends_inside_an_episode_leaves_it_in_the_rows():
    lesson = interact(Count(5), "steps", 12)
    lesson.close()
    assert rows(lesson) == [(5, 5, "ok"), (5, 5, "ok"), (2, 2, "incomplete")]


def test_an_episode_budget_counts_episodes():
    env = Count(5)
    lesson = interact(env, "episodes", 3)
    lesson.close()
    assert rows(lesson) == [(5, 5, "ok")] * 3
    assert env.seeds == [100, 101, 102]


def test_the_horizon_cuts_an_endless_episode():
    lesson = interact(Count(None), "steps", 10, horizon=4)
    assert rows(lesson) == [(4, 4, "ok"), (4, 4, "ok"), (2, 2, "incomplete")]


def test_windows_cut_an_endless_stream_without_resetting():
    env = Count(None)
    lesson = interact(env, "steps", 10, experience=3)
    assert rows(lesson) == [(3, 3, "ok")] * 3 + [(1, 1, "incomplete")]
    assert len(env.seeds) == 1


def test_success_on_any_step_counts_once():
    lesson = interact(Count(5, success=True), "episodes", 1)
    assert [e.success for e in lesson.experiences] == [True]
    assert [e.success for e in interact(Count(5), "episodes", 1).experiences] == [None]


def test_going_past_the_budget_is_impossible():
    lesson = interact(Count(5), "steps", 7)
    with pytest.raises(BudgetExceeded, match="7 steps are used up"):
        lesson.step(0)
    with pytest.raises(BudgetExceeded, match="7 steps are used up"):
        lesson.reset()
    assert lesson.steps == 7


def test_stepping_after_the_end_says_so():
    learning = Learning(source="interaction", unit="steps", amount=10)
    lesson = InteractionLesson(
        Count(2), learning, 0, 10, horizon=None, measure="return", seed_of=int
    )
    lesson.reset()
    lesson.step(0)
    lesson.step(0)
    with pytest.raises(RunFailed, match="call reset"):
        lesson.step(0)


def test_an_abandoned_episode_is_recorded():
    learning = Learning(source="interaction", unit="steps", amount=4)
    lesson = InteractionLesson(
        Count(5), learning, 0, 4, horizon=None, measure="return", seed_of=int
    )
    lesson.reset()
    lesson.step(0)
    lesson.reset()
    for _ in range(3):
        lesson.step(0)
    lesson.close()
    assert rows(lesson) == [(1, 1, "abandoned"), (3, 3, "incomplete")]


def test_leaving_budget_unused_fails_the_lesson():
    learning = Learning(source="interaction", unit="steps", amount=10)
    lesson = InteractionLesson(
        Count(5), learning, 0, 10, horizon=None, measure="return", seed_of=int
    )
    lesson.reset()
    lesson.step(0)
    with pytest.raises(RunFailed, match="9 of 10 steps unused"):
        lesson.close()
    assert rows(lesson) == [(1, 1, "incomplete")]


@given(
    budget=st.integers(1, 60),
    length=st.integers(1, 12),
    horizon=st.none() | st.integers(1, 15),
    window=st.none() | st.integers(1, 9),
)
def test_the_rows_add_up_to_the_budget(budget, length, horizon, window):
    lesson = interact(Count(length), "steps", budget, horizon=horizon, experience=window)
    lesson.close()
    assert sum(e.length for e in lesson.experiences) == budget == lesson.steps
    assert sum(e.reward for e in lesson.experiences) == budget
    assert lesson.progress == 1.0
    assert [e.status for e in lesson.experiences].count("incomplete") <= 1


def demonstrations(pairs: int = 10) -> Demonstrations:
    return Demonstrations(
        {"state": np.arange(pairs, dtype=float)[:, None]},
        np.arange(pairs, dtype=float)[:, None],
        np.array([0, pairs]),
        {},
    )


def test_demonstrations_hand_out_every_pair_once_an_epoch():
    learning = Learning(source="demonstrations", unit="epochs", amount=6)
    lesson = DemonstrationLesson(demonstrations(), learning, 2, 5)
    batches = list(lesson.batches(4, np.random.default_rng(0)))
    lesson.close()
    assert [len(b.actions) for b in batches] == [4, 4, 2] * 3
    for epoch in range(3):
        seen = np.concatenate([b.actions[:, 0] for b in batches[3 * epoch : 3 * epoch + 3]])
        assert sorted(seen) == list(range(10))
    assert all((b.observations["state"] == b.actions).all() for b in batches)
    assert len(lesson.experiences) == 3
    assert lesson.progress == 5 / 6
    assert list(lesson.batches(4, np.random.default_rng(0))) == []


def test_statistics_cover_vectors_only():
    data = demonstrations(4)
    data.observations["image"] = np.zeros((4, 2, 2, 3), np.uint8)
    learning = Learning(source="demonstrations", unit="epochs", amount=1)
    statistics = DemonstrationLesson(data, learning, 0, 1).statistics()
    assert list(statistics) == ["state"]
    assert statistics["state"][0] == 1.5


def samples(count: int = 10) -> Samples:
    inputs, labels = np.arange(count)[:, None], np.arange(count) % 2
    return Samples(inputs, labels, inputs, labels, {})


def test_samples_are_metered_in_epochs():
    learning = Learning(source="samples", unit="epochs", amount=2)
    lesson = SampleLesson(samples(), learning, 0, 2)
    batches = list(lesson.batches(3, np.random.default_rng(0)))
    lesson.close()
    assert [len(b.labels) for b in batches] == [3, 3, 3, 1] * 2
    assert [e.length for e in lesson.experiences] == [10, 10]


def test_samples_are_metered_one_by_one():
    learning = Learning(source="samples", unit="samples", amount=25, experience=10)
    lesson = SampleLesson(samples(), learning, 0, 25)
    total = sum(len(b.labels) for b in lesson.batches(4, np.random.default_rng(0)))
    lesson.close()
    assert total == 25
    assert [(e.length, e.status) for e in lesson.experiences] == [
        (10, "ok"), (10, "ok"), (5, "incomplete"),
    ]  # fmt: skip


def test_test_then_train_asks_before_it_tells():
    learning = Learning(source="samples", unit="epochs", amount=1, test_then_train=True)
    told: list[int] = []

    def predict(inputs):
        assert not set(inputs[:, 0]) & set(told)
        return inputs[:, 0] % 2 * (inputs[:, 0] < 5)  # right below 5, and on even numbers

    lesson = SampleLesson(samples(), learning, 0, 1, predict)
    for batch in lesson.batches(2, np.random.default_rng(0)):
        told += list(batch.inputs[:, 0])
    assert [e.score for e in lesson.experiences] == [0.7]


def test_leaving_the_batches_and_asking_again_gains_nothing():
    learning = Learning(source="samples", unit="samples", amount=10, test_then_train=True)
    lesson = SampleLesson(samples(), learning, 0, 10, lambda inputs: inputs[:, 0] % 2)
    handed = 0
    for _ in range(100):
        for batch in lesson.batches(3, np.random.default_rng(0)):
            handed += len(batch.labels)
            break
    lesson.close()
    assert handed == 10
    assert [e.score for e in lesson.experiences] == [1.0] * 4
    learning = Learning(source="demonstrations", unit="epochs", amount=2)
    lesson = DemonstrationLesson(demonstrations(), learning, 0, 2)
    handed = 0
    for _ in range(100):
        for batch in lesson.batches(4, np.random.default_rng(0)):
            handed += len(batch.actions)
            break
    lesson.close()
    assert handed == 20
    assert [e.length for e in lesson.experiences] == [10, 10]


def test_success_does_not_leak_into_the_next_window():
    class Once(Count):
        def step(self, action):
            observation, reward, *_ = super().step(action)
            return observation, reward, False, False, {"success": self.at == 2}

    lesson = interact(Once(None, success=True), "steps", 9, experience=3)
    assert [e.success for e in lesson.experiences] == [True, False, False]


def test_an_episode_without_a_step_leaves_no_row():
    learning = Learning(source="interaction", unit="steps", amount=2)
    lesson = InteractionLesson(
        Count(5), learning, 0, 2, horizon=None, measure="return", seed_of=int
    )
    for _ in range(4):
        lesson.reset()
    lesson.step(0)
    lesson.step(0)
    lesson.close()
    assert rows(lesson) == [(2, 2, "incomplete")]
