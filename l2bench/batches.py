"""The lessons of learning from data: demonstrations and labelled samples, handed out in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from l2bench.environment import Demonstrations, Samples
from l2bench.errors import RunFailed
from l2bench.lesson import Lesson
from l2bench.suite import Learning

Array = np.ndarray[Any, Any]


class BatchLesson(Lesson):
    """Data handed out in batches, metered item by item before it is handed out.

    Leaving `batches` early and asking again goes on where it was: nothing is handed out twice
    within the budget, and nothing beyond it.
    """

    def __init__(self, count: int, learning: Learning, start: int, stop: int) -> None:
        super().__init__(learning, start, stop)
        self._count = count
        self._by_epochs = learning.unit == "epochs"
        self._budget = (stop - start) * (count if self._by_epochs else 1)
        self._row = count if self._by_epochs else (learning.experience or 0)
        self._handed = 0
        self._open = 0  # items handed out that belong to no row yet

    @property
    def size(self) -> int:
        """The number of items handed out in one epoch."""
        return self._count

    @property
    def used(self) -> int:
        """Units used so far of this lesson."""
        return self._handed // self._count if self._by_epochs else self._handed

    @property
    def progress(self) -> float:
        """The fraction of the whole task's budget that is handed out, in [0, 1]."""
        units = self._handed / self._count if self._by_epochs else self._handed
        return (self.start + units) / self.learning.amount

    def close(self) -> None:
        """End the lesson."""
        self._settle()
        super().close()

    def _indices(self, size: int, shuffle: np.random.Generator) -> Iterator[Array]:
        """Yield the positions of the items of each batch until the budget is used up."""
        while self._handed < self._budget:
            left = self._budget - self._handed
            if self._by_epochs:
                left = min(left, self._count - self._handed % self._count)
            order = shuffle.permutation(self._count)[:left]
            at, end = 0, len(order)
            while at < end:
                if self._open:
                    self._settle()
                stop = min(at + size, end)
                if self._row:
                    stop = min(stop, at + self._row - self._open)
                self._handed += stop - at
                self._open += stop - at
                yield order[at:stop]
                at = stop
        self._settle()

    def _settle(self) -> None:
        """Record the row that is full, or that the budget ended."""
        row = self._row or self._open
        if self._open and (self._open == row or self._handed == self._budget):
            status = "ok" if self._open == row else "incomplete"
            self._experience(self._score(self._open), None, None, self._open, status)
            self._open = 0

    def _score(self, items: int) -> float | None:
        return None


class DemonstrationBatch(NamedTuple):
    """B pairs of observation and action: arrays (B, ...) by key, and actions (B, A)."""

    observations: Mapping[str, Array]
    actions: Array


class WindowBatch(NamedTuple):
    """B windows of L frames of demonstrations.

    ``observations`` are (B, L, ...) by key and ``actions`` (B, L + ahead, A). A window that its
    trajectory is too short for is filled up with the last frame; ``real`` (B, L + ahead) is false
    there. ``positions`` (B,) are those of the first frames in the task's demonstrations.
    """

    observations: Mapping[str, Array]
    actions: Array
    real: Array
    positions: Array


