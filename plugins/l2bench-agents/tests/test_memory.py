"""Remembered windows are those that were handed out, each frame kept once."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict

from l2bench.environment import Demonstrations, Spaces
from l2bench_agents.memory import Memory, Recorder, choose
from l2bench_agents.settings import CloningSettings

STARTS = np.array([0, 5, 6, 13])
SPACES = Spaces(
    Dict(state=Box(-1, 1, (1,), np.float32), camera=Box(0, 255, (8, 8, 1), np.uint8)),
    Box(-100, 100, (2,), np.float32),
)


def data():
    numbers = np.arange(13)
    images = np.broadcast_to(numbers[:, None, None, None], (13, 8, 8, 1)).astype(np.uint8)
    seen = {"state": numbers[:, None] / 10.0, "camera": images}
    return Demonstrations(seen, np.stack([numbers, -numbers], axis=1) * 1.0, STARTS, {})


@pytest.mark.parametrize("length, predict", [(1, 1), (4, 1), (1, 3), (3, 2)])
@pytest.mark.parametrize("settings", [{}, {"memory_count": 7}, {"memory_part": 0.3}])
@pytest.mark.parametrize("choice", ["first", "random"])
def test_what_is_remembered_is_what_was_handed_out(school, length, predict, settings, choice):
    agent = school(SPACES).agent(
        algorithm="replay", seq_len=length, predict=predict, memory_choice=choice, batch_size=4,
        hidden=(8,), **settings,
    )  # fmt: skip
    handed = {}
    update, see = agent._algorithm.update, agent._algorithm.see

    def watch(new, positions):
        for n, position in enumerate(positions):
            handed[int(position)] = {name: values[n] for name, values in new.items()}
        see(new, positions)

    agent._algorithm.see = watch
    agent._algorithm.update = lambda windows: update(windows)
    school(SPACES).teach(agent, 0, data(), epochs=1)
    (part,) = agent._algorithm.memory.parts
    positions = part.frames["target"][part.first, 0]
    for n, position in enumerate(positions * 100):
        remembered = part.windows(np.array([n]), length, predict - 1)
        original = handed[round(float(position))]
        assert sorted(remembered) == sorted(original)
        for name, values in original.items():
            assert torch.equal(remembered[name][0], values), name
    assert len(part) == {0: 13, 7: 7, 0.3: 4}[next(iter(settings.values()), 0)]
    assert len(part.frames["target"]) <= 13


def test_the_first_windows_are_the_first_demonstrations():
    settings = CloningSettings(memory_choice="first", memory_count=6, policy="rnn")
    assert choose(STARTS, settings, np.random.default_rng(0)).tolist() == [0, 1, 2, 3, 4, 5]


def test_random_windows_of_several_frames_are_whole_trajectories():
    settings = CloningSettings(memory_count=7, policy="rnn")
    found = {tuple(choose(STARTS, settings, np.random.default_rng(n))) for n in range(40)}
    assert (6, 7, 8, 9, 10, 11, 12) in found
    assert (0, 1, 2, 3, 4, 5, 6) in found
    assert len(found) < 7


def recorded(key, chosen, reach=1):
    recorder = Recorder(key, torch.zeros(1), STARTS, np.array(chosen), reach)
    positions = np.arange(13)
    recorder.see(
        {"vector": torch.arange(13.0).view(13, 1, 1), "target": torch.arange(13.0).view(13, 1, 1)},
        positions,
    )
    assert recorder.complete
    return recorder.memory


def test_draws_are_uniform_over_all_windows_and_may_leave_a_task_out():
    memory = Memory(CloningSettings())
    memory.keep(recorded("a", [0, 1]))
    memory.keep(recorded("b", [7, 8, 9, 10, 11, 12]))
    memory.keep(recorded("a", [5]))  # kept already
    assert memory.keys == ["a", "b"]
    drawn = memory.draw(8000, np.random.default_rng(0))["target"].flatten().int()
    counts = np.bincount(drawn.numpy(), minlength=13)
    assert set(np.flatnonzero(counts)) == {0, 1, 7, 8, 9, 10, 11, 12}
    assert counts[[0, 1, 7, 12]] / 8000 == pytest.approx(1 / 8, abs=0.015)
    without = memory.draw(50, np.random.default_rng(0), without="b")["target"]
    assert set(without.flatten().tolist()) == {0.0, 1.0}


def test_only_frames_that_windows_need_are_kept():
    part = recorded("a", [3, 6], reach=4)
    assert part.frames["target"].flatten().tolist() == [3, 4, 6, 7, 8, 9]
    whole = part.windows(np.array([0, 1]), 4, 0)
    assert whole["target"][..., 0].tolist() == [[3, 4, 4, 4], [6, 7, 8, 9]]
    assert whole["real"].tolist() == [[True, True, False, False], [True] * 4]
