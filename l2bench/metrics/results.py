"""What the functions on arrays of accuracies return: values by id, for the whole and by task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from l2bench.metrics.scores import Value, undefined


@dataclass(frozen=True)
class Results:
    """The values of one family of metrics, with the notes that go with them."""

    values: tuple[Value, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, id: str) -> Value:
        """Return the value of the whole with this id.

        Raises:
            KeyError: if there is none.
        """
        for value in self.values:
            if value.id == id and value.task is None:
                return value
        raise KeyError(id)

    def tasks(self, id: str) -> tuple[Value, ...]:
        """Return the values of single tasks with this id, in the order of the tasks."""
        return tuple(value for value in self.values if value.id == id and value.task is not None)


def number(
    id: str, value: float, reason: str | None, *, task: str | None = None, n: int = 1
) -> Value:
    """Return a value, undefined for this reason where it is NaN."""
    if math.isnan(value):
        return undefined(id, reason or "not measured", task=task)
    return Value(id, value, n, task=task)


def strict_mean(id: str, members: Sequence[Value], empty: str, task: str | None = None) -> Value:
    """Return the mean over all members, undefined as soon as one member is, or there is none."""
    lost = next((member.reason for member in members if member.value is None), None)
    if lost is not None or not members:
        return undefined(id, lost or empty, task=task)
    return Value(id, mean(member.value for member in members), len(members), task=task)


def mean(values: Iterable[float | None]) -> float:
    """Return the exactly summed mean of at least one number."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known)
