"""What an environment offers: tasks to act in, demonstrations to imitate, samples to label."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2bench.errors import FOREIGN, UsageError, choices, nearest
from l2bench.limits import TimeUp, time_limit
from l2bench.suite import Source, Task

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.spaces import Space

#: An observation: one array, or arrays by key for a dictionary space.
Observation = Any


@dataclass(frozen=True)
class TaskInfo:
    """What an environment says about one of its tasks without building anything.

    ``sources`` are the ways in which the task can be learned; ``measure`` what an episode is
    usually scored by, and ``measures`` what else it can be scored by beside ``return``;
    ``horizon`` the steps after which episodes end by themselves, None if they may go on for ever;
    ``initial_states`` the number of fixed initial states, None if episodes start from a
    seed alone; ``step_seconds`` what a step costs on one CPU core, for estimates of time.
    """

    sources: frozenset[Source]
    language: str | None = None
    horizon: int | None = None
    measure: str = "success"
    measures: frozenset[str] = frozenset()
    initial_states: int | None = None
    step_seconds: float | None = None


@dataclass(frozen=True)
class Spaces:
    """The observation and action spaces of a task."""

    observation: Space[Any]
    action: Space[Any]


@dataclass(frozen=True)
class Demonstrations:
    """Trajectories of one task, end to end.

    ``observations`` maps each key to an array (N, ...); ``actions`` is (N, A); ``starts`` is
    (M + 1,), the offsets at which the M trajectories begin, ending with N. ``origin`` says where
    they come from (file digests, expert and its version), for the provenance.
    """

    observations: Mapping[str, np.ndarray[Any, Any]]
    actions: np.ndarray[Any, Any]
    starts: np.ndarray[Any, Any]
    origin: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True)
class Samples:
    """A labelled data set: inputs (N, ...) and labels (N,), split for training and testing."""

    train_inputs: np.ndarray[Any, Any]
    train_labels: np.ndarray[Any, Any]
    test_inputs: np.ndarray[Any, Any]
    test_labels: np.ndarray[Any, Any]
    origin: Mapping[str, Any]


#: A live environment that takes longer to close is left as it is (s).
CLOSE_SECONDS = 10.0

#: Called with (done, total, text) while something long is made.
Progress = Callable[[int, int, str], None]


def silent(done: int, total: int, text: str) -> None:
    """Report nothing."""


class Environment(ABC):
    """A family of tasks behind one name.

    Listing (`tasks`) and `spaces` should need no simulator. A task that can be learned from
    a source offers the method of that source; the others keep their default, which refuses.
    """

    @abstractmethod
    def tasks(self) -> Mapping[str, TaskInfo]:
        """Return what is known of each task by name, building nothing."""

    def info(self, task: Task, listed: TaskInfo) -> TaskInfo:
        """Return what is known of a suite's task, where its variant or settings change that."""
        return listed

    def make(self, task: Task) -> gymnasium.Env[Any, Any]:
        """Return a live environment for the task.

        ``reset(seed=..., options={"initial_state": k})`` starts episode k of the fixed initial
        states where the task has such. ``info["success"]`` tells success where there is such a
        notion. The horizon is the runner's business.

        Two further methods are used where the live environment itself offers them:
        ``step_quiet(action)`` returns (reward, terminated, truncated, info) like ``step`` without
        an observation, and is called for every action of a chunk but its last; ``build()`` does
        the costly part of the construction, which evaluation workers then share (see `forks`).
        """
        raise UsageError(f"task '{task.id}' ({task.environment}) cannot be acted in")

    def spaces(self, task: Task) -> Spaces:
        """Return the observation and action spaces of the task."""
        env = self.make(task)
        try:
            return Spaces(env.observation_space, env.action_space)
        finally:
            env.close()

    def demonstrations(self, task: Task, data: Path, progress: Progress = silent) -> Demonstrations:
        """Return the demonstrations of the task, made or read below the folder ``data``."""
        raise UsageError(f"task '{task.id}' ({task.environment}) has no demonstrations")

    def samples(self, task: Task, data: Path) -> Samples:
        """Return the labelled samples of the task, read below the folder ``data``."""
        raise UsageError(f"task '{task.id}' ({task.environment}) has no labelled samples")

    def check(self, task: Task) -> None:
        """Refuse early what would fail late: a missing simulator, data, or a wrong setting.

        Raises:
            L2benchError: with the remedy.
        """

    def check_data(self, task: Task, data: Path) -> None:
        """Refuse before a run if files that the task is learned from are missing below ``data``.

        Raises:
            L2benchError: with the remedy.
        """

    def step_seconds(self, task: Task) -> float | None:
        """Return what a step of the task costs on one CPU core, None where it is not known."""
        return task_info(self, task).step_seconds

    def pairs(self, task: Task) -> int | None:
        """Return about how many demonstration pairs the task has, None where it is not known."""
        return None

    def forks(self, task: Task) -> bool:
        """Return whether a live environment of the task may go on living in a forked process.

        It may not if it holds threads, sockets, or a context of OpenGL or CUDA before its first
        reset. Workers are forked where every environment of a suite says yes.
        """
        return False

    def configure(self, options: Mapping[str, Any]) -> None:
        """Take over what ``execution.environments`` says for this environment.

        Such options decide how episodes are carried out and may not change a result; called once,
        before anything else.

        Raises:
            UsageError: an option or value that the environment does not have.
        """
        for name in options:
            raise UsageError(f"{type(self).__name__} has no execution option '{name}'")

    def assign(self, device: str, worker: int | None) -> None:
        """Take note of what this process is: called after `configure`, before anything is built.

        ``device`` is the agent's (``execution.device``), beside which images may be rendered;
        ``worker`` the number of the evaluation worker that this process is, None in the run's own.
        """

    def conduct(self) -> Mapping[str, str]:
        """Return how episodes are carried out here, such as the engine used, for the record."""
        return {}

    def diagnose(self) -> None:
        """Refuse if what the environment needs is not installed.

        Raises:
            Unsupported: with the remedy.
        """

    def versions(self) -> Mapping[str, str]:
        """Return the versions that results depend on (simulator, renderer), for the provenance."""
        return {}


