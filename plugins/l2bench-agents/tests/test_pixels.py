"""Observations with images."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict

from l2bench.environment import Demonstrations, Spaces

ARM = Box(-1.0, 1.0, (2,), np.float32)


def image(size: int, channels: int = 3) -> Box:
    return Box(0, 255, (size, size, channels), np.uint8)


def dots(number: int, size: int, seed: int = 0):
    """Return images with a bright dot, and where it is, in [-1, 1]."""
    rng = np.random.default_rng(seed)
    places = rng.integers(3, size - 3, (number, 2))
    images = rng.integers(0, 20, (number, size, size, 3)).astype(np.uint8)
    for each, (row, column) in zip(images, places, strict=True):
        each[row - 3 : row + 3, column - 3 : column + 3] = 255
    return images, (places / size * 2 - 1).astype(np.float32)


def test_a_policy_learns_where_something_is_in_an_image(school):
    teacher = school(Spaces(image(32), ARM), tasks=1)
    agent = teacher.agent(hidden=(64,), batch_size=16, threads=1)
    images, places = dots(256, 32)
    data = Demonstrations({"observation": images}, places, np.array([0, 256]), {})
    teacher.teach(agent, 0, data, epochs=6)
    fresh, asked = dots(32, 32, seed=1)
    error = np.abs(teacher.act(agent, 0, fresh) - asked).mean()
    assert error < 0.1  # knowing nothing gives 0.45


@pytest.mark.parametrize("algorithm", ["sequential", "replay"])
@pytest.mark.parametrize("size, channels", [(8, 1), (48, 3), (64, 4)])
def test_images_and_vectors_together_run_and_resume(school, tmp_path, algorithm, size, channels):
    spaces = Spaces(
        Dict(
            proprio=Box(-1, 1, (15,), np.float32),
            agentview_rgb=image(size, channels),
            eye_in_hand_rgb=image(size, channels),
        ),
        ARM,
    )
    teacher = school(spaces)
    rng = np.random.default_rng(0)
    observations = {
        "proprio": rng.normal(size=(12, 15)),
        "agentview_rgb": rng.integers(0, 255, (12, size, size, channels)).astype(np.uint8),
        "eye_in_hand_rgb": rng.integers(0, 255, (12, size, size, channels)).astype(np.uint8),
        "left_out": np.zeros((12, 3)),
    }
    data = Demonstrations(
        observations, rng.uniform(-1, 1, (12, 2)).astype(np.float32), np.array([0, 12]), {}
    )
    settings = {"algorithm": algorithm, "batch_size": 8, "hidden": (16,), "threads": 1}
    agent = teacher.agent(**settings)
    teacher.teach(agent, 0, data, epochs=1)
    teacher.teach(agent, 1, data, epochs=2, stop=1)
    agent.save(tmp_path)
    other = teacher.agent(seed=5, **settings)
    other.load(tmp_path)
    for each in (agent, other):
        teacher.teach(each, 1, data, epochs=2, start=1)
    assert agent.fingerprint() == other.fingerprint()
    together = teacher.act(agent, 0, observations, 12)
    alone = [
        teacher.act(agent, 0, {key: v[n : n + 1] for key, v in observations.items()}, 1)
        for n in range(12)
    ]
    assert np.array_equal(together, np.concatenate(alone))


def test_images_leave_the_number_of_threads_to_torch_unless_told(school):
    teacher = school(Spaces(image(16), ARM))
    before = torch.get_num_threads()
    teacher.agent()
    assert torch.get_num_threads() == before
    teacher.agent(threads=1)
    assert torch.get_num_threads() == 1
