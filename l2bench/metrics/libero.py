"""LIBERO's forward transfer, negative backward transfer and area under the curve.

Source: Liu et al. 2023, arXiv 2306.03310. With K tasks, E evaluation points and 1-based tasks:

    best_k = max_m own[k, m]            stop_k = the first m that reaches it
    s_k[m] = own[k, m] before stop_k, best_k from there on
    FWT_k  = mean_m s_k[m]
    NBT_k  = mean over t > k of (diagonal_k - later[t, k])
    AUC_k  = mean of FWT_k and later[t, k] for t > k

The lifetime values are means over tasks; the last task, which has no later task, counts as 0 in
NBT, and is left out in ``nbt_excluding_last_task``. Success rates are fractions in [0, 1].
Not measured is NaN, and nothing is clipped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from l2bench.errors import Unsupported, UsageError

FloatArray = NDArray[np.float64]
Missing = Literal["strict", "skip"]
Diagonal = Literal["best", "reevaluated"]


@dataclass(frozen=True)
class PerTask:
    """One metric of every task and its mean over tasks; NaN exactly where a reason says why.

    ``values`` has one entry a task. ``known`` of ``needed`` is the coverage: the measured cells of
    all those that the definition asks for. ``used`` counts the tasks in the mean.
    """

    values: tuple[float, ...]
    reasons: tuple[str | None, ...]
    mean: float
    reason: str | None
    used: int
    known: int
    needed: int


@dataclass(frozen=True)
class LiberoScores:
    """The LIBERO metrics of one lifetime; ``nbt`` uses the diagonal that was asked for.

    ``best`` is the best rate of each own curve (NaN: unknown), ``stop`` its first position (-1).
    ``nbt_best`` and ``nbt_reevaluated`` are both there whenever their diagonal is known.
    """

    best: tuple[float, ...]
    stop: tuple[int, ...]
    fwt: PerTask
    auc: PerTask
    nbt: PerTask
    nbt_excluding_last_task: PerTask
    nbt_best: PerTask | None
    nbt_best_excluding_last_task: PerTask | None
    nbt_reevaluated: PerTask | None
    nbt_reevaluated_excluding_last_task: PerTask | None
    missing: Missing
    diagonal: Diagonal


def score(
    own: ArrayLike,
    later: ArrayLike,
    *,
    reevaluated: ArrayLike | None = None,
    missing: Missing = "strict",
    diagonal: Diagonal = "best",
    tasks: Sequence[str] | None = None,
    points: Sequence[object] | None = None,
) -> LiberoScores:
    """Return FWT, NBT and AUC from own curves (K, E) and later cells (K, K).

    ``later[t, k]`` with t > k is the success on task k of the model kept after task t; other
    entries are not read. ``reevaluated`` (K,) is a second evaluation of task k right after it was
    learned. ``strict`` makes a value undefined when any cell it needs is missing; ``skip`` takes
    the cells that are there. ``tasks`` and ``points`` name tasks and evaluation points in reasons.

    Raises:
        Unsupported: if a shape does not fit, or a rate is infinite or outside [0, 1].
        UsageError: if an option is unknown.
    """
    curves = _rates(own, "own curves", 2)
    cells = _rates(later, "later cells", 2)
    again = None if reevaluated is None else _rates(reevaluated, "re-evaluated diagonal", 1)
    count, length = curves.shape
    if cells.shape != (count, count) or (again is not None and again.shape != (count,)):
        raise Unsupported(
            f"own curves of {count} tasks need later cells of shape ({count}, {count}) and a "
            f"diagonal of length {count}; found {cells.shape} and "
            f"{None if again is None else again.shape}"
        )
    if not count or not length:
        raise Unsupported("own curves are empty: at least one task and one evaluation are needed")
    names = _Names(count, length, tasks, points)
    return _score_cells(curves, cells, again, missing, diagonal, names, frozenset())


def score_tensor(
    c: ArrayLike,
    *,
    reevaluated: ArrayLike | None = None,
    missing: Missing = "strict",
    diagonal: Diagonal = "best",
    tasks: Sequence[str] | None = None,
    points: Sequence[object] | None = None,
) -> LiberoScores:
    """Return FWT, NBT and AUC from success rates c (K, K, E).

    ``c[i, j, m]`` is the success on task j when task i has been trained up to the m-th evaluation
    point. The model kept after task i is the one at its own stopping point, so a later cell is
    unknown where that point is: for ``strict`` if any cell of the own curve of i is missing.

    Raises:
        Unsupported: if the shape is not (K, K, E), or a rate is infinite or outside [0, 1].
    """
    tensor = _rates(c, "success rates", 3)
    count, width, length = tensor.shape
    if count != width or not count or not length:
        raise Unsupported(f"success rates need the shape (K, K, E); found {tensor.shape}")
    names = _Names(count, length, tasks, points)
    rows = np.arange(count)
    own = tensor[rows, rows]
    _, stop = _peaks(own, missing)
    later = np.full((count, count), np.nan)
    unknown = frozenset(int(i) for i in rows if stop[i] < 0)
    for i in rows:
        if stop[i] >= 0:
            later[i, :i] = tensor[i, :i, stop[i]]
    again = None if reevaluated is None else _rates(reevaluated, "re-evaluated diagonal", 1)
    return _score_cells(own, later, again, missing, diagonal, names, unknown)


def score_matrix(
    s_conf_mat: ArrayLike,
    s_fwd: ArrayLike,
    *,
    learned: int | None = None,
    missing: Missing = "strict",
    tasks: Sequence[str] | None = None,
) -> LiberoScores:
    """Return the metrics from ``S_conf_mat`` (K, K) and ``S_fwd`` (K,) of a LIBERO result file.

    The diagonal of the matrix is the re-evaluation of the kept model, ``S_fwd`` holds FWT_k;
    entries above the diagonal are never read. ``learned`` says how many tasks the run finished:
    the zeros of later rows are then missing, not failures.

    Raises:
        Unsupported: if the shapes do not fit, or a rate is infinite or outside [0, 1].
    """
    matrix = _rates(s_conf_mat, "S_conf_mat", 2)
    fwt = _rates(s_fwd, "S_fwd", 1)
    count = len(fwt)
    if matrix.shape != (count, count) or not count:
        raise Unsupported(f"S_conf_mat {matrix.shape} and S_fwd ({count},) do not fit")
    _check_options(missing, "reevaluated")
    names = _Names(count, 1, tasks, None)
    if learned is not None:
        matrix[learned:] = np.nan
        fwt[learned:] = np.nan
    gap = "the forward transfer of task {} was not recorded"
    fwt_reasons = [gap.format(names.task(k)) if math.isnan(fwt[k]) else None for k in range(count)]
    known = int(np.count_nonzero(~np.isnan(fwt)))
    fwt_part = _average(fwt, fwt_reasons, missing, (known, count))
    again, again_short = _nbt(
        np.diagonal(matrix).copy(), matrix, missing, names, "was not evaluated again"
    )
    return LiberoScores(
        best=(math.nan,) * count,
        stop=(-1,) * count,
        fwt=fwt_part,
        auc=_auc(fwt, fwt_reasons, matrix, missing, names, frozenset()),
        nbt=again,
        nbt_excluding_last_task=again_short,
        nbt_best=None,
        nbt_best_excluding_last_task=None,
        nbt_reevaluated=again,
        nbt_reevaluated_excluding_last_task=again_short,
        missing=missing,
        diagonal="reevaluated",
    )


@dataclass(frozen=True)
class _Names:
    """The words for tasks and evaluation points in reasons."""

    count: int
    length: int
    tasks: Sequence[str] | None
    points: Sequence[object] | None

    def __post_init__(self) -> None:
        if self.tasks is not None and len(self.tasks) != self.count:
            raise Unsupported(f"{len(self.tasks)} task names for {self.count} tasks")
        if self.points is not None and len(self.points) != self.length:
            raise Unsupported(f"{len(self.points)} point names for {self.length} points")

    def task(self, k: int) -> str:
        return str(k + 1) if self.tasks is None else self.tasks[k]

    def gaps(self, curve: FloatArray) -> str:
        lost = [int(m) for m in np.flatnonzero(np.isnan(curve))]
        if len(lost) == len(curve):
            return "at any evaluation point of its own learning"
        shown = [str(m if self.points is None else self.points[m]) for m in lost[:5]]
        more = "" if len(lost) <= 5 else f" and {len(lost) - 5} more"
        return f"at evaluation point {', '.join(shown)}{more} of its own learning"


def _rates(values: ArrayLike, what: str, dims: int) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise Unsupported(f"{what}: not a rectangular array of numbers ({error})") from None
    if array.ndim != dims:
        raise Unsupported(f"{what}: expected {dims} dimensions, found shape {array.shape}")
    with np.errstate(invalid="ignore"):
        bad = np.argwhere(np.isinf(array) | (array < 0) | (array > 1))
    if len(bad):
        place = ", ".join(str(int(i)) for i in bad[0])
        raise Unsupported(
            f"{what}: {array[tuple(bad[0])]} at [{place}]; success rates are fractions in [0, 1]"
        )
    return array


def _check_options(missing: str, diagonal: str) -> None:
    if missing not in ("strict", "skip"):
        raise UsageError(f"missing={missing!r} is unknown; choose strict or skip")
    if diagonal not in ("best", "reevaluated"):
        raise UsageError(f"diagonal={diagonal!r} is unknown; choose best or reevaluated")


def _peaks(own: FloatArray, missing: Missing) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return the best rate (K,) and its first position (K,), NaN and -1 where unknown."""
    known = ~np.isnan(own)
    usable = known.all(axis=1) if missing == "strict" else known.any(axis=1)
    filled = np.where(known, own, -np.inf)
    best = np.where(usable, filled.max(axis=1), np.nan)
    stop = np.where(usable, filled.argmax(axis=1), -1)
    return best, stop.astype(np.int64)


