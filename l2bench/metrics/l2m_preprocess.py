"""The preprocessing of the L2M metrics: smooth, clamp and scale, in this order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from l2bench.errors import UsageError, choices, nearest
from l2bench.metrics.l2m_columns import FloatArray, IntArray
from l2bench.metrics.l2m_log import Log
from l2bench.metrics.l2m_settings import Settings

#: Regimes of fewer rows than this, on average, are short.
SHORT = 64

_KERNELS: Mapping[str, Callable[[int], NDArray[Any]]] = {
    "flat": np.ones,
    "hanning": np.hanning,
    "hamming": np.hamming,
    "bartlett": np.bartlett,
    "blackman": np.blackman,
}


@dataclass(frozen=True, eq=False)
class Processed:
    """A log and its experts after preprocessing, and the ranges used for scaling.

    ``experts`` holds the experts of each task of the log in the order given. ``ranges`` is empty
    without scaling.
    """

    log: Log
    experts: Mapping[str, tuple[Log, ...]]
    ranges: Mapping[str, tuple[float, float]]
    warnings: tuple[str, ...]


def smooth(x: ArrayLike, window: str = "flat", length: int | None = None) -> FloatArray:
    """Return x (n,) averaged over a moving window, its ends reflected.

    The window has ``length`` entries if x is that long, else a fifth of n, at most 100; below 3,
    or for ``none``, x comes back as it is. The window lags by one sample (odd) or half (even).
    """
    values = np.asarray(x, dtype=np.float64)
    n = len(values)
    w = length if length is not None and n >= length else min(n // 5, 100)
    if window == "none" or w < 3:
        return values
    kernel = _KERNELS[window](w)
    mirrored = np.concatenate((values[w - 1 : 0 : -1], values, values[-2 : -w - 1 : -1]))
    averaged = np.convolve(kernel / kernel.sum(), mirrored, mode="valid")
    first = math.floor(w / 2 - 1)
    return averaged[first : first + n]


def scale(x: ArrayLike, low: float, high: float) -> FloatArray:
    """Return x with ``low`` at 1 and ``high`` at 101; all ones if they are equal."""
    values = np.asarray(x, dtype=np.float64)
    if high == low:
        return np.ones_like(values)
    return (values - low) / (high - low) * 100 + 1


def quantile_range(x: ArrayLike) -> tuple[float, float]:
    """Return the 10 % and 90 % quantiles of x with linear interpolation."""
    low, high = np.quantile(np.asarray(x, dtype=np.float64), [0.1, 0.9])
    return float(low), float(high)


def preprocess(log: Log, experts: Sequence[Log], settings: Settings) -> Processed:
    """Return the log and its experts smoothed, clamped and scaled as the settings say.

    Raises:
        UsageError: if a data range is given that is malformed or leaves out a task.
    """
    by_task, warnings = _experts_by_task(log, experts)
    log = _smoothed(log, settings)
    by_task = {
        task: tuple(_smoothed(expert, settings) for expert in group)
        for task, group in by_task.items()
    }
    given = _given_ranges(log, settings)
    if settings.clamp:
        bounds = given or _ranges(log, by_task, quantile_range)
        log, by_task = _apply(log, by_task, bounds, lambda x, low, high: np.clip(x, low, high))
    ranges: dict[str, tuple[float, float]] = {}
    if settings.scaling != "none":
        ranges = given or _ranges(log, by_task, lambda x: (float(x.min()), float(x.max())))
        used = ranges
        if settings.scaling == "run":
            known = [limits for limits in used.values() if not math.isnan(limits[0])]
            whole = min(low for low, _ in known), max(high for _, high in known)
            used = dict.fromkeys(used, whole)
        log, by_task = _apply(log, by_task, used, scale)
        warnings += tuple(
            f"task {task} has constant performance; every value is scaled to 1"
            for task in log.tasks
            if used[task][0] == used[task][1]
        )
    return Processed(log, by_task, ranges, warnings)


def _experts_by_task(
    log: Log, experts: Sequence[Log]
) -> tuple[dict[str, tuple[Log, ...]], tuple[str, ...]]:
    groups: dict[str, list[Log]] = {task: [] for task in log.tasks}
    strange = set()
    for expert in experts:
        task = expert.tasks[int(expert.task[0])]
        if task in groups:
            groups[task].append(expert)
        else:
            strange.add(task)
    warnings = (f"experts of tasks not in the log are ignored: {choices(strange)}",)
    return {task: tuple(group) for task, group in groups.items()}, warnings if strange else ()


def _smoothed(log: Log, settings: Settings) -> Log:
    if settings.smoothing == "none":
        return log
    value = log.value.copy()
    wanted = np.ones(len(log.start), dtype=bool) if settings.smooth_evaluation else log.learning
    for r in np.flatnonzero(wanted):
        rows = slice(log.start[r], log.stop[r])
        value[rows] = smooth(log.value[rows], settings.smoothing, settings.window_length)
    return replace(log, value=value)


def _given_ranges(log: Log, settings: Settings) -> dict[str, tuple[float, float]]:
    """Return the given range of every task of the log, merged over variants where those are."""
    if settings.data_range is None:
        return {}
    merged: dict[str, tuple[float, float]] = {}
    for name, (low, high) in settings.data_range.items():
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise UsageError(f"data range of {name}: {low} to {high} does not ascend")
        task = name.lower()
        task = task.split("_")[0] if settings.variants == "agnostic" else task
        before = merged.get(task, (low, high))
        merged[task] = min(low, before[0]), max(high, before[1])
    for task in log.tasks:
        if task not in merged:
            raise UsageError(
                f"no data range for task {task}{nearest(task, merged)}; ranges are given for "
                f"{choices(merged)}"
            )
    return {task: merged[task] for task in log.tasks}


def _ranges(
    log: Log,
    experts: Mapping[str, tuple[Log, ...]],
    limits: Callable[[FloatArray], tuple[float, float]],
) -> dict[str, tuple[float, float]]:
    """Return the limits of all values of each task, those of its experts included."""
    ranges = {}
    for t, task in enumerate(log.tasks):
        regimes: IntArray = np.flatnonzero(log.task == t)
        parts = [log.rows(regimes), *(expert.value for expert in experts[task])]
        values = np.concatenate(parts)
        values = values[~np.isnan(values)]
        ranges[task] = limits(values) if len(values) else (math.nan, math.nan)
    return ranges


def _apply(
    log: Log,
    experts: Mapping[str, tuple[Log, ...]],
    ranges: Mapping[str, tuple[float, float]],
    change: Callable[[FloatArray, float, float], FloatArray],
) -> tuple[Log, dict[str, tuple[Log, ...]]]:
    """Return log and experts with each task's values changed by its range."""
    value = log.value.copy()
    for t, rows in _pieces(log):
        value[rows] = change(value[rows], *ranges[log.tasks[t]])
    changed = {
        task: tuple(replace(e, value=change(e.value, *ranges[task])) for e in group)
        for task, group in experts.items()
    }
    return replace(log, value=value), changed


def _pieces(log: Log) -> Iterator[tuple[int, slice | IntArray]]:
    """Yield tasks with rows of theirs: regime by regime, or all at once where those are short."""
    if len(log.start) * SHORT < len(log.value):
        for t, begin, end in zip(log.task.tolist(), log.start, log.stop, strict=True):
            yield t, slice(begin, end)
        return
    small = log.row_task.astype(np.min_scalar_type(len(log.tasks)))  # sorts in linear time
    order = np.argsort(small, kind="stable")
    edges = np.searchsorted(small[order], np.arange(len(log.tasks) + 1))
    for t in range(len(log.tasks)):
        yield t, order[edges[t] : edges[t + 1]]
