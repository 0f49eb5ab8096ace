"""Omega base, new and all: what is kept and learned over sessions, relative to an offline learner.

Source: Kemker et al. 2018, arXiv 1708.02072, equations 2 to 4. Session 1 is the base session.
After session i, base_i is the accuracy on the test items of the base session, new_i on those of
session i, all_i on those of all sessions so far. With T sessions and ``ideal`` the accuracy of an
offline learner on the base session's test items:

    omega_base = mean over i > 1 of base_i / ideal
    omega_new  = mean over i > 1 of new_i
    omega_all  = mean over i > 1 of all_i / ideal

Higher is better. Values are at least 0; omega_base and omega_all exceed 1 where ``ideal`` is
exceeded, and are not clipped. Not measured is NaN, and one missing term leaves the mean undefined.
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

#: How accuracies of several sessions become one: by test item, or each session counting the same.
Pooling = Literal["pooled", "session_mean"]

_ONE = "only one session was learned; the sums start at the second"
_NO_IDEAL = "no accuracy of an offline learner on the base session was given"


def omegas(base: ArrayLike, new: ArrayLike, all: ArrayLike, ideal: float | None) -> Results:
    """Return the Omegas from accuracies after each session, three arrays of shape (T,).

    ``ideal`` is a fraction in [0, 1]; None is not measured. First entries are not read.

    Raises:
        Unsupported: if a shape does not fit, or a value is infinite or outside [0, 1].
    """
    columns = {}
    for name, given in (("base", base), ("new", new), ("all", all)):
        array = rates(given, f"alpha_{name}", 1)
        columns[name] = [
            number(name, float(value), f"alpha_{name} of session {i} is missing")
            for i, value in enumerate(array, 1)
        ]
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1 or 0 in lengths:
        raise Unsupported(f"the accuracies need one length of at least 1, not {sorted(lengths)}")
    return Results(tuple(_omegas(columns["base"], columns["new"], columns["all"], ideal)))


def score(
    r: ArrayLike,
    sizes: ArrayLike,
    ideal: float | None,
    *,
    pooling: Pooling = "pooled",
    tasks: Sequence[str] | None = None,
    unmeasured: str = _NO_IDEAL,
) -> Results:
    """Return the Omegas and their terms from accuracies r (T, T), sessions in order.

    ``r[i, j]`` with j <= i is the accuracy on session j's test items after session i; other entries
    are not read. ``sizes`` (T,), or (T, T) if they change, counts the test items of a session. It
    decides the pooled all_i only, which is `kemker.omega_all` by default; the mean over sessions is
    always given as `kemker.omega_all_session_mean`. ``unmeasured`` says why ``ideal`` is None.

    Raises:
        Unsupported: if a shape does not fit, a value is infinite or outside [0, 1], or a size is
            not above 0.
        UsageError: if ``pooling`` is unknown.
    """
    if pooling not in ("pooled", "session_mean"):
        raise UsageError(f"pooling={pooling!r} is unknown; choose pooled or session_mean")
    matrix = rates(r, "accuracies R", 2)
    count = len(matrix)
    if not count or matrix.shape != (count, count):
        raise Unsupported(f"accuracies R need the shape (T, T); found {matrix.shape}")
    names = Names(count, tasks, None)
    weights = _weights(sizes, count)
    base = [_cell("kemker.base_accuracy_k", matrix, names, i, 0) for i in range(count)]
    new = [_cell("kemker.new_accuracy_k", matrix, names, i, i) for i in range(count)]
    pooled = [_all(matrix, names, i, weights) for i in range(count)]
    plain = [_all(matrix, names, i, np.ones((count, count))) for i in range(count)]
    every = pooled if pooling == "pooled" else plain
    values = list(_omegas(base, new, every, ideal, unmeasured))
    values.append(_omega("kemker.omega_all_session_mean", plain, ideal, unmeasured))
    return Results((*values, *base, *new, *every))


def _weights(sizes: ArrayLike, count: int) -> FloatArray:
    """Return the number of test items of each cell (T, T)."""
    given = np.array(sizes, dtype=np.float64)
    if given.shape not in ((count,), (count, count)):
        raise Unsupported(f"{count} sessions need {count} sizes; found the shape {given.shape}")
    if np.isinf(given).any() or (given <= 0).any():
        raise Unsupported(f"a session has {given.min()} test items; sizes are above 0")
    return np.broadcast_to(given, (count, count))


def _cell(id: str, matrix: FloatArray, names: Names, i: int, j: int) -> Value:
    return number(id, float(matrix[i, j]), _unmeasured(names, i, j), task=names.task(i))


def _unmeasured(names: Names, i: int, j: int) -> str:
    return f"task {names.task(j)} was not evaluated after learning task {names.task(i)}"


def _all(matrix: FloatArray, names: Names, i: int, weights: FloatArray) -> Value:
    """Return the accuracy on the test items of all sessions up to i, after session i."""
    row, size = matrix[i, : i + 1], weights[i, : i + 1]
    lost = np.flatnonzero(np.isnan(row))
    unsized = np.flatnonzero(np.isnan(size))
    if len(unsized) and not len(lost):
        reason = f"the number of test items of task {names.task(int(unsized[0]))} is unknown"
        return undefined("kemker.all_accuracy_k", reason, task=names.task(i))
    reason = _unmeasured(names, i, int(lost[0])) if len(lost) else ""
    value = math.nan if len(lost) else math.fsum(row * size) / math.fsum(size)
    return number("kemker.all_accuracy_k", value, reason, task=names.task(i), n=i + 1)


def _omegas(
    base: Sequence[Value],
    new: Sequence[Value],
    every: Sequence[Value],
    ideal: float | None,
    unmeasured: str = _NO_IDEAL,
) -> tuple[Value, ...]:
    return (
        _omega("kemker.omega_base", base, ideal, unmeasured),
        strict_mean("kemker.omega_new", new[1:], _ONE),
        _omega("kemker.omega_all", every, ideal, unmeasured),
    )


def _omega(id: str, terms: Sequence[Value], ideal: float | None, unmeasured: str) -> Value:
    """Return the mean of the terms after the first, relative to the offline accuracy."""
    if ideal is not None and not math.isnan(ideal) and not 0 <= ideal <= 1:
        raise Unsupported(f"the offline accuracy {ideal} is not a fraction in [0, 1]")
    value = strict_mean(id, terms[1:], _ONE)
    if value.value is None:
        return value
    if ideal is None or math.isnan(ideal):
        return undefined(id, unmeasured)
    if ideal == 0:
        return undefined(id, "the offline accuracy on the base session is 0")
    relative = math.fsum(term.value / ideal for term in terms[1:] if term.value is not None)
    return Value(id, relative / value.n, value.n)
