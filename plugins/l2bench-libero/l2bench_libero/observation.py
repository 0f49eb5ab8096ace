"""What an agent sees: the compact state, the robot's own readings, and two cameras."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from l2bench.errors import UsageError, nearest

Array = NDArray[np.float64]

#: The parts of the compact state, in order, with their sizes. Lengths in metres; finger
#: positions are multiplied by 10 so that all parts have similar ranges.
STATE = (
    ("eef_pos", 3),
    ("finger_positions_x10", 2),
    ("finger_velocities", 2),
    ("object_minus_eef", 3),
    ("goal_minus_eef", 3),
    ("goal_minus_object", 3),
    ("object_height", 1),
)
#: The parts of ``proprio``, named as in the official demonstrations: joint angles (rad), finger
#: positions (m), position (m) and axis-angle (rad) of the hand.
PROPRIO = (("joint_states", 7), ("gripper_states", 2), ("ee_states", 6))
#: The parts that ``proprio`` is made of, in order: all of them, those of LIBERO's own policies, or
#: those of OpenVLA and LeRobot.
PROPRIOS: Mapping[str, tuple[str, ...]] = {
    "full": ("joint_states", "gripper_states", "ee_states"),
    "joints": ("gripper_states", "joint_states"),
    "hand": ("ee_states", "gripper_states"),
}
#: Observation key of each camera, named as in the official demonstrations.
CAMERAS = {"agentview_rgb": "agentview", "eye_in_hand_rgb": "robot0_eye_in_hand"}
#: What is done to an image as it is rendered and stored by LIBERO, with its bottom row first:
#: nothing, top row first (the true view), mirrored, or turned by half.
ORIENTATIONS = ("none", "flipud", "fliplr", "rot180")
OBSERVATIONS = ("state", "pixels", "both")

STATE_SIZE = sum(size for _, size in STATE)


def check_observation(asked: str) -> str:
    """Return the name of an observation if there is one of that name.

    Raises:
        UsageError: there is none.
    """
    if asked not in OBSERVATIONS:
        raise UsageError(
            f"no LIBERO observation {asked!r}{nearest(asked, OBSERVATIONS)}; "
            f"choose one of {', '.join(OBSERVATIONS)}"
        )
    return asked


def turn(image: NDArray[np.uint8], orientation: str) -> NDArray[np.uint8]:
    """Return images (..., height, width, 3), as rendered, in one of :data:`ORIENTATIONS`.

    Each is its own inverse.
    """
    if orientation in ("flipud", "rot180"):
        image = image[..., ::-1, :, :]
    if orientation in ("fliplr", "rot180"):
        image = image[..., ::-1, :]
    return np.ascontiguousarray(image)


def combined(first: str, second: str) -> str:
    """Return the orientation that comes of one after the other."""
    bits = ORIENTATIONS.index(first) ^ ORIENTATIONS.index(second)
    return ORIENTATIONS[bits]


def proprio_size(kind: str = "full") -> int:
    """Return the length of ``proprio``."""
    return sum(size for name, size in PROPRIO if name in PROPRIOS[kind])


def observation_space(
    observation: str = "state", image_size: int = 128, proprio: str = "full"
) -> gymnasium.spaces.Dict:
    """Return the space of the observations; needs no simulator.

    ``state``: ``state`` (17,) float32. ``pixels``: ``proprio`` (15,), or (9,) and (8,) where it is
    ``joints`` and ``hand``, float32, and two images (image_size, image_size, 3) uint8. ``both``:
    all of them.
    """
    box = gymnasium.spaces.Box
    spaces: dict[str, gymnasium.Space[Any]] = {}
    if check_observation(observation) in ("state", "both"):
        spaces["state"] = box(-np.inf, np.inf, (STATE_SIZE,), np.float32)
    if observation in ("pixels", "both"):
        spaces["proprio"] = box(-np.inf, np.inf, (proprio_size(proprio),), np.float32)
        for key in CAMERAS:
            spaces[key] = box(0, 255, (image_size, image_size, 3), np.uint8)
    return gymnasium.spaces.Dict(spaces)


def action_space() -> gymnasium.spaces.Box:
    """Return the space of the actions: hand translation 3, rotation 3, gripper 1 (+1 closes)."""
    return gymnasium.spaces.Box(-1.0, 1.0, (7,), np.float32)


@dataclass(frozen=True)
class Goal:
    """One condition of success: ``predicate(subject, target)``; unary ones repeat the subject."""

    predicate: str
    subject: str
    target: str


@dataclass(frozen=True)
class Snapshot:
    """The world at the moment of an observation: metres, radians, quaternion as x, y, z, w."""

    eef: Array
    hand_quaternion: Array
    joints: Array
    fingers: Array
    finger_velocities: Array
    positions: Mapping[str, Array]
    satisfied: tuple[bool, ...]


def active_goal(snapshot: Snapshot) -> int:
    """Return the position of the first condition not yet met, or of the last one."""
    for index, satisfied in enumerate(snapshot.satisfied):
        if not satisfied:
            return index
    return len(snapshot.satisfied) - 1


def compact_state(snapshot: Snapshot, goals: tuple[Goal, ...]) -> NDArray[np.float32]:
    """Return the 17 numbers of :data:`STATE`, about the first condition not yet met."""
    goal = goals[active_goal(snapshot)]
    item, place = snapshot.positions[goal.subject], snapshot.positions[goal.target]
    parts = (
        snapshot.eef,
        snapshot.fingers * 10,
        snapshot.finger_velocities,
        item - snapshot.eef,
        place - snapshot.eef,
        place - item,
        item[2:],
    )
    return np.concatenate(parts).astype(np.float32)


def axis_angle(quaternion: Array) -> Array:
    """Return a rotation x, y, z, w as axis times angle (rad), as the official files store it."""
    w = float(np.clip(quaternion[3], -1.0, 1.0))
    length = float(np.sqrt(1.0 - w * w))
    if np.isclose(length, 0.0):
        return np.zeros(3)
    return np.asarray(quaternion[:3] * (2.0 * np.arccos(w)) / length)


def proprio_parts(snapshot: Snapshot) -> dict[str, Array]:
    """Return the parts of :data:`PROPRIO` by name."""
    hand = np.concatenate([snapshot.eef, axis_angle(snapshot.hand_quaternion)])
    return {
        "joint_states": snapshot.joints,
        "gripper_states": snapshot.fingers,
        "ee_states": hand,
    }


def proprio(parts: Mapping[str, Any], kind: str = "full") -> NDArray[np.float32]:
    """Return parts of :data:`PROPRIO` joined along the last axis: (..., 15), 9 or 8."""
    joined = np.concatenate([np.asarray(parts[name]) for name in PROPRIOS[kind]], axis=-1)
    return np.asarray(joined, dtype=np.float32)
