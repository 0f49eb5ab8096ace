"""What must not change a score, and what must be kept as it is, for every metric set."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metrics.builders import lifetime
from metrics.test_sets import SCENARIOS, SETS
from support import probe_suite

from l2bench.bundle.lifetime import Lifetime, synthetic
from l2bench.metrics.continual_sets import GemMetrics, KemkerMetrics
from l2bench.metrics.sets import L2MetricsMetrics, LiberoMetrics
from l2bench.metrics.statistics import estimate
from l2bench.suite import Suite, judge

few = settings(max_examples=10)
seeds = st.integers(0, 2**32 - 1)
SESSIONS = {"source": "samples", "unit": "epochs", "scenario": {"pretest": True, "evaluate": "all"}}
WORLDS = {**SCENARIOS, "sessions": SESSIONS}
#: Metric sets with the worlds in which they have something to say, and the rest of them.
PLACES = [(cls, name) for cls in SETS for name in WORLDS]


def random(suite: Suite, seed: int) -> Lifetime:
    """A lifetime with random scores in the range of each task."""
    rng = np.random.default_rng(seed)
    low, high = np.array([task.score_range for task in suite.tasks]).T
    scored = suite.tasks[0].learning.source == "interaction"

    def score(row, task):
        return low[task] + (high[task] - low[task]) * rng.random()

    def learning(row):
        return score(row, int(row["learn_task"]))

    return lifetime(suite, score, learning if scored else None)


def values(cls, life: Lifetime, names: dict[str, str] | None = None) -> dict:
    """The values by id, task and source, tasks under other names where given."""
    make = {KemkerMetrics: lambda: KemkerMetrics(ideal=0.9)}.get(cls, cls)

    def named(text: str | None) -> str | None:
        parts = (text or "").split(" + ")  # several sources of one change are joined
        return text and " + ".join((names or {}).get(part, part) for part in parts)

    return {(v.id, named(v.task), named(v.source)): v.value for v in make().score(life).values}


def same(found: dict, expected: dict, **tolerance) -> None:
    assert set(found) == set(expected)
    for key, value in expected.items():
        assert (found[key] is None) == (value is None), key
        if value is not None:
            assert found[key] == pytest.approx(value, **{"rel": 1e-9, "abs": 1e-9, **tolerance})


def changed(suite: Suite, task: dict | None = None, names: dict[str, str] | None = None) -> Suite:
    """The suite with other keys in every task, or other names of tasks wherever they stand."""
    data = suite.resolved()
    for each in data["tasks"]:
        each |= task or {}
        each["id"] = (names or {}).get(each["id"], each["id"])
    for block in data["scenario"].get("blocks", []):
        if block.get("learn"):
            block["learn"] = (names or {}).get(block["learn"], block["learn"])
    return judge(Suite, data, "changed")


@pytest.mark.parametrize(("cls", "name"), PLACES)
def test_names_of_tasks_do_not_matter(cls, name):
    suite = probe_suite(3, **WORLDS[name])
    names = {"task-1": "zebra", "task-2": "m", "task-3": "apple"}
    life = random(suite, 1)
    renamed = replace(life, suite=changed(suite, names=names))
    same(values(cls, renamed), values(cls, life, names))


@pytest.mark.parametrize(("cls", "name"), PLACES)
@few
@given(seed=seeds)
def test_order_of_rows_does_not_matter(cls, name, seed):
    life = random(probe_suite(3, **WORLDS[name]), 2)
    rng = np.random.default_rng(seed)
    tables = {
        table: getattr(life, table).take(pa.array(rng.permutation(getattr(life, table).num_rows)))
        for table in ("blocks", "episodes", "learning")
    }
    same(values(cls, replace(life, **tables)), values(cls, life))


@pytest.mark.parametrize(("cls", "name"), PLACES)
@few
@given(factor=st.floats(0.01, 1000), shift=st.floats(-100, 100))
def test_scores_and_their_range_may_be_scaled_and_shifted(cls, name, factor, shift):
    """Performance is a score placed in its range: the unit of the score plays no part."""
    if name == "sessions" or cls is KemkerMetrics:
        return  # accuracies have no unit
    suite = changed(probe_suite(3, **WORLDS[name]), {"measure": "return"})
    life = random(suite, 3)

    def moved(table):
        at = table.column_names.index("score")
        scores = pa.array(table["score"].to_numpy() * factor + shift, from_pandas=True)
        return table.set_column(at, table.schema.field("score"), scores.cast(pa.float64()))

    other = changed(suite, {"score_range": [shift, factor + shift]})
    scaled = Lifetime(other, 0, life.blocks, moved(life.episodes), moved(life.learning))
    tolerance = {"rel": 1e-6, "abs": 1e-6}
    same(values(cls, scaled), values(cls, life), **tolerance)


@few
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=4))
def test_the_same_lifetimes_twice_have_the_same_mean(points):
    once, twice = estimate(points, None), estimate(points * 2, np.random.default_rng(0))
    assert twice.mean == pytest.approx(once.mean, rel=1e-12, abs=1e-12)
    if twice.low is not None:
        assert twice.low < twice.mean < twice.high


@pytest.mark.parametrize("gain", [0.2, -0.2, 0.0])
def test_what_is_gained_or_lost_later_is_never_clipped(gain):
    """Every task is at .5 after its learning, and moves by the same amount with each later one."""
    suite = probe_suite(3, scenario={"pretest": True, "evaluate": "all"})

    def score(row, task):
        if row["role"] == "curve" or row["learn_task"] < 0:
            return 0.5
        return 0.5 + gain * max(0, int(row["learn_task"]) - task)

    life = lifetime(suite, score, lambda row: 0.5)
    libero, gem = LiberoMetrics().score(life), GemMetrics().score(life)
    # task 1 moves by gain and 2 gain, task 2 by gain: its NBT is the mean, the last task's is 0
    assert libero.get("libero.NBT").value == pytest.approx(-(1.5 * gain + gain) / 3)
    assert libero.get("libero.NBT_excluding_last_task").value == pytest.approx(-1.25 * gain)
    assert gem.get("gem.BWT").value == pytest.approx((2 * gain + gain) / 2)
    # forgetting is from the best before: the last step where tasks gain, all where they lose
    steps = (1 + 1) if gain > 0 else (2 + 1)
    assert gem.get("gem.forgetting").value == pytest.approx(-steps * gain / 2)


@pytest.mark.parametrize(("cls", "name"), [(c, n) for c, n in PLACES if n != "written"])
def test_one_task(cls, name):
    life = random(probe_suite(1, **WORLDS[name]), 4)
    found = values(cls, life)
    assert all(value is None or math.isfinite(value) for value in found.values())
    needs_two = ("BWT", "FWT", "forgetting", "transfer", "NBT_excluding_last_task", "omega")
    curve = {"libero.FWT"}  # of the task's own curve
    zero = {"cw.forgetting", "gem.BWT_divided_by_T", "gem.FWT_divided_by_T"}  # by definition
    for (id, task, _), value in found.items():
        if task is None and id in zero:
            assert value in (None, 0.0), id
        elif task is None and id not in curve and id.split(".")[1].startswith(needs_two):
            assert value is None, id


@pytest.mark.parametrize(("cls", "name"), PLACES)
def test_scores_that_are_all_missing_give_no_value_at_all(cls, name):
    suite = probe_suite(3, **WORLDS[name])
    life = lifetime(suite, lambda row, task: None, lambda row: None)
    assert life.episodes["score"].null_count == life.episodes.num_rows
    for value in cls().score(life).values:
        assert value.value is None
        assert value.reason


@pytest.mark.parametrize("cls", SETS)
def test_evaluations_without_rows_give_no_value_at_all(cls):
    life = synthetic(probe_suite(2), 0)
    empty = replace(life, episodes=life.episodes.slice(0, 0), learning=life.learning.slice(0, 0))
    assert all(value.value is None and value.reason for value in cls().score(empty).values)


def test_a_unit_of_the_rewards_plays_no_part_in_the_package_profile():
    """It scales each task to 1..101, whatever range the suite states."""
    suite = changed(probe_suite(2, **SCENARIOS["rounds"]), {"measure": "return"})
    life = random(suite, 5)
    wide = replace(life, suite=changed(suite, {"score_range": [-50, 250]}))
    same(values(L2MetricsMetrics, wide), values(L2MetricsMetrics, life))
