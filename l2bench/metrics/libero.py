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
from numpy.typing import ArrayLike

from l2bench.errors import Unsupported, UsageError
from l2bench.metrics.libero_parts import (
    FloatArray,
    Missing,
    Names,
    PerTask,
    area,
    average,
    backward,
    forward,
    peak,
    rates,
)

Diagonal = Literal["best", "reevaluated"]

#: Why a re-evaluated diagonal entry is missing.
AGAIN = "was not evaluated right after it was learned"


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
    own: ArrayLike | Sequence[ArrayLike],
    later: ArrayLike,
    *,
    reevaluated: ArrayLike | None = None,
    missing: Missing = "strict",
    diagonal: Diagonal = "best",
    tasks: Sequence[str] | None = None,
    points: Sequence[object] | None = None,
    bounded: bool = True,
) -> LiberoScores:
    """Return FWT, NBT and AUC from own curves (K, E) and later cells (K, K).

    Own curves may differ in length; an empty one is a task without evaluations. ``later[t, k]``
    with t > k is the success on task k of the model kept after task t; other entries are not read.
    ``reevaluated`` (K,) is a second evaluation of task k right after it was learned. ``strict``
    makes a value undefined when any cell it needs is missing; ``skip`` takes the cells that are
    there. ``tasks`` and ``points`` name tasks and evaluation points in reasons.
    ``bounded`` off admits values that are no rates.

    Raises:
        Unsupported: if a shape does not fit, or a rate is infinite or outside [0, 1].
        UsageError: if an option is unknown.
    """
    rows = list(own)  # type: ignore[arg-type]
    curves = [rates(c, f"own curve {k + 1}", 1, bounded) for k, c in enumerate(rows)]
    cells = rates(later, "later cells", 2, bounded)
    again = None
    if reevaluated is not None:
        again = rates(reevaluated, "re-evaluated diagonal", 1, bounded)
    count = len(curves)
    if not count:
        raise Unsupported("no own curves: at least one task is needed")
    if cells.shape != (count, count) or (again is not None and again.shape != (count,)):
        raise Unsupported(
            f"own curves of {count} tasks need later cells of shape ({count}, {count}) and a "
            f"diagonal of length {count}; found {cells.shape} and "
            f"{None if again is None else again.shape}"
        )
    names = Names(count, tasks, points)
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
    tensor = rates(c, "success rates", 3)
    count, width, length = tensor.shape
    if count != width or not count or not length:
        raise Unsupported(f"success rates need the shape (K, K, E); found {tensor.shape}")
    curves = [tensor[k, k] for k in range(count)]
    later = np.full((count, count), np.nan)
    unknown = set()
    for i, curve in enumerate(curves):
        _, stop = peak(curve, missing)
        if stop < 0:
            unknown.add(i)
        else:
            later[i, :i] = tensor[i, :i, stop]
    again = None if reevaluated is None else rates(reevaluated, "re-evaluated diagonal", 1)
    names = Names(count, tasks, points)
    return _score_cells(curves, later, again, missing, diagonal, names, frozenset(unknown))


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
    matrix = rates(s_conf_mat, "S_conf_mat", 2)
    fwt = rates(s_fwd, "S_fwd", 1)
    count = len(fwt)
    if matrix.shape != (count, count) or not count:
        raise Unsupported(f"S_conf_mat {matrix.shape} and S_fwd ({count},) do not fit")
    _check_options(missing, "reevaluated")
    names = Names(count, tasks, None)
    if learned is not None:
        matrix[learned:] = np.nan
        fwt[learned:] = np.nan
    gap = "the forward transfer of task {} was not recorded"
    fwt_reasons = [gap.format(names.task(k)) if math.isnan(fwt[k]) else None for k in range(count)]
    known = int(np.count_nonzero(~np.isnan(fwt)))
    fwt_part = average(fwt, [1] * count, fwt_reasons, missing, (known, count))
    again, again_short = backward(
        np.diagonal(matrix).copy(), matrix, missing, names, [AGAIN] * count
    )
    return LiberoScores(
        best=(math.nan,) * count,
        stop=(-1,) * count,
        fwt=fwt_part,
        auc=area(fwt, fwt_reasons, matrix, missing, names, frozenset()),
        nbt=again,
        nbt_excluding_last_task=again_short,
        nbt_best=None,
        nbt_best_excluding_last_task=None,
        nbt_reevaluated=again,
        nbt_reevaluated_excluding_last_task=again_short,
        missing=missing,
        diagonal="reevaluated",
    )


def _check_options(missing: str, diagonal: str) -> None:
    if missing not in ("strict", "skip"):
        raise UsageError(f"missing={missing!r} is unknown; choose strict or skip")
    if diagonal not in ("best", "reevaluated"):
        raise UsageError(f"diagonal={diagonal!r} is unknown; choose best or reevaluated")


def _score_cells(
    own: Sequence[FloatArray],
    later: FloatArray,
    again: FloatArray | None,
    missing: Missing,
    diagonal: Diagonal,
    names: Names,
    unknown: frozenset[int],
) -> LiberoScores:
    _check_options(missing, diagonal)
    if diagonal == "reevaluated" and again is None:
        raise UsageError("diagonal=reevaluated needs the re-evaluated diagonal; choose best")
    peaks = [peak(curve, missing) for curve in own]
    best = np.array([value for value, _ in peaks])
    fwt, counts, reasons = forward(own, peaks, names)
    known = sum(int(np.count_nonzero(~np.isnan(curve))) for curve in own)
    lost = [
        "has an incomplete own curve" if np.isfinite(curve).any() else "has no own curve"
        for curve in own
    ]
    first = backward(best, later, missing, names, lost, unknown)
    second = None
    if again is not None:
        second = backward(again, later, missing, names, [AGAIN] * len(own), unknown)
    chosen = second if diagonal == "reevaluated" and second is not None else first
    needed = sum(max(len(curve), 1) for curve in own)
    return LiberoScores(
        best=tuple(best.tolist()),
        stop=tuple(stop for _, stop in peaks),
        fwt=average(fwt, counts, reasons, missing, (known, needed)),
        auc=area(fwt, reasons, later, missing, names, unknown),
        nbt=chosen[0],
        nbt_excluding_last_task=chosen[1],
        nbt_best=first[0],
        nbt_best_excluding_last_task=first[1],
        nbt_reevaluated=None if second is None else second[0],
        nbt_reevaluated_excluding_last_task=None if second is None else second[1],
        missing=missing,
        diagonal=diagonal,
    )
