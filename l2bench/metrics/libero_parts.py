"""The parts of LIBERO's metrics: own curves, later cells, means with their reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from l2bench.errors import Unsupported

FloatArray = NDArray[np.float64]
Missing = Literal["strict", "skip"]


@dataclass(frozen=True)
class PerTask:
    """One metric of every task and its mean over tasks; NaN exactly where a reason says why.

    ``values`` has one entry a task, computed from ``counts`` measured cells. ``known`` of
    ``needed`` is the coverage: the measured cells of all those that the definition asks for.
    ``used`` counts the tasks in the mean.
    """

    values: tuple[float, ...]
    counts: tuple[int, ...]
    reasons: tuple[str | None, ...]
    mean: float
    reason: str | None
    used: int
    known: int
    needed: int


@dataclass(frozen=True)
class Names:
    """The words for tasks and evaluation points in reasons."""

    count: int
    tasks: Sequence[str] | None
    points: Sequence[object] | None

    def __post_init__(self) -> None:
        if self.tasks is not None and len(self.tasks) != self.count:
            raise Unsupported(f"{len(self.tasks)} task names for {self.count} tasks")

    def task(self, k: int) -> str:
        """Return the name of task k, or its number from 1."""
        return str(k + 1) if self.tasks is None else self.tasks[k]

    def gaps(self, curve: FloatArray) -> str:
        """Return where an own curve was not measured."""
        lost = [int(m) for m in np.flatnonzero(np.isnan(curve))]
        if len(lost) == len(curve):
            return "at any checkpoint of its own learning"
        labels = range(len(curve)) if self.points is None else self.points
        if len(labels) != len(curve):
            raise Unsupported(f"{len(labels)} point names for {len(curve)} evaluation points")
        more = "" if len(lost) <= 5 else f" and {len(lost) - 5} more"
        shown = ", ".join(str(labels[m]) for m in lost[:5])
        return f"at checkpoint {shown}{more} of its own learning"


def rates(values: ArrayLike, what: str, dims: int, bounded: bool = True) -> FloatArray:
    """Return a copy as an array of rates with this number of dimensions.

    Raises:
        Unsupported: if it is none, or a value is infinite or (``bounded``) outside [0, 1].
    """
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise Unsupported(f"{what}: not a rectangular array of numbers ({error})") from None
    if array.ndim != dims:
        raise Unsupported(f"{what}: expected {dims} dimensions, found shape {array.shape}")
    bad = np.isinf(array)
    if bounded:
        bad |= (array < 0) | (array > 1)
    if bad.any():
        first = np.argwhere(bad)[0]
        place = ", ".join(str(int(i)) for i in first)
        raise Unsupported(
            f"{what}: {array[tuple(first)]} at [{place}]; success rates are fractions in [0, 1]"
        )
    return array


def peak(curve: FloatArray, missing: Missing) -> tuple[float, int]:
    """Return the best rate of an own curve and its first position, NaN and -1 where unknown."""
    known = ~np.isnan(curve)
    if not len(curve) or not (known.all() if missing == "strict" else known.any()):
        return math.nan, -1
    stop = int(np.argmax(np.where(known, curve, -np.inf)))
    return float(curve[stop]), stop


def forward(
    own: Sequence[FloatArray], peaks: Sequence[tuple[float, int]], names: Names
) -> tuple[FloatArray, list[int], list[str | None]]:
    """Return FWT_k (K,): own curves held at their peak, averaged over the known points."""
    values = np.full(len(own), np.nan)
    counts = [0] * len(own)
    reasons: list[str | None] = [None] * len(own)
    for k, (curve, (best, stop)) in enumerate(zip(own, peaks, strict=True)):
        if stop < 0:
            reasons[k] = f"task {names.task(k)} was not evaluated {names.gaps(curve)}"
            continue
        before = curve[:stop][~np.isnan(curve[:stop])]
        held = len(curve) - stop
        counts[k] = len(before) + held
        values[k] = math.fsum([*before, *[best] * held]) / counts[k]
    return values, counts, reasons


def _later_reason(names: Names, unknown: frozenset[int], t: int, k: int) -> str:
    if t in unknown:
        return f"the stopping point of task {names.task(t)} is unknown: its own curve is incomplete"
    return f"task {names.task(k)} was not evaluated after learning task {names.task(t)}"


def backward(
    diagonal: FloatArray,
    later: FloatArray,
    missing: Missing,
    names: Names,
    lost: Sequence[str],
    unknown: frozenset[int] = frozenset(),
) -> tuple[PerTask, PerTask]:
    """Return NBT over all tasks (the last one counting as 0) and over all but the last.

    ``lost`` says for each task why its diagonal entry would be missing.
    """
    count = len(diagonal)
    values = np.full(count, np.nan)
    counts = [0] * count
    reasons: list[str | None] = [None] * count
    known = int(np.count_nonzero(~np.isnan(diagonal)))
    for k in range(count):
        column = later[k + 1 :, k]
        there = column[~np.isnan(column)]
        known += len(there)
        gap = k + 1 + int(np.argmax(np.isnan(column))) if len(there) < len(column) else None
        if math.isnan(diagonal[k]):
            reasons[k] = f"task {names.task(k)} {lost[k]}"
        elif not len(column):
            reasons[k] = f"task {names.task(k)} is the last: no later task can change it"
        elif gap is not None and (missing == "strict" or not len(there)):
            reasons[k] = _later_reason(names, unknown, gap, k)
        else:
            values[k] = diagonal[k] - math.fsum(there) / len(there)
            counts[k] = len(there)
    cover = (known, count + count * (count - 1) // 2)
    zeroed, zeroed_reasons = values.copy(), list(reasons)
    if not math.isnan(diagonal[-1]):
        zeroed[-1], zeroed_reasons[-1] = 0.0, None
    every = average(zeroed, counts, zeroed_reasons, missing, cover)
    empty = "only one task was learned"
    short = average(values[:-1], counts[:-1], reasons[:-1], missing, cover, empty)
    own = tuple(values.tolist()), tuple(counts), tuple(reasons)
    return (
        PerTask(*own, every.mean, every.reason, every.used, *cover),
        PerTask(*own, short.mean, short.reason, short.used, *cover),
    )


def area(
    fwt: FloatArray,
    fwt_reasons: Sequence[str | None],
    later: FloatArray,
    missing: Missing,
    names: Names,
    unknown: frozenset[int],
) -> PerTask:
    """Return AUC: the mean of FWT_k and the later cells of each task."""
    count = len(fwt)
    values = np.full(count, np.nan)
    counts = [0] * count
    reasons: list[str | None] = [None] * count
    known = 0
    for k in range(count):
        terms = np.concatenate(([fwt[k]], later[k + 1 :, k]))
        there = terms[~np.isnan(terms)]
        known += len(there)
        if len(there) == len(terms) or (missing == "skip" and len(there)):
            values[k] = math.fsum(there) / len(there)
            counts[k] = len(there)
        elif math.isnan(fwt[k]):
            reasons[k] = fwt_reasons[k]
        else:
            gap = k + int(np.argmax(np.isnan(terms)))
            reasons[k] = _later_reason(names, unknown, gap, k)
    cover = (known, count + count * (count - 1) // 2)
    return average(values, counts, reasons, missing, cover)


def average(
    values: FloatArray,
    counts: Sequence[int],
    reasons: Sequence[str | None],
    missing: Missing,
    cover: tuple[int, int],
    empty: str = "no task has a value",
) -> PerTask:
    """Return the values with their mean: over all (strict) or over those that are defined."""
    defined = values[~np.isnan(values)]
    mean, used = math.nan, 0
    reason: str | None = next((reason for reason in reasons if reason is not None), empty)
    if len(defined) and (missing == "skip" or len(defined) == len(values)):
        mean, reason, used = math.fsum(defined) / len(defined), None, len(defined)
    return PerTask(
        tuple(values.tolist()), tuple(counts), tuple(reasons), mean, reason, used, *cover
    )
