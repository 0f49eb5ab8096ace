"""The suite model: what it accepts, what it refuses and in which words, and its hash."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import probe_suite

from l2bench.deviations import differences
from l2bench.errors import UsageError
from l2bench.suite import Learning, Suite, judge


def refusal(data: dict, *changes: tuple[str, object]) -> str:
    data = copy.deepcopy(data)
    for path, new in changes:
        *parents, last = path.split(".")
        at = data
        for key in parents:
            at = at[int(key)] if isinstance(at, list) else at[key]
        at[last] = new
    with pytest.raises(UsageError) as caught:
        judge(Suite, data, "suite.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def data() -> dict:
    return probe_suite().resolved()


def test_resolved_form_is_a_fixed_point(data):
    assert judge(Suite, data, "again").resolved() == data


def test_unknown_key_names_the_nearest(data):
    text = refusal(data, ("scenario.episode", 5))
    assert "scenario.episode" in text
    assert "did you mean 'episodes'" in text


def test_unknown_key_inside_a_task_names_the_nearest(data):
    text = refusal(data, ("tasks.1.horizont", 5))
    assert "tasks.1.horizont" in text
    assert "did you mean 'horizon'" in text


def test_unknown_task_in_the_order_names_the_nearest(data):
    text = refusal(data, ("scenario.order", ["task-1", "tsk-2"]))
    assert "unknown task 'tsk-2' (did you mean 'task-2'?)" in text


@pytest.mark.parametrize(
    ("path", "new", "words"),
    [
        ("seeds", [1, 1], "seeds must be unique"),
        ("seeds", [], "seeds"),
        ("tasks.0.id", "task-2", "task ids must be unique; given twice: task-2"),
        ("tasks.0.id", "../etc", "tasks.0.id"),
        ("tasks.0.score_range", [1.0, 0.0], "score_range must ascend"),
        ("tasks.0.learning.unit", "epochs", "metered in steps or episodes, not epochs"),
        ("tasks.0.learning.checkpoints", [0, 4], "either every or checkpoints"),
        ("tasks.0.score_range", [0.0, 2.0], "score_range of success is [0, 1]"),
        ("scenario.blocks", [{"learn": "task-1"}], "blocks belong to"),
        ("scenario.blocks", [{"evaluate": ["task-1", "task-1"]}], "names a task twice: task-1, "),
        ("tasks.0.learning", None, "is learned but has no learning section"),
        ("scenario.kind", "blocks", "blocks belong to scenarios of kind 'blocks'"),
        ("scenario.kind", "sequentiel", "sequential"),
        ("tasks", [], "tasks"),
    ],
)
def test_refusals_name_what_is_wrong(data, path, new, words):
    assert words in refusal(data, (path, new))


def test_every_expands_to_the_checkpoints():
    learning = Learning(source="demonstrations", unit="epochs", amount=50, every=5)
    assert learning.checkpoints == tuple(range(0, 51, 5))


@pytest.mark.parametrize(
    ("checkpoints", "words"), [([2, 1], "must ascend"), ([9], "beyond amount 4")]
)
def test_checkpoints_lie_in_order_within_the_amount(checkpoints, words):
    learning = {"source": "samples", "unit": "epochs", "amount": 4, "checkpoints": checkpoints}
    with pytest.raises(UsageError, match=words):
        judge(Learning, learning, "x")


@pytest.mark.parametrize(
    ("kind", "key", "new"),
    [
        ("interleaved", "keep", "best"),
        ("interleaved", "pretest", True),
        ("blocks", "rounds", 2),
        ("blocks", "order", "shuffled"),
        ("blocks", "evaluate", "all"),
    ],
)
def test_what_a_kind_of_scenario_would_ignore_is_refused(kind, key, new):
    scenario = {"kind": kind, key: new}
    if kind == "blocks":
        scenario["blocks"] = [{"learn": "task-1"}, {"evaluate": "all"}]
    with pytest.raises(UsageError, match=f"'{key}' means nothing"):
        probe_suite(1, every=None, scenario=scenario)


def test_keeping_the_best_needs_checkpoints():
    with pytest.raises(UsageError, match="keep: best needs checkpoints"):
        probe_suite(1, every=None, scenario={"keep": "best"})


def test_every_must_divide_the_amount():
    with pytest.raises(UsageError, match="must divide"):
        judge(Learning, {"source": "samples", "unit": "epochs", "amount": 7, "every": 2}, "x")


def test_the_metric_set_that_comes_with_the_bound_is_no_deviation_of_its_own(data):
    plain = judge(Suite, data, "x")
    bound = judge(Suite, {**data, "bound": True}, "x")
    assert bound.metrics == (*plain.metrics, "l2bench/bound")
    assert differences(plain, bound) == differences(bound, plain) == ("bound",)
    fewer = judge(Suite, {**data, "bound": True, "metrics": ["l2bench/libero"]}, "x")
    assert differences(bound, fewer) == differences(fewer, bound) == ("metrics",)
    assert differences(plain, fewer) == differences(fewer, plain) == ("bound", "metrics")
    named = judge(Suite, {**data, "metrics": ["l2bench/libero", "bound"]}, "x")
    assert differences(fewer, named) == differences(named, fewer) == ("bound",)
    assert differences(judge(Suite, {**data, "metrics": ["bound"]}, "x"), plain) == ("metrics",)


def test_a_refusal_names_who_wrote_what_and_where(data):
    """Faults that others wrote, or that were written elsewhere, stand under their own names."""
    tasks = [{**task, "horizn": 3} for task in data["tasks"]]

    def written(place):
        if place[0] == "tasks":
            return "file", ("defaults", *place[2:])
        return "override", place

    with pytest.raises(UsageError) as caught:
        judge(Suite, {**data, "tasks": tasks, "experts": "maybe"}, written)
    text = str(caught.value)
    assert text.startswith("file: unknown key 'defaults.horizn' (did you mean 'horizon'?)")
    assert "; override: 'experts': input should be a valid boolean" in text
    assert text.count("horizn") == 1


def test_title_stays_out_of_the_hash_and_everything_else_is_in_it(data):
    base = judge(Suite, data, "x").hash
    assert judge(Suite, {**data, "title": "Other", "description": "o"}, "x").hash == base
    for key, new in (("seeds", [3]), ("version", "2"), ("metrics", ["l2bench/libero"])):
        assert judge(Suite, {**data, key: new}, "x").hash != base
    scenario = {**data["scenario"], "episodes": 6}
    assert judge(Suite, {**data, "scenario": scenario}, "x").hash != base


def test_the_hash_is_stable_over_releases():
    """A golden value: it moves only when the resolved form of a suite changes."""
    assert probe_suite().hash == (
        "sha256:5d81faeff21f4ceec67036d3edfe3c53a83b13e56e68dbb9b675c274a32cdb90"
    )


@given(st.text(max_size=30))
def test_index_refuses_any_other_name_in_one_line(name):
    suite = probe_suite()
    known = [task.id for task in suite.tasks]
    if name in known:
        assert suite.tasks[suite.index(name)].id == name
    else:
        with pytest.raises(UsageError, match="unknown task"):
            suite.index(name)


@pytest.mark.parametrize(
    ("path", "new"),
    [
        ("seeds", [2**53]),
        ("scenario.episodes", 10**9),
        ("scenario.rounds", 10**9),
        ("tasks.0.learning.amount", 2**60),
        ("tasks.0.settings", {"x": 2**60}),
        ("tasks.0.settings", {"x": float("inf")}),
    ],
)
def test_numbers_nobody_can_mean_are_refused(data, path, new):
    assert refusal(data, (path, new))


def test_a_checkpoint_every_step_of_a_long_task_is_refused():
    learning = {"source": "interaction", "unit": "steps", "amount": 10**9, "every": 1}
    with pytest.raises(UsageError, match="more than 10000 checkpoints"):
        judge(Learning, learning, "x")
