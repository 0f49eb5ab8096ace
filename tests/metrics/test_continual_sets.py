"""GEM's, Continual World's and Kemker's metrics on lifetimes: which blocks they use."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from metrics.builders import lifetime
from metrics.oracle import numbers
from support import ROOT, probe_suite

from l2bench.bundle.lifetime import columns, synthetic
from l2bench.cli.compose import compose
from l2bench.errors import Unsupported, UsageError
from l2bench.experts import expert_suite
from l2bench.metrics.continual_sets import ContinualWorldMetrics, GemMetrics, KemkerMetrics
from l2bench.metrics.views import cells
from l2bench.scoring import metric_sets
from l2bench.suite import judge
from l2bench.testing import check_metric_set

NAMES = ("gem", "continual_world", "kemker")
EVERYTHING = {"scenario": {"pretest": True, "evaluate": "all"}}
R = np.array([[0.9, 0.2, 0.1], [0.7, 0.8, 0.3], [0.8, 0.6, 0.9]])
B = np.array([0.1, 0.1, 0.2])


def worked(row, task):
    """The worked example of GEM's metrics; curves rise from 0 to the diagonal."""
    after = int(row["learn_task"])
    if row["role"] == "pretest":
        return B[task]
    if row["role"] == "curve":
        return R[task, task] * int(row["checkpoint"]) / 4
    return R[after, task]


def reason(scores, id, task=None):
    found = scores.get(id, task)
    assert found.value is None
    return found.reason


def per_task(scores, id):
    return numbers(value for value in scores.values if value.id == id)


@pytest.mark.parametrize("path", sorted((ROOT / "suites").glob("*.yaml")), ids=lambda p: p.stem)
@pytest.mark.parametrize("name", NAMES)
def test_the_sets_keep_their_contract_on_every_suite(registry, name, path):
    suite = compose(registry, str(path), []).suite
    metric_set = registry.resolve("metric_sets", f"l2bench/{name}")()
    scores = check_metric_set(metric_set, suite)
    assert scores.metric_set == name
    assert scores.values
    if name != "kemker":
        assert any(value.value is not None for value in scores.values)


def test_gem_worked_example():
    scores = GemMetrics().score(lifetime(probe_suite(3, **EVERYTHING), worked))
    expected = {"ACC": 2.3 / 3, "BWT": -0.15, "FWT": 0.1, "forgetting": 0.15}
    for id, value in expected.items():
        assert scores.get(f"gem.{id}").value == pytest.approx(value)
    assert scores.warnings == ()
    assert scores.get("gem.ACC").n == 3
    assert scores.get("gem.BWT").n == 2
    assert per_task(scores, "gem.ACC_k") == [0.8, 0.6, 0.9]


def test_gem_without_the_blocks_it_needs():
    seen = GemMetrics().score(lifetime(probe_suite(3), worked))
    assert reason(seen, "gem.FWT") == "task task-2 was not evaluated before anything was learned"
    assert seen.get("gem.BWT").value == pytest.approx(-0.15)
    assert seen.get("gem.forgetting").value == pytest.approx(0.15)
    assert seen.warnings == (
        "gem.forgetting takes each task's best from its own learning on: "
        "task task-2 was not evaluated after learning task task-1",
    )
    pretested = GemMetrics().score(lifetime(probe_suite(3, scenario={"pretest": True}), worked))
    assert reason(pretested, "gem.FWT") == (
        "task task-2 was not evaluated after learning task task-1"
    )
    rounds = probe_suite(2, every=None, scenario={"kind": "interleaved", "rounds": 2})
    assert reason(GemMetrics().score(synthetic(rounds, 0)), "gem.ACC") == (
        "task task-1 is learned again after another; GEM's metrics need each task to be learned "
        "once"
    )


