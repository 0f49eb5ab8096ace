"""Properties of the L2M metrics on random logs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics.builders import table

from l2bench.metrics.l2m import score
from l2bench.metrics.l2m_log import read_expert, read_log
from l2bench.metrics.l2m_preprocess import smooth
from l2bench.metrics.l2m_settings import L2METRICS, TEXT

RAW = replace(L2METRICS, smoothing="none", scaling="none")

values = st.lists(st.integers(0, 20).map(lambda v: v / 20), min_size=1, max_size=18)
block = st.tuples(st.sampled_from("LE"), st.sampled_from("abc"), values)
logs = st.lists(block, min_size=1, max_size=14)
profiles = st.sampled_from([TEXT, L2METRICS, RAW])


def numbers(scores):
    """Every lifetime value by id."""
    return {id: value.value for id, value in scores.lifetime.items()}


def close(found, expected):
    assert found.keys() == expected.keys()
    for id, value in expected.items():
        if value is None:
            assert found[id] is None, id
        else:
            assert found[id] == pytest.approx(value, rel=1e-9, abs=1e-9), id


def every_value(scores):
    yield from scores.lifetime.values()
    for task in scores.tasks.values():
        yield from task.values.values()
    for pairs in scores.transfers.pairs.values():
        yield from pairs


@given(logs, profiles)
def test_every_blank_has_a_reason_and_every_number_is_finite(blocks, profile):
    scores = score(read_log(table(*blocks)), [], profile)
    for value in every_value(scores):
        assert (value.value is None) == bool(value.reason)
        assert value.value is None or math.isfinite(value.value)
        assert (value.n > 0) == (value.value is not None)


@given(logs, profiles)
def test_names_of_tasks_do_not_matter(blocks, profile):
    renamed = [(kind, {"a": "zeta", "b": "mu", "c": "alpha"}[task], v) for kind, task, v in blocks]
    one = score(read_log(table(*blocks)), [], profile)
    other = score(read_log(table(*renamed)), [], profile)
    close(numbers(other), numbers(one))


@given(logs, profiles, st.integers(0, 2**32 - 1))
def test_order_of_the_rows_does_not_matter(blocks, profile, seed):
    data = table(*blocks)
    order = np.random.default_rng(seed).permutation(len(data["exp_num"]))
    shuffled = {name: column[order] for name, column in data.items()}
    assert numbers(score(read_log(shuffled), [], profile)) == numbers(
        score(read_log(data), [], profile)
    )


@given(logs, st.floats(0.01, 100))
def test_the_contrast_of_the_text_has_no_scale(blocks, factor):
    scaled = [(kind, task, [factor * v for v in vs]) for kind, task, vs in blocks]
    one, other = (score(read_log(table(*b)), [], TEXT) for b in (blocks, scaled))
    for id in ("forward_transfer_contrast", "backward_transfer_ratio"):
        close({id: other.lifetime[id].value}, {id: one.lifetime[id].value})


@given(logs, st.floats(0.5, 50), st.floats(-100, 100))
def test_scaled_metrics_have_no_unit(blocks, factor, shift):
    def spread(profile):
        moved = [(kind, task, [factor * v + shift for v in vs]) for kind, task, vs in blocks]
        return score(read_log(table(*moved)), [], profile)

    one, other = score(read_log(table(*blocks)), [], L2METRICS), spread(L2METRICS)
    if not one.warnings and not other.warnings:
        for id in ("performance_maintenance", "mean_training_performance"):
            found, expected = other.lifetime[id].value, one.lifetime[id].value
            assert (found is None) == (expected is None)
            assert found is None or found == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(logs)
def test_ranges_of_the_text_profile(blocks):
    scores = score(read_log(table(*blocks)), [], TEXT)
    for id, value in numbers(scores).items():
        if value is not None and "contrast" in id:
            assert -1 <= value <= 1
        if value is not None and "ratio" in id:
            assert value >= 0
        if value is not None and id.startswith("performance_maintenance"):
            assert -1 <= value <= 1


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_package_contrast_is_not_clipped(before, after):
    blocks = ("E", "b", [before]), ("L", "a", [1]), ("E", "b", [after])
    value = score(read_log(table(*blocks)), [], RAW).lifetime["forward_transfer_contrast"].value
    if before + after == 0:
        assert value is None
    else:
        assert value == (after - before) / (after + before)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("LE"),
            st.sampled_from("ab"),
            st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
        ),
        min_size=1,
    ),
    profiles,
)
def test_extreme_values_are_finite_or_undefined(blocks, profile):
    log = read_log(table(*blocks))
    experts = [read_expert(table(("L", task, [1e-308, 1e308, 5e-324]))) for task in "ab"]
    for value in every_value(score(log, experts, profile)):
        assert (value.value is None) == bool(value.reason)


@given(logs)
def test_repeating_an_evaluation_gives_no_maintenance_change(blocks):
    """A learner that never changes maintains everything."""
    flat = [(kind, task, [0.5] * len(vs)) for kind, task, vs in blocks]
    lifetime = score(read_log(table(*flat)), [], TEXT).lifetime
    assert lifetime["performance_maintenance"].value in (None, 0.0)
    assert lifetime["forward_transfer_contrast"].value in (None, 0.0)
    assert lifetime["backward_transfer_ratio"].value in (None, 1.0)


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=300),
    st.sampled_from(["flat", "hanning", "hamming", "bartlett", "blackman"]),
    st.one_of(st.none(), st.integers(1, 60)),
)
def test_smoothing_keeps_length_and_range(x, window, length):
    found = smooth(x, window, length)
    assert len(found) == len(x)
    assert min(x) - 1e-6 <= found.min() and found.max() <= max(x) + 1e-6


def brute_regimes(data):
    """Regimes by walking over the rows."""
    keys = list(zip(data["block_num"], data["block_type"], data["task_name"], strict=True))
    return [i for i, key in enumerate(keys) if i == 0 or key != keys[i - 1]]


@given(logs)
def test_regimes_equal_a_walk_over_the_rows(blocks):
    data = table(*blocks)
    log = read_log(data)
    assert log.start.tolist() == brute_regimes(data)
    assert log.stop.tolist() == [*log.start.tolist()[1:], len(data["exp_num"])]


def test_a_large_log_is_scored_completely():
    count = 200_000
    index = np.arange(count)
    block = index // 100
    data = {
        "block_num": block,
        "exp_num": index,
        "block_type": np.where(block % 2, "train", "test"),
        "task_name": np.where((index // 10) % 2 == 0, "a_1", "b_1"),
        "performance": (index % 10) / 10,
    }
    data["task_name"] = np.where(
        block % 2, np.where(block % 4 == 1, "a_1", "b_1"), data["task_name"]
    )
    scores = score(read_log(data), [], TEXT)
    assert sum(task.learning_rows + task.evaluation_rows for task in scores.tasks.values()) == count
    assert scores.lifetime["mean_training_performance"].value == pytest.approx(0.45)