def _score_cells(
    own: FloatArray,
    later: FloatArray,
    again: FloatArray | None,
    missing: Missing,
    diagonal: Diagonal,
    names: _Names,
    unknown: frozenset[int],
) -> LiberoScores:
    _check_options(missing, diagonal)
    if diagonal == "reevaluated" and again is None:
        raise UsageError("diagonal=reevaluated needs the re-evaluated diagonal; choose best")
    best, stop = _peaks(own, missing)
    fwt, reasons = _fwt(own, best, stop, names)
    known = int(np.count_nonzero(~np.isnan(own)))
    lost = "has an incomplete own curve" if missing == "strict" else "has no own curve"
    first = _nbt(best, later, missing, names, lost, unknown)
    second = None
    if again is not None:
        second = _nbt(again, later, missing, names, "was not evaluated again", unknown)
    chosen = second if diagonal == "reevaluated" and second is not None else first
    return LiberoScores(
        best=tuple(best.tolist()),
        stop=tuple(stop.tolist()),
        fwt=_average(fwt, reasons, missing, (known, own.size)),
        auc=_auc(fwt, reasons, later, missing, names, unknown),
        nbt=chosen[0],
        nbt_excluding_last_task=chosen[1],
        nbt_best=first[0],
        nbt_best_excluding_last_task=first[1],
        nbt_reevaluated=None if second is None else second[0],
        nbt_reevaluated_excluding_last_task=None if second is None else second[1],
        missing=missing,
        diagonal=diagonal,
    )


