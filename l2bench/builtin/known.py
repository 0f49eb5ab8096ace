"""Known-answer agents: on probe tasks every metric of theirs is known in closed form."""

from __future__ import annotations

import json
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from l2bench.agent import Acting, Agent, AgentSettings, Life, TaskContext
from l2bench.builtin.baselines import live_through
from l2bench.environment import Observation
from l2bench.lesson import Lesson
from l2bench.seeding import generator
from l2bench.suite import Source


class _Known(Agent):
    """Answers right or wrong by a rule on what was learned when."""

    sources: ClassVar[frozenset[Source]] = frozenset({"interaction", "demonstrations", "samples"})

    def __init__(self, settings: AgentSettings, life: Life) -> None:
        super().__init__(settings, life)
        self._progress: dict[str, float] = {}
        self._latest: str | None = None

    @abstractmethod
    def knows(self, task: TaskContext) -> bool:
        """Return whether the agent answers this task right now."""

    def learn(self, lesson: Lesson, task: TaskContext) -> None:
        """Use up the lesson and remember how far it went."""
        live_through(lesson, task.spaces.action, generator(self.life.seed))
        self._latest = str(task.id)
        self._progress[self._latest] = lesson.progress

    def act(self, observations: Observation, acting: Acting) -> Any:
        """Return the answer shown, or the one after it."""
        shown = np.argmax(observations, axis=1)
        return shown if self.knows(acting.task) else (shown + 1) % observations.shape[1]

    def save(self, folder: Path) -> None:
        """Write what was learned when."""
        state = {"progress": self._progress, "latest": self._latest}
        (folder / "known.json").write_text(json.dumps(state))

    def load(self, folder: Path) -> None:
        """Read it back."""
        state = json.loads((folder / "known.json").read_text())
        self._progress, self._latest = state["progress"], state["latest"]

    def fingerprint(self) -> str:
        """Return what was learned when."""
        return json.dumps([sorted(self._progress.items()), self._latest])


class Perfect(_Known):
    """Right from birth: FWT 1, NBT 0, AUC 1."""

    def knows(self, task: TaskContext) -> bool:
        """Always."""
        return True


class Frozen(_Known):
    """Never right: FWT 0, NBT 0, AUC 0."""

    def knows(self, task: TaskContext) -> bool:
        """Never."""
        return False


class Forgetter(_Known):
    """Right on the task it learned last and on no other: FWT (E - 1) / E, NBT (K - 1) / K."""

    def knows(self, task: TaskContext) -> bool:
        """Only the latest."""
        return task.id == self._latest


class LateBloomer(_Known):
    """Right on a task from the end of its budget on, and never forgets: FWT 1 / E, NBT 0."""

    def knows(self, task: TaskContext) -> bool:
        """Once the whole budget was used."""
        return self._progress.get(str(task.id), 0.0) >= 1.0
