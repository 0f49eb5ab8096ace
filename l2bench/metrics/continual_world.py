"""Continual World's performance, forgetting and forward transfer.

Source: Wolczyk et al. 2021, arXiv 2105.10919, and its code. N tasks are learned one after the
other, each in a segment of evaluation points at which all tasks are evaluated, in S runs. Baselines
learned one task alone; their runs need be neither paired with the runs nor equal in number.

    end_i       = mean of the last points of task i in the last segment
    own_i       = mean of the last points of task i in its own segment
    performance = mean over tasks and runs of end_i
    forgetting  = mean over tasks and runs of (own_i - end_i); the last task counts as 0
    AUC_i       = mean of task i over its own segment, then over runs; AUCb_i the same of baselines
    FT_i        = (AUC_i - AUCb_i) / (1 - AUCb_i)          forward transfer = mean over tasks

Performance lies in [0, 1], higher is better; forgetting in [-1, 1], lower is better; forward
transfer is at most 1 without a lower bound, higher is better. Not measured is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from l2bench.errors import Unsupported, UsageError
from l2bench.metrics.libero_parts import FloatArray, Names, rates
from l2bench.metrics.results import Results, number, strict_mean
from l2bench.metrics.scores import Value, undefined

#: The points averaged at the end of a segment in the authors' code; the paper writes 1.
TAIL = 5

#: A baseline whose AUC is closer to 1 than this leaves nothing to divide by.
EPSILON = 1e-9

_NONE = "no task was learned"


def score(
    success: ArrayLike,
    baselines: Sequence[ArrayLike] | None = None,
    *,
    lengths: Sequence[int] | None = None,
    own: Sequence[ArrayLike] | None = None,
    tail: int = TAIL,
    tasks: Sequence[str] | None = None,
    reasons: Sequence[str | None] | None = None,
    bounded: bool = True,
) -> Results:
    """Return every metric of this family from success rates (S, N, points of the whole run).

    ``baselines`` holds for each task the rates (B, P) of the runs that learned it alone; B may
    differ between tasks, and an empty array is none, with ``reasons`` to say why. ``lengths`` are
    the points of each segment (default: equal). A segment with fewer than ``tail`` points is
    averaged whole. ``own`` are the rates (S, P) of each task in its own segment, where they were
    measured more often than all tasks were; P does not count time 0. ``bounded`` off admits values
    that are no rates.

    Raises:
        Unsupported: if a shape does not fit, or a value is infinite or outside [0, 1].
        UsageError: if ``tail`` is below 1.
    """
    table = rates(success, "success rates", 3, bounded)
    runs, count, points = table.shape
    if not runs or not count:
        raise Unsupported(f"success rates need the shape (S, N, points); found {table.shape}")
    edges = _edges(lengths, count, points)
    if own is None:
        own = [table[:, i, edges[i] : edges[i + 1]] for i in range(count)]
    names = Names(count, tasks, None)
    kept = _retention(table, edges, _positive(tail), names)
    moved = forward_transfer(own, baselines, tasks=tasks, reasons=reasons, bounded=bounded)
    return Results((*kept, *moved.values))


def _positive(tail: int) -> int:
    if tail < 1:
        raise UsageError(f"tail={tail}: at least one point is averaged")
    return tail


def _edges(lengths: Sequence[int] | None, count: int, points: int) -> list[int]:
    """Return where each segment begins, and where the last one ends."""
    if lengths is None:
        if points % count:
            raise Unsupported(f"{points} points do not divide into {count} equal segments")
        lengths = [points // count] * count
    if len(lengths) != count or sum(lengths) != points or min(lengths) < 0:
        raise Unsupported(f"{count} tasks and {points} points do not fit the segments {lengths}")
    return [0, *np.cumsum(lengths).tolist()]


def _retention(
    table: FloatArray, edges: Sequence[int], tail: int, names: Names
) -> tuple[Value, ...]:
    """Return performance and forgetting, of the whole and of each task."""
    count = table.shape[1]
    end = [_tail("cw.performance_k", table, i, count - 1, edges, tail, names) for i in range(count)]
    own = [_tail("cw.forgetting_k", table, i, i, edges, tail, names) for i in range(count)]
    lost = [_difference("cw.forgetting_k", own[i], end[i]) for i in range(count)]
    return (
        strict_mean("cw.performance", end, _NONE),
        strict_mean("cw.forgetting", lost, _NONE),
        *end,
        *lost,
    )


def _tail(
    id: str,
    table: FloatArray,
    task: int,
    segment: int,
    edges: Sequence[int],
    tail: int,
    names: Names,
) -> Value:
    """Return the mean over runs of a task's last points in a segment."""
    start = max(edges[segment], edges[segment + 1] - tail)
    part = table[:, task, start : edges[segment + 1]]
    name = names.task(task)
    reason = f"task {name} was not evaluated at the end of learning task {names.task(segment)}"
    value = math.nan if not part.size else _mean(part)
    return number(id, value, reason, task=name, n=part.size)


