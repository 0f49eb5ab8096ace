"""What is measured before a long run, and what it adds up to."""

from __future__ import annotations

import json

import pytest
from stubs import stubbed
from support import ROOT, probe_suite
from wanderer import Wanderer

from l2bench.calibration import Cost, calibrate, expected
from l2bench.cast import AgentSpec, Cast, Execution


def cast_of(tmp_path, suite, **execution) -> Cast:
    how = Execution(data=tmp_path, **execution)
    return Cast.gather(stubbed(Wanderer), suite, AgentSpec(name="stub"), how)


@pytest.mark.parametrize(
    ("source", "unit", "item"),
    [("interaction", "steps", "step"), ("demonstrations", "epochs", "pair"),
     ("samples", "epochs", "sample")],
)  # fmt: skip
def test_one_of_each_kind_is_measured(tmp_path, source, unit, item):
    cast = cast_of(tmp_path, probe_suite(3, source=source, unit=unit), workers=2)
    (cost,) = calibrate(cast)
    assert cost.tasks == (0, 1, 2)
    assert cost.item == item
    assert cost.batch == 2
    assert cost.act > 0
    assert cost.learn > 0
    acted = source != "samples"
    assert (cost.step is not None, cost.build is not None) == (acted, acted)


def test_the_costs_add_up(tmp_path):
    """Two tasks: 2 + 2 checkpoints, 1 + 2 final evaluations of 5 episodes; 4 steps learned."""
    suite = probe_suite(2, unit="steps", amount=4, every=4)
    cast = cast_of(tmp_path, suite)
    cost = Cost(
        (0, 1), 9.0, reset=1.0, step=2.0, act=10.0, batch=1, chunk=1, learn=3.0, item="step"
    )
    found = expected(cast, [cost])
    assert found["simulation"] == (2 + 2 + 1 + 2) * 5 * (1.0 + 2.0)
    assert found["acting"] == (2 + 2 + 1 + 2) * 5 * 10.0
    assert found["learning"] == 2 * 4 * 3.0
    suite = probe_suite(1, source="demonstrations", unit="epochs")
    assert expected(cast_of(tmp_path, suite), [cost])["learning"] is None


def test_the_command_line(cli):
    suite = ROOT / "suites" / "quickstart.yaml"
    code, out, _ = cli("run", suite, "--dry-run", "--calibrate", "--json")
    assert code == 0
    assert json.loads(out)["calibration"]["expected"]["learning"] > 0
    assert "measured on this machine" in cli("run", suite, "--dry-run", "--calibrate")[1]
    code, _, err = cli("run", suite, "--calibrate")
    assert code == 2
    assert "--dry-run" in err
