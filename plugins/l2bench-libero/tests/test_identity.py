"""The lean engine and the reference engine against LIBERO itself, bit by bit, on nine tasks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium.utils import seeding

from l2bench_libero import rendering
from l2bench_libero.experts import make_expert, supported
from l2bench_libero.reference import ReferenceEnv
from l2bench_libero.simulator import LiberoEnv

pytestmark = [pytest.mark.sim, pytest.mark.timeout(600)]

SEED, STATE, SETTLE, SIZE = 11, 3, 5, 32
SCRIPTED, RANDOM = 12, 12
#: The tasks, and whether the scripted expert goes on to the end and images are compared.
TASKS = {
    ("libero_object", 0): "to the end",
    ("libero_object", 1): "images",
    ("libero_spatial", 0): "",
    ("libero_spatial", 4): "",
    ("libero_goal", 0): "",
    ("libero_goal", 6): "",
    ("libero_10", 2): "images",
    ("libero_10", 7): "",
    ("libero_90", 9): "",
}


def commands(count, seed=5):
    """Return random actions, half of them without rotation, some that hold the gripper."""
    actions = np.random.default_rng(seed).uniform(-1, 1, (count, 7))
    actions[::2, 3:6] = 0
    actions[::7, 6] = 0
    actions[:, 2] -= 0.5
    return np.clip(actions, -1, 1)


def columns_of(env):
    """Return what LIBERO observes too, under its names."""
    seen = env.snapshot
    columns = {
        ":state": env.state(),
        "robot0_eef_pos": seen.eef,
        "robot0_eef_quat": seen.hand_quaternion,
        "robot0_joint_pos_cos": np.cos(seen.joints),
        "robot0_gripper_qpos": seen.fingers,
        "robot0_gripper_qvel": seen.finger_velocities,
    }
    columns |= {f"{name}_pos": place for name, place in seen.positions.items()}
    names = {"agentview_rgb": "agentview_image", "eye_in_hand_rgb": "robot0_eye_in_hand_image"}
    return columns | {names[key]: image for key, image in env.images.items()}


def lean(suite, task, what):
    """Play an episode after another one and return its actions and what was seen."""
    observation = "both" if what == "images" else "state"
    env = LiberoEnv(suite, task, observation, settle_steps=SETTLE, image_size=SIZE)
    env.reset(seed=99, options={"initial_state": 7})
    for action in commands(8, seed=1):
        env.step_quiet(action)
    env.reset(seed=SEED, options={"initial_state": STATE})
    rows, done, actions = [columns_of(env)], [False], []
    scripted = task in supported(suite) and what != "images"
    expert = make_expert(env, "memoryless") if scripted else None
    if expert is not None:
        expert.restart()
    steps = 2 if what == "images" else 400 if what == "to the end" else RANDOM
    for action in commands(SCRIPTED if what != "to the end" else 0, seed=6)[: steps // 2]:
        actions.append(action)
    for action in actions:
        done.append(env.step(action)[2])
        rows.append(columns_of(env))
    for action in commands(steps):
        chosen = action if expert is None else expert.act(env.snapshot).action
        actions.append(chosen)
        done.append(env.step(chosen)[2])
        rows.append(columns_of(env))
        if done[-1]:
            break
    env.close()
    return {"actions": np.array(actions), "rows": rows, "done": done, "task": env.task}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return by task what the lean engine saw, and what LIBERO saw under the same actions."""
    folder = tmp_path_factory.mktemp("official")
    ours = {key: lean(*key, what) for key, what in TASKS.items()}
    entries = []
    for number, (key, what) in enumerate(TASKS.items()):
        found = ours[key]["task"]
        np.save(folder / f"{number}.npy", found.initial_states())
        entries.append(
            {
                "definition": str(found.definition()),
                "states": str(folder / f"{number}.npy"),
                "state": STATE,
                "seed": int(seeding.np_random(SEED)[0].integers(2**32)),
                "actions": ours[key]["actions"].tolist(),
                "size": SIZE if what == "images" else None,
            }
        )
    (folder / "specification.json").write_text(json.dumps(entries))
    environment = {
        **os.environ,
        "MUJOCO_GL": rendering.backend(),
        "LIBERO_CONFIG_PATH": "/none",
        "MPLCONFIGDIR": str(folder),
    }
    command = [sys.executable, str(Path(__file__).with_name("official.py"))]
    command += [str(folder / "specification.json"), str(folder / "out.npz")]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    with np.load(folder / "out.npz") as found:
        theirs = {key: {} for key in TASKS}
        for name in found.files:
            number, column = name.split("/", 1)
            theirs[list(TASKS)[int(number)]][column] = found[name]
    return ours, theirs


@pytest.mark.parametrize(("suite", "task"), TASKS)
def test_every_bit_is_that_of_libero(recorded, suite, task):
    """Soft reset after another episode, lean step, a model without meshes: all at once."""
    mine, theirs = (part[suite, task] for part in recorded)
    shared = set(mine["rows"][0]) & set(theirs)
    assert len(shared) >= 6 + 1  # some object beside state and robot
    assert mine["done"] == theirs[":done"].tolist()
    for at, row in enumerate(mine["rows"]):
        for column in shared:
            assert np.array_equal(row[column], theirs[column][at]), f"{column} after {at} steps"
    if TASKS[suite, task] == "to the end":
        assert mine["done"][-1]
    if TASKS[suite, task] == "images":
        assert {"agentview_image", "robot0_eye_in_hand_image"} <= shared


@pytest.mark.parametrize("key", [("libero_object", 1), ("libero_spatial", 4)])
def test_the_reference_engine_is_libero_too(recorded, key):
    """In its second episode, after a hard reset of its own."""
    mine, theirs = (part[key] for part in recorded)
    observation = "both" if TASKS[key] == "images" else "state"
    env = ReferenceEnv(*key, observation, settle_steps=SETTLE, image_size=SIZE)
    try:
        env.reset(seed=99)
        env.step(commands(1)[0])
        env.reset(seed=SEED, options={"initial_state": STATE})
        rows, done = [columns_of(env)], [False]
        for action in mine["actions"]:
            done.append(env.step(action)[2])
            rows.append(columns_of(env))
    finally:
        env.close()
    assert done == theirs[":done"].tolist()
    for at, row in enumerate(rows):
        for column in set(row) & set(theirs):
            assert np.array_equal(row[column], theirs[column][at]), f"{column} after {at} steps"
        for column in row:
            assert np.array_equal(row[column], mine["rows"][at][column])