def test_tasks_count_in_the_order_they_are_learned():
    suite = probe_suite(3, scenario={**EVERYTHING["scenario"], "order": ["task-2", "task-1"]})
    place = {1: 0, 0: 1}

    def moved(row, task):
        if task == 2:
            return 0.33  # evaluated, never learned
        after = place.get(int(row["learn_task"]), -1)
        return worked({**row, "learn_task": after}, place[task])

    scores = GemMetrics().score(lifetime(suite, moved))
    assert scores.get("gem.ACC").value == pytest.approx((0.7 + 0.8) / 2)
    assert scores.get("gem.BWT_k", "task-2").value == pytest.approx(-0.2)
    assert scores.get("gem.FWT").value == pytest.approx(0.1)


def written(*blocks, tasks=2):
    return probe_suite(tasks, every=None, scenario={"kind": "blocks", "blocks": list(blocks)})


def test_evaluations_that_no_learning_separates_are_one():
    learn = [{"learn": "task-1"}, {"learn": "task-2"}]
    split = [{"evaluate": ["task-1"]}, {"evaluate": ["task-2"]}]
    suite = written(*split, learn[0], *split, learn[1], *split)
    scores = GemMetrics().score(lifetime(suite, worked))
    assert scores.get("gem.FWT").value == pytest.approx(0.1)
    assert scores.get("gem.BWT").value == pytest.approx(-0.2)
    late = written(*learn, *split)
    blank = GemMetrics().score(lifetime(late, worked))
    assert reason(blank, "gem.BWT") == "task task-1 was not evaluated after learning task task-1"
    assert blank.get("gem.ACC").value == pytest.approx(0.75)
    unseen = written(learn[0], {"evaluate": "all"}, learn[0], learn[1], {"evaluate": "all"})
    found = GemMetrics().score(lifetime(unseen, worked))
    assert reason(found, "gem.BWT") == "task task-1 was not evaluated after learning task task-1"


def alone(suite, number, score):
    """A lifetime that learned one task of the suite and nothing else."""
    scenario = suite.scenario.model_copy(update={"order": (f"task-{number}",)})
    return lifetime(suite.model_copy(update={"scenario": scenario}), score)


def constant(value):
    return lambda row, task: value


def test_continual_world_from_checkpoints_and_experts():
    suite = probe_suite(3, amount=4, every=2)
    experts = [alone(suite, 1, constant(value)) for value in (0.2, 0.4, 0.6)]
    experts += [alone(suite, n, constant(0.5)) for n in (2, 3)]
    life = lifetime(suite, worked)
    scores = ContinualWorldMetrics(experts=experts).score(life)
    assert scores.get("cw.performance").value == pytest.approx(2.3 / 3)
    assert scores.get("cw.forgetting").value == pytest.approx((0.1 + 0.2 + 0) / 3)
    # checkpoints 2 and 4, not 0: half the diagonal, and the diagonal
    area = 0.75 * np.diagonal(R)
    assert per_task(scores, "cw.AUC_k") == pytest.approx(area.tolist())
    base = np.array([0.4, 0.5, 0.5])
    assert per_task(scores, "cw.baseline_AUC_k") == pytest.approx(base.tolist())
    assert scores.get("cw.baseline_AUC_k", "task-1").n == 3
    assert scores.get("cw.forward_transfer").value == pytest.approx(
        np.mean((area - base) / (1 - base))
    )
    assert scores.get("cw.forward_transfer_unnormalised").value == pytest.approx(
        np.mean(area - base)
    )


def test_time_zero_of_a_second_visit_is_no_point_either():
    suite = probe_suite(1, amount=2, every=1, scenario={"rounds": 2})

    def late(row, task):
        return 1.0 if row["checkpoint"] == 0 else 0.2 * row["checkpoint"] + 0.1 * row["exposure"]

    found = ContinualWorldMetrics().score(lifetime(suite, late))
    assert found.get("cw.AUC_k", "task-1").value == pytest.approx((0.2 + 0.4 + 0.3 + 0.5) / 4)


