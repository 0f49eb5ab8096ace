"""The metric set that compares a lifetime with its multitask bound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from l2bench.bundle.lifetime import Lifetime
from l2bench.metrics.base import MetricSet
from l2bench.metrics.definitions import CHANGE, RATE
from l2bench.metrics.results import number, strict_mean
from l2bench.metrics.scores import Metric, Range, Scores, Value, undefined
from l2bench.metrics.segments import learned
from l2bench.metrics.views import Cell
from l2bench.suite import Task

PERFORMANCE, GAP = "bound.multitask_performance", "bound.multitask_gap"
ABSENT = "needs a multitask bound: bound=true"


def _both(id: str, name: str, range: Range, formula: str) -> tuple[Metric, Metric]:
    whole = Metric(
        id, name, "performance", True, range, "lifetime", f"mean over learned tasks of {formula}"
    )
    task = replace(whole, id=f"{id}_k", name=f"{name} of a task", scope="task", formula=formula)
    return whole, task


class BoundMetrics(MetricSet):
    """What all tasks learned together come to, and how far the lifetime ends from it.

    ``bound`` is the lifetime of the same agent as a joint learner of the same tasks; without it
    everything is undefined. Both are taken as they are after their last learning, on the tasks
    that the lifetime learns.
    """

    name: ClassVar[str] = "bound"
    version: ClassVar[str] = "1.0"
    metrics: ClassVar[tuple[Metric, ...]] = (
        *_both(
            PERFORMANCE,
            "performance of the multitask bound",
            RATE,
            "the bound's performance on the task after its last learning",
        ),
        *_both(
            GAP,
            "performance at the end, less the multitask bound's",
            CHANGE,
            "the performance on the task after the last learning, less the bound's",
        ),
    )

    def __init__(self, bound: Lifetime | None = None) -> None:
        self.bound = bound

    def score(self, lifetime: Lifetime) -> Scores:
        """Return both for the lifetime and for each task it learns.

        Raises:
            Unsupported: if a score is infinite.
        """
        values = [] if self.bound is None else list(self._values(lifetime, self.bound))
        whole = []
        for id in (PERFORMANCE, GAP):
            members = [value for value in values if value.id == f"{id}_k"]
            empty = ABSENT if self.bound is None else "no task is learned"
            whole.append(strict_mean(id, members, empty))
        return Scores(self.name, self.version, (*whole, *values))

    def _values(self, lifetime: Lifetime, bound: Lifetime) -> Iterator[Value]:
        """Yield the values of each learned task, in the order of learning."""
        own, theirs = _end(lifetime), _end(bound)
        known = {task.id: (at, task) for at, task in enumerate(bound.suite.tasks)}
        for at in dict.fromkeys(segment.task for segment in learned(lifetime).segments):
            task = lifetime.suite.tasks[at]
            place, other = known.get(task.id, (-1, None))
            reason = _reason(task, other)
            upper = math.nan if reason else _value(theirs, place)
            if math.isnan(upper):
                reason = reason or f"the bound was not evaluated on task {task.id} at its end"
                yield undefined(f"{PERFORMANCE}_k", reason, task=task.id)
                yield undefined(f"{GAP}_k", reason, task=task.id)
                continue
            reason = f"task {task.id} was not evaluated after the last learning"
            yield Value(f"{PERFORMANCE}_k", upper, 1, task=task.id)
            yield number(f"{GAP}_k", _value(own, at) - upper, reason, task=task.id)


def _reason(task: Task, other: Task | None) -> str | None:
    """Return why a bound cannot be compared on this task."""
    if other is None:
        return f"the bound knows no task {task.id}"
    return None if other == task else f"the bound learned another task {task.id}"


def _end(lifetime: Lifetime) -> Mapping[int, Cell]:
    """Return the cells by task of the evaluation after the last learning."""
    segments = learned(lifetime).segments
    return list(segments[-1].points.values())[-1] if segments else {}


def _value(cells: Mapping[int, Cell], task: int) -> float:
    return float(cells[task]["value"]) if task in cells else math.nan
