"""Colours: stable for a task, readable on every cell and page."""

import itertools
from collections import Counter

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT

from l2bench.report.colours import (
    MARKERS,
    PALETTE,
    STEPS,
    contrast,
    looks,
    luminance,
    ramp,
    step,
    text_on,
)

LIGHT_PAGE, DARK_PAGE = "#FCFBF8", "#14171A"


def alone(task):
    return looks([task])[task]


def test_a_task_looks_the_same_on_every_page_for_ever():
    assert looks(["catch", "mirrored-catch", "windy-catch"]) == {
        "catch": (4, "square"),
        "mirrored-catch": (6, "diamond"),
        "windy-catch": (3, "diamond"),
    }


@pytest.mark.parametrize("suite", ["quickstart", "libero_object_cpu"])
def test_the_tasks_of_the_small_suites_have_the_looks_of_their_names(suite):
    tasks = yaml.safe_load((ROOT / "suites" / f"{suite}.yaml").read_text())["tasks"]
    names = [task["id"] for task in tasks]
    assert looks(names) == {name: alone(name) for name in names}
    assert len({alone(name).colour for name in names}) == len(names)


def test_tasks_of_one_look_by_their_names_are_told_apart():
    assert alone("open") == alone("close") == (7, "circle")
    assert looks(["open", "close"]) == {"close": (7, "circle"), "open": (0, "circle")}
    assert looks(["open", "close"]) == looks(["close", "open"])


def test_the_look_of_a_name_uses_the_whole_palette():
    found = {alone(f"task-{n}") for n in range(2000)}
    assert found == set(itertools.product(range(len(PALETTE)), MARKERS))


@given(st.lists(st.text(max_size=8), unique=True, max_size=70), st.randoms())
def test_no_two_tasks_share_a_look_while_there_are_free_ones(names, random):
    found = looks(names)
    if len(names) <= len(PALETTE):
        assert len({look.colour for look in found.values()}) == len(names)
        assert all(found[name].marker == alone(name).marker for name in names)
    most = len(PALETTE) * len(MARKERS)
    uses = Counter(found.values())
    assert len(uses) == min(len(names), most)
    assert max(uses.values(), default=0) <= -(-len(names) // most)
    random.shuffle(names)
    assert looks(names) == found


@pytest.mark.parametrize("dark", [False, True])
def test_numbers_can_be_read_on_every_cell(dark):
    steps = ramp(dark)
    assert len(steps) == STEPS
    for fill, ink in steps:
        assert ink == text_on(fill)
        assert contrast(fill, ink) >= 4.5


@pytest.mark.parametrize("dark", [False, True])
def test_the_ramp_runs_one_way_in_lightness(dark):
    light = [luminance(fill) for fill, _ in ramp(dark)]
    assert light == sorted(light, reverse=not dark)
    assert len(set(light)) == STEPS


def test_lines_stand_out_from_the_page():
    for _, light, dark in PALETTE:
        assert contrast(light, LIGHT_PAGE) >= 3
        assert contrast(dark, DARK_PAGE) >= 3


def test_contrast_of_black_and_white():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#777777") == pytest.approx(1)


@given(st.floats(-5, 5))
def test_every_performance_has_a_place_on_the_ramp(value):
    assert 0 <= step(value) < STEPS
    if 0 <= value <= 1:
        assert abs(step(value) / (STEPS - 1) - value) <= 0.5 / (STEPS - 1) + 1e-12


@given(st.text())
def test_any_name_has_a_look(name):
    colour, marker = alone(name)
    assert 0 <= colour < len(PALETTE)
    assert marker in MARKERS
