"""Accuracy, backward and forward transfer, and forgetting from a matrix of accuracies.

Sources: Lopez-Paz and Ranzato 2017 (GEM), arXiv 1706.08840; Chaudhry et al. 2018, arXiv
1801.10112. ``r[i, j]`` is the accuracy on task j after learning task i, ``b[j]`` that of the
untrained learner. With T tasks and 1-based indices:

    ACC = mean over j of r[T, j]                      A_k = mean over j <= k of r[k, j]
    BWT = mean over j < T of (r[T, j] - r[j, j])
    FWT = mean over j > 1 of (r[j-1, j] - b[j])
    f_j(k) = max over l < k of r[l, j] - r[k, j]      F_k = mean over j < k of f_j(k)
    forgetting = F_T

ACC lies in [0, 1], the others in [-1, 1]. Lower is better for forgetting, higher for the rest.
Not measured is NaN: whatever needs such a cell is undefined, and nothing is clipped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from l2bench.errors import Unsupported, UsageError
from l2bench.metrics.libero_parts import FloatArray, Names, rates
from l2bench.metrics.results import Results, number, strict_mean
from l2bench.metrics.scores import Value, undefined

#: From which rows of the matrix a task's best accuracy is taken, for its forgetting after task k:
#: all rows before k (the paper); those from the task's own on; all up to k itself, which hides
#: gains; or the task's own row alone, whose mean is -BWT.
Rows = Literal["all", "from_own_task", "including_last", "own_evaluation"]

ROWS: tuple[Rows, ...] = ("all", "from_own_task", "including_last", "own_evaluation")

_ONE = "only one task was learned"


def score(
    r: ArrayLike,
    b: ArrayLike | None = None,
    *,
    tasks: Sequence[str] | None = None,
    bounded: bool = True,
) -> Results:
    """Return every metric of this family from accuracies r (T, T) and b (T,), tasks in order.

    If a cell above the diagonal that the paper's maximum needs is not measured, forgetting takes
    each task's best from its own row on, for all tasks alike, and a note says so. ``bounded`` off
    admits values that are no rates.

    Raises:
        Unsupported: if a shape does not fit, or a value is infinite or outside [0, 1].
    """
    matrix = _Matrix(r, b, tasks, bounded)
    count, last = matrix.count, matrix.count - 1
    final = [matrix.cell("gem.ACC_k", last, j) for j in range(count)]
    backward = [matrix.backward(j) for j in range(count)]
    forward = [matrix.forward(j) for j in range(count)]
    area = [matrix.average_accuracy(k) for k in range(count)]
    lost = {rows: [matrix.forgetting(j, last, rows) for j in range(count)] for rows in ROWS}
    after = [matrix.mean_forgetting(k, "all") for k in range(count)]
    per_task = (*final, *backward, *forward, *area, *lost["all"], *after)
    whole = (
        strict_mean("gem.ACC", final, _ONE),
        strict_mean("gem.BWT", backward[:-1], _ONE),
        strict_mean("gem.FWT", forward[1:], _ONE),
        _over_all("gem.BWT_divided_by_T", backward[:-1], final),
        _over_all("gem.FWT_divided_by_T", forward[1:], final),
        *(strict_mean(_name(rows), lost[rows][:-1], _ONE) for rows in ROWS),
    )
    return Results((*whole, *per_task), matrix.notes())


def forgetting(
    r: ArrayLike,
    *,
    rows: Rows = "all",
    after: int | None = None,
    tasks: Sequence[str] | None = None,
) -> Value:
    """Return F_k from accuracies r (T, T) with k = ``after`` learned tasks (default: all T).

    Raises:
        Unsupported: if r does not fit.
        UsageError: if ``rows`` or ``after`` is unknown.
    """
    if rows not in ROWS:
        raise UsageError(f"rows={rows!r} is unknown; choose {', '.join(ROWS)}")
    matrix = _Matrix(r, None, tasks, True)
    k = matrix.count if after is None else after
    if not 1 <= k <= matrix.count:
        raise UsageError(f"after={k}: choose 1 to {matrix.count}, the number of tasks")
    members = [matrix.forgetting(j, k - 1, rows) for j in range(k - 1)]
    return strict_mean(_name(rows), members, _ONE)


def _name(rows: Rows) -> str:
    return "gem.forgetting" if rows == "all" else f"gem.forgetting_{rows}"


def _over_all(id: str, members: Sequence[Value], final: Sequence[Value]) -> Value:
    """Return the sum over the members divided by the number of tasks; one task alone gives 0."""
    lost = next((cell.reason for cell in members or final if cell.value is None), None)
    if lost is not None:
        return undefined(id, lost)
    total = math.fsum(member.value for member in members if member.value is not None)
    return Value(id, total / len(final), len(final))


class _Matrix:
    """The accuracies with the words for what is missing; indices from 0."""

    def __init__(
        self, r: ArrayLike, b: ArrayLike | None, tasks: Sequence[str] | None, bounded: bool
    ) -> None:
        self.r = rates(r, "accuracies R", 2, bounded)
        self.count = len(self.r)
        if not self.count or self.r.shape != (self.count, self.count):
            raise Unsupported(f"accuracies R need the shape (T, T); found {self.r.shape}")
        self.b: FloatArray = np.full(self.count, np.nan)
        if b is not None:
            self.b = rates(b, "accuracies b", 1, bounded)
        if len(self.b) != self.count:
            raise Unsupported(f"{self.count} tasks need {self.count} values b, not {len(self.b)}")
        self.names = Names(self.count, tasks, None)
        missing = [
            (i, j) for j in range(self.count - 1) for i in range(j) if math.isnan(self.r[i, j])
        ]
        self.gap = missing[0] if missing else None

    def unmeasured(self, i: int, j: int) -> str:
        return (
            f"task {self.names.task(j)} was not evaluated after learning task {self.names.task(i)}"
        )

    def cell(self, id: str, i: int, j: int) -> Value:
        return number(id, float(self.r[i, j]), self.unmeasured(i, j), task=self.names.task(j))

    def backward(self, j: int) -> Value:
        task, last = self.names.task(j), self.count - 1
        if j == last:
            reason = f"task {task} is the last: no later task can change it"
            return undefined("gem.BWT_k", reason, task=task)
        reason = self.unmeasured(j if math.isnan(self.r[j, j]) else last, j)
        return number("gem.BWT_k", float(self.r[last, j] - self.r[j, j]), reason, task=task)

    def forward(self, j: int) -> Value:
        task = self.names.task(j)
        if j == 0:
            reason = f"task {task} is the first: nothing was learned before it"
            return undefined("gem.FWT_k", reason, task=task)
        reason = f"task {task} was not evaluated before anything was learned"
        if not math.isnan(self.b[j]):
            reason = self.unmeasured(j - 1, j)
        return number("gem.FWT_k", float(self.r[j - 1, j] - self.b[j]), reason, task=task)

    def average_accuracy(self, k: int) -> Value:
        id, task = "gem.average_accuracy_k", self.names.task(k)
        return strict_mean(id, [self.cell(id, k, j) for j in range(k + 1)], _ONE, task)

    def first_row(self, j: int, rows: Rows) -> int:
        """Return the first row from which the best accuracy on task j is taken."""
        return j if rows in ("from_own_task", "own_evaluation") or self.gap else 0

    def forgetting(self, j: int, k: int, rows: Rows) -> Value:
        """Return what of task j is lost after task k."""
        task = self.names.task(j)
        if j >= k:
            reason = f"task {task} is the last: no later task can change it"
            return undefined("gem.forgetting_k", reason, task=task)
        stop = {"own_evaluation": j + 1, "including_last": k + 1}.get(rows, k)
        first = self.first_row(j, rows)
        earlier = self.r[first:stop, j]
        lost = np.flatnonzero(np.isnan(earlier))
        reason = self.unmeasured(first + int(lost[0]) if len(lost) else k, j)
        return number("gem.forgetting_k", float(earlier.max() - self.r[k, j]), reason, task=task)

    def mean_forgetting(self, k: int, rows: Rows) -> Value:
        task = self.names.task(k)
        members = [self.forgetting(j, k, rows) for j in range(k)]
        empty = f"task {task} is the first: nothing was learned before it"
        return strict_mean("gem.forgetting_after_k", members, empty, task)

    def notes(self) -> tuple[str, ...]:
        """Return what was done about missing cells above the diagonal."""
        if self.gap is None:
            return ()
        return (
            "gem.forgetting takes each task's best from its own learning on: "
            f"{self.unmeasured(*self.gap)}",
        )
