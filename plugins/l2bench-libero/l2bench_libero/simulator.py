"""LIBERO as a Gymnasium environment that builds its simulator once and keeps it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from l2bench.errors import RunFailed, Unsupported, UsageError
from l2bench.seeding import isolated
from l2bench_libero import construction
from l2bench_libero import observation as obs
from l2bench_libero.rendering import Renderer
from l2bench_libero.stepping import LeanStep, Observe, Step
from l2bench_libero.tasks import Task, find

Array = NDArray[np.float64]
Observation = dict[str, NDArray[Any]]

#: Standard deviation (rad) of the joint angles of fresh initial states, as in the official ones.
JOINT_NOISE = 0.02
_PLACEMENT_ATTEMPTS = 100
_RESET_OPTIONS = {"initial_state"}


class LiberoEnv(gymnasium.Env[Observation, NDArray[Any]]):
    """One LIBERO task.

    Actions (7,) in [-1, 1]: hand translation, rotation, gripper (+1 closes, 0 holds), 20 a second.
    Reward 1 and ``terminated`` on success, as the task's own predicate says; ``info["success"]``
    is that predicate. ``truncated`` at the horizon if there is one. The simulator is built at
    first use or by :meth:`build`, and nothing of OpenGL is loaded unless images are observed.
    ``settle_steps`` idle steps with ``settle_action`` follow a reset; ``orientation`` and
    ``proprio`` say how the world is shown (see :mod:`l2bench_libero.observation`). ``guard`` is
    called with the environment before its first episode and may refuse it.
    """

    def __init__(
        self,
        suite: str,
        task: int | str | Task,
        observation: str = "state",
        *,
        settle_steps: int = 5,
        image_size: int = 128,
        horizon: int | None = None,
        settle_action: Sequence[float] = (0.0,) * 7,
        orientation: str = "none",
        proprio: str = "full",
        guard: Callable[[LiberoEnv], None] | None = None,
    ) -> None:
        self.task = task if isinstance(task, Task) else find(suite, task)
        self.observation = obs.check_observation(observation)
        self.settle_steps = settle_steps
        self.image_size = image_size
        self.horizon = horizon
        self.settle_action = np.asarray(settle_action, dtype=np.float64)
        self.orientation = orientation
        self.proprio = proprio
        self._guard = guard
        self.observation_space: gymnasium.spaces.Dict = obs.observation_space(  # type: ignore[assignment]
            observation, image_size, proprio
        )
        self.action_space = obs.action_space()
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 20}
        self.render_mode = None if observation == "state" else "rgb_array"
        self.goals: tuple[obs.Goal, ...] = ()
        self.steps = 0
        self._inner: Any = None
        self._renderer: Renderer | None = None
        self._states: Array | None = None
        self._snapshot: obs.Snapshot | None = None
        self._images: dict[str, NDArray[np.uint8]] = {}

    # -- building ---------------------------------------------------------------------------

    def build(self) -> None:
        """Build the simulator unless it is there; no OpenGL, so that the process may still fork.

        Raises:
            Unsupported: LIBERO or MuJoCo is missing or of another version.
        """
        if self._inner is not None:
            return
        with isolated(0):
            env = construction.build(self.task.definition(), visible=self.observation != "state")
        self._inner = env
        self._model, self._data = env.sim.model._model, env.sim.data._data
        self._find_references()
        self._stepper: Step = LeanStep(self._inner)

    def _find_references(self) -> None:
        env, robot = self._inner, self._inner.robots[0]
        self._arm = np.asarray(robot._ref_joint_pos_indexes)
        self._fingers = np.asarray(robot._ref_gripper_joint_pos_indexes)
        self._finger_velocities = np.asarray(robot._ref_gripper_joint_vel_indexes)
        self._eef = int(robot.eef_site_id)
        self._hand = int(env.sim.model.body_name2id(robot.robot_model.eef_name))
        self._predicates = [list(state) for state in env.parsed_problem["goal_state"]]
        self.goals = tuple(obs.Goal(p[0], p[1], p[-1]) for p in self._predicates)
        names = dict.fromkeys(x for goal in self.goals for x in (goal.subject, goal.target))
        self._places = {name: self._place(name) for name in (*names, *env.objects_dict)}

    def _place(self, name: str) -> tuple[bool, int]:
        """Return whether a name of the task definition is a site, and its number."""
        env = self._inner
        if name in env.obj_body_id:
            return False, int(env.obj_body_id[name])
        return True, int(env.sim.model.site_name2id(name))

    # -- Gymnasium --------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode and let the objects settle.

        ``options={"initial_state": k}`` starts from evaluation state ``k``; the seed then decides
        only where fixtures stand. Without it, objects and joints are placed afresh from the seed.

        Raises:
            UsageError: an unknown option, or no such state.
        """
        super().reset(seed=seed)
        state = self._chosen_state(options or {})
        self.build()
        if self._guard is not None:
            self._guard(self)
            self._guard = None
        with isolated(int(self.np_random.integers(2**32))):
            self._soft_reset()
        if state is None:
            state = self._fresh_state()
        self.set_state(state)
        for left in reversed(range(self.settle_steps)):
            self._stepper.advance(self.settle_action, None if left else self._take)
            self._finish_step()
        if not self.settle_steps:
            self._take()
        self.steps = 0
        return self._observation(), {"success": False}

    def step(self, action: NDArray[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Apply one action and observe."""
        ending = self._advance(action, self._take)
        return self._observation(), *ending

    def step_quiet(self, action: NDArray[Any]) -> tuple[float, bool, bool, dict[str, Any]]:
        """Apply one action without an observation: all of an action chunk but its last."""
        return self._advance(action, None)

    def step_blind(self, action: NDArray[Any]) -> tuple[float, bool, bool, dict[str, Any]]:
        """Apply one action and renew the snapshot, without images: for experts, unobserved."""
        return self._advance(action, self._look)

    def render(self) -> NDArray[np.uint8]:
        """Return the scene from the front, upright, (image_size, image_size, 3).

        Raises:
            Unsupported: the environment was made for state observations, without a renderer.
        """
        if self.observation == "state":
            raise Unsupported(
                "this LIBERO environment has no renderer; make it with observation='pixels'"
            )
        self.build()
        return self._camera(obs.CAMERAS["agentview_rgb"])[::-1]

    def close(self) -> None:
        """Free the renderer and the simulator."""
        if self._renderer is not None:
            try:
                self._renderer.close()
            except Exception as error:
                warnings.warn(f"closing the renderer failed: {error}", stacklevel=2)
            self._renderer = None
        self._inner = None

    # -- beyond Gymnasium -------------------------------------------------------------------

    @property
    def snapshot(self) -> obs.Snapshot:
        """The world as it was at the last observation (privileged; for scripted experts)."""
        if self._snapshot is None:
            raise UsageError("reset the environment before asking for its snapshot")
        return self._snapshot

    @property
    def images(self) -> Mapping[str, NDArray[np.uint8]]:
        """The images of the last observation as rendered, by key; none with state observations."""
        return self._images

    @property
    def backend(self) -> str | None:
        """The OpenGL backend in use, or None while nothing was rendered."""
        return None if self._renderer is None else self._renderer.backend

    def state(self) -> Array:
        """Return the simulator's state: time, positions, velocities."""
        self.build()
        return np.asarray(self._inner.sim.get_state().flatten(), dtype=np.float64)

    def set_state(self, state: Array) -> None:
        """Put the simulator into a state, as LIBERO's ``set_init_state`` does."""
        self.build()
        sim = self._inner.sim
        size = 1 + sim.model.nq + sim.model.nv
        if np.shape(state) != (size,):
            raise UsageError(f"{self.task.id} has states of {size} numbers, not {np.shape(state)}")
        sim.set_state_from_flattened(np.asarray(state, dtype=np.float64))
        sim.forward()
        self._finish_step()
        self._stepper.restart()

    def bounds(self, name: str) -> tuple[Array, Array]:
        """Return the lowest and highest corner of an object's solid shapes around its position.

        Taken in world axes for its present orientation; metres.
        """
        self.build()
        model, data = self._model, self._data
        body = self._places[name][1]
        solid = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
        chosen = np.flatnonzero((model.body_rootid[model.geom_bodyid] == body) & solid)
        frames = data.geom_xmat[chosen].reshape(-1, 3, 3)
        local = model.geom_aabb[chosen]
        centre = data.geom_xpos[chosen] + np.einsum("nij,nj->ni", frames, local[:, :3])
        half = np.einsum("nij,nj->ni", np.abs(frames), local[:, 3:])
        origin = data.xpos[body]
        return (centre - half).min(axis=0) - origin, (centre + half).max(axis=0) - origin

    def settled(self, seed: int, steps: int) -> dict[str, tuple[Array, Array]]:
        """Return where each object and fixture rests some idle steps after evaluation state 0.

        By name: position (3,) and axes (3, 3) in the world. Nothing is rendered; reset afterwards.
        """
        self.build()
        with isolated(seed):
            self._soft_reset()
        state = self._chosen_state({"initial_state": 0})
        assert state is not None
        self.set_state(state)
        for _ in range(steps):
            self._stepper.advance(np.zeros(7), None)
            self._finish_step()
        bodies = {name: int(number) for name, number in self._inner.obj_body_id.items()}
        return {
            name: (np.array(self._data.xpos[i]), np.array(self._data.xmat[i]).reshape(3, 3))
            for name, i in bodies.items()
        }

    # -- inside -----------------------------------------------------------------------------

    def _chosen_state(self, options: Mapping[str, Any]) -> Array | None:
        unknown = set(options) - _RESET_OPTIONS
        if unknown:
            raise UsageError(
                f"unknown reset option {sorted(unknown)[0]!r}; there is 'initial_state'"
            )
        index = options.get("initial_state")
        if index is None:
            return None
        if self._states is None:
            self._states = self.task.initial_states()
        if not 0 <= int(index) < len(self._states):
            raise UsageError(
                f"{self.task.id} has initial states 0 to {len(self._states) - 1}, not {index}"
            )
        return np.array(self._states[int(index)])

    def _soft_reset(self) -> None:
        from robosuite.utils.errors import RandomizationError  # type: ignore[import-untyped]

        for _ in range(_PLACEMENT_ATTEMPTS):
            try:
                self._inner.reset()
                return
            except RandomizationError:
                continue
        raise RunFailed(
            f"{self.task.id}: the objects could not be placed in {_PLACEMENT_ATTEMPTS} attempts"
        )

    def _fresh_state(self) -> Array:
        state = self.state()
        state[0] = 0.0
        state[1 + self._arm] += JOINT_NOISE * self.np_random.standard_normal(len(self._arm))
        return state

    def _advance(
        self, action: NDArray[Any], observe: Observe
    ) -> tuple[float, bool, bool, dict[str, Any]]:
        command = np.asarray(action, dtype=np.float64)
        if command.shape != (7,) or not np.isfinite(command).all():
            raise UsageError(f"a LIBERO action is 7 finite numbers, not {action!r}")
        if self._inner is None or self._snapshot is None:
            raise UsageError("reset the environment before stepping it")
        self._stepper.advance(command, observe)
        success = self._finish_step()
        self.steps += 1
        late = self.horizon is not None and self.steps >= self.horizon
        return float(success), success, late and not success, {"success": success}

    def _finish_step(self) -> bool:
        success = bool(self._inner._check_success())
        self._inner._post_process()
        return success

    def _look(self) -> None:
        self._snapshot = self._world()

    def _take(self) -> None:
        self._look()
        if self.observation != "state":
            self._images = {key: self._camera(name) for key, name in obs.CAMERAS.items()}

    def _world(self) -> obs.Snapshot:
        data = self._data
        positions = {
            name: np.array(data.site_xpos[number] if site else data.xpos[number])
            for name, (site, number) in self._places.items()
        }
        many = len(self._predicates) > 1
        satisfied = tuple(many and self._satisfied(p) for p in self._predicates)
        return obs.Snapshot(
            eef=np.array(data.site_xpos[self._eef]),
            hand_quaternion=np.array(data.xquat[self._hand][[1, 2, 3, 0]]),
            joints=np.array(data.qpos[self._arm]),
            fingers=np.array(data.qpos[self._fingers]),
            finger_velocities=np.array(data.qvel[self._finger_velocities]),
            positions=positions,
            satisfied=satisfied,
        )

    def _satisfied(self, predicate: list[str]) -> bool:
        return bool(self._inner._eval_predicate(predicate))

    def _camera(self, name: str) -> NDArray[np.uint8]:
        if self._renderer is None:
            self._renderer = Renderer(self._model, self.image_size)
        return self._renderer.render(self._data, name)

    def _observation(self) -> Observation:
        result: Observation = {}
        if self.observation != "pixels":
            result["state"] = obs.compact_state(self.snapshot, self.goals)
        if self.observation != "state":
            result["proprio"] = obs.proprio(obs.proprio_parts(self.snapshot), self.proprio)
            for key, image in self._images.items():
                result[key] = obs.turn(image, self.orientation)
        return result