@pytest.mark.parametrize("cls", [GemMetrics, ContinualWorldMetrics])
def test_a_score_outside_the_range_is_kept(cls):
    suite = probe_suite(1)
    ranged = {"measure": "return", "score_range": (0.0, 1.0)}
    suite = suite.model_copy(update={"tasks": (suite.tasks[0].model_copy(update=ranged),)})
    scores = cls(*([[lifetime(suite, constant(1.25))]] * (cls is ContinualWorldMetrics)))
    found = scores.score(lifetime(suite, constant(1.25)))
    id = "gem.ACC" if cls is GemMetrics else "cw.performance"
    assert found.get(id).value == 1.25
    if cls is ContinualWorldMetrics:
        assert "an AUC of 1.25: no room" in reason(found, "cw.forward_transfer")
        assert found.get("cw.forward_transfer_unnormalised").value == 0


def test_continual_world_without_experts():
    scores = ContinualWorldMetrics().score(lifetime(probe_suite(3), worked))
    for id in ("cw.forward_transfer", "cw.forward_transfer_unnormalised"):
        assert reason(scores, id) == "no single-task expert of task task-1"
    assert scores.get("cw.forgetting").value == pytest.approx(0.1)


def test_experts_must_have_learned_the_same_task():
    suite = probe_suite(2)
    life = lifetime(suite, worked)

    def scored(*experts):
        return ContinualWorldMetrics(experts=experts).score(life)

    longer = alone(probe_suite(2, amount=6), 1, lambda row, task: 0.5)
    assert reason(scored(longer), "cw.forward_transfer_k", "task-1") == (
        "an expert of task task-1 learned another task of this name"
    )
    good = alone(suite, 1, worked)
    both = scored(longer, good)
    assert both.get("cw.forward_transfer_k", "task-1").value == pytest.approx(0)
    assert both.warnings == ("an expert of task task-1 learned another task of this name",)
    keep = columns(good.blocks)["checkpoint"] != 2
    stopped = replace(good, blocks=good.blocks.filter(pa.array(keep)))
    assert reason(scored(stopped), "cw.forward_transfer_k", "task-1") == (
        "an expert of task task-1 was evaluated at other points"
    )
    with pytest.raises(Unsupported, match="this lifetime learns 2"):
        ContinualWorldMetrics(experts=[life])
    with pytest.raises(UsageError, match="at least one point"):
        ContinualWorldMetrics(tail=0)


@pytest.mark.parametrize("more", [{}, {"every": None, "scenario": {"kind": "interleaved"}}])
def test_the_experts_that_a_suite_asks_for_fit(registry, more):
    suite = probe_suite(2, **more)
    experts = [lifetime(expert_suite(suite, task), constant(0.5)) for task in (0, 1)]
    (metric_set,) = metric_sets(registry, ["l2bench/continual_world"], experts)
    scores = metric_set.score(lifetime(suite, constant(0.75)))
    assert scores.get("cw.forward_transfer").value == pytest.approx(0.5)
    assert scores.warnings == ()


def grid(order, visits):
    """Continual World's protocol: every task is evaluated several times while each is learned."""
    part = [[{"learn": task, "amount": 1}, {"evaluate": "all"}] * visits for task in order]
    return written(*(block for blocks in part for block in blocks))


def test_several_visits_in_a_row_are_one_segment_of_points():
    suite = grid(["task-1", "task-2"], 6)

    def rising(row, task):
        after, visit = int(row["learn_task"]), int(row["exposure"])
        return visit / 10 if task == after else 0.1 * task + visit / 50

    expert = grid(["task-1"], 6)
    experts = [lifetime(expert, lambda row, task: 0.2)]
    scores = ContinualWorldMetrics(experts=experts).score(lifetime(suite, rising))
    assert per_task(scores, "cw.performance_k") == pytest.approx(
        [np.mean([1, 2, 3, 4, 5]) / 50, 0.3]
    )
    assert scores.get("cw.performance_k", "task-1").n == 5
    assert scores.get("cw.forgetting").value == pytest.approx((0.3 - 0.06 + 0) / 2)
    assert scores.get("cw.forward_transfer_k", "task-1").value == pytest.approx((0.25 - 0.2) / 0.8)
    single = ContinualWorldMetrics(tail=1).score(lifetime(suite, rising))
    assert per_task(single, "cw.performance_k") == pytest.approx([0.1, 0.5])
    assert GemMetrics().score(lifetime(suite, rising)).get("gem.ACC").value == pytest.approx(0.3)


