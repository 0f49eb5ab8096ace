"""Statistics over lifetimes and episodes: means, bootstrap intervals, Wilson intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Fewer lifetimes than this have too few distinct resamples for an interval.
MINIMUM_FOR_INTERVAL = 5
RESAMPLES = 10_000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over lifetimes with a 95 % interval, or the points alone where they are too few.

    ``low`` and ``high`` are None, and ``note`` says why, with fewer than five points.
    """

    mean: float | None
    low: float | None
    high: float | None
    points: tuple[float, ...]
    note: str | None = None


def estimate(points: Sequence[float], rng: np.random.Generator) -> Estimate:
    """Return the mean and its percentile bootstrap interval, resampling lifetimes.

    ``points`` holds one value per lifetime.
    """
    values = np.asarray(points, dtype=float)
    if len(values) == 0:
        return Estimate(None, None, None, (), "no lifetime has a value")
    mean = math.fsum(values.tolist()) / len(values)
    if len(values) < MINIMUM_FOR_INTERVAL:
        note = f"n = {len(values)}, no interval below {MINIMUM_FOR_INTERVAL} lifetimes"
        return Estimate(mean, None, None, tuple(values.tolist()), note)
    picks = rng.integers(len(values), size=(RESAMPLES, len(values)))
    means = values[picks].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(mean, float(low), float(high), tuple(values.tolist()))


def wilson(successes: float, trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a success rate, within [0, 1].

    Raises:
        ValueError: for no trials, or successes outside 0..trials.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials is not a rate")
    z = 1.959963984540054
    rate = successes / trials
    middle = rate + z * z / (2 * trials)
    spread = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    low = 0.0 if successes == 0 else (middle - spread) / scale
    high = 1.0 if successes == trials else (middle + spread) / scale
    return low, high
