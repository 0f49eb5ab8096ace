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
    found = estimate([0.2, 0.4], None)
    assert found.mean == pytest.approx(0.3)
    assert (found.low, found.high) == (None, None)
    assert found.points == (0.2, 0.4)
    assert "n = 2" in (found.note or "")


def test_three_lifetimes_have_students_interval():
    found = estimate([0.4, 0.5, 0.6], None)
    assert (found.low, found.high) == pytest.approx((0.251586, 0.748414), abs=1e-6)
    assert (found.method, found.note) == ("t", None)


def test_an_interval_stays_within_the_range_of_its_metric():
    found = estimate([0.9, 0.8, 1.0], None, (0, 1))
    assert found.low == pytest.approx(0.651586, abs=1e-6)
    assert found.high == 1
    assert estimate([0.9, 0.8, 1.0], None, (0, None)).high == pytest.approx(1.148414, abs=1e-6)
    beyond = estimate([1.2, 1.3, 1.4], None, (0, 1))
    assert (beyond.low, beyond.high) == pytest.approx((1.051586, 1.4), abs=1e-6)
    assert estimate([-0.1, 0.1, 0.3], None, (0, 1)).low == -0.1


def test_from_ten_lifetimes_on_the_interval_is_a_bootstrap():
    values = [0, 0, 0, 1, 1, 0, 0, 0, 1, 1]
    found = estimate(values, np.random.default_rng(0))
    assert found.method == "bootstrap"
    assert (found.low, found.high) == pytest.approx((0.0, 0.8), abs=0.11)
    assert estimate(values[:9], None).method == "t"
    with pytest.raises(ValueError, match="needs a generator"):
        estimate(values, None)


@given(st.integers(3, 14), st.integers(0, 2**32))
def test_an_interval_holds_the_mean_and_moves_with_the_values(count, seed):
    values = np.random.default_rng(seed).normal(size=count)
    found = estimate(values.tolist(), np.random.default_rng(1))
    moved = estimate((2 * values + 10).tolist(), np.random.default_rng(1))
    assert found.low < found.mean < found.high
    assert (moved.low, moved.high) == pytest.approx((2 * found.low + 10, 2 * found.high + 10))


@pytest.mark.parametrize("count", [3, 5, 9])
def test_of_a_hundred_intervals_of_normal_values_about_95_hold_the_mean(count):
    rng = np.random.default_rng(7)
    found = [estimate(rng.normal(size=count).tolist(), None) for _ in range(4000)]
    held = sum(one.low < 0 < one.high for one in found)
    assert 0.94 < held / len(found) < 0.96


def test_no_lifetime_is_no_value():
    assert estimate([], np.random.default_rng(0)).mean is None


def test_the_generator_decides_and_nothing_else():
    points = [0.1234, 0.5071, 0.2003, 0.9917, 0.4389, 0.3141, 0.7713, 0.6001, 0.1717, 0.8432]
    np.random.seed(1)
    first = estimate(points, np.random.default_rng(5))
    np.random.seed(2)
    assert estimate(points, np.random.default_rng(5)) == first
    assert estimate(points, np.random.default_rng(6)) != first


@pytest.mark.parametrize("count", [10, 20])
def test_a_bootstrap_of_few_normal_values_is_not_too_narrow(count):
    rng = np.random.default_rng(3)
    found = [estimate(rng.normal(size=count).tolist(), rng) for _ in range(300)]
    held = sum(one.low < 0 < one.high for one in found)
    assert 0.92 < held / len(found) < 0.98