def test_an_evaluation_that_failed_is_missing_not_zero():
    def gappy(row, task):
        failed = row["role"] == "post" and row["learn_task"] == 1 and task == 0
        return np.nan if failed else worked(row, task)

    suite = probe_suite(2)
    expert = alone(suite, 1, worked), alone(suite, 2, worked)
    scores = ContinualWorldMetrics(expert).score(lifetime(suite, gappy))
    assert reason(scores, "cw.performance") == (
        "task task-1 was not evaluated at the end of learning task task-2"
    )
    assert scores.get("cw.forward_transfer").value == pytest.approx(0)
    found = GemMetrics().score(lifetime(suite, gappy))
    assert reason(found, "gem.ACC") == "task task-1 was not evaluated after learning task task-2"
    assert found.get("gem.ACC_k", "task-2").value == 0.8


def sessions(tasks=3, **more):
    """A suite of tasks learned from samples, scored by accuracy."""
    suite = probe_suite(tasks, source="samples", unit="epochs", **more)
    data = suite.resolved()
    for task in data["tasks"]:
        task["measure"] = "accuracy"
    return judge(type(suite), data, "sessions")


KEMKER = np.array([[0.8, 0, 0], [0.6, 0.9, 0], [0.4, 0.7, 1.0]])


def omega(suite, **more):
    """The lifetime of Kemker's worked example, with 500, 100 and 100 test items."""
    life = lifetime(
        suite,
        lambda row, task: KEMKER[int(row["learn_task"]), task] if row["role"] == "post" else 0.5,
        **more,
    )
    items = np.array([500, 100, 100])[columns(life.episodes)["task_index"]]
    position = life.episodes.column_names.index("length")
    field = life.episodes.schema.field("length")
    sized = life.episodes.set_column(position, field, pa.array(items, pa.int32()))
    return replace(life, episodes=sized)


def test_kemker_worked_example():
    scores = KemkerMetrics(ideal=0.9).score(omega(sessions()))
    assert scores.get("kemker.omega_base").value == pytest.approx(0.555556, abs=1e-6)
    assert scores.get("kemker.omega_new").value == pytest.approx(0.95)
    assert scores.get("kemker.omega_all").value == pytest.approx(0.654762, abs=1e-6)
    assert scores.get("kemker.omega_all_session_mean").value == pytest.approx(0.805556, abs=1e-6)
    assert per_task(scores, "kemker.base_accuracy_k") == pytest.approx([0.8, 0.6, 0.4])
    assert scores.settings == {"ideal": 0.9}


def test_kemker_with_an_offline_learner():
    suite = sessions()
    learners = [alone(suite, 1, constant(value)) for value in (0.8, 1.0)]
    scores = KemkerMetrics(experts=learners).score(omega(suite))
    assert scores.get("kemker.omega_base").value == pytest.approx(0.555556, abs=1e-6)
    assert scores.settings == {"ideal": 0.9}
    blocks = {"kind": "blocks", "blocks": [{"evaluate": "all"}]}
    untrained = lifetime(sessions(every=None, scenario=blocks), constant(1.0))
    another_task = alone(probe_suite(3), 1, constant(1.0))
    for stranger in (untrained, another_task):
        found = KemkerMetrics(experts=[stranger]).score(omega(suite))
        assert reason(found, "kemker.omega_base") == (
            "no accuracy of an offline learner on task task-1 was given"
        )


