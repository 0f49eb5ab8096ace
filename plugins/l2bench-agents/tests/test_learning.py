"""What behaviour cloning learns, forgets, and keeps."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete

from l2bench.environment import Demonstrations, Spaces
from l2bench.errors import RunFailed


def test_learns_the_demonstrated_actions(school):
    teacher = school()
    agent = teacher.agent()
    before = teacher.error(agent, 0)
    lesson = teacher.teach(agent, 0, epochs=60)
    assert before > 0.5
    assert teacher.error(agent, 0) < 0.06
    assert len(lesson.experiences) == 60


def test_the_gripper_acts_at_its_bounds_and_nothing_else_does(school):
    teacher = school()
    agent = teacher.agent()
    teacher.teach(agent, 0)
    seen = np.repeat(np.array([[0.0], [0.1], [1.0]]), 5, axis=1)
    actions = teacher.act(agent, 0, seen)
    assert set(np.abs(actions[:, 3])) == {1.0}
    assert np.all(np.abs(actions[:, :3]) < 1)
    assert actions.dtype == np.float32


@pytest.mark.parametrize("gripper, values", [("auto", False), ("none", False), ("last", True)])
def test_a_last_action_between_its_bounds_is_no_gripper_unless_told(school, gripper, values):
    teacher = school()
    agent = teacher.agent(gripper=gripper)
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(64, 5)).astype(np.float32)
    data = Demonstrations({"observation": seen}, np.tanh(seen[:, :4]), np.array([0, 64]), {})
    teacher.teach(agent, 0, data)
    acted = teacher.act(agent, 0, seen)[:, 3]
    assert bool(np.all(np.abs(acted) == 1)) is values


@pytest.mark.parametrize("loss", ["mse", "l1"])
@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_every_loss_and_schedule_learns(school, loss, schedule):
    teacher = school()
    agent = teacher.agent(loss=loss, schedule=schedule, hidden=(64,))
    teacher.teach(agent, 0, epochs=40)
    assert teacher.error(agent, 0) < 0.15


def test_actions_are_scaled_to_the_bounds_of_their_space(school):
    wide = Box(np.array([0.0, -100.0]), np.array([10.0, 100.0]), dtype=np.float64)
    teacher = school(Spaces(Box(-1, 1, (2,), np.float64), wide))
    agent = teacher.agent(batch_size=16)
    seen = np.random.default_rng(0).uniform(-1, 1, (256, 2))
    asked = np.column_stack([5 + 4 * seen[:, 0], 90 * seen[:, 1]])
    data = Demonstrations({"any": seen}, asked, np.array([0, 256]), {})
    teacher.teach(agent, 0, data, epochs=40)
    acted = teacher.act(agent, 0, seen)
    assert acted.dtype == np.float64
    assert np.abs(acted - asked).mean(axis=0) == pytest.approx([0, 0], abs=3)
    far = teacher.act(agent, 0, np.array([[50.0, 50.0]]))
    assert wide.contains(far[0])


def test_discrete_actions_are_learned_by_classification(school):
    teacher = school(Spaces(Box(0, 1, (4,), np.float32), Discrete(4, start=10)))
    agent = teacher.agent()
    answers = np.arange(32) % 4
    shown = np.eye(4, dtype=np.float32)[answers]
    data = Demonstrations({"observation": shown}, answers[:, None] + 10, np.array([0, 32]), {})
    teacher.teach(agent, 0, data)
    assert teacher.act(agent, 0, np.eye(4, dtype=np.float32)).tolist() == [10, 11, 12, 13]


def test_replay_remembers_what_sequential_learning_forgets(school):
    errors = {}
    for algorithm in ("sequential", "replay"):
        teacher = school()
        agent = teacher.agent(algorithm=algorithm)
        for task in (0, 1):
            teacher.teach(agent, task, epochs=40)
            assert teacher.error(agent, task) < 0.1
        errors[algorithm] = teacher.error(agent, 0)
    assert errors["sequential"] > 0.3
    assert errors["replay"] < 0.1


def test_without_the_task_conflicting_tasks_cannot_both_be_kept(school):
    teacher = school(revealed=False)
    agent = teacher.agent(algorithm="replay")
    for task in (0, 1):
        teacher.teach(agent, task, epochs=20)
    assert agent.details()["inputs"]["task"] == 0
    assert agent.details()["memory_pairs"] == 512
    assert teacher.error(agent, 0) > 0.3


@pytest.mark.parametrize("revealed", [True, False])
@pytest.mark.parametrize("part, kept", [(1.0, 256), (0.1, 26), (0.001, 1)])
def test_the_memory_takes_in_a_part_of_each_finished_task(school, revealed, part, kept):
    teacher = school(revealed=revealed)
    agent = teacher.agent(algorithm="replay", memory_part=part)
    teacher.teach(agent, 0, epochs=4, stop=2)
    assert agent.details()["memory_pairs"] == 0
    teacher.teach(agent, 0, epochs=4, start=2)
    assert agent.details()["memory_pairs"] == kept
    teacher.teach(agent, 1, epochs=4)
    assert agent.details()["memory_pairs"] == 2 * kept
    per_pair = 4 * (5 + 4)
    assert agent.details()["memory_bytes"] == 2 * kept * per_pair


def test_a_task_that_returns_is_remembered_once_where_it_is_revealed(school):
    teacher = school()
    agent = teacher.agent(algorithm="replay")
    for task in (0, 1, 0, 1):
        teacher.teach(agent, task, epochs=1)
    assert agent.details()["memory_pairs"] == 512


def test_a_task_broken_off_early_is_remembered_when_the_next_begins(school):
    teacher = school(revealed=False)
    agent = teacher.agent(algorithm="replay")
    teacher.teach(agent, 0, epochs=4, stop=2)
    teacher.teach(agent, 1, epochs=4, stop=2)
    assert agent.details()["memory_pairs"] == 256


def test_batches_keep_their_size_and_the_share_of_memory(school, monkeypatch):
    teacher = school()
    agent = teacher.agent(algorithm="replay", batch_size=20, memory_share=0.25)
    tasks = []
    update = agent._algorithm.update

    def spy(windows):
        tasks.append(windows["task"].sum(dim=0).int().tolist())
        return update(windows)

    monkeypatch.setattr(agent._algorithm, "update", spy)
    teacher.teach(agent, 0, epochs=1)
    assert tasks == [[20, 0]] * 12 + [[16, 0]]
    tasks.clear()
    teacher.teach(agent, 1, epochs=1)
    assert tasks == [[5, 15]] * 17 + [[1, 1]]


def test_the_learning_rate_falls_along_half_a_cosine_over_the_whole_task(school, monkeypatch):
    teacher = school()
    agent = teacher.agent(batch_size=128)
    rates = []
    update = agent._algorithm.update

    def spy(windows):
        rates.append(agent._learner.optimiser.param_groups[0]["lr"])
        return update(windows)

    monkeypatch.setattr(agent._algorithm, "update", spy)
    teacher.teach(agent, 0, epochs=2, stop=1)
    teacher.teach(agent, 0, epochs=2, start=1)
    expected = 1e-3 * (1 + np.cos(np.pi * np.array([0, 0.25, 0.5, 0.75]))) / 2
    assert rates == pytest.approx(expected)


def test_one_loss_is_recorded_for_each_epoch(school):
    teacher = school()
    lesson = teacher.teach(teacher.agent(), 0, epochs=5)
    assert [(at, name) for at, name, _ in lesson.series] == [(n, "loss") for n in range(5)]
    losses = [value for _, _, value in lesson.series]
    assert losses[-1] < losses[0]
    assert all(0 < loss < 10 for loss in losses)


def test_inputs_are_standardised_with_the_first_task_only(school):
    teacher = school()
    agent = teacher.agent(std_floor=0.5)
    teacher.teach(agent, 0, epochs=1)
    statistics = agent._learner.policy.standardise
    seen = teacher.data(0).observations["observation"]
    assert statistics.mean.numpy() == pytest.approx(seen.mean(axis=0), abs=1e-5)
    assert statistics.deviation.numpy() == pytest.approx(np.maximum(seen.std(axis=0), 0.5), 1e-5)
    standardised = statistics(torch.full((1, 5), 1e6))
    assert standardised.tolist() == [[5.0] * 5]
    before = statistics.mean.clone()
    teacher.teach(agent, 1, epochs=1)
    assert torch.equal(statistics.mean, before)


def test_demonstrations_that_lack_a_part_are_refused_by_name(school):
    box = Box(-1, 1, (5,), np.float32)
    teacher = school(Spaces(Dict(state=box, proprio=box), Box(-1, 1, (4,), np.float32)))
    values = np.zeros((8, 5), np.float32)
    data = Demonstrations({"state": values}, np.zeros((8, 4)), np.array([0, 8]), {})
    with pytest.raises(RunFailed, match=r"'proprio' is missing; there is state"):
        teacher.teach(teacher.agent(), 0, data)


def test_demonstrations_of_another_shape_are_refused(school):
    teacher = school()
    for wide, actions in ((6, 4), (5, 3)):
        values = np.zeros((8, wide), np.float32)
        data = Demonstrations({"any": values}, np.zeros((8, actions)), np.array([0, 8]), {})
        with pytest.raises(RunFailed, match=r"shape \(\d,\), (its|their) space says \(\d,\)"):
            teacher.teach(teacher.agent(), 0, data)


def test_an_observation_of_another_shape_is_refused(school):
    teacher = school()
    with pytest.raises(RunFailed, match=r"'observation' has shape \(7,\), its space says \(5,\)"):
        teacher.act(teacher.agent(), 0, np.zeros((2, 7), np.float32))
