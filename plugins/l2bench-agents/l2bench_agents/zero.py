"""An agent that never moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete

from l2bench.agent import Acting, Agent, TaskContext
from l2bench.batches import DemonstrationLesson
from l2bench.builtin.baselines import live_through
from l2bench.environment import Observation
from l2bench.errors import UsageError
from l2bench.lesson import Lesson
from l2bench.seeding import generator
from l2bench.suite import Source


def pass_over(lesson: Lesson, task: TaskContext, seed: int) -> None:
    """Use up a lesson without learning from it."""
    if isinstance(lesson, DemonstrationLesson):
        lesson.skip()
    else:
        live_through(lesson, task.spaces.action, generator(seed))


class Zero(Agent):
    """Always acts with zero, or with what is nearest to it: the floor of continuous actions.

    Of discrete actions it takes the first.
    """

    sources: ClassVar[frozenset[Source]] = frozenset({"interaction", "demonstrations", "samples"})

    def learn(self, lesson: Lesson, task: TaskContext) -> None:
        """Use up the lesson."""
        pass_over(lesson, task, self.life.seed)

    def act(self, observations: Observation, acting: Acting) -> Any:
        """Return one action per row.

        Raises:
            UsageError: for actions that are neither continuous nor discrete.
        """
        space, number = acting.task.spaces.action, len(acting.slots)
        if isinstance(space, Discrete):
            return np.full(number, space.start, np.int64)
        if not isinstance(space, Box):
            raise UsageError(f"agent 'zero' has no zero for actions of {type(space).__name__}")
        zero = np.clip(np.zeros(space.shape), space.low, space.high).astype(space.dtype)
        return np.repeat(zero[None], number, axis=0)

    def save(self, folder: Path) -> None:
        """Write that there is nothing."""
        (folder / "zero").write_text("nothing is learned\n")

    def load(self, folder: Path) -> None:
        """Restore nothing."""

    def fingerprint(self) -> str:
        """Return a constant: nothing is learned."""
        return "zero"
