"""Confusions over metrics and statistics that users have met, by number, and what answers each."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics.test_aggregates import by_task, rng
from metrics.test_sets import SCENARIOS, SETS
from stubs import Stub, stubbed
from support import probe_suite, run_suite

from l2bench.bundle.lifetime import synthetic
from l2bench.bundle.reader import find_bundles, read_bundle, refuse_mixture
from l2bench.errors import UsageError
from l2bench.metrics import gem, libero
from l2bench.metrics.aggregates import RunScores, aggregate, probability_of_improvement
from l2bench.metrics.continual_sets import GemMetrics
from l2bench.metrics.l2m_settings import TEXT
from l2bench.metrics.sets import L2MMetrics, LiberoMetrics
from l2bench.metrics.statistics import Aggregate, clustered, estimate, mean_rate, paired, rate
from l2bench.scoring import score_lifetime

#: The metrics' symptoms and the tests that answer them, file and function.
ANSWERS = {
    "MET-01": "test_libero.test_forward_transfer_is_neither_raw_mean_nor_best",
    "MET-02": "test_libero.test_two_tasks_with_both_conventions_for_the_last",
    "MET-03": "test_symptoms.test_met_03_signs_and_directions",
    "MET-04": "test_symptoms.test_met_04_one_missing_evaluation_blanks_one_metric",
    "MET-05": "test_symptoms.test_met_05_forward_transfer_reads_the_row_before_learning",
    "MET-06": "test_symptoms.test_met_06_forgetting_leaves_out_the_last_task",
    "MET-07": "test_symptoms.test_met_07_a_cell_that_was_not_evaluated_is_not_zero",
    "MET-09": "test_continual_world.test_a_perfect_expert_leaves_the_plain_difference",
    "MET-10": "test_l2m_text.test_transfer_is_a_contrast_and_a_ratio_under_two_names",
    "MET-11": "test_l2m_text.test_zero_starts_are_listed_not_dropped",
    "MET-12": "test_l2m_text.test_constant_performance_is_flagged_and_harms_no_other_task",
    "MET-13": "test_l2m_text.test_incomplete_and_missing_rows_do_not_split_regimes",
    "MET-14": "test_l2m_text.test_a_task_that_is_only_evaluated",
    "MET-15": "test_l2m_text.test_learning_blocks_of_one_experience",
    "MET-16": "test_l2m_text.test_sample_efficiency_only_for_eligible_tasks",
    "MET-18": "test_l2m_text.test_relative_performance_of_unequal_lengths_and_zero_experts",
    "MET-20": "test_continual_sets.test_experts_must_have_learned_the_same_task",
    "MET-21": "test_symptoms.test_met_21_scores_say_which_definition_made_them",
    "MET-22": "test_l2m_text.test_several_sources_are_joined_not_lost",
    "MET-23": "test_symptoms.test_met_23_whether_the_task_is_told_is_part_of_the_suite",
    "MET-24": "test_libero.test_failing_everywhere_is_zero_not_an_error",
    "MET-25": "test_symptoms.test_met_25_forward_transfer_reads_what_the_method_changes",
    "STA-01": "test_symptoms.test_sta_01_the_interval_is_over_runs",
    "STA-02": "test_symptoms.test_sta_02_estimate_and_error_are_of_one_mean",
    "STA-03": "test_symptoms.test_sta_03_no_interval_without_width",
    "STA-04": "test_symptoms.test_sta_04_differences_within_the_noise",
    "STA-05": "test_symptoms.test_sta_05_certain_successes_are_not_certain",
    "STA-07": "test_symptoms.test_sta_07_repeats_are_not_new_items",
    "STA-08": "test_symptoms.test_sta_08_every_run_of_every_task_is_used",
    "STA-09": "test_symptoms.test_sta_09_few_runs_decide_nothing",
}

R = np.array([[0.9, 0.1, 0.3], [0.7, 0.8, 0.2], [0.6, 0.7, 0.9]])


@pytest.mark.parametrize("symptom", ANSWERS)
def test_every_symptom_has_its_test(symptom):
    file, function = ANSWERS[symptom].split(".")
    text = (Path(__file__).parent / f"{file}.py").read_text()
    assert f"def {function}(" in text


def test_met_03_signs_and_directions():
    found = gem.score(R, np.zeros(3))
    assert found["gem.BWT"].value == pytest.approx(-0.2)
    nbt = libero.score_matrix(R, [0.5] * 3).nbt_excluding_last_task
    assert nbt.values[:2] == pytest.approx((0.25, 0.1))
    assert nbt.mean == pytest.approx(0.175)
    ways = {m.id: m.higher_is_better for cls in (GemMetrics, LiberoMetrics) for m in cls.metrics}
    assert (ways["gem.BWT"], ways["libero.NBT"], ways["gem.forgetting"]) == (True, False, False)


def test_met_04_one_missing_evaluation_blanks_one_metric():
    suite = probe_suite(3, scenario={"evaluate": "all"})
    found = GemMetrics().score(synthetic(suite, 0))
    blank = {value.id for value in found.values if value.task is None and value.value is None}
    assert blank == {"gem.FWT", "gem.FWT_divided_by_T"}
    assert found.get("gem.FWT").reason == (
        "task task-2 was not evaluated before anything was learned"
    )


def test_met_05_forward_transfer_reads_the_row_before_learning():
    assert gem.score(R, np.zeros(3))["gem.FWT"].value == pytest.approx(0.15)


def test_met_06_forgetting_leaves_out_the_last_task():
    assert gem.score([[0.8, 0.0], [0.4, 0.9]])["gem.forgetting"].value == pytest.approx(0.4)


def test_met_07_a_cell_that_was_not_evaluated_is_not_zero():
    found = gem.score([[0.8, np.nan], [0.4, 0.9]], [0.0, 0.0], tasks=["a", "b"])
    assert found["gem.FWT"].reason == "task b was not evaluated after learning task a"
    assert found["gem.BWT"].value == pytest.approx(-0.4)


@pytest.mark.parametrize("name", SCENARIOS)
def test_met_21_scores_say_which_definition_made_them(name):
    life = synthetic(probe_suite(3, **SCENARIOS[name]), 0)
    first, second = (
        json.dumps(score_lifetime(life, [cls() for cls in SETS]), allow_nan=False) for _ in range(2)
    )
    assert first == second
    sets = json.loads(first)["scorer"]["metric_sets"]
    assert [(s["name"], s["version"]) for s in sets] == [(c.name, c.version) for c in SETS]


rates = st.integers(0, 20).map(lambda v: v / 20)


class NeedsIds(Stub):
    """An agent with weights of its own for each task."""

    def __init__(self, settings, life):
        super().__init__(settings, life)
        if any(task.id is None for task in life.tasks):
            raise UsageError("this suite hides which task it is; add task to scenario.reveal")


def test_met_23_whether_the_task_is_told_is_part_of_the_suite(registry, tmp_path):
    told = probe_suite(2, every=None)
    hidden = probe_suite(2, every=None, scenario={"reveal": ["boundaries"]})
    for name, suite in (("told", told), ("hidden", hidden)):
        run_suite(registry, suite, "forgetter", tmp_path / name)
    bundles = [read_bundle(find_bundles(tmp_path / name)[0]) for name in ("told", "hidden")]
    with pytest.raises(UsageError, match="another suite"):
        refuse_mixture(bundles)
    with pytest.raises(UsageError, match=r"add task to scenario\.reveal"):
        run_suite(stubbed(NeedsIds), hidden, "stub", tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    run_suite(stubbed(NeedsIds), told, "stub", tmp_path / "run")


@given(st.integers(1, 2), rates, rates)
def test_met_25_forward_transfer_reads_what_the_method_changes(column, before, after):
    one, other = R.copy(), R.copy()
    one[column - 1, column], other[column - 1, column] = before, after
    values = [gem.score(r, np.zeros(3))["gem.FWT"].value for r in (one, other)]
    assert values[1] - values[0] == pytest.approx((after - before) / 2)


def test_sta_01_the_interval_is_over_runs():
    scores = RunScores.of(run=range(5), task=["a"] * 5, score=[0, 0, 0, 1, 1])
    found = aggregate(scores, "mean", rng())
    assert (found.unit, found.n) == ("run", 5)
    assert found.high - found.low > 0.5
    lifetimes = estimate([0, 0, 0, 1, 1], rng())
    assert lifetimes.resampled == "lifetime"
    assert lifetimes.high - lifetimes.low > 0.5
    with pytest.raises(TypeError):  # no matrix that could be transposed
        RunScores.of(np.zeros((5, 1)))


def test_sta_02_estimate_and_error_are_of_one_mean():
    found = mean_rate([5, 500], [10, 1000])
    assert found.value == 0.5
    assert found.standard_error == pytest.approx(0.0795, abs=5e-5)
    uneven = mean_rate([10, 0], [10, 1000])
    assert uneven.value == 0.5


def test_sta_03_no_interval_without_width():
    found = rate(14, 307)
    assert found.standard_error == pytest.approx(0.0119, abs=5e-5)
    assert found.low < found.value < found.high
    unsampled = aggregate(by_task(a=[0.1] * 5 + [0.9]), "mean", rng(), resamples=0)
    assert (unsampled.low, unsampled.high) == (None, None)
    assert unsampled.note == "no resamples were asked for: no interval"
    equal = aggregate(by_task(a=[0.5] * 5, b=[0.5] * 5), "iqm", rng())
    assert equal.value == 0.5
    assert (equal.low, equal.method) == (None, None)
    with pytest.raises(ValueError, match="is empty"):
        Aggregate("mean", 0.5, 0.5, 0.5, "run", 5)


def test_sta_04_differences_within_the_noise():
    first, second = rate(42, 50), rate(32, 50)
    assert (first.low, first.high) == pytest.approx((0.715, 0.917), abs=5e-4)
    assert (second.low, second.high) == pytest.approx((0.501, 0.759), abs=5e-4)
    assert (first.n, first.unit) == (50, "trial")
    table = paired({i: i < 42 for i in range(50)}, {i: i < 32 for i in range(50)})
    assert (table.n, table.first_only, table.second_only) == (50, 10, 0)
    assert table.p_value == pytest.approx(2 / 2**10)


def test_sta_05_certain_successes_are_not_certain():
    assert (rate(20, 20).low, rate(20, 20).high) == pytest.approx((0.839, 1), abs=5e-4)
    assert (rate(0, 20).low, rate(0, 20).high) == pytest.approx((0, 0.161), abs=5e-4)
    assert rate(20, 20).standard_error is None
    every = mean_rate([20, 20], [20, 20])
    assert every.low < every.high == 1


def test_sta_07_repeats_are_not_new_items():
    means = [0.0, 0.0, 1.0, 1.0, 1.0]
    rows = [(value, task) for task, value in enumerate(means) for _ in range(20)]
    score, task = zip(*rows, strict=True)
    found = clustered(score=score, cluster=task, unit="task")
    assert (found.n, found.unit) == (5, "task")
    assert found.standard_error == pytest.approx(math.sqrt(0.3 / 5))
    assert found.standard_error > 4 * math.sqrt(0.24 / 100)


def test_sta_08_every_run_of_every_task_is_used():
    scores = by_task(a=[0.0, 0.5, 1.0], b=[1.0, 1.0, 1.0, 1.0, 0.0])
    assert aggregate(scores, "mean", rng()).value == pytest.approx((0.5 + 0.8) / 2)
    assert "runs per task: a 3, b 5" in aggregate(scores, "mean", rng()).note


def test_sta_09_few_runs_decide_nothing():
    found = probability_of_improvement(by_task(a=[0.9, 1.0]), by_task(a=[0.1, 0.2]), rng())
    assert found.value == 1
    assert (found.low, found.high) == (None, None)
    assert found.note == "n = 2, no interval below 5 runs of a task"


def test_a_metric_named_forward_transfer_is_a_contrast_by_default():
    headline = [metric.id for metric in L2MMetrics.metrics if metric.headline]
    assert "l2m.forward_transfer_contrast" in headline
    assert "l2m.forward_transfer_ratio" not in headline
    assert TEXT is L2MMetrics.profile
