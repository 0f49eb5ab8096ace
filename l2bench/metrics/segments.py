"""A lifetime as a row of learned tasks, with the evaluations that follow each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from l2bench.bundle.lifetime import Lifetime, columns
from l2bench.errors import Unsupported
from l2bench.metrics.libero_parts import FloatArray
from l2bench.metrics.views import Cell, cells
from l2bench.suite import Task

#: Where a task was evaluated while it was learned: the visit and the checkpoint.
Place = tuple[int, int]


@dataclass
class Segment:
    """The uninterrupted learning of one task, in one visit or several.

    ``points`` are the evaluations after each visit, in order: measured cells by task index.
    ``curve`` holds the performance on the task at its checkpoints after time 0.
    """

    task: int
    points: dict[int, dict[int, Cell]] = field(default_factory=dict)
    curve: dict[Place, float] = field(default_factory=dict)

    def own_curve(self) -> tuple[tuple[Place, ...], FloatArray]:
        """Return where the task was evaluated while it was learned, and performance (1, P).

        Those are its checkpoints, or without any the evaluations after its visits.
        """
        found = self.curve or {
            (visit, 0): point[self.task]["value"] if self.task in point else math.nan
            for visit, point in enumerate(self.points.values())
        }
        return tuple(found), np.array([list(found.values())])


@dataclass(frozen=True)
class Learned:
    """What a lifetime learned, in order; ``reason`` says why its tasks are no plain sequence.

    ``before`` holds the cells by task index that were measured before anything was learned.
    """

    suite_tasks: tuple[Task, ...]
    segments: tuple[Segment, ...]
    before: Mapping[int, Cell]
    reason: str | None

    @property
    def tasks(self) -> list[Task]:
        """The learned tasks in order."""
        return [self.suite_tasks[segment.task] for segment in self.segments]

    @property
    def names(self) -> list[str]:
        """The ids of the learned tasks in order."""
        return [task.id for task in self.tasks]

    def matrix(self, entry: str = "value") -> FloatArray:
        """Return an entry of the cells of task j after the last visit to task i, (T, T)."""
        last = [list(segment.points.values())[-1] for segment in self.segments]
        return self._table(last, entry).T

    def points(self) -> FloatArray:
        """Return performance on each task after each visit to any, (T, visits)."""
        visits = [point for segment in self.segments for point in segment.points.values()]
        return self._table(visits, "value")

    def untrained(self) -> FloatArray:
        """Return performance on the tasks before anything was learned, (T,)."""
        return self._table([self.before], "value")[:, 0]

    def _table(self, points: Sequence[Mapping[int, Cell]], entry: str) -> FloatArray:
        table = np.full((len(self.segments), len(points)), np.nan)
        for i, segment in enumerate(self.segments):
            for t, measured in enumerate(points):
                found = measured.get(segment.task, {}).get(entry)
                table[i, t] = math.nan if found is None else found
        return table


def learned(lifetime: Lifetime, what: str = "these metrics") -> Learned:
    """Return what a lifetime learned; ``what`` names the metrics that need one segment a task.

    Evaluations that no learning separates are one; of two measurements of a cell the first counts.

    Raises:
        Unsupported: if a score is infinite.
    """
    blocks = columns(lifetime.blocks)
    measured: dict[int, dict[int, Cell]] = {}
    for (index, task), cell in cells(lifetime).items():
        if math.isinf(cell["value"]):
            raise Unsupported("a score is infinite; scores must be finite or missing")
        measured.setdefault(index, {})[task] = cell
    segments: list[Segment] = []
    before: dict[int, Cell] = {}
    for row in np.argsort(blocks["block_index"]):
        block = {name: values[row] for name, values in blocks.items()}
        found = measured.get(int(block["block_index"]), {})
        if block["role"] == "pretest":
            before = {**found, **before}
        else:
            _add(segments, block, found)
    return Learned(lifetime.suite.tasks, tuple(segments), before, _reason(lifetime, segments, what))


def _add(segments: list[Segment], block: dict[str, Any], found: dict[int, Cell]) -> None:
    """Add a learning block, or an evaluation after one, to the segments."""
    task, visit = int(block["learn_task"]), int(block["exposure"])
    if block["kind"] == "learn":
        if not segments or segments[-1].task != task:
            segments.append(Segment(task))
        segments[-1].points.setdefault(visit, {})
    elif not segments or segments[-1].task != task:
        return  # checkpoint 0 of the task that comes next
    elif block["role"] != "curve":
        segments[-1].points[visit] = {**found, **segments[-1].points.get(visit, {})}
    elif block["checkpoint"] > 0:
        value = found[task]["value"] if task in found else math.nan
        segments[-1].curve[visit, int(block["checkpoint"])] = value


def _reason(lifetime: Lifetime, segments: list[Segment], what: str) -> str | None:
    order = [segment.task for segment in segments]
    again = [task for place, task in enumerate(order) if task in order[:place]]
    if again:
        name = lifetime.suite.tasks[again[0]].id
        return (
            f"task {name} is learned again after another; {what} need each task to be learned once"
        )
    return None if order else "no task is learned"
