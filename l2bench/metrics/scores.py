"""What a metric set returns: values that carry their meaning, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Range = tuple[float | None, float | None]


@dataclass(frozen=True)
class Metric:
    """The definition of a metric: qualified id, unit, direction, range and formula.

    ``scope`` says what one value belongs to: the lifetime, one task, or an ordered pair of tasks
    (source, target). ``headline`` metrics are shown first in reports.
    """

    id: str
    name: str
    unit: str
    higher_is_better: bool | None
    range: Range
    scope: Literal["lifetime", "task", "pair"]
    formula: str
    headline: bool = False


@dataclass(frozen=True)
class Value:
    """One value of a metric; ``value`` is None exactly where ``reason`` says why.

    ``n`` counts the members (tasks, pairs, rows) the value was computed from. ``task`` is the task
    of a per-task value and the target of a pair; ``source`` is the source task of a pair.
    """

    id: str
    value: float | None
    n: int
    task: str | None = None
    source: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        """Refuse values that a reader could misread.

        Raises:
            ValueError: for NaN, infinity, or a value and a reason at once (or neither).
        """
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"{self.id}: {self.value} is not a number; use None and a reason")
        if (self.value is None) == (self.reason is None):
            raise ValueError(f"{self.id}: give either a value or the reason why there is none")


@dataclass(frozen=True)
class Scores:
    """All values of one metric set for one lifetime, with the settings that produced them."""

    metric_set: str
    version: str
    values: tuple[Value, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def get(self, id: str, task: str | None = None, source: str | None = None) -> Value:
        """Return the value with this id, task and source.

        Raises:
            KeyError: if there is none.
        """
        for value in self.values:
            if (value.id, value.task, value.source) == (id, task, source):
                return value
        raise KeyError(f"no value {id} (task={task}, source={source}) in {self.metric_set}")


def undefined(id: str, reason: str, *, task: str | None = None, source: str | None = None) -> Value:
    """Return a value that is not defined, for this reason."""
    return Value(id, None, 0, task=task, source=source, reason=reason)