def _fwt(
    own: FloatArray, best: FloatArray, stop: NDArray[np.int64], names: _Names
) -> tuple[FloatArray, list[str | None]]:
    """Return FWT_k (K,): own curves held at their peak, averaged over the known points."""
    after = np.arange(own.shape[1])[None, :] >= stop[:, None]
    held = np.where(after, best[:, None], own)
    usable = stop >= 0
    known = ~np.isnan(held) & usable[:, None]
    total = np.where(known, held, 0.0).sum(axis=1)
    counts = known.sum(axis=1)
    fwt = np.where(usable, total / np.maximum(counts, 1), np.nan)
    reasons = [
        None if usable[k] else f"task {names.task(k)} was not evaluated {names.gaps(own[k])}"
        for k in range(len(own))
    ]
    return fwt, reasons


def _later_reason(names: _Names, unknown: frozenset[int], t: int, k: int) -> str:
    if t in unknown:
        return f"the stopping point of task {names.task(t)} is unknown: its own curve is incomplete"
    return f"task {names.task(k)} was not evaluated after learning task {names.task(t)}"


def _nbt(
    diagonal: FloatArray,
    later: FloatArray,
    missing: Missing,
    names: _Names,
    lost: str,
    unknown: frozenset[int] = frozenset(),
) -> tuple[PerTask, PerTask]:
    """Return NBT over all tasks (the last one counting as 0) and over all but the last."""
    count = len(diagonal)
    values = np.full(count, np.nan)
    reasons: list[str | None] = [None] * count
    known = int(np.count_nonzero(~np.isnan(diagonal)))
    for k in range(count):
        column = later[k + 1 :, k]
        there = column[~np.isnan(column)]
        known += len(there)
        gap = k + 1 + int(np.argmax(np.isnan(column))) if len(there) < len(column) else None
        if math.isnan(diagonal[k]):
            reasons[k] = f"task {names.task(k)} {lost}"
        elif not len(column):
            reasons[k] = f"task {names.task(k)} is the last: no later task can change it"
        elif gap is not None and (missing == "strict" or not len(there)):
            reasons[k] = _later_reason(names, unknown, gap, k)
        else:
            values[k] = diagonal[k] - math.fsum(there) / len(there)
    cover = (known, count + count * (count - 1) // 2)
    zeroed, zeroed_reasons = values.copy(), list(reasons)
    if not math.isnan(diagonal[-1]):
        zeroed[-1], zeroed_reasons[-1] = 0.0, None
    every = _average(zeroed, zeroed_reasons, missing, cover)
    short = _average(values[:-1], reasons[:-1], missing, cover, "only one task was learned")
    own_values = tuple(values.tolist())
    return (
        PerTask(own_values, tuple(reasons), every.mean, every.reason, every.used, *cover),
        PerTask(own_values, tuple(reasons), short.mean, short.reason, short.used, *cover),
    )


def _auc(
    fwt: FloatArray,
    fwt_reasons: Sequence[str | None],
    later: FloatArray,
    missing: Missing,
    names: _Names,
    unknown: frozenset[int],
) -> PerTask:
    count = len(fwt)
    values = np.full(count, np.nan)
    reasons: list[str | None] = [None] * count
    known = 0
    for k in range(count):
        terms = np.concatenate(([fwt[k]], later[k + 1 :, k]))
        there = terms[~np.isnan(terms)]
        known += len(there)
        if len(there) == len(terms) or (missing == "skip" and len(there)):
            values[k] = math.fsum(there) / len(there)
        elif math.isnan(fwt[k]):
            reasons[k] = fwt_reasons[k]
        else:
            gap = k + int(np.argmax(np.isnan(terms)))
            reasons[k] = _later_reason(names, unknown, gap, k)
    return _average(values, reasons, missing, (known, count + count * (count - 1) // 2))


def _average(
    values: FloatArray,
    reasons: Sequence[str | None],
    missing: Missing,
    cover: tuple[int, int],
    empty: str = "no task has a value",
) -> PerTask:
    """Return the values with their mean: over all (strict) or over those that are defined."""
    defined = values[~np.isnan(values)]
    first = next((reason for reason in reasons if reason is not None), None)
    mean, used = math.nan, 0
    reason: str | None = first or empty
    if len(defined) and (missing == "skip" or len(defined) == len(values)):
        mean, reason, used = math.fsum(defined) / len(defined), None, len(defined)
    return PerTask(tuple(values.tolist()), tuple(reasons), mean, reason, used, *cover)
