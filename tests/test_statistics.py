"""Statistics against published numbers and their own invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l2bench.metrics.statistics import estimate, wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(42, 50, 0.715, 0.917), (32, 50, 0.501, 0.759), (20, 20, 0.839, 1.0), (0, 20, 0.0, 0.161)],
)
def test_wilson_gives_the_published_intervals(successes, trials, low, high):
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-4)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_rate_and_is_never_empty(case):
    successes, trials = case
    low, high = wilson(successes, trials)
    assert 0 <= low <= successes / trials <= high <= 1
    assert low < high


@pytest.mark.parametrize("case", [(0, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_what_is_no_rate(case):
    with pytest.raises(ValueError, match="is not a rate"):
        wilson(*case)


def test_few_lifetimes_give_points_and_no_interval():
    found = estimate([0.1, 0.4, 0.4], np.random.default_rng(0))
    assert found.mean == pytest.approx(0.3)
    assert (found.low, found.high) == (None, None)
    assert found.points == (0.1, 0.4, 0.4)
    assert "n = 3" in (found.note or "")


def test_the_interval_is_over_lifetimes():
    found = estimate([0, 0, 0, 1, 1], np.random.default_rng(0))
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.low > 0.5


def test_no_lifetime_is_no_value():
    assert estimate([], np.random.default_rng(0)).mean is None


def test_the_generator_decides_and_nothing_else():
    points = [0.1234, 0.5071, 0.2003, 0.9917, 0.4389, 0.3141, 0.7713]
    np.random.seed(1)
    first = estimate(points, np.random.default_rng(5))
    np.random.seed(2)
    assert estimate(points, np.random.default_rng(5)) == first
    assert estimate(points, np.random.default_rng(6)) != first
