"""The parts of the L2M metrics one by one, against stored values and by hand."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from metrics.builders import log

from l2bench.metrics.l2m_log import read_log
from l2bench.metrics.l2m_preprocess import preprocess, quantile_range, scale, smooth
from l2bench.metrics.l2m_regimes import (
    least_squares_slope,
    measure_regimes,
    per_experience,
    recovery_time,
    saturation,
)
from l2bench.metrics.l2m_settings import L2METRICS, TEXT
from l2bench.metrics.theil_sen import median_slope

STORED = json.loads((Path(__file__).parents[1] / "oracle/l2m/functions.json").read_text())
TOLERANCE = {"rel": 1e-12, "abs": 1e-12}


def test_all_functions_are_covered():
    counts = {key: len(values) for key, values in STORED.items() if key != "source"}
    tested = {"smooth", "terminal", "saturation", "theil_sen", "normalise", "clamp"}
    assert set(counts) == tested
    assert sum(counts.values()) == 124


@pytest.mark.parametrize("case", STORED["smooth"])
def test_smooth(case):
    found = smooth(case["x"], case["window"], case["window_length"])
    assert found.tolist() == pytest.approx(case["y"], **TOLERANCE)


@pytest.mark.parametrize("case", STORED["terminal"])
def test_terminal_and_recovery(case):
    values = np.array(case["y"])
    numbers = np.array(case.get("experience_numbers", range(len(values))))
    rows = read_log(
        {
            "block_num": np.zeros(len(values), dtype=int),
            "exp_num": numbers,
            "block_type": np.full(len(values), case["block_type"]),
            "task_name": np.full(len(values), "a_1"),
            "performance": values,
        }
    )
    regimes = measure_regimes(rows)
    assert regimes.terminal.tolist() == pytest.approx([case["terminal"]], **TOLERANCE)
    assert regimes.experiences_to_terminal.tolist() == [case["experiences_to_terminal"]]
    if case["previous_value"] is not None:
        found = recovery_time(values, numbers, case["previous_value"])
        assert found == case["experiences_to_recovery"]


@pytest.mark.parametrize("case", STORED["saturation"])
def test_saturation(case):
    values = np.array(case["y"])
    value, position = saturation(values)
    assert value == pytest.approx(case["saturation"], **TOLERANCE)
    assert position == case["experiences_to_saturation"]


@pytest.mark.parametrize("case", STORED["theil_sen"])
def test_median_slope(case):
    assert -median_slope(case["recovery_times"]) == pytest.approx(
        case["performance_recovery"], **TOLERANCE
    )


@pytest.mark.parametrize("case", STORED["normalise"])
def test_scale(case):
    tasks = [task for task, values in case["values"].items() for _ in values]
    values = [value for values in case["values"].values() for value in values]
    rows = read_log(
        {
            "block_num": np.arange(len(values)),
            "exp_num": np.arange(len(values)),
            "block_type": np.full(len(values), "test"),
            "task_name": np.array(tasks),
            "performance": np.array(values, dtype=float),
        }
    )
    settings = replace(L2METRICS, smoothing="none", scaling=case["method"])
    found = preprocess(rows, [], settings).log.value.tolist()
    expected = [value for values in case["normalised"].values() for value in values]
    assert found == pytest.approx(expected, **TOLERANCE)


@pytest.mark.parametrize("case", STORED["clamp"])
def test_clamp(case):
    low, high = quantile_range(case["x"])
    assert (low, high) == pytest.approx((case["lower"], case["upper"]), **TOLERANCE)
    assert np.clip(case["x"], low, high).tolist() == pytest.approx(case["clamped"], **TOLERANCE)


def test_smoothing_lags():
    expected = [2, 5 / 3, 2, 3, 4, 5, 6, 7, 8, 9]
    assert smooth(np.arange(1, 11), "flat", 3).tolist() == pytest.approx(expected)


def test_a_window_that_does_not_fit_falls_back():
    x = np.arange(20.0)
    assert smooth(x, "flat", 50).tolist() == smooth(x, "flat").tolist()
    assert smooth(x[:14], "flat", 50).tolist() == x[:14].tolist()


def test_scale_of_a_constant_is_one():
    assert scale([3.0, 3.0], 3.0, 3.0).tolist() == [1.0, 1.0]


def test_rows_of_one_experience_are_averaged():
    numbers = np.array([0, 0, 1, 2, 2, 2])
    values = np.array([1.0, 3.0, 5.0, 0.0, 1.0, 2.0])
    assert per_experience(values, numbers).tolist() == [2.0, 5.0, 1.0]


def test_rounding_does_not_move_the_saturation_of_the_text():
    # An even window over a reflected start: the first two averages are equal but for rounding.
    values = np.array([0.1 + 0.9 * 0.7**i for i in range(73)])
    assert saturation(values, TEXT.tie_tolerance)[1] == 0


def test_least_squares_slope():
    assert least_squares_slope([0, 1, 2, 3], [1, 3, 2, 5]) == pytest.approx(1.1)
    assert least_squares_slope([4], [1]) == 0.0


def test_evaluations_are_smoothed_only_where_asked():
    ramp = np.arange(20.0)
    data = log(("E", "a", ramp), ("L", "a", ramp))
    plain = replace(L2METRICS, scaling="none")
    kept = preprocess(data, [], plain).log.value
    assert kept[:20].tolist() == ramp.tolist()
    assert kept[20:].tolist() == smooth(ramp).tolist() != ramp.tolist()
    asked = preprocess(data, [], replace(plain, smooth_evaluation=True)).log.value
    assert asked[:20].tolist() == smooth(ramp).tolist()
