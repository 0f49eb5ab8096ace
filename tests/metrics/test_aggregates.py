"""Statistics over runs and tasks: stored values, intervals, and properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metrics.oracle import cases, indexed, same

from l2bench.errors import Unsupported, UsageError
from l2bench.metrics.aggregates import (
    STATISTICS,
    Bootstrap,
    RunScores,
    above,
    aggregate,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
)

CASES = cases("run_aggregates")
ENDS = 0.03
few = settings(max_examples=40)


def rng(seed=0):
    return np.random.default_rng(seed)


def table(matrix, task=str):
    """Scores of a stored matrix, runs by tasks, as a long table."""
    rows = [(r, task(t), value) for r, row in enumerate(matrix) for t, value in enumerate(row)]
    run, name, score = zip(*rows, strict=True)
    return RunScores.of(run=run, task=name, score=score)


def by_task(**tasks):
    rows = [(run, name, v) for name, values in tasks.items() for run, v in enumerate(values)]
    run, task, score = zip(*rows, strict=True)
    return RunScores.of(run=run, task=task, score=score)


def point(scores, statistic):
    return aggregate(scores, statistic, rng(), resamples=0).value


def test_all_cases_are_there():
    assert len(CASES) == indexed("run_aggregates/cases.json") == 6


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case):
    x, y = table(case["x"]), table(case["y"])
    expected = dict(case["expected"])
    taus = expected.pop("performance_profile_tau")
    intervals = {key: expected.pop(f"stratified_bootstrap_95_{key}") for key in ("iqm", "mean")}
    values = {
        "mean": point(x, "mean"),
        "median": point(x, "median"),
        "iqm": point(x, "iqm"),
        "optimality_gap_gamma_1": point(x, "optimality_gap"),
        "probability_of_improvement_x_over_y": probability_of_improvement(x, y, rng()).value,
        "performance_profile": performance_profile(x, taus).tolist(),
    }
    assert values.keys() == expected.keys()
    for key, value in expected.items():
        same(values[key], value)
    for key, ends in intervals.items():
        drawn = Bootstrap(rng(1), 3000).draw(STATISTICS[key], x.arrays())
        same(np.quantile(drawn, [0.025, 0.975]).tolist(), ends, ENDS)
        found = aggregate(x, key, rng(1), resamples=3000, minimum_runs=1)
        if ends[0] < ends[1]:
            same([found.low, found.high], ends, ENDS)
        else:  # no interval rather than one without width
            assert (found.low, found.high) == (None, None)
            assert found.note is not None


def test_an_interval_needs_runs():
    few = aggregate(table([[0.1, 0.5], [0.9, 0.4]]), "iqm", rng())
    assert (few.low, few.high, few.n) == (None, None, 2)
    assert few.method is None
    assert few.note == "n = 2, no interval below 5 runs of a task"


def test_unequal_numbers_of_runs_are_all_used_and_listed():
    scores = by_task(a=[0.0, 0.5, 1.0], b=[1.0, 1.0, 1.0, 1.0, 0.0])
    assert scores.runs == {"a": 3, "b": 5}
    found = aggregate(scores, "mean", rng(), minimum_runs=3)
    assert found.value == pytest.approx((0.5 + 0.8) / 2)
    assert found.note == "runs per task: a 3, b 5"
    assert found.method == "stratified bootstrap, percentile"
    assert found.n == 3
    pooled = aggregate(scores, "iqm", rng(), minimum_runs=3)
    assert pooled.value == pytest.approx((0.5 + 3) / 4)
    assert pooled.note == "runs per task: a 3, b 5; each score counts the same"


def test_missing_scores_are_left_out_not_zero():
    scores = RunScores.of(run=[0, 1, 2], task=["a"] * 3, score=[1.0, np.nan, 0.5])
    assert scores.runs == {"a": 2}
    assert point(scores, "mean") == 0.75


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: RunScores.of(run=[0], task=["a"], score=[np.inf]), "is infinite"),
        (lambda: RunScores.of(run=[0, 0], task=["a", "a"], score=[1, 2]), "two scores"),
        (lambda: RunScores.of(run=[0, 1], task=["a", "b"], score=[1.0, np.nan]), "task b"),
        (lambda: RunScores.of(run=[], task=[], score=[]), "no scores"),
        (lambda: RunScores.of(run=[0], task=["a", "b"], score=[1.0]), "differ in length"),
        (
            lambda: probability_of_improvement(by_task(a=[1]), by_task(a=[1], b=[1]), rng()),
            "scores on task b",
        ),
    ],
)
def test_malformed_tables_are_refused(call, text):
    with pytest.raises(Unsupported, match=text):
        call()


def test_unknown_statistics_are_refused():
    with pytest.raises(UsageError, match="choose iqm, mean, median, optimality_gap"):
        aggregate(by_task(a=[1]), "other", rng())


def test_statistics_with_a_parameter_say_so():
    scores = by_task(a=[0.2, 0.4, 0.6, 0.8, 1.0])
    half = aggregate(scores, above(0.5), rng())
    assert (half.statistic, half.value) == ("share_above_0.5", pytest.approx(0.6))
    assert half.low < 0.6 < half.high
    gap = aggregate(scores, optimality_gap(0.5), rng())
    assert (gap.statistic, gap.value) == ("optimality_gap_0.5", pytest.approx(0.5 - 2.1 / 5))


def test_strictly_above():
    assert performance_profile(by_task(a=[0.5, 0.5]), [0.5, 0.499]).tolist() == [0, 1]


def test_improvement_pairs_tasks_by_name():
    first, second = by_task(a=[1.0] * 5, b=[0.0] * 5), by_task(b=[0.5] * 5, a=[0.5] * 5)
    assert probability_of_improvement(first, second, rng()).value == 0.5
    far = probability_of_improvement(by_task(a=[2, 3, 4, 5, 6]), by_task(a=[1, 2, 3]), rng())
    assert far.value == pytest.approx((1.5 + 2.5 + 3 + 3 + 3) / 15)
    assert far.note == "n = 3, no interval below 5 runs of a task"


scores = st.integers(0, 20).map(lambda v: v / 20)
runs = st.lists(scores, min_size=1, max_size=8)
tables = st.dictionaries(st.sampled_from("abcd"), runs, min_size=1).map(lambda d: by_task(**d))


@few
@given(tables, st.sampled_from(list(STATISTICS)), st.integers(0, 99))
def test_the_generator_decides_and_nothing_else(table, statistic, seed):
    np.random.seed(seed)
    first = aggregate(table, statistic, rng(seed), resamples=50, minimum_runs=1)
    np.random.seed(seed + 1)
    assert aggregate(table, statistic, rng(seed), resamples=50, minimum_runs=1) == first


@few
@given(tables, st.sampled_from(["iqm", "mean", "median"]))
def test_intervals_stay_within_the_scores(table, statistic):
    found = aggregate(table, statistic, rng(), resamples=200, minimum_runs=1)
    values = np.concatenate(table.arrays())
    assert values.min() - 1e-12 <= found.value <= values.max() + 1e-12
    if found.low is not None:
        assert values.min() - 1e-12 <= found.low < found.high <= values.max() + 1e-12
        assert found.unit == "run"


@few
@given(tables, st.randoms())
def test_the_order_of_rows_does_not_matter(table, random):
    rows = [(r, t, v) for t, own in table.tasks.items() for r, v in own.items()]
    random.shuffle(rows)
    run, task, score = zip(*rows, strict=True)
    mixed = RunScores.of(run=run, task=task, score=score)
    for statistic in STATISTICS:
        assert point(mixed, statistic) == pytest.approx(point(table, statistic))


@few
@given(tables, st.data())
def test_improvement_is_symmetric_around_a_half(table, data):
    other = by_task(**{task: data.draw(runs) for task in table.tasks})
    one = probability_of_improvement(table, other, rng(), resamples=0).value
    back = probability_of_improvement(other, table, rng(), resamples=0).value
    assert 0 <= one <= 1
    assert one + back == pytest.approx(1)
    assert probability_of_improvement(table, table, rng(), resamples=0).value == pytest.approx(0.5)


@few
@given(tables, st.lists(st.floats(-1, 2), min_size=2, max_size=6))
def test_profiles_fall(table, taus):
    found = performance_profile(table, sorted(taus))
    assert np.all(np.diff(found) <= 1e-12)
    assert performance_profile(table, [-0.1, 1.0]).tolist() == [1, 0]