def _mean(part: FloatArray) -> float:
    """Return the mean over runs of the means over points; all runs have the same points."""
    return math.fsum(part.ravel()) / part.size


def _difference(id: str, first: Value, second: Value) -> Value:
    if first.value is None or second.value is None:
        return undefined(id, first.reason or second.reason or "", task=first.task)
    return Value(id, first.value - second.value, min(first.n, second.n), task=first.task)


def forward_transfer(
    own: Sequence[ArrayLike],
    baselines: Sequence[ArrayLike] | None,
    *,
    tasks: Sequence[str] | None = None,
    reasons: Sequence[str | None] | None = None,
    bounded: bool = True,
) -> Results:
    """Return forward transfer, and the plain difference of AUCs, by task and as a mean.

    ``own`` and ``baselines`` hold for each task the rates (runs, points) in its own segment and of
    the runs that learned it alone; an empty array is a task that was not measured, and ``reasons``
    may say why it has no baseline. The points are those after time 0.

    Raises:
        Unsupported: if a shape does not fit, or a value is infinite or outside [0, 1].
    """
    count = len(own)
    names = Names(count, tasks, None)
    given = list(baselines) if baselines is not None else [np.empty((0, 0))] * count
    if len(given) != count:
        raise Unsupported(f"{count} tasks need {count} baselines; found {len(given)}")
    gains, ratios, areas, bases = [], [], [], []
    for i in range(count):
        name = names.task(i)
        why = f"task {name} was not evaluated during its own learning"
        area = _area("cw.AUC_k", own[i], why, name, bounded)
        why = (reasons[i] if reasons else None) or f"no single-task expert of task {name}"
        base = _area("cw.baseline_AUC_k", given[i], why, name, bounded)
        lengths = {np.shape(part)[1] for part in (own[i], given[i]) if np.size(part)}
        if len(lengths) > 1:
            raise Unsupported(
                f"task {name}: its runs have {np.shape(own[i])[1]} points, those of "
                f"its experts {np.shape(given[i])[1]}"
            )
        areas.append(area)
        bases.append(base)
        gains.append(_difference("cw.forward_transfer_unnormalised_k", area, base))
        ratios.append(_ratio(area, base))
    whole = (
        strict_mean("cw.forward_transfer", ratios, _NONE),
        strict_mean("cw.forward_transfer_unnormalised", gains, _NONE),
    )
    return Results((*whole, *ratios, *gains, *areas, *bases))


def _area(id: str, given: ArrayLike, reason: str, task: str, bounded: bool) -> Value:
    """Return the mean over runs and points of rates (runs, points)."""
    if not np.size(given):
        return undefined(id, reason, task=task)
    part = rates(given, f"rates of task {task}", 2, bounded)
    lost = np.argwhere(np.isnan(part))
    if len(lost):
        run, point = (int(i) + 1 for i in lost[0])
        reason = f"task {task} was not evaluated at point {point} of run {run} of its own learning"
    return number(id, _mean(part), reason, task=task, n=len(part))


def _ratio(area: Value, base: Value) -> Value:
    id = "cw.forward_transfer_k"
    gain = _difference(id, area, base)
    if gain.value is None or base.value is None:
        return gain
    room = 1 - base.value
    if room < EPSILON:
        reason = f"the experts of task {area.task} have an AUC of {base.value:.6g}: no room to gain"
        return undefined(id, reason, task=area.task)
    return Value(id, gain.value / room, gain.n, task=area.task)
