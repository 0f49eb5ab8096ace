"""Scripted experts that see the true poses: pick an object up and put it at its goal.

The hand always keeps its first, downward orientation (rotation commands are zero), so the fingers
close along the world's y axis. A translation command of 1 asks for 5 cm, hence the factor 20.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from l2bench.errors import UsageError, choices, nearest
from l2bench_libero.observation import Goal, Snapshot, active_goal
from l2bench_libero.simulator import LiberoEnv
from l2bench_libero.tasks import Task, suite_name

Array = NDArray[np.float64]

#: Changes whenever demonstrations come out differently; part of the name of stored demonstrations.
VERSION = 3
GAIN = 20.0
OPEN, CLOSE = -1.0, 1.0
_FINGERS_APART = 0.08


@dataclass(frozen=True)
class Decision:
    """What an expert does: the action (7,), and whether noise may be added to it now."""

    action: Array
    free: bool


@dataclass(frozen=True)
class Grasp:
    """Where to take an object, relative to its position and extent; metres."""

    shift_x: float = 0.0
    shift_y: float = 0.0
    depth: float = 0.03
    clearance: float = 0.008


@dataclass(frozen=True)
class Job:
    """One object to move: how to take it, where its container's rim is, and its extent.

    ``low`` and ``high`` are the object's lowest and highest point relative to its position;
    ``rim`` is the height of the container's rim above the container's position. What shall be *on*
    something is put down on it, what shall be *in* something is dropped from above.
    """

    goal: Goal
    container: str
    grasp: Grasp
    low: float
    high: float
    rim: float

    @property
    def put_down(self) -> bool:
        """Whether the object is lowered onto its goal instead of dropped."""
        return self.goal.predicate == "on"

    @property
    def near(self) -> float:
        """How far the object may be off the middle of its goal when it is released (m)."""
        return 0.02 if self.put_down else 0.03

    def carry(self, place: Array) -> float:
        """Return the height at which the object is carried over."""
        clear = 0.06 if self.put_down else 0.03
        return float(place[2] + self.rim + clear - self.low)

    def rest(self, place: Array) -> float:
        """Return the height of the object when it is put down."""
        return float(place[2] + self.rim / 2 + 0.005 - self.low)


#: The hand is 20 cm wide along y: off its centre, the cream cheese is clear of the tomato sauce.
_GRASPS = {
    ("libero_object", 1): {"cream_cheese_1": Grasp(shift_x=-0.02)},
}
#: By suite, the tasks that were solved from nine in ten evaluation states or more.
_SUPPORTED: Mapping[str, tuple[int, ...]] = {
    "libero_spatial": (0, 1, 2, 3, 5, 6, 7, 8),
    "libero_object": tuple(range(10)),
    "libero_goal": (6, 8),
    "libero_10": (0, 4, 7),
    "libero_90": (
        *(9, 12, 14, 17, 46, 47, 48, 49, 50, 51, 52, 54),
        *(55, 56, 57, 58, 59, 61, 66, 67, 68, 71, 72),
    ),
}
#: Variants in which only words differ.
SAME_WORLD = (None, "lan")


def supported(suite: str) -> tuple[int, ...]:
    """Return the positions of the tasks of a suite that the scripted experts solve."""
    return _SUPPORTED.get(suite_name(suite), ())


def check_supported(task: Task) -> None:
    """Refuse a task that no scripted expert solves.

    Raises:
        UsageError: naming the tasks of its suite that have one.
    """
    if task.variant not in SAME_WORLD:
        raise UsageError(f"no scripted expert for {task.id}: none was tried on that variant")
    if task.index not in supported(task.suite):
        known = ", ".join(str(index) for index in supported(task.suite))
        raise UsageError(
            f"no scripted expert for {task.id} (task {task.index}); in {task.suite} there are "
            f"experts for tasks {known or 'none'}"
        )


def _command(translation: Array, gripper: float) -> Array:
    action = np.zeros(7)
    action[:3] = np.clip(translation, -1.0, 1.0)
    action[6] = gripper
    return action


class Expert(ABC):
    """Common part: knows the jobs of a task once an episode has started."""

    def __init__(self, env: LiberoEnv) -> None:
        check_supported(env.task)
        self._env = env
        self._jobs: tuple[Job, ...] = ()

    def restart(self) -> None:
        """Measure the objects; call after every reset, when they have settled."""
        grasps = _GRASPS.get((self._env.task.suite, self._env.task.index), {})
        jobs = []
        for goal in self._env.goals:
            container = goal.target.removesuffix("_contain_region")
            low, high = self._env.bounds(goal.subject)
            rim = self._env.bounds(container)[1][2]
            grasp = grasps.get(goal.subject) or _grasp(low, high)
            jobs.append(Job(goal, container, grasp, float(low[2]), float(high[2]), float(rim)))
        self._jobs = tuple(jobs)

    @abstractmethod
    def act(self, snapshot: Snapshot) -> Decision:
        """Return the next action for the world as it is."""

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs of the task, one for each condition of success."""
        return self._jobs

    def _job(self, snapshot: Snapshot) -> Job:
        return self._jobs[active_goal(snapshot)]


