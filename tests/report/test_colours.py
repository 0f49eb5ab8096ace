"""Colours: stable for a task, readable on every cell and page."""

import itertools

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
    look,
    luminance,
    ramp,
    step,
    text_on,
)

LIGHT_PAGE, DARK_PAGE = "#FCFBF8", "#14171A"


def test_a_task_looks_the_same_on_every_page_for_ever():
    assert look("catch") == (4, "square")
    assert look("mirrored-catch") == (6, "diamond")
    assert look("windy-catch") == (3, "diamond")


@pytest.mark.parametrize("suite", ["quickstart", "libero_object_cpu"])
def test_the_tasks_of_the_small_suites_have_colours_of_their_own(suite):
    tasks = yaml.safe_load((ROOT / "suites" / f"{suite}.yaml").read_text())["tasks"]
    assert len({look(task["id"])[0] for task in tasks}) == len(tasks)


def test_looks_use_the_whole_palette():
    looks = {look(f"task-{n}") for n in range(2000)}
    assert looks == set(itertools.product(range(len(PALETTE)), MARKERS))


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
    colour, marker = look(name)
    assert 0 <= colour < len(PALETTE)
    assert marker in MARKERS
