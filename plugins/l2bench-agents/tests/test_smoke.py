"""A published policy on the simulator's images, from the command line to a scored bundle."""

import subprocess
import sys

import numpy as np
import pytest

from l2bench.bundle.reader import read_bundle

pytestmark = [pytest.mark.sim, pytest.mark.timeout(1500)]

#: Of the three policies the one that is quickest to learn; the others run the same code.
AGENT = "libero_transformer_sequential"


def l2bench(*words):
    """Run a command in a process of its own, which gives back the gigabytes it takes."""
    command = [sys.executable, "-m", "l2bench", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a run of the smoke profile, with nothing made beforehand."""
    here = tmp_path_factory.mktemp("smoke")
    done = l2bench(
        "run", "libero_long", "profile=smoke", f"+agent={AGENT}", "execution.device=cpu",
        f"execution.data={here / 'data'}", "-o", here / "out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return here / "out"


def test_the_smoke_profile_of_libero_long_is_learned_from_images(folder):
    (manifest,) = folder.glob("*/manifest.json")
    bundle = read_bundle(manifest.parent)
    assert bundle.provenance.segments[0].agent["parameters"] == 5_383_307
    learned = {
        row["block_index"]: row["learn_task"]
        for row in bundle.lifetime.blocks.to_pylist()
        if row["kind"] == "learn"
    }
    losses = {0: [], 1: []}
    for row in bundle.series.to_pylist():
        if row["name"] == "loss":
            losses[learned[row["block_index"]]].append(row["value"])
    for found in losses.values():
        assert len(found) == 4
        assert np.isfinite(found).all()
        assert found[-1] < found[0] - 0.5  # measured: from 6.1 to 4.8 and from 6.2 to 5.0


def test_its_bundle_is_scored_and_clean(folder):
    done = l2bench("check", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 errors, 0 warnings, 1 bundle scored" in done.stdout