class DemonstrationLesson(BatchLesson):
    """Demonstrations, metered in epochs: every pair is handed out once an epoch.

    As windows, every pair is the first of one window an epoch.
    """

    def __init__(self, data: Demonstrations, learning: Learning, start: int, stop: int) -> None:
        super().__init__(len(data), learning, start, stop)
        self._data = data

    def statistics(self) -> Mapping[str, tuple[Array, Array]]:
        """Return mean and standard deviation of each vector-valued observation key."""
        return {
            key: (values.mean(axis=0), values.std(axis=0))
            for key, values in self._data.observations.items()
            if values.ndim == 2
        }

    def batches(self, size: int, shuffle: np.random.Generator) -> Iterator[DemonstrationBatch]:
        """Yield batches of at most ``size`` pairs until the lesson is over."""
        for rows in self._indices(size, shuffle):
            observations = {key: a[rows] for key, a in self._data.observations.items()}
            yield DemonstrationBatch(observations, self._data.actions[rows])

    @property
    def starts(self) -> Array:
        """The positions (M + 1,) at which trajectories begin, ending with `size`."""
        return np.array(self._data.starts, np.int64)

    def skip(self) -> None:
        """Use up the rest of the lesson without looking at it."""
        for _ in self._indices(self._count, np.random.default_rng(0)):
            pass

    def windows(
        self, length: int, size: int, shuffle: np.random.Generator, ahead: int = 0
    ) -> Iterator[WindowBatch]:
        """Yield batches of at most ``size`` windows until the lesson is over.

        A window is ``length`` consecutive frames of one trajectory, and the actions of ``ahead``
        more. Images stay as they are stored; every batch is memory of its own.
        """
        last = last_frames(self._data.starts)
        for rows in self._indices(size, shuffle):
            frames, real = window_frames(rows, last[rows], length + ahead)
            seen = frames[:, :length]
            observations = {k: gather(a, seen) for k, a in self._data.observations.items()}
            yield WindowBatch(observations, gather(self._data.actions, frames), real, rows)


def last_frames(starts: Array) -> Array:
    """Return, for each of N frames, the position (N,) of its trajectory's last frame."""
    return np.repeat(np.asarray(starts[1:]) - 1, np.diff(starts))


def window_frames(first: Array, last: Array, length: int) -> tuple[Array, Array]:
    """Return the positions (B, length) of windows of frames, and which are not filled in.

    ``first`` and ``last`` (B,) are the positions of a window's first frame and of the last frame
    it may hold, which is repeated beyond.
    """
    frames = first[:, None] + np.arange(length)
    return np.minimum(frames, last[:, None]), frames <= last[:, None]


def gather(values: Array, positions: Array) -> Array:
    """Return the rows (B, L, ...) of values (N, ...), mapped from a file or not, at (B, L)."""
    out = np.empty((positions.size, *values.shape[1:]), values.dtype)
    # with mode "raise", the default, numpy would gather into a second buffer first
    np.take(values, positions.reshape(-1), axis=0, out=out, mode="clip")
    return out.reshape(*positions.shape, *values.shape[1:])


class SampleBatch(NamedTuple):
    """B labelled samples: inputs (B, ...) and labels (B,)."""

    inputs: Array
    labels: Array


class SampleLesson(BatchLesson):
    """Labelled samples, metered in epochs or samples.

    Where the suite asks for test-then-train accuracy, ``predict`` is asked for the labels of each
    batch before the agent sees them.
    """

    def __init__(
        self,
        data: Samples,
        learning: Learning,
        start: int,
        stop: int,
        predict: Callable[[Array], Array] | None = None,
    ) -> None:
        super().__init__(len(data.train_inputs), learning, start, stop)
        self._inputs = data.train_inputs
        self._labels = data.train_labels
        self._predict = predict if learning.test_then_train else None
        self._right = 0

    def batches(self, size: int, shuffle: np.random.Generator) -> Iterator[SampleBatch]:
        """Yield batches of at most ``size`` samples until the lesson is over."""
        all_inputs, all_labels, predict = self._inputs, self._labels, self._predict
        for rows in self._indices(size, shuffle):
            inputs, labels = all_inputs[rows], all_labels[rows]
            if predict is not None:
                self._right += count_right(predict(inputs), labels)
            yield SampleBatch(inputs, labels)

    def _score(self, items: int) -> float | None:
        score, self._right = self._right / items, 0
        return score if self._predict else None


def count_right(answers: Any, labels: Array) -> int:
    """Return how many answers are the label.

    Raises:
        RunFailed: if there is not one answer per label, in the shape (B,).
    """
    given = np.asarray(answers)
    if given.shape != labels.shape:
        raise RunFailed(
            f"act() returned labels of shape {given.shape} for {len(labels)} inputs; "
            f"expected {labels.shape}"
        )
    return int(np.sum(given == labels))
