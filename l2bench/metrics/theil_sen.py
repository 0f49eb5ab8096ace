"""The median slope between all pairs of points (Theil 1950, Sen 1968), however many there are.

A slope between points (i, y_i) with whole y is a fraction. How many slopes lie below a fraction
p/q is the number of pairs whose values q y_i - p i descend, which sorting tells without making the
slopes. So the median is found by halving an interval of fractions, in whole numbers and exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import NDArray

#: Up to this many points all slopes are made at once.
AT_ONCE = 1000
_LARGEST = 2**62

Whole = Sequence[int] | NDArray[np.int64]


def median_slope(y: Whole) -> float:
    """Return the median of the slopes between all pairs of points (i, y_i), y (n,) whole numbers.

    The mean of the middle two where their number is even. Takes time n log n for each halving, and
    memory for n numbers.
    """
    heights = np.asarray(y, dtype=np.int64)
    n = len(heights)
    if n <= AT_ONCE:
        i, j = np.triu_indices(n, k=1)
        return float(np.median((heights[j] - heights[i]) / (j - i)))
    pairs = n * (n - 1) // 2
    lower, reach = _ranked(heights, (pairs - 1) // 2)
    if reach > pairs // 2:
        return float(lower)
    upper, _ = _ranked(heights, pairs // 2, lower)
    return (float(lower) + float(upper)) / 2


def _ranked(
    heights: NDArray[np.int64], rank: int, above: Fraction | None = None
) -> tuple[Fraction, int]:
    """Return the slope of this rank, from 0, and how many slopes do not exceed it.

    ``above`` is a smaller slope, where one is known.
    """
    reach = Fraction(int(heights.max()) - int(heights.min()) + 1)
    low, high = -reach if above is None else above, reach
    while True:
        quarter = (high - low) / 4
        middle = simplest(low + quarter, high - quarter)
        for pivot in (middle, simplest(low, high)):
            if low < pivot < high:
                below, equal = _below(heights, pivot)
                if below <= rank < below + equal:
                    return pivot, below + equal
                low, high = (low, pivot) if rank < below else (pivot, high)


def _below(heights: NDArray[np.int64], slope: Fraction) -> tuple[int, int]:
    """Return how many slopes are smaller than this one, and how many are equal to it."""
    p, q, n = slope.numerator, slope.denominator, len(heights)
    size = q * int(np.abs(heights).max()) + abs(p) * n
    exact = object if size >= _LARGEST else np.int64
    level = heights.astype(exact) * q - np.arange(n).astype(exact) * p
    _, ranks, counts = np.unique(level, return_inverse=True, return_counts=True)
    equal = counts * (counts - 1) // 2
    return descents(ranks), int(equal.sum())


def descents(ranks: NDArray[np.int64]) -> int:
    """Return the number of pairs i < j with ranks[j] < ranks[i]; ranks (n,) are from 0."""
    total = 0
    for bit in range(int(ranks.max(initial=0)).bit_length() - 1, -1, -1):
        # within a group of ranks alike in all higher bits, count the ones before each zero
        group, ones = ranks >> (bit + 1), (ranks >> bit) & 1
        seen = np.cumsum(ones)
        first = np.flatnonzero(np.diff(group, prepend=-1))
        before = np.repeat(seen[first] - ones[first], np.diff(np.append(first, len(ranks))))
        total += int((seen - before)[ones == 0].sum())
        ranks = ranks[np.argsort(ranks >> bit, kind="stable")]
    return total


def simplest(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction with the smallest denominator strictly between two."""
    if low < 0 < high:
        return Fraction(0)
    if high <= 0:
        return -simplest(-high, -low)
    whole = floor(low)
    if whole + 1 < high:
        return Fraction(whole + 1)
    # between low and high lie only fractions whole + 1/x
    rest = low - whole
    top = Fraction(1) / rest if rest else None
    bottom = Fraction(1) / (high - whole)
    inner = Fraction(floor(bottom) + 1) if top is None else simplest(bottom, top)
    return whole + 1 / inner
