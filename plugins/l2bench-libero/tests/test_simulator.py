"""The simulator against LIBERO itself, bit by bit, and what it promises beyond."""

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from l2bench.errors import Unsupported, UsageError
from l2bench_libero import installation
from l2bench_libero.experts import make_expert
from l2bench_libero.simulator import LiberoEnv

pytestmark = pytest.mark.sim

SEED, STATE = 11, 3


class PackageStep:
    """The control step as robosuite makes it, which the lean one has to equal."""

    def __init__(self, env):
        self._env = env
        self._substeps = int(env.control_timestep / env.model_timestep)

    def restart(self):
        """Prepare for a new episode; call after its initial state is set."""

    def advance(self, action, observe):
        """Apply one action; ``observe`` is called one physics step before the end.

        That is the moment at which LIBERO's own observations are taken.
        """
        env = self._env
        for substep in range(self._substeps):
            env.sim.forward()
            env._pre_action(action, substep == 0)
            env.sim.step()
            if observe is not None and substep == self._substeps - 2:
                observe()


def commands(count, seed=5):
    """Return random actions, half of them without rotation, some that hold the gripper."""
    actions = np.random.default_rng(seed).uniform(-1, 1, (count, 7))
    actions[::2, 3:6] = 0
    actions[::7, 6] = 0
    actions[:, 2] -= 0.5
    return np.clip(actions, -1, 1)


def test_the_lean_step_equals_the_package_step(simulators):
    env = simulators("libero_object", 0)
    runs = []
    env.build()
    lean = env._stepper
    for stepper in (lean, PackageStep(env._inner)):
        env._stepper = stepper
        env.reset(seed=SEED)
        states = [env.state()]
        for action in commands(40):
            env.step(action)
            states.append(env.state())
        runs.append(np.array(states))
    env._stepper = lean
    assert np.array_equal(*runs)


def test_quiet_steps_lead_to_the_same_observation(simulators):
    env = simulators("libero_object", 0)
    env.reset(seed=SEED)
    for action in commands(9):
        loud = env.step(action)
    env.reset(seed=SEED)
    for action in commands(9)[:-1]:
        env.step_quiet(action)
    quiet = env.step(commands(9)[-1])
    assert np.array_equal(loud[0]["state"], quiet[0]["state"])
    assert loud[1:] == quiet[1:]


def test_initial_states_go_by_index(simulators):
    env = simulators("libero_object", 0)
    stored = env.task.initial_states()
    settle, env.settle_steps = env.settle_steps, 0
    try:
        for index in (0, 49, 7):
            env.reset(seed=index, options={"initial_state": index})
            assert np.array_equal(env.state(), stored[index])
    finally:
        env.settle_steps = settle
    for index in (50, -1):
        with pytest.raises(UsageError, match=f"initial states 0 to 49, not {index}"):
            env.reset(options={"initial_state": index})
    with pytest.raises(UsageError, match="unknown reset option 'init_state'"):
        env.reset(options={"init_state": 0})


def test_fresh_placements_depend_on_the_seed_alone(simulators):
    env = simulators("libero_object", 0)
    first = env.reset(seed=1)[0]["state"]
    other = env.reset(seed=2)[0]["state"]
    env.step(np.ones(7))
    assert np.array_equal(env.reset(seed=1)[0]["state"], first)
    assert not np.allclose(first, other, atol=1e-3)
    assert env.observation_space.contains(env.reset(seed=1)[0])


def test_global_generators_are_left_alone(simulators):
    env = simulators("libero_object", 0)
    np.random.seed(123)
    random.seed(123)
    expected = np.random.random(), random.random()
    np.random.seed(123)
    random.seed(123)
    env.reset(seed=5)
    env.step(np.zeros(7))
    assert (np.random.random(), random.random()) == expected


def test_an_episode_may_last_longer_than_libero_allows(simulators):
    env = simulators("libero_object", 0)
    env.reset(seed=0)
    for _ in range(1001):
        result = env.step_quiet(np.zeros(7))
    assert result == (0.0, False, False, {"success": False})
    assert env.steps == 1001


def test_the_horizon_counts_the_agents_steps_only(simulators):
    """EVAL-13: steps of settling are none of the agent's."""
    env = simulators("libero_object", 0)
    env.reset(seed=0)
    env.horizon = 3
    try:
        late = [env.step(np.zeros(7))[3] for _ in range(3)]
    finally:
        env.horizon = None
    assert late == [False, False, True]


@pytest.mark.parametrize("action", [np.zeros(6), np.full(7, np.nan), np.zeros((1, 7))])
def test_wrong_actions_are_refused(simulators, action):
    env = simulators("libero_object", 0)
    env.reset(seed=0)
    with pytest.raises(UsageError, match="a LIBERO action is 7 finite numbers"):
        env.step(action)


def test_reset_comes_before_step():
    with pytest.raises(UsageError, match="reset the environment before stepping"):
        LiberoEnv("libero_object", 0).step(np.zeros(7))


