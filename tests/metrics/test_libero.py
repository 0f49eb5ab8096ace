"""LIBERO's FWT, NBT and AUC: stored values, worked examples, and properties."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l2bench.errors import L2benchError, Unsupported, UsageError
from l2bench.metrics import libero

ORACLE = Path(__file__).parents[1] / "oracle"
TENSOR = json.loads((ORACLE / "libero/tensor.json").read_text())["cases"]
MATRIX = json.loads((ORACLE / "libero/matrix.json").read_text())["cases"]
MISSING = json.loads((ORACLE / "libero/missing.json").read_text())["cases"]
EXACT = 1e-12


def array(values):
    return np.array(values, dtype=float)


def same(found, expected, tolerance=EXACT):
    """Numbers within the tolerance; null is NaN."""
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other, tolerance)
    elif expected is None:
        assert math.isnan(found)
    else:
        assert abs(found - expected) <= tolerance


def reasons_fit(part):
    """NaN and a reason go together, for each task and for the mean."""
    for value, reason in zip(part.values, part.reasons, strict=True):
        assert math.isnan(value) == bool(reason)
    assert math.isnan(part.mean) == bool(part.reason)


def all_parts(scores):
    parts = [scores.fwt, scores.auc, scores.nbt, scores.nbt_excluding_last_task]
    parts += [scores.nbt_best, scores.nbt_reevaluated]
    return [part for part in parts if part is not None]


def compare(scores, expected):
    """Compare every key of an expectation; return how many there were."""
    values = {
        "c_best": scores.best,
        "e_star_index": scores.stop,
        "FWT_k": scores.fwt.values,
        "NBT_k": scores.nbt.values,
        "AUC_k": scores.auc.values,
        "FWT": scores.fwt.mean,
        "NBT": scores.nbt.mean,
        "NBT_excluding_last_task": scores.nbt_excluding_last_task.mean,
        "AUC": scores.auc.mean,
    }
    compared = 0
    for key, value in expected.items():
        if key not in ("e_star_epoch", "not_equal_to_card_recipe"):
            same(values[key], value)
            compared += 1
    return compared


def indexed(path):
    with (ORACLE / "index.tsv").open() as file:
        return next(
            int(row["results"])
            for row in csv.DictReader(file, delimiter="\t")
            if row["path"] == path
        )


def test_all_cases_are_there():
    assert len(TENSOR) == indexed("libero/tensor.json") == 14
    assert len(MATRIX) == indexed("libero/matrix.json") == 4
    assert len(MISSING) == indexed("libero/missing.json") == 5


@pytest.mark.parametrize("case", TENSOR, ids=lambda case: case["name"])
def test_tensor(case):
    scores = libero.score_tensor(array(case["c"]), points=case["epochs"])
    expected = case["expected"]
    assert compare(scores, expected) == 9
    epochs = [case["epochs"][stop] for stop in scores.stop]
    assert epochs == expected["e_star_epoch"]
    recipe = expected.get("not_equal_to_card_recipe", {})
    if case["name"] not in ("all_zero_k3",) and recipe:
        assert scores.nbt.mean != pytest.approx(recipe["NBT"])
    for part in all_parts(scores):
        reasons_fit(part)
        assert part.known == part.needed


@pytest.mark.parametrize(
    "case", [case for case in TENSOR if "reevaluated_diagonal" in case], ids=lambda c: c["name"]
)
def test_reevaluated_diagonal(case):
    diagonal = case["reevaluated_diagonal"]
    scores = libero.score_tensor(array(case["c"]), reevaluated=diagonal, diagonal="reevaluated")
    assert compare(scores, case["expected_with_reevaluated_diagonal"]) == 5
    assert scores.nbt_best is not None
    same(scores.nbt_best.mean, case["expected"]["NBT"])
    default = libero.score_tensor(array(case["c"]), reevaluated=diagonal)
    assert repr(default.nbt) == repr(scores.nbt_best)  # NaN differs from itself
    assert repr(default.nbt_reevaluated) == repr(scores.nbt)


def test_two_cases_have_a_reevaluated_diagonal():
    assert sum("reevaluated_diagonal" in case for case in TENSOR) == 2


@pytest.mark.parametrize("case", MATRIX, ids=lambda case: case["name"])
def test_matrix(case):
    scores = libero.score_matrix(case["S_conf_mat"], case["S_fwd"])
    found = {
        "FWT": scores.fwt.mean,
        "NBT": scores.nbt.mean,
        "AUC": scores.auc.mean,
        "NBT_excluding_last_task": scores.nbt_excluding_last_task.mean,
    }
    assert len(case["expected"]) >= 3
    for key, value in case["expected"].items():
        same(found[key], value, case["tolerance_abs"])


@pytest.mark.parametrize("case", MISSING, ids=lambda case: case["name"])
@pytest.mark.parametrize("missing", ["strict", "skip"])
def test_missing(case, missing):
    scores = libero.score_tensor(array(case["c"]), missing=missing, points=case["epochs"])
    assert compare(scores, case[f"expected_{missing}"]) == 6
    for part in all_parts(scores):
        reasons_fit(part)
    assert any(part.known < part.needed for part in all_parts(scores))


def test_worked_example():
    own = [[0.1, 0.6, 0.5], [0.0, 0.5, 0.8], [0.2, 0.9, 0.9]]
    later = np.full((3, 3), np.nan)
    later[1, 0], later[2, 0], later[2, 1] = 0.2, 0.1, 0.6
    scores = libero.score(own, later)
    assert scores.stop == (1, 2, 1)
    same(list(scores.fwt.values), [1.3 / 3, 1.3 / 3, 2 / 3])
    same(list(scores.nbt.values), [0.45, 0.2, None])
    same(scores.fwt.mean, (1.3 / 3 + 1.3 / 3 + 2 / 3) / 3)
    same(scores.nbt.mean, 0.65 / 3)
    same(scores.nbt_excluding_last_task.mean, 0.325)
    assert scores.auc.mean == pytest.approx(0.475926, abs=1e-6)
    assert scores.nbt.used == 3
    assert scores.nbt_excluding_last_task.used == 2


def test_forward_transfer_is_neither_raw_mean_nor_best():
    curve = [[0, 0.4, 0.8] + [0.6] * 8]
    assert libero.score(curve, [[np.nan]]).fwt.mean == pytest.approx(0.690909, abs=1e-6)


def test_two_tasks_with_both_conventions_for_the_last():
    own = [[0, 0.4, 0.8] + [0.6] * 8, [0] + [0.5] * 10]
    scores = libero.score(own, [[np.nan, np.nan], [0.6, np.nan]])
    assert scores.fwt.mean == pytest.approx(0.572727, abs=1e-6)
    assert scores.nbt_excluding_last_task.mean == pytest.approx(0.2)
    assert scores.nbt.mean == pytest.approx(0.1)
    assert scores.auc.mean == pytest.approx(0.55, abs=1e-9)


def test_one_task_has_no_backward_transfer_to_average():
    scores = libero.score([[0.2, 0.4]], [[np.nan]])
    assert scores.nbt.mean == 0.0
    assert math.isnan(scores.nbt_excluding_last_task.mean)
    assert scores.nbt_excluding_last_task.reason == "only one task was learned"
    assert scores.auc.mean == scores.fwt.mean == pytest.approx(0.3)


def test_negative_backward_transfer_of_a_matrix():
    matrix = [[0.9, 0.1, 0.3], [0.7, 0.8, 0.2], [0.6, 0.7, 0.9]]
    scores = libero.score_matrix(matrix, [0.5, 0.5, 0.5])
    same(list(scores.nbt.values), [0.25, 0.1, None])
    assert scores.nbt_excluding_last_task.mean == pytest.approx(0.175)


def test_an_unmeasured_cell_is_not_zero():
    later = np.full((2, 2), np.nan)
    scores = libero.score([[0.5], [0.5]], later, tasks=["reach", "push"])
    assert math.isnan(scores.nbt.mean)
    assert scores.nbt.reasons[0] == "task reach was not evaluated after learning task push"
    assert scores.fwt.mean == 0.5


def test_reasons_name_task_and_point():
    own = [[0.1, np.nan, 0.3], [0.1, 0.2, 0.3]]
    later = [[np.nan, np.nan], [0.1, np.nan]]
    scores = libero.score(own, later, tasks=["reach", "push"], points=[0, 5, 10])
    reason = "task reach was not evaluated at checkpoint 5 of its own learning"
    assert scores.fwt.reasons == (reason, None)
    assert reason in str(scores.fwt.reason)
    assert scores.nbt.reasons[0] == "task reach has an incomplete own curve"


def test_own_curves_may_differ_in_length():
    scores = libero.score([[0.0, 1.0], [0.5], []], np.full((3, 3), np.nan), missing="skip")
    same(list(scores.fwt.values), [0.5, 0.5, None])
    assert scores.fwt.counts == (2, 1, 0)
    reason = "task 3 was not evaluated at any checkpoint of its own learning"
    assert scores.fwt.reasons[2] == reason


def test_values_that_are_no_rates_pass_where_asked():
    scores = libero.score([[-3.0, 2.0]], [[np.nan]], bounded=False)
    assert scores.fwt.mean == -0.5
    with pytest.raises(Unsupported):
        libero.score([[-3.0, np.inf]], [[np.nan]], bounded=False)


def test_failing_everywhere_is_zero_not_an_error():
    scores = libero.score(np.zeros((2, 11)), [[np.nan, np.nan], [0, np.nan]])
    assert (scores.fwt.mean, scores.nbt.mean, scores.auc.mean) == (0, 0, 0)


def test_a_stopped_run_is_missing_not_failed():
    matrix = [[0.6, 0, 0], [0.4, 0.7, 0], [0, 0, 0]]
    scores = libero.score_matrix(matrix, [0.5, 0.6, 0], learned=2, missing="skip")
    assert scores.fwt.mean == pytest.approx(0.55)
    same(list(scores.nbt.values), [0.2, None, None])
    strict = libero.score_matrix(matrix, [0.5, 0.6, 0], learned=2)
    assert math.isnan(strict.fwt.mean) and strict.fwt.reason


def test_nothing_measured_has_reasons_everywhere():
    for missing in ("strict", "skip"):
        scores = libero.score(
            np.full((3, 4), np.nan),
            np.full((3, 3), np.nan),
            missing=missing,
            reevaluated=[np.nan] * 3,
        )
        for part in all_parts(scores):
            reasons_fit(part)
            assert math.isnan(part.mean)
            assert part.known == 0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: libero.score([[0.5, 1.5]], [[np.nan]]), r"own curve 1: 1\.5 at \[1\]"),
        (lambda: libero.score([[0.5, np.inf]], [[np.nan]]), r"own curve 1: inf at \[1\]"),
        (lambda: libero.score([[0.5]], [[np.nan], [0.1, 0.2]]), "not a rectangular array"),
        (lambda: libero.score([["high"]], [[np.nan]]), "not a rectangular array"),
        (lambda: libero.score([0.5], [[np.nan]]), "expected 1 dimensions"),
        (lambda: libero.score([[0.5], [0.5]], [[np.nan]]), "later cells of shape"),
        (lambda: libero.score(np.empty((0, 0)), np.empty((0, 0))), "at least one task"),
        (lambda: libero.score_tensor(np.zeros((2, 3, 1))), r"\(2, 3, 1\)"),
        (lambda: libero.score_matrix(np.zeros((2, 2)), [0.0]), "do not fit"),
        (lambda: libero.score([[0.5]], [[0.0]], tasks=["a", "b"]), "2 task names"),
        (lambda: libero.score([[0.5, np.nan, 0.5]], [[0.0]], points=[0, 5]), "2 point names"),
    ],
)
def test_malformed_input_is_refused(call, text):
    with pytest.raises(Unsupported, match=text):
        call()


def test_unknown_options_are_refused():
    with pytest.raises(UsageError, match="missing='none'"):
        libero.score([[0.5]], [[0.0]], missing="none")
    with pytest.raises(UsageError, match="diagonal='last'"):
        libero.score([[0.5]], [[0.0]], diagonal="last")
    with pytest.raises(L2benchError, match="needs the re-evaluated"):
        libero.score([[0.5]], [[0.0]], diagonal="reevaluated")


rates = st.integers(0, 20).map(lambda count: count / 20)


@st.composite
def tensors(draw, gaps=False):
    count, length = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    cell = st.one_of(rates, st.just(math.nan)) if gaps else rates
    flat = draw(st.lists(cell, min_size=count * count * length, max_size=count * count * length))
    return np.array(flat).reshape(count, count, length)


@given(tensors())
def test_ranges_and_identities(c):
    scores = libero.score_tensor(c)
    count = len(c)
    assert 0 <= scores.fwt.mean <= 1
    assert 0 <= scores.auc.mean <= 1
    assert abs(scores.nbt.mean) <= (count - 1) / count + 1e-12
    for k, fwt in enumerate(scores.fwt.values):
        assert c[k, k].mean() - 1e-12 <= fwt <= c[k, k].max() + 1e-12
    if count > 1:
        assert scores.nbt_excluding_last_task.mean == pytest.approx(
            scores.nbt.mean * count / (count - 1), abs=1e-12
        )


@given(tensors())
def test_backward_transfer_is_not_clipped(c):
    """Swapping gain and loss swaps the sign."""
    scores = libero.score_tensor(c)
    for k in range(len(c) - 1):
        later = [c[t, k, scores.stop[t]] for t in range(k + 1, len(c))]
        assert scores.nbt.values[k] == pytest.approx(scores.best[k] - np.mean(later), abs=1e-12)


@given(tensors(), st.randoms(use_true_random=False))
def test_cells_that_are_not_used_do_not_matter(c, random):
    scores = libero.score_tensor(c)
    other = c.copy()
    for i in range(len(c)):
        other[i, i + 1 :] = random.random()
        for j in range(i):
            keep = other[i, j, scores.stop[i]]
            other[i, j] = random.random()
            other[i, j, scores.stop[i]] = keep
    assert repr(libero.score_tensor(other)) == repr(scores)


@given(tensors(gaps=True))
def test_skip_equals_strict_where_strict_is_defined(c):
    strict, skip = libero.score_tensor(c), libero.score_tensor(c, missing="skip")
    for one, other in zip(all_parts(strict), all_parts(skip), strict=True):
        reasons_fit(one)
        reasons_fit(other)
        for value, relaxed in zip(one.values, other.values, strict=True):
            assert math.isnan(value) or value == pytest.approx(relaxed, abs=1e-12)
        assert math.isnan(one.mean) or one.mean == pytest.approx(other.mean, abs=1e-12)
