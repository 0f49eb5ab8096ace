"""One control step of LIBERO: 25 physics steps under the operational-space controller.

robosuite evaluates the dynamics three times in each physics step and refreshes every observable.
:class:`LeanStep` evaluates them once, with the same operations on the same numbers in the same
order, so that every bit of the result is equal; a test compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Observe = Callable[[], None] | None


class PackageStep:
    """The control step as robosuite makes it; the reference for the lean one."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._substeps = int(env.control_timestep / env.model_timestep)

    def restart(self) -> None:
        """Prepare for a new episode; call after its initial state is set."""

    def advance(self, action: Array, observe: Observe) -> None:
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


class LeanStep:
    """The same control step with one evaluation of the dynamics in each physics step."""

    def __init__(self, env: Any) -> None:
        import mujoco  # type: ignore[import-untyped]
        from robosuite.utils import control_utils  # type: ignore[import-untyped]

        self._env = env
        self._robot = env.robots[0]
        self._substeps = int(env.control_timestep / env.model_timestep)
        self._step1, self._step2 = mujoco.mj_step1, mujoco.mj_step2
        self._solve, self._after_velocities = mujoco.mj_forwardSkip, mujoco.mjtStage.mjSTAGE_VEL
        self._jacobian, self._full_mass = mujoco.mj_jacSite, mujoco.mj_fullM
        self._matrices = control_utils.opspace_matrices
        self._rest_torques = control_utils.nullspace_torques
        self._rotation_error = control_utils.orientation_error
        self._goal_rotation = control_utils.set_goal_orientation
        self._model, self._data = env.sim.model._model, env.sim.data._data
        model, robot = self._model, self._robot
        self._site = int(robot.eef_site_id)
        self._qpos = np.asarray(robot._ref_joint_pos_indexes)
        self._qvel = np.asarray(robot._ref_joint_vel_indexes)
        self._arm = np.asarray(robot._ref_joint_actuator_indexes)
        self._hand = np.asarray(robot._ref_joint_gripper_actuator_indexes)
        self._low, self._high = model.actuator_ctrlrange[self._arm].T.copy()
        low, high = model.actuator_ctrlrange[self._hand].T
        self._hand_bias, self._hand_weight = 0.5 * (high + low), 0.5 * (high - low)
        self._direction = np.array([-1.0, 1.0]) * robot.gripper.speed
        self._jacp, self._jacr = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        self._mass = np.zeros((model.nv, model.nv))

    def restart(self) -> None:
        """Take over the controller as the reset left it; call after the initial state is set.

        Its readings are of the robot's home pose, before the initial state, and robosuite uses
        them once more in the first physics step.
        """
        c = self._robot.controller
        self._controller = c
        self._stale = (
            c.ee_pos,
            c.ee_ori_mat,
            c.ee_pos_vel,
            c.ee_ori_vel,
            c.joint_pos,
            c.joint_vel,
            c.J_pos,
            c.J_ori,
            c.mass_matrix,
        )
        self._first = True
        self._kp, self._kd = np.array(c.kp), np.array(c.kd)
        self._rest = np.array(c.initial_joint)
        self._goal_pos, self._goal_ori = np.array(c.goal_pos), np.array(c.goal_ori)
        self._grip = np.zeros(2)

    def advance(self, action: Array, observe: Observe) -> None:
        """Apply one action; ``observe`` is called one physics step before the end."""
        model, data = self._model, self._data
        arm, grip = action[:6], self._direction * np.sign(action[6:])
        for substep in range(self._substeps):
            self._step1(model, data)
            self._warm_up(model, data, 1 if self._first else 2)
            readings = self._stale if self._first else self._readings()
            self._first = False
            if substep == 0:
                self._set_goal(arm, readings[0], readings[1])
            data.ctrl[self._arm] = np.clip(self._torques(*readings), self._low, self._high)
            self._grip = np.clip(self._grip + grip, -1.0, 1.0)
            data.ctrl[self._hand] = self._hand_bias + self._hand_weight * self._grip
            self._step2(model, data)
            if observe is not None and substep == self._substeps - 2:
                observe()

    def _warm_up(self, model: Any, data: Any, times: int) -> None:
        """Solve the contacts under the old command, as robosuite does before it sets a new one.

        Only the start of the solver remembers it, but that decides the last bits of the result.
        """
        for _ in range(times):
            self._solve(model, data, self._after_velocities, 1)

    def _readings(self) -> tuple[Array, ...]:
        """Return pose and velocity of the hand, joints, Jacobians and mass matrix of the arm."""
        model, data, arm = self._model, self._data, self._qvel
        self._jacobian(model, data, self._jacp, self._jacr, self._site)
        self._full_mass(model, self._mass, data.qM)
        return (
            data.site_xpos[self._site],
            data.site_xmat[self._site].reshape(3, 3),
            np.dot(self._jacp, data.qvel),
            np.dot(self._jacr, data.qvel),
            data.qpos[self._qpos],
            data.qvel[arm],
            self._jacp[:, arm],
            self._jacr[:, arm],
            self._mass[arm, :][:, arm],
        )

    def _set_goal(self, arm: Array, position: Array, rotation: Array) -> None:
        delta = self._controller.scale_action(arm)
        if any(not math.isclose(part, 0.0) for part in delta[3:]):
            self._goal_ori = self._goal_rotation(delta[3:], rotation)
        self._goal_pos = position + delta[:3]

    def _torques(
        self,
        position: Array,
        rotation: Array,
        velocity: Array,
        spin: Array,
        joints: Array,
        joint_velocities: Array,
        j_pos: Array,
        j_ori: Array,
        mass: Array,
    ) -> Array:
        kp, kd = self._kp, self._kd
        force = (self._goal_pos - position) * kp[:3] + -velocity * kd[:3]
        twist = self._rotation_error(self._goal_ori, rotation) * kp[3:] + -spin * kd[3:]
        j_full = np.vstack([j_pos, j_ori])
        _, lambda_pos, lambda_ori, rest = self._matrices(mass, j_full, j_pos, j_ori)
        wrench = np.concatenate([np.dot(lambda_pos, force), np.dot(lambda_ori, twist)])
        torques = np.dot(j_full.T, wrench) + self._data.qfrc_bias[self._qvel]
        torques += self._rest_torques(mass, rest, self._rest, joints, joint_velocities)
        return np.asarray(torques)
