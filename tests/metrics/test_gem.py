"""GEM's metrics and forgetting: stored values, worked examples, and properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from metrics.oracle import cases, indexed, numbers, same

from l2bench.errors import Unsupported, UsageError
from l2bench.metrics import gem

CASES = cases("gem")


def test_all_cases_are_there():
    assert len(CASES) == indexed("gem/cases.json") == 10


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case):
    found = gem.score(case["R"], case["b"])
    count = len(case["R"])
    expected = case["expected"]
    values = {
        "ACC": found["gem.ACC"].value,
        "BWT": found["gem.BWT"].value,
        "FWT": found["gem.FWT"].value,
        "forgetting": found["gem.forgetting"].value,
        "forgetting_from_own_task": found["gem.forgetting_from_own_task"].value,
        "BWT_divided_by_T": found["gem.BWT_divided_by_T"].value,
        "FWT_divided_by_T": found["gem.FWT_divided_by_T"].value,
        "average_accuracy_A_k": numbers(found.tasks("gem.average_accuracy_k")),
        "forgetting_F_k": numbers(found.tasks("gem.forgetting_after_k"))[1:],
        "forgetting_f_j_final": numbers(found.tasks("gem.forgetting_k"))[:-1],
    }
    assert values.keys() == expected.keys()
    for key, value in expected.items():
        same(values[key], value)
    assert found.notes == ()
    assert found["gem.ACC"].n == count
    for k in range(2, count + 1):
        same(gem.forgetting(case["R"], after=k).value, expected["forgetting_F_k"][k - 2])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_public_code_computes_has_a_name_here(case):
    r, peers = np.array(case["R"]), case["peers"]
    found = gem.score(r, case["b"])
    triangle = np.where(np.tri(len(r), dtype=bool), r, np.nan)
    values = {
        "mammoth_backward_transfer": found["gem.BWT"].value,
        "mammoth_forward_transfer": found["gem.FWT"].value,
        "mammoth_forgetting_full_matrix": found["gem.forgetting_including_last"].value,
        "mammoth_forgetting_lower_triangle": gem.forgetting(triangle, rows="including_last").value,
    }
    stored = dict(peers)
    gem_code = stored.pop("gem_repository_stats_acc_bwt_fwt_divided_by_T")
    ids = ("gem.ACC", "gem.BWT_divided_by_T", "gem.FWT_divided_by_T")
    same([found[id].value for id in ids], gem_code, 1e-6)
    assert len(stored) == (4 if len(r) > 1 else 0)
    for key, value in stored.items():
        same(values[key], value)


def test_worked_example():
    r = [[0.9, 0.2, 0.1], [0.7, 0.8, 0.3], [0.8, 0.6, 0.9]]
    found = gem.score(r, [0.1, 0.1, 0.2])
    assert found["gem.ACC"].value == pytest.approx(2.3 / 3)
    assert found["gem.BWT"].value == pytest.approx(-0.15)
    assert found["gem.FWT"].value == pytest.approx(0.1)
    assert found["gem.forgetting"].value == pytest.approx(0.15)
    assert found["gem.forgetting_own_evaluation"].value == pytest.approx(0.15)


def test_a_triangle_has_no_forward_transfer_and_says_how_forgetting_was_taken():
    r = np.array([[0.9, np.nan, np.nan], [0.7, 0.8, np.nan], [0.8, 0.6, 0.9]])
    found = gem.score(r, [0.1, 0.1, 0.2], tasks=["a", "b", "c"])
    assert found["gem.FWT"].reason == "task b was not evaluated after learning task a"
    assert found["gem.forgetting"] == found["gem.forgetting_from_own_task"].__class__(
        "gem.forgetting", found["gem.forgetting_from_own_task"].value, 2
    )
    assert found.notes == (
        "gem.forgetting takes each task's best from its own learning on: "
        "task b was not evaluated after learning task a",
    )


def test_the_last_column_is_not_needed_for_forgetting():
    r = np.array([[0.9, 0.95, np.nan], [0.7, 0.8, np.nan], [0.8, 0.6, 0.9]])
    found = gem.score(r, [0.1, 0.1, 0.2])
    assert found.notes == ()
    assert found["gem.forgetting"].value == pytest.approx((0.1 + 0.35) / 2)
    assert found["gem.forgetting_from_own_task"].value == pytest.approx((0.1 + 0.2) / 2)


def test_missing_cells_blank_what_needs_them_and_nothing_else():
    r = np.array([[0.9, 0.2, 0.1], [np.nan, 0.8, 0.3], [0.8, 0.6, 0.9]])
    found = gem.score(r, tasks=["a", "b", "c"])
    assert found["gem.ACC"].value == pytest.approx(2.3 / 3)
    assert found["gem.BWT"].value == pytest.approx(-0.15)
    assert found["gem.forgetting"].reason == "task a was not evaluated after learning task b"
    assert numbers(found.tasks("gem.forgetting_k")) == [None, pytest.approx(0.2), None]
    assert found["gem.FWT"].reason == "task b was not evaluated before anything was learned"
    assert found.tasks("gem.average_accuracy_k")[1].value is None


def test_one_task():
    found = gem.score([[0.7]], [0.1])
    assert found["gem.ACC"].value == 0.7
    for id in ("gem.BWT", "gem.FWT", "gem.forgetting", "gem.forgetting_including_last"):
        assert found[id].reason == "only one task was learned"
    assert found["gem.BWT_divided_by_T"].value == 0


@pytest.mark.parametrize(
    ("r", "b", "text"),
    [
        ([[0.5, 0.5]], None, r"shape \(T, T\)"),
        ([[0.5, 0.5], [0.5, np.inf]], None, r"inf at \[1, 1\]"),
        ([[0.5, 1.5], [0.5, 0.5]], None, r"1.5 at \[0, 1\]"),
        ([[0.5]], [0.1, 0.2], "1 tasks need 1 values b"),
        (np.empty((0, 0)), None, "shape"),
    ],
)
def test_malformed_input_is_refused(r, b, text):
    with pytest.raises(Unsupported, match=text):
        gem.score(r, b)


def test_unknown_options_are_refused():
    with pytest.raises(UsageError, match="choose all, from_own_task"):
        gem.forgetting([[0.5]], rows="other")
    with pytest.raises(UsageError, match="choose 1 to 1"):
        gem.forgetting([[0.5]], after=2)
    assert gem.score([[2.5]], bounded=False)["gem.ACC"].value == 2.5


rates = st.integers(0, 20).map(lambda v: v / 20)
squares = st.integers(1, 6).flatmap(
    lambda t: st.tuples(
        arrays.arrays(float, (t, t), elements=rates), arrays.arrays(float, t, elements=rates)
    )
)


@given(squares)
def test_ranges_and_identities(case):
    r, b = case
    found = gem.score(r, b)
    count = len(r)
    assert 0 <= found["gem.ACC"].value <= 1
    assert found.tasks("gem.average_accuracy_k")[-1].value == found["gem.ACC"].value
    if count == 1:
        return
    for id in ("gem.BWT", "gem.FWT", "gem.forgetting"):
        assert -1 <= found[id].value <= 1
    backward = found["gem.BWT"].value
    assert found["gem.BWT_divided_by_T"].value == pytest.approx(backward * (count - 1) / count)
    assert found["gem.forgetting_own_evaluation"].value == pytest.approx(-backward)
    assert found["gem.forgetting_including_last"].value == pytest.approx(
        np.mean(np.maximum(numbers(found.tasks("gem.forgetting_k"))[:-1], 0))
    )
    assert found["gem.forgetting"].value >= found["gem.forgetting_from_own_task"].value - 1e-12
    assert found["gem.forgetting_from_own_task"].value >= -backward - 1e-12


@given(squares, st.sampled_from(gem.ROWS))
def test_what_comes_later_does_not_matter(case, rows):
    r, _ = case
    for k in range(1, len(r) + 1):
        early = gem.forgetting(r[:k, :k], rows=rows)
        assert gem.forgetting(r, rows=rows, after=k) == early
        assert (early.value is None) == (k == 1)
        score = gem.score(r[:k, :k])
        assert score["gem.forgetting" if rows == "all" else f"gem.forgetting_{rows}"] == early


@given(squares, st.data())
def test_missing_cells_never_act_as_zeros(case, data):
    """Whatever stays defined is what it was, but forgetting where the triangle decides."""
    r, b = case
    cell = data.draw(st.tuples(*[st.integers(0, len(r) - 1)] * 2))
    whole, holed = gem.score(r, b), r.copy()
    holed[cell] = np.nan
    found = gem.score(holed, b)
    for before, after in zip(whole.values, found.values, strict=True):
        assert (before.id, before.task) == (after.id, after.task)
        if after.value is not None and not (found.notes and "forgetting" in after.id):
            assert after.value == before.value
