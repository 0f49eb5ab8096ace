"""Conditions of a comparison: rendering, renderers, packages and seeds that were not honoured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support import probe_suite, run_suite
from test_probing import Gallery, Pictures, lived

from l2bench.bundle.files import read_json
from l2bench.bundle.reader import find_bundles
from l2bench.comparison import compare, contender
from l2bench.conditions import BRIGHTEST, FRAME_TOLERANCE


def darker(light: int, **more) -> type:
    live = type("Darker", (Pictures,), {"light": light})
    return type("Other", (Gallery,), {"live": live, **more})


def compared(*folders: Path) -> dict:
    return compare([contender(folder) for folder in folders])


def edit(folder: Path, change) -> None:
    """Change the segments of the provenance of every bundle in a folder."""
    for bundle in find_bundles(folder):
        data = read_json(bundle / "provenance.json")
        for segment in data["segments"]:
            change(segment)
        (bundle / "provenance.json").write_text(json.dumps(data))


def test_ren_06_a_darker_first_image_is_not_comparable(cli, tmp_path):
    """REN-06: equal but for a first frame of mean 120 and of 95: refused, with the reason."""
    bright = lived(tmp_path / "bright", Gallery)
    dark = lived(tmp_path / "dark", darker(95))
    result = compared(bright, dark)
    assert not result["comparable"]
    (reason,) = result["reasons"]
    assert "first image of task-1 (front) has mean 120.0 and 95.0" in reason
    code, _, errors = cli("compare", bright, dark)
    assert code == 1
    assert "rendered differently" in errors
    assert compared(bright, lived(tmp_path / "same", darker(120)))["comparable"]


@pytest.mark.parametrize(("off", "comparable"), [(-1, True), (1, False)])
def test_the_tolerance_is_a_fiftieth_of_the_range(tmp_path, off, comparable):
    light = round(120 - FRAME_TOLERANCE * BRIGHTEST) - off
    one, two = lived(tmp_path / "one", Gallery), lived(tmp_path / "two", darker(light))
    assert compared(one, two)["comparable"] is comparable


def test_ren_08_another_renderer_is_a_warning(cli, tmp_path):
    """REN-08: which backend drew the images is recorded; a comparison says where they differ."""
    one = lived(tmp_path / "one", Gallery)
    two = lived(tmp_path / "two", darker(121, renderer="osmesa"))
    result = compared(one, two)
    assert result["comparable"]
    assert result["warnings"] == [
        "one and two: the images of task-1 were drawn by egl and by osmesa"
    ]
    code, output, errors = cli("compare", one, two)
    assert code == 0
    assert "warning: one and two: the images" in output + errors


def test_seed_09_other_libraries_are_a_warning(registry, tmp_path):
    """SEED-09: the library that draws random numbers is recorded, and a comparison warns."""
    for name in ("one", "two"):
        run_suite(registry, probe_suite(1), "perfect", tmp_path / name)
    assert compared(tmp_path / "one", tmp_path / "two")["warnings"] == []
    edit(tmp_path / "two", lambda segment: segment["packages"].update(numpy="1.0"))
    (warning,) = compared(tmp_path / "one", tmp_path / "two")["warnings"]
    assert warning == f"one and two: numpy was {np.__version__} and 1.0"


def test_seed_01_seeds_that_were_not_honoured_are_a_warning(registry, tmp_path):
    """SEED-01: a comparison says which tasks did not honour their seeds."""
    for name in ("one", "two"):
        run_suite(registry, probe_suite(2), "perfect", tmp_path / name)
    edit(tmp_path / "two", lambda s: s["probes"]["task-2"].update(seed_honoured=False))
    (warning,) = compared(tmp_path / "one", tmp_path / "two")["warnings"]
    assert warning == "two: task-2 did not honour the seed given"
