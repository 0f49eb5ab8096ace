"""Continual World's metrics: stored values, edge cases by hand, and properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics.oracle import cases, indexed, numbers, same

from l2bench.errors import Unsupported, UsageError
from l2bench.metrics import continual_world as cw

CASES = cases("continual_world")
EXACT = 1e-9


def baselines(case):
    """By task, each (runs, points); stored as (runs, tasks, points)."""
    return np.swapaxes(np.array(case["baseline_success"]), 0, 1)


def test_all_cases_are_there():
    assert len(CASES) == indexed("continual_world/cases.json") == 11


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case):
    success = np.array(case["success"])
    found = cw.score(success, baselines(case))
    runs = [cw.score(run[np.newaxis]) for run in success]
    values = {
        "performance": found["cw.performance"].value,
        "performance_per_task": numbers(found.tasks("cw.performance_k")),
        "forgetting": found["cw.forgetting"].value,
        "forgetting_per_task": numbers(found.tasks("cw.forgetting_k")),
        "forward_transfer": found["cw.forward_transfer"].value,
        "forward_transfer_per_task": numbers(found.tasks("cw.forward_transfer_k")),
        "auc_per_task": numbers(found.tasks("cw.AUC_k")),
        "auc_baseline_per_task": numbers(found.tasks("cw.baseline_AUC_k")),
        "forward_transfer_unnormalised": found["cw.forward_transfer_unnormalised"].value,
        "performance_per_seed": [run["cw.performance"].value for run in runs],
        "forgetting_per_seed": [run["cw.forgetting"].value for run in runs],
    }
    assert values.keys() == case["expected"].keys()
    for key, value in case["expected"].items():
        same(values[key], value, EXACT)
    peer = case["peer"]
    assert len(peer) == 4
    same(values["performance"], peer["performance"], EXACT)
    same(values["forgetting"], peer["forgetting"], EXACT)
    same(values["forward_transfer"], peer["total_normalized_ft"], EXACT)
    same(values["forward_transfer_unnormalised"], peer["total_ft"], EXACT)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case_with_a_single_point_at_the_end(case):
    found = cw.score(case["success"], baselines(case), tail=1)
    expected = case["expected_single_point_end"]
    assert len(expected) == 4
    for key in ("performance", "forgetting"):
        same(found[f"cw.{key}"].value, expected[key], EXACT)
        same(numbers(found.tasks(f"cw.{key}_k")), expected[f"{key}_per_task"], EXACT)


def test_a_perfect_expert_leaves_the_plain_difference():
    found = cw.score([[[0.9] * 6]], [[[1.0] * 6]], tasks=["a"])
    assert found["cw.forward_transfer"].reason == (
        "the experts of task a have an AUC of 1: no room to gain"
    )
    assert found["cw.forward_transfer_unnormalised"].value == pytest.approx(-0.1)


def test_a_mean_over_runs_comes_before_the_ratio():
    success = [[[0.2] * 2], [[0.8] * 2]]
    found = cw.score(success, [[[0.0] * 2, [0.9] * 2, [0.0] * 2]])
    assert found["cw.forward_transfer"].value == pytest.approx((0.5 - 0.3) / 0.7)


def test_experts_may_differ_in_number_and_be_missing():
    success = [[[0.5] * 2 + [0.1] * 2, [0.0] * 2 + [0.5] * 2]]
    some = cw.score(success, [[[0.25, 0.25]], []], tasks=["a", "b"])
    assert some["cw.forward_transfer"].reason == "no single-task expert of task b"
    assert some["cw.forward_transfer_unnormalised"].reason == "no single-task expert of task b"
    assert some.tasks("cw.forward_transfer_k")[0].value == pytest.approx(1 / 3)
    both = cw.score(success, [[[0.25] * 2], [[0.5] * 2, [0.0] * 2, [0.25] * 2]])
    assert both["cw.forward_transfer"].value == pytest.approx(1 / 3)
    assert [value.n for value in both.tasks("cw.baseline_AUC_k")] == [1, 3]
    none = cw.score(success)
    assert none["cw.performance"].value == pytest.approx(0.3)
    assert none["cw.forward_transfer"].reason == "no single-task expert of task 1"


def test_short_and_unequal_segments():
    success = [[[0.0, 1.0, 0.2, 0.4, 0.6], [0.5, 0.5, 0.1, 0.2, 0.3]]]
    found = cw.score(success, lengths=[2, 3])
    assert numbers(found.tasks("cw.performance_k")) == pytest.approx([0.4, 0.2])
    assert numbers(found.tasks("cw.forgetting_k")) == pytest.approx([0.1, 0])
    last = cw.score(success, lengths=[2, 3], tail=2)
    assert numbers(last.tasks("cw.performance_k")) == pytest.approx([0.5, 0.25])


def test_missing_points_blank_what_needs_them():
    success = np.full((1, 2, 4), 0.5)
    success[0, 0, 3] = np.nan
    found = cw.score(success, [[[0.25] * 2], [[0.25] * 2]], tasks=["a", "b"])
    reason = "task a was not evaluated at the end of learning task b"
    assert found["cw.performance"].reason == found["cw.forgetting"].reason == reason
    assert found.tasks("cw.performance_k")[1].value == 0.5
    assert found["cw.forward_transfer"].value == pytest.approx(1 / 3)
    success[0, 1, 2] = np.nan
    found = cw.score(success, [[[0.25] * 2], [[0.25] * 2]], tasks=["a", "b"])
    assert found["cw.forward_transfer"].reason == (
        "task b was not evaluated at point 1 of run 1 of its own learning"
    )
    first = cw.score(success, lengths=[0, 4], tasks=["a", "b"])
    assert first.tasks("cw.forgetting_k")[0].reason == (
        "task a was not evaluated at the end of learning task a"
    )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: cw.score([[0.5]]), "3 dimensions"),
        (lambda: cw.score(np.empty((0, 2, 4))), r"shape \(S, N, points\)"),
        (lambda: cw.score([[[0.5] * 3, [0.5] * 3]]), "equal segments"),
        (lambda: cw.score([[[0.5] * 3]], lengths=[2]), "do not fit the segments"),
        (lambda: cw.score([[[np.inf]]]), "inf at"),
        (lambda: cw.score([[[1.5]]]), "1.5 at"),
        (lambda: cw.score([[[0.5] * 2]], [[[0.5] * 3]]), "2 points, those of its experts 3"),
        (lambda: cw.score([[[0.5] * 2]], [[[0.5] * 2]] * 2), "1 tasks need 1 baselines"),
    ],
)
def test_malformed_input_is_refused(call, text):
    with pytest.raises(Unsupported, match=text):
        call()


def test_no_tail_is_refused():
    with pytest.raises(UsageError, match="at least one point"):
        cw.score([[[0.5]]], tail=0)


rates = st.integers(0, 20).map(lambda v: v / 20)


@st.composite
def worlds(draw):
    runs, tasks, points = (draw(st.integers(1, n)) for n in (3, 4, 7))

    def curve(length):
        return draw(st.lists(rates, min_size=length, max_size=length))

    success = [[curve(tasks * points) for _ in range(tasks)] for _ in range(runs)]
    experts = [[curve(points) for _ in range(draw(st.integers(1, 3)))] for _ in range(tasks)]
    return np.array(success), [np.array(expert) for expert in experts]


@given(worlds(), st.integers(1, 8), st.randoms())
def test_properties(world, tail, random):
    success, experts = world
    found = cw.score(success, experts, tail=tail)
    assert 0 <= found["cw.performance"].value <= 1
    assert -1 <= found["cw.forgetting"].value <= 1
    assert found.tasks("cw.forgetting_k")[-1].value == 0
    transfers = zip(
        found.tasks("cw.forward_transfer_k"),
        found.tasks("cw.forward_transfer_unnormalised_k"),
        experts,
        strict=True,
    )
    for ratio, gain, expert in transfers:
        assert gain.value is not None
        assert (ratio.value is None) == bool((expert == 1).all())
        if ratio.value is not None:
            assert ratio.value <= 1 + 1e-12
            assert ratio.value * gain.value >= 0
    order = list(range(len(success)))
    random.shuffle(order)
    again = cw.score(success[order], [expert[::-1] for expert in experts], tail=tail)
    for one, other in zip(found.values, again.values, strict=True):
        assert one.reason == other.reason
        assert one.value is None or one.value == pytest.approx(other.value)


@given(worlds())
def test_runs_like_their_experts_gain_nothing(world):
    success, _ = world
    tasks = success.shape[1]
    points = success.shape[2] // tasks
    own = [success[:, i, i * points : (i + 1) * points] for i in range(tasks)]
    found = cw.score(success, own)
    assert found["cw.forward_transfer_unnormalised"].value == pytest.approx(0)
    assert all(v.value in (None, 0) for v in found.tasks("cw.forward_transfer_k"))
