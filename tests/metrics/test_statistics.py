"""Rates, t intervals, clusters and pairs: known numbers, and the invariants of an interval."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l2bench.errors import Unsupported
from l2bench.metrics.statistics import (
    Aggregate,
    clustered,
    estimate,
    mean_rate,
    paired,
    rate,
    t_mean,
    t_quantile,
    wilson,
)


@pytest.mark.parametrize(
    ("freedom", "level", "expected"),
    [
        (1, 0.95, 12.7062047364),
        (2, 0.95, 4.30265272991),
        (4, 0.95, 2.7764451052),
        (9, 0.95, 2.26215716285),
        (29, 0.95, 2.04522964213),
        (100, 0.95, 1.98397151845),
        (1000, 0.95, 1.96233908083),
        (4, 0.99, 4.60409487142),
        (7, 0.5, 0.711141778082),
        (1, 0.5, 1.0),
    ],
)
def test_t_quantiles(freedom, level, expected):
    assert t_quantile(freedom, level) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("case", [(0, 0.95), (3, 0), (3, 1)])
def test_no_t_quantile(case):
    with pytest.raises(ValueError, match="no t quantile"):
        t_quantile(*case)


def test_a_t_interval_by_hand():
    found = t_mean([1.0, 2.0, 3.0, 4.0, 5.0], "run")
    assert found.value == 3
    assert found.standard_error == pytest.approx(math.sqrt(2.5 / 5))
    assert (found.low, found.high) == pytest.approx((1.036757, 4.963243), abs=1e-6)
    assert (found.unit, found.n, found.method) == ("run", 5, "t")


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ([], "no run has a value"),
        ([0.5], "n = 1 run: no spread to estimate"),
        ([0.5] * 4, "n = 4, each run has the same value: no interval"),
    ],
)
def test_no_spread_is_no_interval(values, note):
    found = t_mean(values, "run")
    assert (found.low, found.high, found.standard_error, found.note) == (None, None, None, note)
    assert (found.n, found.method) == (len(values), None)


def test_clusters_count_not_rows():
    found = clustered(
        score=[0.0, 1.0, 1.0, 1.0, 0.5], cluster=["a", "a", "b", "b", "c"], unit="seed"
    )
    assert found.value == pytest.approx(2 / 3)
    assert (found.n, found.unit) == (3, "seed")
    assert found.standard_error == pytest.approx(np.std([0.5, 1, 0.5], ddof=1) / math.sqrt(3))


def test_malformed_values_are_refused():
    with pytest.raises(Unsupported, match="leave out what was not measured"):
        t_mean([0.5, math.nan], "run")
    with pytest.raises(Unsupported, match="2 scores have 1 clusters"):
        clustered(score=[0.5, 0.5], cluster=["a"])
    with pytest.raises(ValueError, match="are no rates"):
        mean_rate([], [])
    with pytest.raises(ValueError, match="is not a rate"):
        mean_rate([3], [2])


def test_groups_count_the_same_and_their_errors_add_up():
    found = mean_rate([5, 500, 20], [10, 1000, 20])
    assert found.value == pytest.approx(2 / 3)
    assert found.standard_error == pytest.approx(math.sqrt(0.25 / 10 + 0.25 / 1000) / 3)
    (low, high), (far, _), (all_but, _) = wilson(5, 10), wilson(500, 1000), wilson(20, 20)
    down = math.sqrt((0.5 - low) ** 2 + (0.5 - far) ** 2 + (1 - all_but) ** 2) / 3
    up = math.sqrt((high - 0.5) ** 2 + (0.5 - far) ** 2) / 3
    assert found.low == pytest.approx(found.value - down)
    assert found.high == pytest.approx(found.value + up)
    with pytest.raises(ValueError, match="are no rates"):
        mean_rate([1, 2], [2])


def test_pairs():
    first = {i: i < 9 for i in range(12)}
    second = {i: i in (0, 1, 2, 11) for i in range(12)}
    found = paired(first, second)
    assert (found.both, found.first_only, found.second_only, found.neither) == (3, 6, 1, 2)
    assert found.n == 12
    assert found.p_value == pytest.approx(2 * (1 + 7) / 2**7)
    assert paired(first, first).p_value == 1
    with pytest.raises(Unsupported, match="only one has 11"):
        paired(first, {i: True for i in range(11)})
    with pytest.raises(Unsupported, match="there are none"):
        paired({}, {})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"low": 0.1, "high": None}, "two ends"),
        ({"low": 0.5, "high": 0.5}, "is empty"),
        ({"low": 0.1, "high": 0.9, "standard_error": 0.0}, "above 0 or None"),
        ({"low": None, "high": None}, "say why"),
        ({"low": 0.1, "high": math.inf}, "finite or None"),
        ({"value": None, "low": 0.1, "high": 0.9}, "without a value"),
    ],
)
def test_what_a_reader_could_misread_is_refused(given, text):
    with pytest.raises(ValueError, match=text):
        Aggregate(**{"statistic": "mean", "value": 0.5, "unit": "run", "n": 5, **given})


counts = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts)
def test_one_rate_has_wilsons_interval(case):
    successes, trials = case
    found = rate(successes, trials)
    assert (found.low, found.high) == pytest.approx(wilson(successes, trials), abs=1e-12)
    assert (found.standard_error is None) == (successes in (0, trials))
    assert found.n == trials


@given(st.lists(counts, min_size=1, max_size=6))
def test_a_mean_rate_lies_inside_its_interval(groups):
    successes, trials = zip(*groups, strict=True)
    found = mean_rate(successes, trials)
    one = len(groups) == 1
    assert found.statistic == ("success rate" if one else "mean success rate")
    assert found.method == ("wilson" if one else "wilson, square-and-add over groups")
    assert (found.note is None) == (found.standard_error is not None)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high
    widths = [high - low for low, high in (wilson(s, n) for s, n in groups)]
    assert found.high - found.low <= max(widths) + 1e-9


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=12), st.integers(2, 4))
def test_repeating_rows_within_clusters_changes_nothing(values, repeats):
    plain = t_mean(values, "seed")
    rows = [(value, seed) for seed, value in enumerate(values) for _ in range(repeats)]
    score, cluster = zip(*rows, strict=True)
    found = clustered(score=score, cluster=cluster, unit="seed")
    assert found.value == pytest.approx(plain.value)
    assert found.n == plain.n
    assert found.low == (None if plain.low is None else pytest.approx(plain.low))
    shifted = t_mean([value + 10 for value in values], "seed")
    assert shifted.value == pytest.approx(plain.value + 10)
    if plain.low is not None:
        assert shifted.low == pytest.approx(plain.low + 10)
        wider = t_mean(values, "seed", level=0.99)
        assert wider.low < plain.low < plain.high < wider.high


def test_equal_lifetimes_have_no_interval_and_draw_as_others_do():
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    found = estimate([0.5] * 10, one)
    assert (found.mean, found.low, found.high) == (0.5, None, None)
    assert "same value" in found.note
    estimate([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], other)
    assert one.random() == other.random()
