"""One control step of LIBERO: 25 physics steps under the operational-space controller.

robosuite evaluates the dynamics three times in each physics step and refreshes every observable.
:class:`LeanStep` evaluates them once, with the same operations on the same numbers in the same
order, so that every bit of the result is equal; a test compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from l2bench.errors import RunFailed

Array = NDArray[np.float64]
Observe = Callable[[], None] | None


class Step(Protocol):
    """One control step."""

    def restart(self) -> None:
        """Prepare for a new episode; call after its initial state is set."""

    def advance(self, action: Array, observe: Observe) -> None:
        """Apply one action (7,); ``observe`` is called when observations are taken."""


class LeanStep:
    """The same control step with one evaluation of the dynamics in each physics step.

    Arrays are views of MuJoCo's own memory or are made once; the layouts in which the operands of
    matrix products lie are robosuite's, since the order of additions depends on them.
    """

    def __init__(self, env: Any) -> None:
        import mujoco  # type: ignore[import-untyped]
        from robosuite.utils import control_utils  # type: ignore[import-untyped]

        self._robot = env.robots[0]
        self._substeps = int(env.control_timestep / env.model_timestep)
        self._step1, self._step2 = mujoco.mj_step1, mujoco.mj_step2
        self._solve, self._after_velocities = mujoco.mj_forwardSkip, mujoco.mjtStage.mjSTAGE_VEL
        self._solve_again = mujoco.mj_fwdConstraint
        self._jacobian, self._full_mass = mujoco.mj_jacSite, mujoco.mj_fullM
        self._matrices = control_utils.opspace_matrices
        self._rest_torques = control_utils.nullspace_torques
        self._rotation_error = control_utils.orientation_error
        self._goal_rotation = control_utils.set_goal_orientation
        self._model, self._data = env.sim.model._model, env.sim.data._data
        self._look_up()
        self._make_room()

    def _look_up(self) -> None:
        """Take views of what a step reads and writes."""
        model, data, robot = self._model, self._data, self._robot
        self._site = int(robot.eef_site_id)
        self._position = data.site_xpos[self._site]
        self._rotation = data.site_xmat[self._site].reshape(3, 3)
        self._velocities, self._packed_mass = data.qvel, data.qM
        self._arm = _span(robot._ref_joint_vel_indexes)
        self._joints = data.qpos[_span(robot._ref_joint_pos_indexes)]
        self._joint_velocities = data.qvel[self._arm]
        self._bias = data.qfrc_bias[self._arm]
        commands = _span(robot._ref_joint_actuator_indexes)
        self._commands = data.ctrl[commands]
        self._low, self._high = model.actuator_ctrlrange[commands].T.copy()
        fingers = _span(robot._ref_joint_gripper_actuator_indexes)
        self._fingers = data.ctrl[fingers]
        low, high = model.actuator_ctrlrange[fingers].T
        bias, weight = 0.5 * (high + low), 0.5 * (high - low)
        directions = np.array([-1.0, 1.0]) * robot.gripper.speed
        self._finger_ranges = list(
            zip(bias.tolist(), weight.tolist(), directions.tolist(), strict=True)
        )

    def _make_room(self) -> None:
        """Make the arrays that a step fills, and views of their parts."""
        nv = self._model.nv
        self._jacp, self._jacr = np.zeros((3, nv)), np.zeros((3, nv))
        self._jacp_arm, self._jacr_arm = self._jacp[:, self._arm], self._jacr[:, self._arm]
        self._mass = np.zeros((nv, nv))
        self._mass_arm = self._mass[self._arm, self._arm]
        size = len(self._joints)
        self._arm_mass = np.empty((size, size), order="F")
        self._j_pos, self._j_ori = np.empty((3, size), order="F"), np.empty((3, size), order="F")
        self._j_full = np.empty((6, size), order="F")
        self._j_top, self._j_bottom, self._j_turned = (
            self._j_full[:3], self._j_full[3:], self._j_full.T,
        )  # fmt: skip
        self._error, self._motion, self._wanted = np.empty(6), np.empty(6), np.empty(6)
        self._wrench, self._torque = np.empty(6), np.empty(size)
        self._parts = tuple(
            (whole[:3], whole[3:])
            for whole in (self._error, self._motion, self._wanted, self._wrench)
        )

    def restart(self) -> None:
        """Take over the controller as the reset left it; call after the initial state is set.

        Its readings are of the robot's home pose, before the initial state, and robosuite uses
        them once more in the first physics step.
        """
        c = self._robot.controller
        self._controller = c
        self._first = True
        self._kp, self._minus_kd = np.array(c.kp), -np.array(c.kd)
        self._rest = np.array(c.initial_joint)
        self._goal_pos, self._goal_ori = np.array(c.goal_pos), np.array(c.goal_ori)
        self._grip = [0.0 for _ in self._finger_ranges]

    def advance(self, action: Array, observe: Observe) -> None:
        """Apply one action; ``observe`` is called one physics step before the end."""
        model, data = self._model, self._data
        sign = float(np.sign(action[6]))
        for substep in range(self._substeps):
            self._step1(model, data)
            # The contacts are solved under the old command first, as robosuite does before it sets
            # a new one: only the start of the solver remembers it, but that decides the last bits.
            self._solve(model, data, self._after_velocities, 1)
            if self._first:
                place = self._recall()
                self._first = False
            else:
                self._solve_again(model, data)
                place = self._read()
            if substep == 0:
                self._set_goal(action[:6], place[0], place[1])
            torque = self._torques(*place)
            np.minimum(np.maximum(torque, self._low, torque), self._high, self._commands)
            for finger, (bias, weight, direction) in enumerate(self._finger_ranges):
                grip = min(max(self._grip[finger] + direction * sign, -1.0), 1.0)
                self._grip[finger] = grip
                self._fingers[finger] = bias + weight * grip
            self._step2(model, data)
            if observe is not None and substep == self._substeps - 2:
                observe()

    def _recall(self) -> tuple[Array, Array, Array, Array]:
        """Take the controller's stale readings; return as `_read` does."""
        c = self._controller
        self._fill(c.J_pos, c.J_ori, c.mass_matrix)
        motion = self._parts[1]
        motion[0][:], motion[1][:] = c.ee_pos_vel, c.ee_ori_vel
        return c.ee_pos, c.ee_ori_mat, c.joint_pos, c.joint_vel

    def _read(self) -> tuple[Array, Array, Array, Array]:
        """Read Jacobians, mass matrix and the hand's motion.

        Returns the hand's position and rotation, and the joints' angles and velocities.
        """
        model, data, velocities = self._model, self._data, self._velocities
        self._jacobian(model, data, self._jacp, self._jacr, self._site)
        self._full_mass(model, self._mass, self._packed_mass)
        motion = self._parts[1]
        np.dot(self._jacp, velocities, motion[0])
        np.dot(self._jacr, velocities, motion[1])
        self._fill(self._jacp_arm, self._jacr_arm, self._mass_arm)
        return self._position, self._rotation, self._joints, self._joint_velocities

    def _fill(self, j_pos: Array, j_ori: Array, mass: Array) -> None:
        self._j_pos[:], self._j_ori[:], self._arm_mass[:] = j_pos, j_ori, mass
        self._j_top[:], self._j_bottom[:] = j_pos, j_ori

    def _set_goal(self, arm: Array, position: Array, rotation: Array) -> None:
        delta = self._controller.scale_action(arm)
        if any(not math.isclose(part, 0.0) for part in delta[3:]):
            self._goal_ori = self._goal_rotation(delta[3:], rotation)
        self._goal_pos = position + delta[:3]

    def _torques(
        self, position: Array, rotation: Array, joints: Array, joint_velocities: Array
    ) -> Array:
        (place, turn), _, (force, twist), (push, wring) = self._parts
        np.subtract(self._goal_pos, position, place)
        turn[:] = self._rotation_error(self._goal_ori, rotation)
        np.multiply(self._error, self._kp, self._wanted)
        np.add(self._wanted, self._motion * self._minus_kd, self._wanted)
        mass, torque = self._arm_mass, self._torque
        _, lambda_pos, lambda_ori, rest = self._matrices(
            mass, self._j_full, self._j_pos, self._j_ori
        )
        np.dot(lambda_pos, force, push)
        np.dot(lambda_ori, twist, wring)
        np.dot(self._j_turned, self._wrench, torque)
        np.add(torque, self._bias, torque)
        idle = self._rest_torques(mass, rest, self._rest, joints, joint_velocities)
        np.add(torque, idle, torque)
        return torque


def _span(indexes: Any) -> slice:
    """Return consecutive indexes as a slice, through which arrays are seen without a copy."""
    first, count = int(indexes[0]), len(indexes)
    if list(indexes) != list(range(first, first + count)):
        raise RunFailed(f"the robot's joints {list(indexes)} are not side by side in the model")
    return slice(first, first + count)
