"""The metric sets on lifetimes: which blocks they use, and what they say about missing ones."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metrics.builders import lifetime
from support import probe_suite

from l2bench.bundle.lifetime import columns, synthetic
from l2bench.errors import Unsupported
from l2bench.metrics import l2m
from l2bench.metrics.continual_sets import ContinualWorldMetrics, GemMetrics, KemkerMetrics
from l2bench.metrics.l2m_lifetime import log_of
from l2bench.metrics.l2m_log import read_log
from l2bench.metrics.l2m_settings import L2METRICS, TEXT
from l2bench.metrics.sets import L2MetricsMetrics, L2MMetrics, LiberoMetrics
from l2bench.scoring import score_lifetime

few = settings(max_examples=15)
CONTINUAL = (GemMetrics, ContinualWorldMetrics, KemkerMetrics)
SETS = (LiberoMetrics, L2MMetrics, L2MetricsMetrics, *CONTINUAL)
PREFIXES = {"continual_world": "cw"}
SCENARIOS = {
    "sequential": {},
    "all": {"scenario": {"pretest": True, "evaluate": "all"}},
    "interleaved": {"every": None, "scenario": {"kind": "interleaved", "rounds": 1}},
    "rounds": {"every": None, "scenario": {"kind": "interleaved", "rounds": 3}},
    "demonstrations": {"source": "demonstrations", "unit": "epochs"},
    "written": {
        "every": None,
        "scenario": {
            "kind": "blocks",
            "blocks": [
                {"evaluate": "all"},
                {"learn": "task-1"},
                {"learn": "task-2"},
                {"evaluate": "all"},
            ],
        },
    },
    "evaluation only": {
        "every": None,
        "scenario": {"kind": "blocks", "blocks": [{"evaluate": "all"}]},
    },
    "learning only": {
        "every": None,
        "scenario": {"kind": "blocks", "blocks": [{"learn": "task-1"}]},
    },
}


def worked_example(row, task):
    """The worked example with three tasks; right after learning, tasks do .05 worse."""
    curves = [[0.1, 0.6, 0.5], [0.0, 0.5, 0.8], [0.2, 0.9, 0.9]]
    later = {(1, 0): 0.2, (2, 0): 0.1, (2, 1): 0.6}
    after = int(row["learn_task"])
    if row["role"] == "curve":
        return curves[after][int(row["checkpoint"]) // 2]
    if after == task:
        return max(curves[task]) - 0.05
    return later[after, task]


def test_libero_worked_example():
    scores = LiberoMetrics().score(lifetime(probe_suite(3), worked_example))
    assert scores.get("libero.FWT").value == pytest.approx(0.511111, abs=1e-6)
    assert scores.get("libero.NBT").value == pytest.approx(0.65 / 3)
    assert scores.get("libero.NBT_excluding_last_task").value == pytest.approx(0.325)
    assert scores.get("libero.AUC").value == pytest.approx(0.475926, abs=1e-6)
    assert scores.get("libero.NBT_reevaluated").value == pytest.approx((0.4 + 0.15) / 3)
    assert scores.get("libero.NBT_reevaluated_excluding_last_task").value == pytest.approx(0.275)
    per_task = {
        "FWT_k": [1.3 / 3, 1.3 / 3, 2 / 3],
        "NBT_k": [0.45, 0.2, None],
        "AUC_k": [0.733333 / 3, 1.033333 / 2, 2 / 3],
        "NBT_reevaluated_k": [0.4, 0.15, None],
        "best_k": [0.6, 0.8, 0.9],
        "reevaluated_k": [0.55, 0.75, 0.85],
    }
    for id, expected in per_task.items():
        for number, value in enumerate(expected, 1):
            found = scores.get(f"libero.{id}", f"task-{number}")
            assert found.value == (None if value is None else pytest.approx(value, abs=1e-6))
    assert scores.get("libero.NBT_k", "task-3").reason == (
        "task task-3 is the last: no later task can change it"
    )


def test_tasks_count_in_the_order_they_are_learned():
    suite = probe_suite(3, scenario={"order": ["task-3", "task-1", "task-2"]})
    place = {2: 0, 0: 1, 1: 2}

    def moved(row, task):
        return worked_example({**row, "learn_task": place[int(row["learn_task"])]}, place[task])

    scores = LiberoMetrics().score(lifetime(suite, moved))
    assert scores.get("libero.NBT").value == pytest.approx(0.65 / 3)
    assert scores.get("libero.best_k", "task-3").value == pytest.approx(0.6)


def perfect(row, task):
    return 1.0


def forgetter(row, task):
    started = row["role"] != "curve" or row["checkpoint"] > 0
    return float(task == row["learn_task"] and started)


def test_known_answers():
    suite = probe_suite(4)
    right = LiberoMetrics().score(lifetime(suite, perfect))
    assert [right.get(f"libero.{id}").value for id in ("FWT", "NBT", "AUC")] == [1, 0, 1]
    forgets = LiberoMetrics().score(lifetime(suite, forgetter))
    assert forgets.get("libero.FWT").value == pytest.approx(2 / 3)
    assert forgets.get("libero.NBT").value == pytest.approx(3 / 4)
    maintained = L2MMetrics().score(lifetime(suite, forgetter))
    assert maintained.get("l2m.performance_maintenance").value == -1
    assert (
        L2MMetrics().score(lifetime(suite, perfect)).get("l2m.performance_maintenance").value == 0
    )


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("cls", SETS)
def test_every_definition_is_answered(cls, name):
    scores = cls().score(synthetic(probe_suite(3, **SCENARIOS[name]), 0))
    defined = {metric.id: metric for metric in cls.metrics}
    assert len(defined) == len(cls.metrics)
    assert {value.id for value in scores.values} <= set(defined)
    lifetime_ids = [value.id for value in scores.values if defined[value.id].scope == "lifetime"]
    expected = [metric.id for metric in cls.metrics if metric.scope == "lifetime"]
    assert sorted(lifetime_ids) == sorted(expected)
    keys = [(value.id, value.task, value.source) for value in scores.values]
    assert len(set(keys)) == len(keys)
    for value in scores.values:
        scope = defined[value.id].scope
        assert (value.task is not None) == (scope != "lifetime")
        assert (value.source is not None) == (scope == "pair")
        low, high = defined[value.id].range
        if value.value is not None:
            assert low is None or value.value >= low
            assert high is None or value.value <= high


@pytest.mark.parametrize("name", SCENARIOS)
@few
@given(seed=st.integers(0, 2**32 - 1))
def test_blanks_depend_on_the_blocks_not_on_the_values(name, seed):
    """What a plan says cannot be identified stays so, and nothing else is blank."""
    suite = probe_suite(3, **SCENARIOS[name])
    rng = np.random.default_rng(seed)
    scored = name != "demonstrations"
    random = lifetime(
        suite,
        lambda row, task: 0.05 + 0.9 * rng.random(),
        (lambda row: 0.05 + 0.9 * rng.random()) if scored else None,
    )
    for cls in (LiberoMetrics, L2MMetrics, *CONTINUAL):
        planned, run = (
            {(v.id, v.task, v.source): v.reason for v in cls().score(life).values}
            for life in (synthetic(suite, 0), random)
        )
        assert planned == run


def reason(scores, id, task=None, source=None):
    found = scores.get(id, task, source)
    assert found.value is None
    return found.reason


@pytest.mark.parametrize("which", [{0, 1, 2}, {1}])
def test_tasks_whose_episodes_have_no_score_are_not_called_unevaluated(which):
    life = synthetic(probe_suite(3, scenario={"pretest": True}), 0)
    rows = life.episodes.select(["score", "task_index"]).to_pylist()
    kept = [None if row["task_index"] in which else row["score"] for row in rows]
    at = life.episodes.column_names.index("score")
    episodes = life.episodes.set_column(at, "score", pa.array(kept, pa.float64()))
    life = replace(life, episodes=episodes)
    found = score_lifetime(life, [LiberoMetrics(), L2MMetrics(), GemMetrics()])
    texts = [m["undefined_reason"] or "" for m in found["metrics"]] + found["warnings"]
    for index, task in enumerate(life.suite.tasks):
        count = sum(row["task_index"] == index for row in rows)
        why = (
            f"task {task.id} was evaluated, but none of its {count} episodes has a score: "
            f"no 'success' was reported"
        )
        assert (why in texts) == (index in which)
        for taken in ("was not evaluated", "was never evaluated", "has no own curve"):
            false = [text for text in texts if f"task {task.id} {taken}" in text]
            assert index not in which or not false


def test_reasons_name_the_missing_blocks():
    plain = L2MMetrics().score(synthetic(probe_suite(2), 0))
    assert reason(plain, "l2m.forward_transfer_contrast") == (
        "task task-2 was not evaluated before task task-1 was learned"
    )
    none = L2MMetrics().score(synthetic(probe_suite(2, every=None), 0))
    assert reason(none, "l2m.forward_transfer_ratio_pair", "task-2", "task-1") == (
        "task task-2 was never evaluated before its first learning block"
    )
    libero = LiberoMetrics().score(synthetic(probe_suite(2, every=None), 0))
    assert reason(libero, "libero.FWT") == (
        "task task-1 was not evaluated at any checkpoint of its own learning"
    )
    assert reason(libero, "libero.NBT") == "task task-1 has no own curve"
    assert libero.get("libero.NBT_reevaluated").value == 0
    again = LiberoMetrics().score(synthetic(probe_suite(3, **SCENARIOS["rounds"]), 0))
    assert reason(again, "libero.NBT") == (
        "task task-1 is learned again; LIBERO's metrics need one visit per task"
    )
    nothing = LiberoMetrics().score(synthetic(probe_suite(3, **SCENARIOS["evaluation only"]), 0))
    assert reason(nothing, "libero.AUC") == "no task is learned"
    written = L2MMetrics().score(synthetic(probe_suite(3, **SCENARIOS["written"]), 0))
    assert "not separable" in reason(
        written, "l2m.forward_transfer_contrast_pair", "task-3", "task-1"
    )
    joint = written.get("l2m.joint_forward_transfer_ratio", "task-3", "task-1 + task-2")
    assert joint.value == 1


def test_sources_learned_together_again_give_one_value():
    together = [{"learn": "task-1"}, {"learn": "task-2"}]
    blocks = [{"evaluate": "all"}]
    for pair in (together, together[::-1], together):
        blocks += [*pair, {"evaluate": "all"}]
    suite = probe_suite(3, every=None, scenario={"kind": "blocks", "blocks": blocks})
    level = iter((0.2, 0.4, 0.6, 0.8))
    levels = {row: next(level) for row in (0, 3, 6, 9)}
    life = lifetime(suite, lambda row, task: levels[row["block_index"]])
    found = L2MMetrics().score(life)
    keys = [(value.id, value.task, value.source) for value in found.values]
    assert len(keys) == len(set(keys))
    joint = found.get("l2m.joint_forward_transfer_ratio", "task-3", "task-1 + task-2")
    assert joint.value == pytest.approx(2.0)


def test_an_evaluation_that_failed_is_missing_not_zero():
    def gappy(row, task):
        return math.nan if row["role"] == "curve" and row["checkpoint"] == 2 else 0.5

    life = lifetime(probe_suite(2), gappy)
    scores = LiberoMetrics().score(life)
    assert reason(scores, "libero.FWT_k", "task-1") == (
        "task task-1 was not evaluated at checkpoint 2 of its own learning"
    )
    skipping = LiberoMetrics(missing="skip").score(life)
    assert skipping.get("libero.FWT").value == 0.5
    assert skipping.settings["missing"] == "skip"


def test_segments_of_one_task_are_one_learning_block():
    log = log_of(synthetic(probe_suite(3), 0))
    assert log is not None
    kinds = ["L" if learning else "E" for learning in log.learning]
    names = [log.tasks[task][-1] for task in log.task]
    assert list(zip(kinds, names, strict=True)) == [
        ("E", "1"), ("L", "1"), ("E", "1"),
        ("E", "2"), ("L", "2"), ("E", "1"), ("E", "2"),
        ("E", "3"), ("L", "3"), ("E", "1"), ("E", "2"), ("E", "3"),
    ]  # fmt: skip
    lengths = (log.stop - log.start)[log.learning]
    assert lengths.tolist() == [4, 4, 4]  # two segments of two rows each


def test_checkpoint_zero_stands_in_only_where_nothing_else_was_evaluated():
    log = log_of(synthetic(probe_suite(2, **SCENARIOS["all"]), 0))
    assert log is not None
    assert np.unique(log.block).tolist() == [0, 2, 6, 8, 12]


def test_visits_to_a_task_are_separate_learning_blocks():
    log = log_of(synthetic(probe_suite(2, **SCENARIOS["rounds"]), 0))
    assert log is not None
    assert log.learning.sum() == 6
    scores = L2MMetrics().score(
        lifetime(probe_suite(1, **SCENARIOS["rounds"]), perfect, lambda row: row["exposure"] / 2)
    )
    assert scores.get("l2m.performance_recovery").value == 0
    assert scores.get("l2m.mean_training_performance").value == pytest.approx(0.5)


def test_forward_transfer_from_pretest_to_checkpoint_zero():
    suite = probe_suite(2, scenario={"pretest": True})

    def helped(row, task):
        return 0.2 if row["role"] == "pretest" else 0.6

    scores = L2MMetrics().score(lifetime(suite, helped))
    assert scores.get("l2m.forward_transfer_contrast").value == pytest.approx(0.5)
    assert scores.get("l2m.forward_transfer_ratio").value == pytest.approx(3)
    pair = scores.get("l2m.forward_transfer_contrast_pair", "task-2", "task-1")
    assert pair.value == pytest.approx(0.5)


def test_backward_transfer_and_maintenance_in_a_sequence():
    def fading(row, task):
        return 0.8 if task == row["learn_task"] else 0.4

    scores = L2MMetrics().score(lifetime(probe_suite(2), fading))
    assert scores.get("l2m.backward_transfer_contrast").value == pytest.approx(-1 / 3)
    assert scores.get("l2m.performance_maintenance").value == pytest.approx(-0.4)
    assert scores.get("l2m.performance_maintenance_k", "task-1").value == pytest.approx(-0.4)


def test_learning_without_scores_keeps_its_place():
    suite = probe_suite(2, **SCENARIOS["demonstrations"])
    scores = L2MMetrics().score(lifetime(suite, forgetter))
    assert scores.get("l2m.performance_maintenance").value == -1
    assert scores.get("l2m.backward_transfer_contrast").value == -1
    assert reason(scores, "l2m.mean_training_performance_k", "task-1") == (
        "the learning experiences of task task-1 are not scored"
    )
    package = L2MetricsMetrics().score(lifetime(suite, forgetter))
    assert package.get("l2metrics.performance_maintenance").value == -100
    assert "not scored" in reason(package, "l2metrics.performance_maintenance_from_learning")


def test_performance_is_placed_in_the_score_range():
    ranged = with_returns(probe_suite(2, scenario={"pretest": True}), -10.0, 30.0)

    def helped(row, task):
        return -2.0 if row["role"] == "pretest" else 14.0

    scores = L2MMetrics().score(lifetime(ranged, helped, lambda row: 10.0))
    assert scores.get("l2m.forward_transfer_contrast").value == pytest.approx(0.5)
    assert scores.get("l2m.mean_training_performance").value == pytest.approx(0.5)


def with_returns(suite, low=0.0, high=1.0):
    """The suite with tasks measured by their return."""
    ranged = {"measure": "return", "score_range": (low, high)}
    return suite.model_copy(
        update={"tasks": tuple(task.model_copy(update=ranged) for task in suite.tasks)}
    )


def test_a_score_outside_the_range_is_kept():
    suite = with_returns(probe_suite(1))
    scores = LiberoMetrics().score(lifetime(suite, lambda row, task: 1.25))
    assert scores.get("libero.FWT").value == 1.25


def test_infinite_scores_are_refused():
    for cls in SETS:
        with pytest.raises(Unsupported, match=r"infinite|inf at"):
            cls().score(lifetime(with_returns(probe_suite(1)), lambda row, task: math.inf))


def test_incomplete_learning_experiences_do_not_count():
    life = synthetic(probe_suite(1, every=None), 0)
    status = ["ok", "incomplete"]
    position = life.learning.column_names.index("status")
    values = pa.array(status).dictionary_encode().cast(life.learning.schema.field("status").type)
    learning = life.learning.set_column(position, life.learning.schema.field("status"), values)
    scores = L2MMetrics().score(replace(life, learning=learning))
    assert scores.get("l2m.mean_training_performance_k", "task-1").n == 1


def test_nothing_recorded():
    life = synthetic(probe_suite(2), 0)
    empty = replace(
        life,
        blocks=life.blocks.slice(0, 0),
        episodes=life.episodes.slice(0, 0),
        learning=life.learning.slice(0, 0),
    )
    for cls in SETS:
        scores = cls().score(empty)
        assert all(value.value is None and value.reason for value in scores.values)
        assert len(scores.values) == sum(metric.scope == "lifetime" for metric in cls.metrics)


def test_experts_are_lifetimes_of_one_task():
    learner = lifetime(probe_suite(2, every=None), perfect, lambda row: 0.5)
    expert = lifetime(probe_suite(1, every=None), perfect, lambda row: 1.0)
    scores = L2MMetrics(experts=[expert]).score(learner)
    assert scores.get("l2m.relative_performance_k", "task-1").value == pytest.approx(0.5)
    assert scores.get("l2m.sample_efficiency_k", "task-1").value == pytest.approx(0.5)
    assert reason(scores, "l2m.relative_performance_k", "task-2") == (
        "no single-task expert of task task-2"
    )
    with pytest.raises(Unsupported, match="this lifetime learns 2"):
        L2MMetrics(experts=[learner])
    unscored = synthetic(probe_suite(1, **SCENARIOS["demonstrations"]), 0)
    scores = L2MMetrics(experts=[unscored]).score(learner)  # it has nothing to compare with
    assert reason(scores, "l2m.relative_performance_k", "task-1") == (
        "no single-task expert of task task-1"
    )


@pytest.mark.parametrize("profile", [TEXT, L2METRICS])
@pytest.mark.parametrize("name", ["interleaved", "rounds", "written"])
def test_a_lifetime_scores_like_its_log(name, profile):
    """The tables and a log of the same rows in the L2Logger columns give the same values."""
    rng = np.random.default_rng(3)
    suite = probe_suite(3, **SCENARIOS[name])
    life = lifetime(suite, lambda row, task: rng.random(), lambda row: rng.random())
    parts = []
    for data, kind in ((columns(life.episodes), "test"), (columns(life.learning), "train")):
        for i in range(len(data["block_index"])):
            task = suite.tasks[data["task_index"][i]].id
            parts.append((int(data["block_index"][i]), kind, f"{task}_1", float(data["score"][i])))
    parts.sort(key=lambda part: part[0])
    block, kind, task, value = zip(*parts, strict=True)
    log = read_log(
        {
            "block_num": np.array(block),
            "exp_num": np.arange(len(block)),
            "block_type": np.array(kind),
            "task_name": np.array(task),
            "performance": np.array(value),
        }
    )
    expected = l2m.score(log, [], profile)
    cls = L2MMetrics if profile is TEXT else L2MetricsMetrics
    found = cls().score(life)
    for id, value in expected.lifetime.items():
        assert found.get(f"{cls.name}.{id}").value == (
            None if value.value is None else pytest.approx(value.value)
        )
    for task, entry in expected.tasks.items():
        for id, value in entry.values.items():
            assert found.get(f"{cls.name}.{id}_k", task.removesuffix("_1")).value == (
                None if value.value is None else pytest.approx(value.value)
            )


def test_definitions_say_direction_and_range():
    for cls in SETS:
        for metric in cls.metrics:
            assert metric.id.startswith(f"{PREFIXES.get(cls.name, cls.name)}.")
            assert metric.formula and metric.unit
            assert metric.higher_is_better is not any(w in metric.id for w in ("NBT", "forgetting"))
        assert any(metric.headline for metric in cls.metrics)
        assert all(metric.scope == "lifetime" for metric in cls.metrics if metric.headline)
