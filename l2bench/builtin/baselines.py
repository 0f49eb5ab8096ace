"""Agents that take part without learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Discrete, Space

from l2bench.agent import Acting, Agent, AgentSettings, Life, TaskContext
from l2bench.environment import Observation
from l2bench.interaction import InteractionLesson
from l2bench.lesson import Lesson
from l2bench.seeding import generator
from l2bench.suite import Source


def sample(space: Space[Any], rng: np.random.Generator) -> Any:
    """Return one action drawn uniformly from the space with this generator."""
    if isinstance(space, Discrete):
        return space.start + rng.integers(space.n)
    space.seed(int(rng.integers(2**31)))
    return space.sample()


def live_through(lesson: Lesson, action_space: Space[Any], rng: np.random.Generator) -> None:
    """Use up a lesson of any source, acting at random where actions are asked for."""
    if isinstance(lesson, InteractionLesson):
        while lesson.remaining:
            lesson.reset()
            over = False
            while not over and lesson.remaining:
                _, _, terminated, truncated, _ = lesson.step(sample(action_space, rng))
                over = terminated or truncated
    else:
        for _ in lesson.batches(256, rng):  # type: ignore[attr-defined]
            pass


class Random(Agent):
    """Acts uniformly at random and learns nothing: the floor."""

    sources: ClassVar[frozenset[Source]] = frozenset({"interaction", "demonstrations", "samples"})

    def __init__(self, settings: AgentSettings, life: Life) -> None:
        super().__init__(settings, life)
        self._lessons = 0

    def learn(self, lesson: Lesson, task: TaskContext) -> None:
        """Use up the lesson."""
        rng = generator(self.life.seed ^ self._lessons)
        self._lessons += 1
        live_through(lesson, task.spaces.action, rng)

    def act(self, observations: Observation, acting: Acting) -> Any:
        """Return one random action per row."""
        return np.stack([sample(acting.task.spaces.action, rng) for rng in acting.generators])

    def save(self, folder: Path) -> None:
        """Write the number of lessons lived through."""
        (folder / "lessons").write_text(str(self._lessons))

    def load(self, folder: Path) -> None:
        """Read it back."""
        self._lessons = int((folder / "lessons").read_text())

    def fingerprint(self) -> str:
        """Return the number of lessons, all there is to know."""
        return str(self._lessons)
