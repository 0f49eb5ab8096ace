"""Small demonstration files, and simulators that live as long as the test session."""

import json

import h5py
import numpy as np
import pytest

SIZE = 4


def write_official(path, lengths=(5, 4), seed=0):
    """Write a file of the official layout: obs[t] is the number t + 1, after actions[t]."""
    rng = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_name"] = "Libero_Floor_Manipulation"
        data.attrs["problem_info"] = json.dumps({"language_instruction": "pick the soup"})
        data.attrs["macros_image_convention"] = "opengl"
        data.attrs["num_demos"] = len(lengths)
        data.attrs["total"] = sum(lengths)
        for number, length in enumerate(lengths):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = length
            demo.attrs["init_state"] = np.zeros(6)
            actions = np.zeros((length, 7))
            actions[:, 0] = np.arange(length) / 10
            actions[:, 6] = np.where(np.arange(length) < 2, -1.0, 1.0)
            demo["actions"] = actions
            demo["states"] = rng.normal(size=(length, 6))
            demo["robot_states"] = rng.normal(size=(length, 9))
            for key in ("rewards", "dones"):
                demo[key] = (np.arange(length) == length - 1).astype(np.uint8)
            after = 100 * number + np.arange(1, length + 1)
            obs = demo.create_group("obs")
            for key, width in (("joint_states", 7), ("gripper_states", 2), ("ee_states", 6)):
                obs[key] = np.repeat(after[:, None], width, axis=1).astype(np.float64)
            for key in ("agentview_rgb", "eye_in_hand_rgb"):
                image = np.zeros((length, SIZE, SIZE, 3), np.uint8)
                image[...] = (after % 256)[:, None, None, None]
                obs[key] = image
    return path


@pytest.fixture
def official(tmp_path):
    """Return a small file of the official layout: two demonstrations of 5 and 4 steps."""
    return write_official(tmp_path / "task_demo.hdf5")


@pytest.fixture
def write():
    """Return the function that writes such files."""
    return write_official


@pytest.fixture(scope="session")
def simulators():
    """Return a function that gives the session's one environment of a task and observation."""
    from l2bench_libero.experts import settle_steps
    from l2bench_libero.simulator import LiberoEnv

    made = {}

    def get(suite, task, observation="state"):
        key = (suite, task, observation)
        if key not in made:
            made[key] = LiberoEnv(
                suite, task, observation, settle_steps=settle_steps(suite), image_size=64
            )
        return made[key]

    yield get
    for env in made.values():
        env.close()
