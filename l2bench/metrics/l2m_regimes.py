"""Quantities of single regimes: terminal performance, saturation, recovery, average."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from l2bench.metrics.l2m_columns import FloatArray, IntArray
from l2bench.metrics.l2m_log import Log
from l2bench.metrics.l2m_preprocess import smooth


@dataclass(frozen=True, eq=False)
class Regimes:
    """Per regime (R,): the mean of its rows, terminal performance, and when that is reached."""

    average: FloatArray
    terminal: FloatArray
    experiences_to_terminal: IntArray


def per_experience(values: FloatArray, exp_num: IntArray) -> FloatArray:
    """Return the mean of the rows of each experience, in order; values and exp_num are (n,)."""
    fresh = np.ones(len(values), dtype=bool)
    fresh[1:] = exp_num[1:] != exp_num[:-1]
    if fresh.all():
        return values
    start = np.flatnonzero(fresh)
    totals: FloatArray = np.add.reduceat(values, start)
    return totals / np.diff(np.append(start, len(values)))


def measure_regimes(log: Log) -> Regimes:
    """Return average and terminal performance of every regime of the log.

    Terminal performance is the mean of an evaluation regime and of the last tenth (at least one
    value) of a learning regime, after rows of one experience have been averaged.
    """
    lengths = log.stop - log.start
    average = np.add.reduceat(log.value, log.start) / lengths
    fresh = np.ones(len(log.value), dtype=bool)
    fresh[1:] = log.exp_num[1:] != log.exp_num[:-1]
    fresh[log.start] = True
    value, start, stop = log.value, log.start, log.stop
    if not fresh.all():
        first = np.flatnonzero(fresh)
        value = np.add.reduceat(value, first) / np.diff(np.append(first, len(value)))
        start = np.searchsorted(first, log.start)
        stop = np.append(start[1:], len(first))
    n = stop - start
    tail = np.where(log.learning, start + np.floor(0.9 * n).astype(np.int64), start)
    edges = np.stack((tail, stop), axis=1).ravel()
    if edges[-1] == len(value):
        edges = edges[:-1]
    terminal = np.add.reduceat(value, edges)[::2] / (stop - tail)
    reached = np.where(log.learning, np.floor(0.95 * n), n // 2).astype(np.int64)
    return Regimes(average, terminal, reached)


def saturation(values: FloatArray, tolerance: float = 0.0) -> tuple[float, int]:
    """Return the largest smoothed value and its first position, counted from 0.

    Values within the relative ``tolerance`` of the largest count as equal to it: the reflected
    start of a falling curve has two equal averages that rounding would tell apart.
    """
    averaged = smooth(values)
    peak = float(averaged.max())
    return peak, int(np.argmax(averaged >= peak - tolerance * abs(peak)))


def recovery_time(values: FloatArray, exp_num: IntArray, previous: float) -> int:
    """Return the first experience, from 0, that is at least ``previous``; rows + 1 if none is."""
    reached = np.flatnonzero(per_experience(values, exp_num) >= previous)
    return int(reached[0]) if len(reached) else len(values) + 1


def least_squares_slope(x: ArrayLike, y: ArrayLike) -> float:
    """Return the slope of the least-squares line through the points; 0 where x is constant."""
    across = np.asarray(x, dtype=np.float64)
    across = across - across.mean()
    spread = float(across @ across)
    return float(across @ np.asarray(y, dtype=np.float64)) / spread if spread else 0.0
