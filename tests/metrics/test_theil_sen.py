"""The median of all pairwise slopes: the same however it is found, for any number of points."""

from fractions import Fraction
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics.builders import log

from l2bench.metrics import theil_sen
from l2bench.metrics.l2m import score
from l2bench.metrics.l2m_settings import TEXT
from l2bench.metrics.theil_sen import descents, median_slope, simplest


def by_definition(y) -> float:
    places = range(len(y))
    return median((int(y[j]) - int(y[i])) / (j - i) for j in places for i in places if i < j)


@given(st.lists(st.integers(0, 12), min_size=3, max_size=14))
def test_halving_gives_what_the_definition_gives(y):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theil_sen, "AT_ONCE", 1)
        assert median_slope(y) == by_definition(y)
    assert median_slope(y) == by_definition(y)


@pytest.mark.parametrize("most", [1, 3, 1000, 10**9])
def test_many_points_give_what_all_slopes_at_once_give(most):
    rng = np.random.default_rng(most)
    y = rng.integers(0, most + 1, theil_sen.AT_ONCE + 37)
    i, j = np.triu_indices(len(y), k=1)
    assert median_slope(y) == np.median((y[j] - y[i]) / (j - i))


def test_numbers_that_do_not_fit_64_bits_are_counted_exactly(monkeypatch):
    y = np.array([0, 2**55, 3, 2**56, 7, 2**57 + 1, 2, 2**55 + 5], dtype=np.int64)
    monkeypatch.setattr(theil_sen, "AT_ONCE", 1)
    assert median_slope(y) == by_definition(y)


@given(st.lists(st.integers(0, 9), max_size=30))
def test_descents(ranks):
    pairs = [(a, b) for place, a in enumerate(ranks) for b in ranks[place + 1 :]]
    assert descents(np.array(ranks, dtype=np.int64)) == sum(b < a for a, b in pairs)


@given(st.fractions(-9, 9, max_denominator=60), st.fractions(-9, 9, max_denominator=60))
def test_the_simplest_fraction_between_two(first, second):
    low, high = sorted((first, second))
    if low == high:
        return
    found = simplest(low, high)
    assert low < found < high
    for size in range(1, found.denominator):
        numerator = low.numerator * size // low.denominator + 1
        assert Fraction(numerator, size) >= high


def test_more_than_five_thousand_recovery_times_give_a_recovery():
    """Each learning begins below the end of the one before, for longer as time goes on."""
    times = [turn // 500 + turn % 3 for turn in range(5003)]
    blocks = [("L", "a", [0] * time + [1]) for time in times]
    apart = [part for block in blocks for part in (block, ("E", "b", [1]))]
    found = score(log(*apart), settings=TEXT).tasks["a_1"]
    assert list(found.recovery_times) == times[1:]
    recovery = found.values["performance_recovery"]
    assert recovery.n == 5002
    assert recovery.value == pytest.approx(-1 / 500, rel=0.05)
