"""The published reading of the L2M metrics, on examples small enough to check by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
from metrics.builders import expert, log, read_json, read_table, table

from l2bench.errors import UsageError
from l2bench.metrics.l2m import score
from l2bench.metrics.l2m_log import read_expert, read_log
from l2bench.metrics.l2m_settings import L2METRICS, TEXT, Settings

RAW = replace(L2METRICS, smoothing="none", scaling="none")
ORACLE = Path(__file__).parents[1] / "oracle" / "l2m" / "cases"


def text(*blocks, experts=()):
    return score(log(*blocks), experts, TEXT)


def raw(*blocks, experts=(), **changes):
    return score(log(*blocks), experts, replace(RAW, **changes))


def pair(scores, id, source, target):
    found = [v for v in scores.transfers.pairs[id] if (v.source, v.task) == (source, target)]
    assert len(found) == 1
    return found[0]


def stored(name):
    """The log and the experts of a stored case, as columns."""
    folder = next(ORACLE.glob(f"{name}_*"))
    files = read_json(folder / "case.json")["expert_files"]
    return read_table(folder / "log.tsv.gz"), [read_table(folder / "experts" / f) for f in files]


def score_stored(name, settings):
    data, experts = stored(name)
    return score(read_log(data), [read_expert(e) for e in experts], settings)


# The differences between text and package, in the order of docs/metrics.md.


def test_transfer_is_a_contrast_and_a_ratio_under_two_names():
    blocks = ("E", "b", [0.2]), ("L", "a", [1.0]), ("E", "b", [0.6]), ("L", "b", [1.0])
    lifetime = text(*blocks).lifetime
    assert lifetime["forward_transfer_contrast"].value == pytest.approx(0.5)
    assert lifetime["forward_transfer_ratio"].value == pytest.approx(3)


def test_maintenance_is_pooled_over_the_lifetime():
    assert score_stored("n02", TEXT).lifetime["performance_maintenance"].value == pytest.approx(
        -0.2
    )
    package = score_stored("n02", RAW).lifetime["performance_maintenance"]
    assert package.value == pytest.approx(-0.35)
    assert package.n == 2
    pooled = score_stored("n02", replace(RAW, pool_maintenance=True))
    assert pooled.lifetime["performance_maintenance"].value == pytest.approx(-0.2)
    assert pooled.lifetime["performance_maintenance"].n == 5


def test_a_reference_follows_its_learning_directly():
    value = score_stored("n03", TEXT).tasks["a_1"].values["performance_maintenance"]
    assert value.value is None
    assert value.reason == (
        "task a_1 was first evaluated after its learning only when another task had been learned "
        "as well"
    )
    package = score_stored("n03", RAW).tasks["a_1"].values
    assert package["performance_maintenance"].value == pytest.approx(-0.1)


def test_the_reference_evaluation_is_not_counted():
    scores = text(
        ("L", "a", [0.9]),
        ("E", "a", [0.8]),
        ("L", "b", [0.5]),
        ("E", "a", [0.6]),
        ("E", "b", [0.5]),
    )
    assert scores.tasks["a_1"].maintenance == (pytest.approx((-0.2,)),)
    assert scores.tasks["a_1"].maintenance_from_learning == (pytest.approx((-0.3,)),)
    assert scores.tasks["b_1"].values["performance_maintenance"].reason == (
        "task b_1 was evaluated only once after its learning"
    )
    assert scores.lifetime["performance_maintenance"].value == pytest.approx(-0.2)


def test_learning_again_sets_a_new_reference():
    blocks = [("L", "a", [1]), ("E", "a", [0.5]), ("L", "a", [1]), ("E", "a", [0.9])]
    blocks += [("L", "b", [1]), ("E", "a", [0.8])]
    assert text(*blocks).tasks["a_1"].maintenance == (pytest.approx((-0.1,)),)


def test_a_pair_with_an_undefined_first_transfer_is_undefined():
    scores = score_stored("n06", TEXT)
    ratio = pair(scores, "forward_transfer_ratio", "a_1", "b_1")
    assert (ratio.value, ratio.reason) == (None, "the performance before is zero")
    assert pair(scores, "forward_transfer_contrast", "a_1", "b_1").value == 1.0
    package = score_stored("n06", RAW)
    assert pair(package, "forward_transfer_ratio", "a_1", "b_1").value == pytest.approx(1.5)


def test_own_learning_of_the_target_excludes_the_pair():
    value = pair(score_stored("n07", TEXT), "backward_transfer_contrast", "a_1", "b_1")
    assert value.reason == "task b_1 was itself learned between the two evaluations"
    package = score_stored("n07", RAW).lifetime["backward_transfer_ratio"]
    assert package.value == pytest.approx(1.8)


def test_only_learned_targets_enter_the_lifetime_value():
    blocks = [("E", "b", [0.2]), ("E", "c", [0.1]), ("L", "a", [1]), ("E", "b", [0.6])]
    blocks += [("E", "c", [0.9]), ("L", "b", [1])]
    scores = text(*blocks)
    assert pair(scores, "forward_transfer_contrast", "a_1", "c_1").value == pytest.approx(0.8)
    assert scores.lifetime["forward_transfer_contrast"].value == pytest.approx(0.5)
    assert scores.lifetime["forward_transfer_contrast"].n == 1
    assert raw(*blocks).lifetime["forward_transfer_contrast"].value == pytest.approx(0.65)


def test_relative_performance_is_on_the_measure_itself():
    assert score_stored("n08", TEXT).lifetime["relative_performance"].value == pytest.approx(0.5)
    package = score_stored("n08", L2METRICS).lifetime["relative_performance"]
    assert package.value == pytest.approx(4 / 404)


def test_experiences_to_saturation_count_from_one():
    assert score_stored("n09", TEXT).lifetime["sample_efficiency"].value == pytest.approx(2 / 5)
    assert score_stored("n09", RAW).lifetime["sample_efficiency"].value == pytest.approx(1 / 4)


def test_an_expert_best_at_its_first_experience_counts():
    learner = ("L", "a", [0.2, 1.0])
    scores = text(learner, experts=[expert("a", [1.0, 1.0])])
    assert scores.lifetime["sample_efficiency"].value == pytest.approx(1 / 2)
    package = raw(learner, experts=[expert("a", [1.0, 1.0])]).lifetime["sample_efficiency"]
    assert package.reason == "the expert of task a_1 is best at its first experience"


def test_sample_efficiency_only_for_eligible_tasks():
    experts = [expert(task, [0.2, 0.6, 1.0]) for task in "abc"]
    blocks = [("L", "a", [0.1, 0.5, 1.0]), ("L", "b", [0.9, 0.5, 0.4]), ("L", "c", [0.0, 0.0, 0.1])]
    scores = text(*blocks, experts=experts)
    assert scores.tasks["b_1"].values["sample_efficiency"].reason == (
        "no saturation: the learning curve of task b_1 falls"
    )
    assert scores.tasks["c_1"].values["sample_efficiency"].reason == (
        "no saturation: task c_1 stays below 20% of its expert"
    )
    assert scores.lifetime["sample_efficiency"].value == pytest.approx(1.0)
    assert scores.lifetime["sample_efficiency"].n == 1
    package = raw(*blocks, experts=experts)
    assert package.tasks["c_1"].values["sample_efficiency"].value == 0
    falling = package.tasks["b_1"].values["sample_efficiency"]
    assert falling.value is None  # its best is its first experience, number 0


def test_a_falling_expert_is_not_eligible():
    scores = text(("L", "a", [0.1, 0.5]), experts=[expert("a", [0.9, 0.5])])
    assert scores.lifetime["sample_efficiency"].reason == (
        "no saturation: the learning curve of the expert of task a_1 falls"
    )
    below = text(("L", "a", [-3, -2]), experts=[expert("a", [-3, -1])])
    assert below.lifetime["sample_efficiency"].reason == (
        "no saturation: task a_1 or its expert never exceeds zero"
    )


def test_transfer_between_negative_performances_is_undefined():
    blocks = ("E", "b", [-1]), ("L", "a", [1]), ("E", "b", [2]), ("L", "b", [1])
    assert text(*blocks).lifetime["forward_transfer_contrast"].reason == "a performance is negative"
    assert raw(*blocks).lifetime["forward_transfer_contrast"].value == 3


def test_mean_performance_is_over_rows():
    scores = score_stored("n12", TEXT)
    assert scores.lifetime["mean_training_performance"].value == pytest.approx(0.704)
    package = score_stored("n12", RAW).lifetime["mean_training_performance"]
    assert package.value == pytest.approx(0.515)


def test_lifetime_values_are_means():
    assert score_stored("n20", RAW).lifetime["forward_transfer_ratio"].value == pytest.approx(
        2.677, abs=1e-3
    )
    median = score_stored("n20", replace(RAW, aggregate="median"))
    assert median.lifetime["forward_transfer_ratio"].value == pytest.approx(1.1)


def test_there_is_no_sleep_rule():
    assert score_stored("n18", TEXT).lifetime["mean_evaluation_performance"].value is not None
    data, _ = stored("f03")
    package = score(read_log(data), [], RAW)
    assert package.lifetime["mean_evaluation_performance"].value is None
    assert "only wake evaluations" in package.lifetime["performance_maintenance"].reason
    assert score(read_log(data), [], TEXT).lifetime["performance_maintenance"].value is not None


def test_experts_keep_their_order():
    experts = [expert("a", [2, 4]), expert("a", [1, 2])]
    comparison = text(("L", "a", [3, 3]), experts=experts).tasks["a_1"].comparison
    assert comparison.relative == (1.0, 2.0)


# What users of comparable systems run into.


def test_several_sources_are_joined_not_lost():
    blocks = [("E", "c", [0.2]), ("L", "a", [1]), ("L", "b", [1]), ("E", "c", [0.5])]
    scores = text(*blocks)
    for source in ("a_1", "b_1"):
        value = pair(scores, "forward_transfer_contrast", source, "c_1")
        assert value.value is None
        assert value.reason == (
            "not separable: a_1 + b_1 were learned between the same two evaluations"
        )
    (joint,) = scores.transfers.joint
    assert (joint.sources, joint.target) == (("a_1", "b_1"), "c_1")
    assert joint.ratio == pytest.approx(2.5)
    assert joint.contrast == pytest.approx(0.3 / 0.7)
    every = raw(*blocks, transfer_sources="all")
    assert [pair(every, "forward_transfer_ratio", s, "c_1").value for s in ("a_1", "b_1")] == [
        pytest.approx(2.5)
    ] * 2
    last = raw(*blocks)
    assert pair(last, "forward_transfer_ratio", "b_1", "c_1").value == pytest.approx(2.5)
    lost = pair(last, "forward_transfer_ratio", "a_1", "c_1")
    assert lost.reason == "not kept: another task was learned between the same two evaluations"
    assert last.warnings == (
        "forward transfer of a_1 to c_1 is not kept: b_1 was learned between the same two "
        "evaluations",
    )


def test_no_evaluation_before_learning_blanks_that_metric_only():
    blocks = [
        ("L", "a", [0.5, 1]),
        ("E", "a", [1]),
        ("L", "b", [1]),
        ("E", "a", [0.5]),
        ("E", "b", [1]),
    ]
    scores = text(*blocks, experts=[expert("a", [1, 1]), expert("b", [1])])
    for method in ("contrast", "ratio"):
        assert scores.lifetime[f"forward_transfer_{method}"].reason == (
            "task b_1 was never evaluated before its first learning block"
        )
        assert scores.lifetime[f"backward_transfer_{method}"].value is not None
    assert scores.lifetime["performance_maintenance"].value == pytest.approx(-0.5)
    assert scores.lifetime["relative_performance"].value == pytest.approx((1.5 / 2 + 1) / 2)


def test_zero_starts_are_listed_not_dropped():
    blocks = [
        ("E", "b", [0]),
        ("E", "c", [0.2]),
        ("E", "d", [0]),
        ("L", "a", [1]),
        ("E", "b", [0.5]),
    ]
    blocks += [
        ("E", "c", [0.4]),
        ("E", "d", [0]),
        ("L", "b", [1]),
        ("L", "c", [1]),
        ("L", "d", [1]),
    ]
    scores = text(*blocks)
    from_a = {
        (id, v.task): (v.value, v.reason)
        for id in ("forward_transfer_contrast", "forward_transfer_ratio")
        for v in scores.transfers.pairs[id]
        if v.source == "a_1"
    }
    assert from_a["forward_transfer_contrast", "b_1"] == (1.0, None)
    assert from_a["forward_transfer_contrast", "c_1"][0] == pytest.approx(1 / 3)
    assert from_a["forward_transfer_contrast", "d_1"] == (None, "the two performances sum to zero")
    assert from_a["forward_transfer_ratio", "b_1"] == (None, "the performance before is zero")
    assert from_a["forward_transfer_ratio", "c_1"][0] == pytest.approx(2)
    assert scores.lifetime["forward_transfer_contrast"].n == 2
    assert scores.lifetime["forward_transfer_ratio"].n == 1


def test_constant_performance_is_flagged_and_harms_no_other_task():
    blocks = [
        ("E", "a", [5]),
        ("E", "b", [1]),
        ("L", "a", [5, 5]),
        ("E", "a", [5]),
        ("E", "b", [3]),
    ]
    scores = score(log(*blocks), [], L2METRICS)
    assert scores.tasks["a_1"].values["mean_training_performance"].value == 1
    assert scores.tasks["b_1"].values["mean_evaluation_performance"].value == 51
    assert scores.warnings == ("task a_1 has constant performance; every value is scaled to 1",)


def test_incomplete_and_missing_rows_do_not_split_regimes():
    data = table(("E", "a", [1, 2]), ("L", "a", [3, 4, 5]), ("E", "a", [6]))
    data["exp_status"] = ["complete"] * 3 + ["incomplete"] + ["complete"] * 2
    data["performance"][1] = float("nan")
    found = read_log(data)
    assert found.dropped == 2
    assert (found.stop - found.start).tolist() == [1, 2, 1]
    assert found.value.tolist() == [1, 3, 5, 6]


def test_a_task_that_is_only_evaluated():
    blocks = [("E", "c", [0.2]), ("L", "a", [1]), ("E", "c", [0.4])]
    scores = text(*blocks)
    for id in ("performance_maintenance", "relative_performance", "sample_efficiency"):
        assert scores.tasks["c_1"].values[id].reason == "task c_1 was never learned"
    assert pair(scores, "forward_transfer_contrast", "a_1", "c_1").value == pytest.approx(1 / 3)
    assert not scores.transfers.pairs["backward_transfer_contrast"]


def test_learning_blocks_of_one_experience():
    blocks = [("L", "a", [1]), ("E", "a", [1]), ("L", "a", [2]), ("L", "a", [3])]
    scores = text(*blocks)
    assert scores.tasks["a_1"].recovery_times == (0, 0)
    scores = text(
        ("L", "a", [1]), ("E", "a", [1]), ("L", "a", [0]), ("E", "a", [1]), ("L", "a", [3])
    )
    assert scores.tasks["a_1"].recovery_times == (2, 0)
    assert scores.lifetime["performance_recovery"].value == 2


def test_relative_performance_of_unequal_lengths_and_zero_experts():
    learner = ("L", "a", [1, 2, 3])
    assert text(learner, experts=[expert("a", [2, 2, 2, 2])]).lifetime[
        "relative_performance"
    ].value == pytest.approx(1.0)
    assert text(learner, experts=[expert("a", [0, 0, 0])]).lifetime[
        "relative_performance"
    ].reason == ("the sum of the expert of task a_1 is zero")
    two = text(learner, experts=[expert("a", [2, 2, 2]), expert("a", [1, 1, 1])])
    assert two.lifetime["relative_performance"].value == pytest.approx(1.5)
    with_zero = text(learner, experts=[expert("a", [2, 2, 2]), expert("a", [0, 0, 0])])
    assert with_zero.lifetime["relative_performance"].value == pytest.approx(1.0)


def test_experts_belong_to_the_call():
    learner = ("L", "reach", [1, 2])
    assert text(learner).lifetime["relative_performance"].reason == (
        "no single-task expert of task reach_1"
    )
    other = text(learner, experts=[expert("push", [1])])
    assert other.lifetime["relative_performance"].value is None
    assert other.warnings == ("experts of tasks not in the log are ignored: push_1",)


def test_performance_recovery_needs_three_learning_blocks():
    scores = text(("L", "a", [1]), ("E", "a", [1]), ("L", "a", [1]))
    assert scores.lifetime["performance_recovery"].reason == (
        "task a_1 was learned twice; performance recovery needs three times"
    )


def test_reasons_of_several_tasks_are_counted():
    scores = text(("L", "a", [1]), ("L", "b", [1]))
    assert scores.lifetime["relative_performance"].reason == (
        "no single-task expert of task a_1 (and 1 more reason)"
    )


def test_one_task_has_no_transfer():
    lifetime = text(("E", "a", [1]), ("L", "a", [1]), ("E", "a", [1])).lifetime
    assert lifetime["forward_transfer_contrast"].reason == "transfer needs two tasks; there is one"
    evaluated = text(("E", "a", [1]), ("E", "b", [1])).lifetime
    assert evaluated["backward_transfer_ratio"].reason == "no task was learned"
    once = text(("L", "a", [1]), ("E", "b", [1])).lifetime
    assert once["backward_transfer_ratio"].reason == (
        "no task was learned after another one that is learned"
    )


def test_unknown_settings():
    with pytest.raises(UsageError, match=r"scaling='tasks' is unknown \(did you mean 'task'\?\)"):
        Settings(scaling="tasks")
    with pytest.raises(UsageError, match="window_length=0"):
        Settings(window_length=0)
    with pytest.raises(UsageError, match="first_experience=2"):
        Settings(first_experience=2)


def test_data_ranges_must_fit():
    data = log(("L", "reach", [1, 2]))
    with pytest.raises(
        UsageError, match=r"no data range for task reach_1 \(did you mean 'reach_2'"
    ):
        score(data, [], replace(L2METRICS, data_range={"reach_2": (0, 1)}))
    with pytest.raises(UsageError, match=r"2 to 1 does not ascend"):
        score(data, [], replace(L2METRICS, data_range={"reach_1": (2, 1)}))