def leaves(observation: Observation, key: str = "") -> list[tuple[str, Any]]:
    """Return the arrays of an observation with their keys, in the order of the keys.

    Keys of nested parts are joined by "/"; that of a bare array is empty.
    """
    if isinstance(observation, Mapping):
        parts = sorted((str(name), value) for name, value in observation.items())
    elif isinstance(observation, tuple):
        parts = [(str(at), value) for at, value in enumerate(observation)]
    else:
        return [(key, observation)]
    return [
        leaf for name, value in parts for leaf in leaves(value, f"{key}/{name}" if key else name)
    ]


def fold(digest: Any, observation: Observation) -> None:
    """Feed an observation to a digest of hashlib, array by array.

    Of each array: its key (see `leaves`), type as numpy writes it (``<f8``), shape and C-ordered
    bytes, the first three ended by a zero byte.
    """
    for key, value in leaves(observation):
        array = np.asarray(value)
        digest.update(f"{key}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.tobytes())


def close_quietly(env: gymnasium.Env[Any, Any]) -> None:
    """Close an environment; a failure of that is worth a line, never a result."""
    try:
        with time_limit(CLOSE_SECONDS):
            env.close()
    except TimeUp:
        logging.getLogger("l2bench").warning(
            "closing an environment took more than %.0f s; it is left as it is", CLOSE_SECONDS
        )
    except FOREIGN as error:
        logging.getLogger("l2bench").warning(
            "closing an environment failed: %s: %s", type(error).__name__, error
        )


def task_info(environment: Environment, task: Task) -> TaskInfo:
    """Return what the environment says about a suite's task.

    Raises:
        UsageError: naming the nearest task if the environment does not have this one.
    """
    known = environment.tasks()
    if task.task not in known:
        raise UsageError(
            f"environment '{task.environment}' has no task '{task.task}'"
            f"{nearest(task.task, known)}; it has {choices(known)}"
        )
    return environment.info(task, known[task.task])
