"""Kemker's Omegas: stored values, the worked example, and properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics.oracle import cases, indexed, numbers, same

from l2bench.errors import Unsupported, UsageError
from l2bench.metrics import kemker

CASES = cases("kemker")
WORKED = [[0.8, np.nan, np.nan], [0.6, 0.9, np.nan], [0.4, 0.7, 1.0]]


def matrix(case):
    return np.array(case["R"], dtype=float)


def test_all_cases_are_there():
    assert len(CASES) == indexed("kemker/cases.json") == 10


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case):
    expected = case["expected"]
    pooled = kemker.score(matrix(case), case["test_sizes"], case["alpha_ideal"])
    plain = kemker.score(
        matrix(case), case["test_sizes"], case["alpha_ideal"], pooling="session_mean"
    )
    same(numbers(pooled.tasks("kemker.base_accuracy_k")), case["alpha_base"])
    same(numbers(pooled.tasks("kemker.new_accuracy_k")), case["alpha_new"])
    same(numbers(pooled.tasks("kemker.all_accuracy_k")), case["alpha_all_pooled"])
    same(numbers(plain.tasks("kemker.all_accuracy_k")), case["alpha_all_session_mean"])
    assert len(expected) == 4
    for found in (pooled, plain):
        same(found["kemker.omega_base"].value, expected["omega_base"])
        same(found["kemker.omega_new"].value, expected["omega_new"])
        same(found["kemker.omega_all_session_mean"].value, expected["omega_all_from_session_mean"])
    same(pooled["kemker.omega_all"].value, expected["omega_all"])
    same(plain["kemker.omega_all"].value, expected["omega_all_from_session_mean"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case_from_accuracies(case):
    found = kemker.omegas(
        case["alpha_base"], case["alpha_new"], case["alpha_all_pooled"], case["alpha_ideal"]
    )
    for name in ("base", "new", "all"):
        same(found[f"kemker.omega_{name}"].value, case["expected"][f"omega_{name}"])


def test_worked_example():
    found = kemker.score(WORKED, [500, 100, 100], 0.9)
    assert found["kemker.omega_base"].value == pytest.approx(0.555556, abs=1e-6)
    assert found["kemker.omega_new"].value == pytest.approx(0.95)
    assert found["kemker.omega_all"].value == pytest.approx(0.654762, abs=1e-6)
    assert found["kemker.omega_all_session_mean"].value == pytest.approx(0.805556, abs=1e-6)
    assert found["kemker.omega_base"].n == 2
    assert [value.n for value in found.tasks("kemker.all_accuracy_k")] == [1, 2, 3]


@pytest.mark.parametrize(
    ("ideal", "text"),
    [(0.0, "is 0"), (None, "no accuracy of an offline"), (math.nan, "no accuracy of an offline")],
)
def test_without_an_offline_accuracy_new_is_still_defined(ideal, text):
    found = kemker.score(WORKED, [500, 100, 100], ideal)
    for id in ("omega_base", "omega_all", "omega_all_session_mean"):
        assert text in found[f"kemker.{id}"].reason
    assert found["kemker.omega_new"].value == pytest.approx(0.95)


def test_one_session_is_undefined_altogether():
    found = kemker.score([[0.7]], [10], 0.9)
    for id in ("omega_base", "omega_new", "omega_all", "omega_all_session_mean"):
        assert "only one session" in found[f"kemker.{id}"].reason


def test_a_missing_term_gives_no_partial_mean():
    holed = np.array(WORKED)
    holed[2, 1] = np.nan
    found = kemker.score(holed, [500, 100, 100], 0.9, tasks=["a", "b", "c"])
    assert found["kemker.omega_all"].reason == "task b was not evaluated after learning task c"
    assert found["kemker.omega_base"].value == pytest.approx(0.555556, abs=1e-6)
    assert found["kemker.omega_new"].value == pytest.approx(0.95)
    partial = kemker.omegas([0.8, np.nan, 0.4], [0.8, 0.9, 1.0], [0.8, 0.7, 0.5], 0.9)
    assert partial["kemker.omega_base"].reason == "alpha_base of session 2 is missing"
    assert partial["kemker.omega_all"].value == pytest.approx(1.2 / 0.9 / 2)


def test_unknown_sizes_leave_the_session_mean():
    found = kemker.score(WORKED, [500, np.nan, 100], 0.9)
    assert found["kemker.omega_all"].reason == "the number of test items of task 2 is unknown"
    assert found["kemker.omega_all_session_mean"].value == pytest.approx(0.805556, abs=1e-6)


def test_sizes_may_change_between_evaluations():
    sizes = np.array([[500, 1, 1], [100, 100, 1], [100, 100, 100]])
    found = kemker.score(WORKED, sizes, 0.9)
    assert found["kemker.omega_all"].value == pytest.approx(0.805556, abs=1e-6)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: kemker.score([[0.5, 0.5]], [1], 0.5), r"shape \(T, T\)"),
        (lambda: kemker.score([[1.5]], [1], 0.5), r"1.5 at \[0, 0\]"),
        (lambda: kemker.score([[np.inf]], [1], 0.5), "inf at"),
        (lambda: kemker.score(WORKED, [1, 2], 0.5), "3 sessions need 3 sizes"),
        (lambda: kemker.score(WORKED, [1, 2, 0], 0.5), "sizes are above 0"),
        (lambda: kemker.score(WORKED, [1, 2, 3], 1.5), "offline accuracy 1.5"),
        (lambda: kemker.omegas([0.5], [0.5, 0.5], [0.5], 0.5), "one length"),
        (lambda: kemker.omegas([], [], [], 0.5), "one length"),
    ],
)
def test_malformed_input_is_refused(call, text):
    with pytest.raises(Unsupported, match=text):
        call()


def test_unknown_pooling_is_refused():
    with pytest.raises(UsageError, match="choose pooled or session_mean"):
        kemker.score(WORKED, [1, 1, 1], 0.5, pooling="other")


rates = st.integers(0, 20).map(lambda v: v / 20)


@st.composite
def sessions(draw):
    count = draw(st.integers(2, 6))
    r = np.array([[draw(rates) for _ in range(count)] for _ in range(count)])
    sizes = [draw(st.integers(1, 500)) for _ in range(count)]
    return r, sizes, draw(st.integers(1, 20)) / 20


@given(sessions(), st.integers(1, 4))
def test_properties(case, factor):
    r, sizes, ideal = case
    found = kemker.score(r, sizes, ideal)
    assert all(found[f"kemker.omega_{name}"].value >= 0 for name in ("base", "new", "all"))
    assert found["kemker.omega_new"].value <= 1
    more = kemker.score(r, [factor * n for n in sizes], ideal)
    assert more["kemker.omega_all"].value == pytest.approx(found["kemker.omega_all"].value)
    halved = kemker.score(r, sizes, ideal / 2)
    for name in ("base", "all"):
        one, other = (f[f"kemker.omega_{name}"].value for f in (halved, found))
        assert one == pytest.approx(2 * other)
    assert halved["kemker.omega_new"] == found["kemker.omega_new"]
    above = r + np.triu(np.full(r.shape, np.nan), 1)
    assert kemker.score(above, sizes, ideal) == found
    level = kemker.score(np.full_like(r, ideal), sizes, ideal)
    for name in ("base", "all"):
        assert level[f"kemker.omega_{name}"].value == pytest.approx(1)
