"""The agent interface: how it learns is its own business; how much, and when, is not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from l2bench.environment import Observation, Spaces
from l2bench.lesson import Lesson
from l2bench.suite import Model, Source


@dataclass(frozen=True)
class TaskContext:
    """What the suite reveals about a task; hidden parts are None.

    ``index`` is the task's position in the suite (not in the order of learning).
    """

    spaces: Spaces
    index: int | None = None
    id: str | None = None
    language: str | None = None


@dataclass(frozen=True)
class Acting:
    """The context of one batch of B observations.

    ``slots`` (B,) tells the episodes apart while they run side by side; ``first`` (B,) is true on
    an episode's first observation; ``generators`` holds one generator per row, started from the
    episode's own seed, so that random choices do not depend on who else is in the batch (for
    labelled samples, one for the whole test).
    """

    task: TaskContext
    slots: np.ndarray[Any, Any]
    first: np.ndarray[Any, Any]
    generators: Sequence[np.random.Generator]


@dataclass(frozen=True)
class Life:
    """What an agent knows at birth: the tasks it may meet as far as revealed, its seed, device.

    Where task identities are hidden, ``tasks`` holds one context per distinct pair of spaces.
    ``threads`` is how many CPU threads the agent should use.
    """

    tasks: tuple[TaskContext, ...]
    seed: int
    device: str = "auto"
    threads: int | None = None


class AgentSettings(Model):
    """The settings of an agent; a subclass names its own, with defaults."""


class Agent(ABC):
    """An agent that lives one lifetime.

    ``sources`` are the ways in which it can learn; ``Settings`` the model of its settings. An
    agent draws random numbers from generators started from ``life.seed`` only. ``devices`` are the
    kinds of device, cpu and cuda, that it computes on when ``life.device`` asks for them; a run
    that asks for another is refused.

    ``chunk`` is how many actions `act` plans at once for an environment; an object may set its own
    before it first acts. Above 1, up to so many actions of each row are carried out before the
    agent is asked again, and the environment is not observed in between.

    ``multitask`` holds the settings, laid over the others, with which the agent is a joint learner:
    one that starts anew with every task and learns it together with all tasks before it. None: it
    has no such form, and no multitask bound.
    """

    sources: ClassVar[frozenset[Source]]
    devices: ClassVar[frozenset[str]] = frozenset({"cpu"})
    Settings: ClassVar[type[AgentSettings]] = AgentSettings
    version: ClassVar[str] = "1"
    multitask: ClassVar[Mapping[str, Any] | None] = None
    chunk: int = 1

    def __init__(self, settings: AgentSettings, life: Life) -> None:
        self.settings: Any = settings
        self.life = life

    @abstractmethod
    def learn(self, lesson: Lesson, task: TaskContext) -> None:
        """Learn from the lesson until it is over; several lessons may make up one task."""

    @abstractmethod
    def act(self, observations: Observation, acting: Acting) -> Any:
        """Return B actions (or labels) for B observations, without changing the agent.

        With ``chunk`` above 1, actions are (B, n, ...) with n at least 1, of which the first
        ``chunk`` are carried out; labels are (B,) always.
        """

    def start_task(self, task: TaskContext) -> None:
        """Called before a task's first lesson, where task boundaries are revealed."""

    def end_task(self, task: TaskContext) -> None:
        """Called after a task's last lesson, where task boundaries are revealed."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write all that later behaviour depends on, generators and memories included."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Restore what `save` wrote."""

    def select(self, folder: Path) -> None:
        """Go on with the policy saved at a checkpoint; memories may stay as they are."""
        self.load(folder)

    def fingerprint(self) -> str | None:
        """Return a digest of everything learned, or None if the agent cannot tell."""
        return None

    def usage(self) -> Mapping[str, int]:
        """Return what has been spent so far, as far as it is counted.

        ``updates`` is the number of updates since birth (what a block adds to it is recorded),
        ``buffer_bytes`` the present size of memories.
        """
        return {}

    def details(self) -> Mapping[str, Any]:
        """Return facts for the record, such as the device used and the number of parameters.

        ``trained_on`` lists the ids of the suites that the agent was trained on before its life,
        if it was; a report says so where the suite at hand is none of them.
        """
        return {}