def _grasp(low: Array, high: Array) -> Grasp:
    """Return how to take an object of an extent: in the middle, or by its rim if it is wide."""
    if high[1] - low[1] < _FINGERS_APART - 0.005:
        return Grasp()
    return Grasp(shift_y=float(high[1]) - 0.0065, depth=0.03)


def _grasp_point(job: Job, item: Array) -> Array:
    """Return where the fingers meet around an object at a position."""
    height = max(job.high - job.grasp.depth, job.low + job.grasp.clearance)
    point: Array = item + np.array([job.grasp.shift_x, job.grasp.shift_y, height])
    return point


class MemorylessExpert(Expert):
    """Acts on the present world alone, so that a policy without memory can imitate it."""

    def act(self, snapshot: Snapshot) -> Decision:
        """Return the next action for the world as it is."""
        return self.decide(self._job(snapshot), snapshot)

    @classmethod
    def decide(cls, job: Job, snapshot: Snapshot) -> Decision:
        """Return the next action for a job; hand, fingers and two positions are all it looks at."""
        item, place = snapshot.positions[job.goal.subject], snapshot.positions[job.container]
        if cls._there(job, item, place):
            return Decision(_command(np.zeros(3), OPEN), free=False)
        offset = _grasp_point(job, item) - snapshot.eef
        aside = float(np.linalg.norm(offset[:2]))
        closed = snapshot.fingers[0] - snapshot.fingers[1] < 0.03
        loose = 2.5 if job.put_down and closed else 1.0
        if aside < 0.012 * loose and abs(offset[2]) < 0.014 * loose:
            return cls._hold(job, snapshot, item, place)
        return Decision(_command(cls._approach(job, snapshot, offset, place), OPEN), free=True)

    @staticmethod
    def _there(job: Job, item: Array, place: Array) -> bool:
        """Return whether it is time to let go."""
        if np.linalg.norm(item[:2] - place[:2]) >= job.near:
            return False
        if job.put_down:
            return bool(item[2] - job.rest(place) < 0.012)
        return bool(item[2] > place[2] + job.rim / 2)

    @staticmethod
    def _approach(job: Job, snapshot: Snapshot, offset: Array, place: Array) -> Array:
        """Come down a funnel above the grasp point; leave the container's surroundings upwards."""
        aside = float(np.linalg.norm(offset[:2]))
        move = GAIN * offset
        move[2] = GAIN * (offset[2] + 0.08 * np.clip((aside - 0.006) / 0.04, 0.0, 1.0))
        if not job.put_down and np.linalg.norm(snapshot.eef[:2] - place[:2]) < 0.19:
            clear = place[2] + job.rim + 0.07
            move[2] = max(move[2], GAIN * (clear - snapshot.eef[2]))
            move[:2] *= np.clip((snapshot.eef[2] - (clear - 0.05)) / 0.04, 0.0, 1.0)
        return np.asarray(move)

    @staticmethod
    def _hold(job: Job, snapshot: Snapshot, item: Array, place: Array) -> Decision:
        """Close the fingers; once they rest on the object, lift it and carry it over."""
        width = float(snapshot.fingers[0] - snapshot.fingers[1])
        still = float(np.abs(snapshot.finger_velocities).max()) < 0.006
        if width >= _FINGERS_APART - 0.006 or not still:
            return Decision(_command(np.zeros(3), CLOSE), free=False)
        height = job.carry(place)
        move = GAIN * (place - item)
        if job.put_down and np.linalg.norm(move[:2]) < GAIN * job.near:
            move[2] = GAIN * (job.rest(place) - item[2])
            return Decision(_command(move, CLOSE), free=False)
        move[:2] *= np.clip((item[2] - (height - 0.05)) / 0.04, 0.0, 1.0)
        move[2] = GAIN * (height - item[2])
        return Decision(_command(move, CLOSE), free=True)


