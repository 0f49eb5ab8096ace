"""Algorithms that learn from remembered demonstrations of earlier tasks beside the new ones."""

from __future__ import annotations

from typing import Any, ClassVar

from l2bench_agents import rows
from l2bench_agents.algorithms.base import Algorithm, TaskFacts
from l2bench_agents.memory import TaskMemory
from l2bench_agents.rows import Rows


class Remembering(Algorithm):
    """Keeps a part of each finished task; repeated tasks are kept once."""

    records: ClassVar[bool] = True

    def consolidate(self, remembered: TaskMemory) -> None:
        """Move the windows that were to be remembered into the memory."""
        self.memory.keep(remembered)


class Replay(Remembering):
    """Experience replay (Chaudhry et al. 2019, "On tiny episodic memories").

    Either every batch has as many windows from memory beside the new ones, as in LIBERO, or
    batches keep their size and a share of them comes from memory.
    """

    @property
    def new_windows(self) -> int:
        """How many windows of the task in progress go into each batch."""
        size = self.settings.batch_size
        if not len(self.memory) or self.settings.memory_batch is not None:
            return size
        return min(max(round(size * (1 - self.settings.memory_share)), 1), size - 1)

    def extend(self, new: Rows) -> Rows:
        """Return the new windows and those from memory."""
        if not len(self.memory):
            return new
        old = self.settings.memory_batch
        if old is None:
            whole, given = self.new_windows, rows.count(new)
            old = max(round((self.settings.batch_size - whole) * given / whole), 1)
        return rows.join([new, self.memory.draw(old, self.rng)])


class Multitask(Remembering):
    """Learns every task anew together with all demonstrations seen before: an upper bound.

    The network starts from its first weights with every task. Batches are drawn from the union of
    all tasks, so that an epoch of the new task is one of the union; updates grow with the number
    of tasks. The last task ends in what is known as multitask learning.
    """

    needs_boundaries: ClassVar[bool] = True
    whole: ClassVar[bool] = True

    def __init__(self, *asked: Any) -> None:
        super().__init__(*asked)
        self._first = self.learner.weights()

    def begin_task(self, facts: TaskFacts) -> None:
        """Start the network anew."""
        super().begin_task(facts)
        self.learner.start_from(self._first)

    @property
    def new_windows(self) -> int:
        """How many windows of the task in progress go into each batch."""
        assert self.recorder is not None
        new = len(self.recorder.memory)
        others = sum(len(part) for part in self.memory.parts if part.key != self.key)
        size = self.settings.batch_size
        return min(max(round(size * new / (new + others)), 1), size - bool(others))

    def extend(self, new: Rows) -> Rows:
        """Return the new windows and as many of earlier tasks as their share of the union."""
        others = any(part.key != self.key for part in self.memory.parts)
        if not others:
            return new
        whole, given = self.new_windows, rows.count(new)
        old = max(round((self.settings.batch_size - whole) * given / whole), 1)
        return rows.join([new, self.memory.draw(old, self.rng, without=self.key or "")])
