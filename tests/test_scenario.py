"""Plans: exact blocks for every kind of scenario, with no side effects."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support import probe_suite

from l2bench.scenario import plan, task_order


def shape(blocks):
    return [
        f"L{b.task}:{b.start}-{b.stop}"
        if b.kind == "learn"
        else f"{b.role}{list(b.tasks)}" + (f"@{b.checkpoint}" if b.role == "curve" else "")
        for b in blocks
    ]


def test_sequential_measures_at_the_checkpoints_and_then_the_tasks_seen():
    blocks = plan(probe_suite(2), 0)
    assert shape(blocks) == [
        "curve[0]@0", "L0:0-2", "curve[0]@2", "L0:2-4", "curve[0]@4", "post[0]",
        "curve[1]@0", "L1:0-2", "curve[1]@2", "L1:2-4", "curve[1]@4", "post[0, 1]",
    ]  # fmt: skip
    assert [b.index for b in blocks] == list(range(12))
    assert [b.index for b in blocks if b.closes is not None] == [5, 11]
    assert [b.index for b in blocks if b.opens is not None] == [1, 7]


def test_pretest_and_evaluation_of_all_tasks():
    suite = probe_suite(2, every=None, scenario={"pretest": True, "evaluate": "all"})
    assert shape(plan(suite, 0)) == [
        "pretest[0, 1]", "L0:0-4", "post[0, 1]", "L1:0-4", "post[0, 1]",
    ]  # fmt: skip


def test_interleaved_evaluates_everything_before_between_and_after():
    suite = probe_suite(2, every=None, scenario={"kind": "interleaved", "rounds": 2})
    blocks = plan(suite, 0)
    assert shape(blocks) == ["pretest[0, 1]"] + ["L0:0-4", "post[0, 1]", "L1:0-4", "post[0, 1]"] * 2
    assert [b.exposure for b in blocks if b.kind == "learn"] == [0, 0, 1, 1]


def test_written_blocks_are_taken_as_they_stand():
    blocks = [
        {"evaluate": ["task-2"]},
        {"learn": "task-1", "amount": 2},
        {"learn": "task-1"},
        {"evaluate": "all"},
    ]
    suite = probe_suite(2, every=None, scenario={"kind": "blocks", "blocks": blocks})
    planned = plan(suite, 0)
    assert shape(planned) == ["pretest[1]", "L0:0-2", "L0:0-4", "post[0, 1]"]
    assert [b.closes for b in planned] == [None, None, 0, 0]
    assert [b.amount for b in planned] == [0, 2, 4, 0]
    assert [b.exposure for b in planned] == [None, 0, 1, 1]


def test_a_task_that_comes_back_counts_its_visits_in_every_kind_of_scenario():
    order = ["task-1", "task-2", "task-1"]
    suite = probe_suite(2, every=None, scenario={"kind": "interleaved", "order": order})
    assert [b.exposure for b in plan(suite, 0) if b.kind == "learn"] == [0, 0, 1]


def test_best_is_kept_only_where_the_suite_says_so():
    kept = plan(probe_suite(1, scenario={"keep": "best"}), 0)
    assert [b.policy for b in kept if b.role == "post"] == ["best"]
    last = plan(probe_suite(1, scenario={"keep": "last"}), 0)
    assert {b.policy for b in last} == {"current"}


def test_a_shuffled_order_depends_on_the_seed_alone():
    suite = probe_suite(9, scenario={"order": "shuffled"})
    orders = {task_order(suite, seed) for seed in range(20)}
    assert len(orders) > 10
    assert all(sorted(order) == list(range(9)) for order in orders)
    assert plan(suite, 7) == plan(suite, 7)


def test_a_task_may_come_back():
    suite = probe_suite(2, scenario={"order": ["task-2", "task-1", "task-2"]})
    learned = [(b.task, b.exposure) for b in plan(suite, 0) if b.opens is not None]
    assert learned == [(1, 0), (0, 0), (1, 1)]


@given(
    tasks=st.integers(1, 5),
    rounds=st.integers(1, 3),
    every=st.sampled_from([None, 1, 2, 4]),
    pretest=st.booleans(),
    evaluate=st.sampled_from(["seen", "all"]),
    best=st.booleans(),
)
def test_every_plan_spends_the_budget_exactly_and_closes_what_it_opens(
    tasks, rounds, every, pretest, evaluate, best
):
    keep = "best" if best and every else "last"
    scenario = {"rounds": rounds, "pretest": pretest, "evaluate": evaluate, "keep": keep}
    blocks = plan(probe_suite(tasks, every=every, scenario=scenario), 0)
    learned = [b for b in blocks if b.kind == "learn"]
    assert sum(b.stop - b.start for b in learned) == 4 * tasks * rounds
    assert sum(b.opens is not None for b in blocks) == tasks * rounds
    assert [b.closes for b in blocks if b.closes is not None] == [
        b.opens for b in blocks if b.opens is not None
    ]
    assert [b.index for b in blocks] == list(range(len(blocks)))