def test_imported_means_without_counts_leave_the_session_mean():
    life = omega(sessions())
    rows = [
        {"block_index": block, "task_index": task, "mean": cell["value"], "n": None}
        for (block, task), cell in cells(life).items()
    ]
    imported = replace(life, episodes=life.episodes.slice(0, 0), cells=pa.Table.from_pylist(rows))
    found = KemkerMetrics(ideal=0.9).score(imported)
    assert reason(found, "kemker.omega_all") == (
        "the number of test items of task task-1 is unknown"
    )
    assert found.get("kemker.omega_all_session_mean").value == pytest.approx(0.805556, abs=1e-6)
    assert GemMetrics().score(imported).get("gem.ACC").value == pytest.approx(0.7)


def test_kemker_without_what_it_needs():
    plain = KemkerMetrics().score(omega(sessions()))
    for id in ("omega_base", "omega_all", "omega_all_session_mean"):
        assert "offline learner on task task-1" in reason(plain, f"kemker.{id}")
    assert plain.get("kemker.omega_new").value == pytest.approx(0.95)
    assert plain.get("kemker.all_accuracy_k", "task-2").value == pytest.approx(0.65)
    wrong = KemkerMetrics(ideal=0.9).score(synthetic(probe_suite(2), 0))
    assert reason(wrong, "kemker.omega_new") == (
        "task task-1 is not learned from samples and scored by accuracy, as sessions are"
    )
    one = KemkerMetrics(ideal=0.9).score(synthetic(sessions(1), 0))
    assert "only one session" in reason(one, "kemker.omega_new")
    perfect = KemkerMetrics(ideal=1).score(omega(sessions()))
    assert perfect.get("kemker.omega_base").value == pytest.approx(0.5)
    zero = KemkerMetrics(ideal=0).score(omega(sessions()))
    assert reason(zero, "kemker.omega_all") == "the offline accuracy on the base session is 0"
    for ideal in (90, "high", True):
        with pytest.raises(UsageError, match="fraction"):
            KemkerMetrics(ideal=ideal)


def test_kemker_takes_the_experts_that_learned_the_first_task():
    """Experts of other tasks that were evaluated on it as well are not offline learners of it."""
    suite = sessions()
    experts = [alone(suite, n, constant(value)) for n, value in ((1, 0.9), (2, 0.3), (3, 0.2))]
    scores = KemkerMetrics(experts=experts).score(omega(suite))
    assert scores.settings == {"ideal": 0.9}
    assert KemkerMetrics(experts=experts[1:]).score(omega(suite)).settings == {"ideal": None}
    assert KemkerMetrics(ideal=0.6, experts=experts).score(omega(suite)).settings == {"ideal": 0.6}


def test_settings_of_metric_sets_are_checked(registry):
    (found,) = metric_sets(registry, ["kemker"], settings={"kemker": {"ideal": 0.5}})
    assert found.ideal == 0.5
    (found,) = metric_sets(registry, ["l2bench/kemker"], settings={"l2bench/kemker": {"ideal": 1}})
    assert found.ideal == 1
    for settings, words in (
        ({"kemker": {"idea": 1}}, "no setting 'idea' .did you mean 'ideal'"),
        ({"kemker": {"experts": []}}, "no setting 'experts'"),
        ({"gem": {"x": 1}}, "for metric set 'gem', which is not asked for"),
        ({"kemker": {"ideal": 2}}, "fraction"),
    ):
        with pytest.raises(UsageError, match=words):
            metric_sets(registry, ["kemker"], settings=settings)
    with pytest.raises(UsageError, match="missing='maybe' is unknown; choose skip, strict"):
        metric_sets(registry, ["libero"], settings={"libero": {"missing": "maybe"}})
    with pytest.raises(UsageError, match="tail=x: at least one"):
        metric_sets(registry, ["continual_world"], settings={"continual_world": {"tail": "x"}})
