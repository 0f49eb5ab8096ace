"""Properties of networks: stored values, edge cases by hand, and properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from metrics.oracle import cases, indexed

from l2bench.errors import Unsupported, UsageError
from l2bench.metrics.plasticity import (
    dead_units,
    gradient_size,
    stable_rank,
    weight_l2,
    weight_spectral,
)

CASES = cases("network_properties")
RELATIVE = 1e-9


def test_all_cases_are_there():
    assert len(CASES) == indexed("network_properties/cases.json") == 10


def close(found, expected):
    """Numbers within the relative tolerance, in lists too; null is NaN."""
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            close(one, other)
    elif expected is None:
        assert math.isnan(found)
    else:
        assert abs(found - expected) <= RELATIVE * max(1, abs(found), abs(expected))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case):
    dead = dead_units(case["activations"])
    never = dead_units(case["activations"], "all_zero_over_batch")
    rank = stable_rank(case["weights"])
    norm, spectral = weight_l2(case["weights"]), weight_spectral(case["weights"])
    gradient = gradient_size(case["gradients"])
    values = {
        "dead_neurons_pct": dead.network,
        "dead_neurons_pct_per_layer": dead.layers,
        "dead_neurons_pct_all_zero_over_batch": never.network,
        "stable_rank_per_layer": rank.layers,
        "stable_rank": rank.network,
        "grad_l0": gradient.l0,
        "grad_l0_fraction": gradient.l0_fraction,
        "grad_l2": gradient.l2,
        "weight_l2_per_layer": norm.layers,
        "weight_l2": norm.network,
        "weight_spectral_per_layer": spectral.layers,
    }
    expected = {k: v for k, v in case["expected"].items() if not k.startswith("not_equal")}
    assert values.keys() == expected.keys()
    for key, value in expected.items():
        close(values[key], value)
    for found in (dead, never, rank, norm, spectral):
        assert math.isnan(found.network) == bool(found.reason)


def test_the_rank_comes_neither_from_the_nuclear_norm_nor_from_the_smaller_side():
    differing = 0
    for case in CASES:
        found = [value for value in stable_rank(case["weights"]).layers if not math.isnan(value)]
        for key in ("nuclear_over_spectral", "divided_by_min_dim"):
            wrong = case["expected"][f"not_equal_{key}_per_layer"]
            wrong = [value for value in wrong if value is not None]
            differing += found != pytest.approx(wrong, rel=1e-6)
    assert differing == 5 + 7


def test_concatenated_relu_is_half_dead_whatever_it_sees():
    before = np.random.default_rng(0).normal(size=(7, 5))
    outputs = np.concatenate([np.maximum(before, 0), np.maximum(-before, 0)], axis=1)
    assert dead_units([outputs]).network == 50
    assert dead_units([outputs], "all_zero_over_batch").network < 50


def test_layers_count_by_their_units():
    found = dead_units([[[0.0, 0.0, 0.0]], [[1.0]]])
    assert found.layers == (100, 0)
    assert found.network == 75


def test_kernels_are_matrices_of_output_channels():
    kernel = np.random.default_rng(1).normal(size=(4, 3, 2, 2))
    assert stable_rank([kernel]) == stable_rank([kernel.reshape(4, 12)])
    assert weight_spectral([kernel]) == weight_spectral([kernel.reshape(4, 12)])


def test_a_zero_matrix_has_no_rank_and_a_missing_value_no_norm():
    found = stable_rank([np.eye(2), np.zeros((2, 2))])
    assert found.layers[0] == 1
    assert found.reason == "the weight matrix of layer 2 is zero"
    lost = weight_l2([np.eye(2), [[1.0, math.nan]]])
    assert lost.layers[0] == pytest.approx(math.sqrt(2))
    assert lost.reason == "the weight matrix of layer 2 has values that are missing"
    assert "missing" in stable_rank([[[1.0, math.nan]]]).reason
    assert "missing" in gradient_size([[math.nan]]).reason
    assert gradient_size([[math.nan]]).l0 is None
    assert "missing" in dead_units([[[math.nan]]]).reason


def test_nothing_measured_is_not_zero():
    assert dead_units([]).reason == "there are no activations"
    assert dead_units([np.empty((0, 3))]).reason == "there are no activations"
    assert stable_rank([]).reason == weight_l2([]).reason == "the network has no weight matrix"
    assert gradient_size([]).reason == "there are no gradient entries"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: dead_units([[0.0]]), "2 dimensions"),
        (lambda: dead_units([[[0.0]], [[0.0], [1.0]]]), "numbers of observations: 1, 2"),
        (lambda: dead_units([[[0.0]], np.empty((1, 0))]), "layer 2 has no units"),
        (lambda: stable_rank([[1.0, 2.0]]), "no weight matrix; leave out biases"),
        (lambda: weight_l2([np.empty((0, 2))]), "no weight matrix"),
        (lambda: weight_spectral([[[math.inf]]]), r"infinite at \[0, 0\]"),
        (lambda: gradient_size([[1.0, math.inf]]), r"gradient 1: infinite at \[1\]"),
        (lambda: stable_rank([[[1.0], [1.0, 2.0]]]), "rectangular"),
    ],
)
def test_malformed_input_is_refused(call, text):
    with pytest.raises(Unsupported, match=text):
        call()


def test_unknown_readings_are_refused():
    with pytest.raises(UsageError, match="choose per_observation or all_zero_over_batch"):
        dead_units([[[0.0]]], "other")


shapes = st.tuples(st.integers(1, 5), st.integers(1, 5))
matrices = shapes.flatmap(
    lambda shape: arrays.arrays(float, shape, elements=st.integers(-3, 3).map(float))
)


@given(matrices, st.sampled_from([1e-200, 1e-9, 0.5, 7.0, 1e150]))
def test_ranges_and_scale(matrix, factor):
    found, scaled = stable_rank([matrix]), stable_rank([factor * matrix])
    if not matrix.any():
        assert math.isnan(found.network)
        assert math.isnan(scaled.network)
    else:
        outputs, inputs = matrix.shape
        assert 1 / outputs - 1e-9 <= found.network <= min(outputs, inputs) / outputs + 1e-9
        assert scaled.network == pytest.approx(found.network)
    norm, spectral = weight_l2([matrix]).network, weight_spectral([matrix]).network
    assert spectral <= norm * (1 + 1e-9)
    assert weight_l2([factor * matrix]).network == pytest.approx(factor * norm)
    size = gradient_size([factor * matrix])
    assert (size.l2 > 0) == (size.l0 > 0)
    assert size.l2 == pytest.approx(factor * norm)
    assert size.l0 == np.count_nonzero(matrix)


@given(st.lists(arrays.arrays(float, (4, 3), elements=st.integers(0, 1).map(float)), min_size=1))
def test_what_is_never_active_is_dead_in_every_observation(layers):
    each, never = dead_units(layers), dead_units(layers, "all_zero_over_batch")
    assert 0 <= never.network <= each.network + 1e-9 <= 100 + 1e-9