class PhaseExpert(Expert):
    """Goes through hover, descend, close, lift, carry and release in turn."""

    def restart(self) -> None:
        """Measure the objects and begin with the first phase."""
        super().restart()
        self._begin(None)

    def _begin(self, job: Job | None) -> None:
        self._current = job
        self._phase = "hover"
        self._count = 0
        self._hold_at = np.zeros(3)

    def act(self, snapshot: Snapshot) -> Decision:
        """Return the next action for the world as it is."""
        job = self._job(snapshot)
        if job is not self._current:
            self._begin(job)
        self._count += 1
        target, gripper, following = self._plan(job, snapshot)
        if following:
            self._phase, self._count, self._hold_at = following, 0, np.array(snapshot.eef)
        free = self._phase in ("hover", "carry")
        return Decision(_command(GAIN * (target - snapshot.eef), gripper), free)

    def _plan(self, job: Job, snapshot: Snapshot) -> tuple[Array, float, str]:
        """Return the target of the hand, the gripper command, and the next phase if it is time."""
        if self._phase in ("hover", "descend"):
            return self._take(job, snapshot)
        if self._phase == "close":
            return self._hold_at, CLOSE, "lift" if self._count >= 14 else ""
        if self._phase == "release":
            rise = 0.10 if self._count > 10 else 0.0
            return self._hold_at + np.array([0.0, 0.0, rise]), OPEN, ""
        return self._bring(job, snapshot)

    def _take(self, job: Job, snapshot: Snapshot) -> tuple[Array, float, str]:
        """Go over the object, then down to where the fingers meet around it."""
        item, eef, grasp = snapshot.positions[job.goal.subject], snapshot.eef, job.grasp
        if self._phase == "hover":
            point = item + np.array([grasp.shift_x, grasp.shift_y, job.high + 0.10])
            height, following = 0.03, "descend"
        else:
            point, height, following = _grasp_point(job, item), 0.006, "close"
        near = np.linalg.norm((point - eef)[:2]) < 0.008 and abs(point[2] - eef[2]) < height
        late = self._phase == "descend" and self._count >= 40
        return point, OPEN, following if near or late else ""

    def _bring(self, job: Job, snapshot: Snapshot) -> tuple[Array, float, str]:
        """Lift the object, carry it over its goal, and lower it if it is to be put down."""
        item, place = snapshot.positions[job.goal.subject], snapshot.positions[job.container]
        carried = item - snapshot.eef
        height = job.carry(place) - carried[2]
        if self._phase == "lift":
            up = np.array([*self._hold_at[:2], height])
            return up, CLOSE, "carry" if abs(height - snapshot.eef[2]) < 0.01 else ""
        if self._phase == "carry":
            over = np.array([*(place - carried)[:2], height])
            following = "lower" if job.put_down else "release"
            arrived = np.linalg.norm((item - place)[:2]) < 0.015
            return over, CLOSE, following if arrived else ""
        down = np.array([*(place - carried)[:2], job.rest(place) - carried[2]])
        rests = item[2] - job.rest(place) < 0.012 or self._count >= 40
        return down, CLOSE, "release" if rests else ""


EXPERTS: dict[str, type[Expert]] = {"memoryless": MemorylessExpert, "phase": PhaseExpert}


def make_expert(env: LiberoEnv, kind: str = "memoryless") -> Expert:
    """Return a scripted expert for the task of an environment.

    Raises:
        UsageError: there is no expert of that kind, or none for that task.
    """
    if kind not in EXPERTS:
        raise UsageError(
            f"no expert {kind!r}{nearest(kind, EXPERTS)}; there are {choices(EXPERTS)}"
        )
    return EXPERTS[kind](env)


def settle_steps(suite: str) -> int:
    """Return how many idle steps a suite's objects need: libero_10 drops some from a height."""
    return 10 if suite == "libero_10" else 5
