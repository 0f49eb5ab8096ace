"""Lessons: what an agent is handed in a learning block, metered so that it cannot go past it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from l2bench.errors import RunFailed
from l2bench.suite import Learning

#: What is said of an environment whose reset() or step() returns too few values.
OLD_API = (
    "the API of gym before 0.26; return what Gymnasium's does, or wrap the environment with "
    "shimmy's GymV21CompatibilityV0"
)


class Experience(NamedTuple):
    """One row of the learning table: an episode, an epoch or a fixed window.

    ``score`` is in the task's raw units, ``length`` in environment steps or samples. ``status`` is
    ``ok``, ``incomplete`` where the budget ended inside the row, or ``abandoned`` where the agent
    began a new episode before the old one was over; metrics use the rows that are ``ok``. A window
    that the end of its episode cuts short is ``ok``.
    """

    score: float | None
    success: bool | None
    reward: float | None
    length: int
    status: str
    seconds: float


class Lesson(ABC):
    """What an agent is handed in a learning block.

    ``start`` and ``stop`` are positions in the whole task's budget ``learning.amount``, in
    ``learning.unit``; ``experiences`` fills up while the agent learns.
    """

    def __init__(self, learning: Learning, start: int, stop: int) -> None:
        self.learning = learning
        self.start = start
        self.stop = stop
        self.experiences: list[Experience] = []
        self.series: list[tuple[int, str, float]] = []
        self._since = time.perf_counter()

    @property
    @abstractmethod
    def used(self) -> int:
        """Units used so far of this lesson."""

    @property
    def remaining(self) -> int:
        """Units left in this lesson."""
        return self.stop - self.start - self.used

    @property
    def progress(self) -> float:
        """The fraction of the whole task's budget that is used, in [0, 1]."""
        return (self.start + self.used) / self.learning.amount

    def record(self, **scalars: float) -> None:
        """Store scalars the agent reports (a loss, a norm); they are never scored.

        Raises:
            RunFailed: naming the first that is no number.
        """
        at = len(self.experiences)
        for name, value in scalars.items():
            try:
                if isinstance(value, str):  # "1" is text all the same
                    raise TypeError
                self.series.append((at, name, float(value)))
            except (TypeError, ValueError):
                raise RunFailed(f"record({name}={value!r:.80}): not a number") from None

    def close(self) -> None:
        """End the lesson; called by the runner.

        Raises:
            RunFailed: if the agent left some of its budget unused.
        """
        if self.remaining:
            raise RunFailed(
                f"the agent stopped learning with {self.remaining} of "
                f"{self.stop - self.start} {self.learning.unit} unused"
            )

    def _experience(
        self,
        score: float | None,
        success: bool | None,
        reward: float | None,
        length: int,
        status: str = "ok",
    ) -> None:
        now = time.perf_counter()
        row = Experience(score, success, reward, length, status, now - self._since)
        self.experiences.append(row)
        self._since = now


def flag(value: Any, name: str) -> bool:
    """Return a yes or no that an environment gave.

    Raises:
        RunFailed: for anything but True, False, 1 and 0.
    """
    if isinstance(value, bool | np.bool_ | int | float) and value in (0, 1):
        return bool(value)
    raise RunFailed(f"the environment's {name} is {value!r:.60}; expected True or False")


def finite(reward: float) -> float:
    """Return the sum of an episode's rewards.

    Raises:
        RunFailed: if it is not a number.
    """
    total = float(reward)
    if not np.isfinite(total):
        raise RunFailed(f"the environment's rewards add up to {total}; they must be numbers")
    return total


def measured(
    measure: str, info: Mapping[str, Any] | None, reward: float, success: bool | None
) -> float | None:
    """Return an episode's score by the task's measure, None where it is not known."""
    if measure == "return":
        return float(reward)
    if measure == "success":
        return None if success is None else float(success)
    value = (info or {}).get(measure)
    return None if value is None or not np.isfinite(value) else float(value)