@pytest.mark.parametrize(
    ("suite", "task", "kind", "states"),
    [
        ("libero_object", 0, "memoryless", (0, 1)),
        ("libero_object", 0, "phase", (2,)),
        ("libero_object", 1, "memoryless", (3,)),
        ("libero_10", 0, "memoryless", (0,)),
    ],
)
def test_experts_succeed_by_the_tasks_own_predicate(simulators, suite, task, kind, states):
    env = simulators(suite, task)
    expert = make_expert(env, kind)
    for state in states:
        env.reset(seed=state, options={"initial_state": state})
        expert.restart()
        terminated, rewards = False, []
        while not terminated:
            assert env.steps < 300
            action = expert.act(env.snapshot).action
            _, reward, terminated, truncated, info = env.step(action)
            rewards.append(reward)
        assert info == {"success": True}
        assert not truncated
        assert rewards[-1] == 1
        assert sum(rewards) == 1


def test_bounds_enclose_the_object(simulators):
    env = simulators("libero_object", 0)
    env.reset(seed=0)
    low, high = env.bounds("alphabet_soup_1")
    assert (high - low)[:2] == pytest.approx([0.063, 0.0625], abs=0.003)
    assert env.bounds("basket_1")[1][2] == pytest.approx(0.146, abs=0.002)


STATE_ONLY = """
import os, sys
before = dict(os.environ)
from l2bench_libero.simulator import LiberoEnv
env = LiberoEnv("libero_object", 0)
env.reset(seed=0)
env.step([0.0] * 7)
env.close()
assert dict(os.environ) == before
loaded = [n for n in sys.modules if n.split(".")[0] in ("OpenGL", "glfw")]
loaded += {"mujoco.egl", "mujoco.osmesa", "mujoco.glfw"} & set(sys.modules)
assert not loaded, loaded
print("done")
"""


def test_state_observations_need_no_opengl_no_home_and_no_answers(tmp_path):
    """REN-01: no OpenGL is loaded where nothing is rendered."""
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    environment = {
        **os.environ,
        "HOME": str(home),
        "TMPDIR": str(tmp_path),
        "MUJOCO_GL": "egl",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    for name in ("XDG_CONFIG_HOME", "MPLCONFIGDIR", "LIBERO_CONFIG_PATH"):
        environment.pop(name, None)
    log = LOG.stat().st_mtime if LOG.exists() else None
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", STATE_ONLY]
    child = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (child.stdout, child.stderr, child.returncode) == ("done\n", "", 0)
    assert [path.name for path in tmp_path.rglob("*")] == ["home"]
    assert (LOG.stat().st_mtime if LOG.exists() else None) == log


#: robosuite logs here unless it is told not to.
LOG = Path("/tmp/robosuite.log")


def projected(env, point):
    """Return row (from the bottom) and column at which the front camera sees a point."""
    model, data = env._model, env._data
    camera = model.camera("agentview").id
    x, y, z = data.cam_xmat[camera].reshape(3, 3).T @ (point - data.cam_xpos[camera])
    scale = env.image_size / 2 / np.tan(np.deg2rad(model.cam_fovy[camera]) / 2)
    centre = (env.image_size - 1) / 2
    return np.array([centre + scale * y / -z, centre + scale * x / -z])


def test_images_show_the_world_with_the_bottom_row_first(simulators):
    env = simulators("libero_object", 0, "both")
    observation, _ = env.reset(seed=0, options={"initial_state": 0})
    image = observation["agentview_rgb"]
    assert 90 < image.mean() < 190
    assert image.std() > 20
    where = projected(env, env.snapshot.positions["alphabet_soup_1"])
    state = env.state()
    joint = int(env._model.joint("alphabet_soup_1_joint0").qposadr[0])
    state[1 + joint + 2] -= 5  # the can sinks through the floor
    env.set_state(state)
    without = env.render()[::-1]
    rows, columns = np.nonzero(np.abs(image.astype(int) - without).max(axis=2) > 40)
    assert len(rows) > 20
    assert np.array([rows.mean(), columns.mean()]) == pytest.approx(where, abs=3)


def test_rendering_is_refused_with_state_observations(simulators):
    with pytest.raises(Unsupported, match="make it with observation='pixels'"):
        simulators("libero_object", 0).render()


def test_a_failing_renderer_is_one_warning_at_the_end():
    """REN-03: closing fails once, in one line."""

    class Broken:
        def close(self):
            raise RuntimeError("no context")

    env = LiberoEnv("libero_object", 0, "pixels")
    env._renderer = Broken()
    with pytest.warns(UserWarning, match="closing the renderer failed: no context"):
        env.close()
    env.close()


def test_scratch_folders_do_not_stay_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "none"))
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    with installation.quiet_environment():
        assert len(list(tmp_path.glob("l2bench-libero-*"))) == 1
    assert not list(tmp_path.iterdir())
