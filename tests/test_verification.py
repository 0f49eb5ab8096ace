"""What a bundle says was done is done again: from traces, with kept agents, as a whole."""

from __future__ import annotations

import json
import shutil
from typing import ClassVar

import numpy as np
import pytest
from stubs import stubbed
from support import probe_suite, run_suite
from test_difference import edited, with_value
from wanderer import Wanderer

from l2bench.builtin.probe import Probe, ProbeEnvironment
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.cast import Execution
from l2bench.cli.main import invoke
from l2bench.environment import TaskInfo
from l2bench.plugins import Registry
from l2bench.suite import Suite, judge
from l2bench.verification import again, cast_of, draw, replay, traced


def lived(folder, registry=None, suite=None, agent="late_bloomer", **execution):
    execution = {"traces": 1.0, **execution}
    run_suite(registry or Registry(), suite or probe_suite(2), agent, folder / "run", **execution)
    return find_bundles(folder / "run")[0]


def replayed(registry, bundle, episodes=None):
    cast = cast_of(registry, bundle, Execution())
    return list(replay(cast, bundle, episodes or traced(bundle)))


PENDULUM = {
    "id": "pendulum",
    "version": "1.0",
    "title": "Pendulum",
    "tasks": [
        {
            "id": "pendulum",
            "environment": "gymnasium",
            "task": "Pendulum-v1",
            "measure": "return",
            "score_range": [-2000, 0],
            "horizon": 25,
            "learning": {"source": "interaction", "unit": "episodes", "amount": 1},
        }
    ],
    "scenario": {"kind": "interleaved", "episodes": 3},
    "seeds": [0],
    "metrics": ["l2m"],
}


def test_every_traced_episode_comes_out_again(tmp_path):
    bundle = read_bundle(lived(tmp_path))
    found = replayed(Registry(), bundle)
    assert len(found) == bundle.lifetime.episodes.num_rows
    assert all(each.equal for each in found)


def test_actions_of_numbers_come_out_again_to_the_bit(tmp_path):
    suite = judge(Suite, PENDULUM, "pendulum")
    bundle = read_bundle(lived(tmp_path, suite=suite, agent="random"))
    assert bundle.traces.num_rows == 6 * 25
    assert all(each.equal for each in replayed(Registry(), bundle))


def test_the_share_of_traced_episodes_cannot_be_chosen_one_by_one(tmp_path):
    few = read_bundle(lived(tmp_path / "a", traces=0.3))
    more = read_bundle(lived(tmp_path / "b", traces=0.6))
    assert set(traced(few)) < set(traced(more))
    assert draw(traced(more), 3, more) == draw(traced(more), 3, more)
    assert len(draw(traced(more), 3, more)) == 3


def test_an_outcome_that_was_edited_is_found(tmp_path):
    bundle = lived(tmp_path)
    good = read_bundle(bundle).lifetime.episodes["success"].to_pylist()
    row = good.index(False)
    forged = edited(
        bundle, tmp_path / "1", "episodes", lambda t: with_value(t, "success", row, True)
    )
    forged = edited(forged, tmp_path / "2", "episodes", lambda t: with_value(t, "score", row, 1.0))
    wrong = [each for each in replayed(Registry(), read_bundle(forged)) if not each.equal]
    assert len(wrong) == 1
    assert wrong[0].differs == {"success": (True, False), "score": (1.0, 0.0)}


class Drifting(Probe):
    """Shows another observation after the step than it did."""

    shift: ClassVar[float] = 0.0

    def step(self, action):
        observation, *rest = super().step(action)
        return observation + np.float32(self.shift), *rest


class DriftingEnvironment(ProbeEnvironment):
    def make(self, task):
        return Drifting()


def drifting_suite():
    suite = probe_suite(1)
    task = suite.tasks[0].model_copy(update={"environment": "l2bench/drifting"})
    return suite.model_copy(update={"tasks": (task,)})


def test_a_simulator_that_shows_something_else_is_found(tmp_path, monkeypatch):
    """Same outcomes, other observations: the first step that differs is named."""
    registry = stubbed(Wanderer, drifting=DriftingEnvironment)
    bundle = read_bundle(lived(tmp_path, registry, drifting_suite(), "stub"))
    assert all(each.equal for each in replayed(registry, bundle))
    monkeypatch.setattr(Drifting, "shift", 0.25)
    found = replayed(registry, bundle)
    assert [each.step for each in found] == [0] * len(found)
    assert not any(each.differs for each in found)


class Planner(Wanderer):
    chunk = 3

    def act(self, observations, acting):
        return np.zeros((len(observations), 3), dtype=int)


class Counting(Probe):
    """Five steps; the quiet ones are told apart in what is seen after them."""

    def reset(self, *, seed=None, options=None):
        self._quiet = self._steps = 0
        return super().reset(seed=seed)

    def step(self, action):
        reward, over, cut, info = self.step_quiet(action)
        self._quiet -= 1
        return np.array([self._quiet, self._steps, 0, 0], np.float32), reward, over, cut, info

    def step_quiet(self, action):
        self._quiet += 1
        self._steps += 1
        return 0.0, self._steps == 5, False, {"success": False}


class CountingEnvironment(ProbeEnvironment):
    def tasks(self):
        return {"probe_1": TaskInfo(frozenset({"interaction"}), horizon=9)}

    def make(self, task):
        return Counting()


def test_chunks_are_carried_out_as_they_were(tmp_path):
    registry = stubbed(Planner, drifting=CountingEnvironment)
    suite = drifting_suite()
    task = suite.tasks[0].model_copy(update={"horizon": 9})
    suite = suite.model_copy(update={"tasks": (task,)})
    bundle = read_bundle(lived(tmp_path, registry, suite, "stub"))
    digests = bundle.traces["state_digest"].to_pylist()[:5]
    assert [digest is None for digest in digests] == [True, True, False, True, True]
    assert all(each.equal for each in replayed(registry, bundle))


@pytest.mark.parametrize("source", ["interaction", "demonstrations", "samples"])
def test_a_kept_agent_plays_again_what_it_played(tmp_path, source):
    registry = stubbed(Wanderer)
    unit = "episodes" if source == "interaction" else "epochs"
    suite = probe_suite(2, source=source, unit=unit)
    bundle = read_bundle(lived(tmp_path, registry, suite, "stub", keep_agents=True))
    agents = bundle.folder.parent / "agents" / bundle.folder.name
    rows = bundle.lifetime.episodes.to_pylist()
    every = [(row["block_index"], row["task_index"], row["episode_index"]) for row in rows]
    cast = cast_of(registry, bundle, Execution())
    assert all(each.equal for each in again(cast, bundle, agents, every))

    for path in agents.glob("*/state.json"):  # another agent
        path.write_text(json.dumps({**json.loads(path.read_text()), "walk": -1.0}))
    assert not all(each.equal for each in again(cast, bundle, agents, every))


def test_the_command(tmp_path, cli):
    bundle = lived(tmp_path, keep_agents=True)
    code, out, _ = cli("verify", bundle, "--json", "--episodes", "4")
    assert code == 0
    assert len(json.loads(out)["bundles"][0]["episodes"]) == 4
    assert cli("verify", bundle.parent, "--kept-agents", bundle.parent / "agents")[0] == 0
    code, out, _ = cli("verify", bundle, "--episodes", "4")
    assert out.splitlines()[-1] == "verified 4 of 4 episodes of 1 bundle"
    code, out, _ = cli("verify", bundle, "--rerun")
    assert (code, out.splitlines()[-1]) == (0, "verified 1 of 1 bundle in a second run")
    shorter = edited(bundle, tmp_path / "1", "episodes", lambda t: with_value(t, "length", 0, 7))
    code, out, _ = cli("verify", shorter)
    assert code == 1
    assert "length was 7, now 1" in out
    played = read_bundle(bundle).lifetime.episodes.num_rows
    assert out.splitlines()[-1] == f"verified {played - 1} of {played} episodes of 1 bundle"
    code, out, _ = cli("verify", shorter, "--rerun")
    assert code == 1
    assert "parts at episodes" in out


def test_bundles_without_traces_are_named_and_the_others_verified(tmp_path, cli):
    suite = probe_suite(1, seeds=[0, 1, 2], scenario={"episodes": 1})
    lived(tmp_path, suite=suite, traces=0.25)
    folder = tmp_path / "run"
    counts = [len(traced(read_bundle(path))) for path in find_bundles(folder)]
    assert counts == [0, 2, 0]  # so the first is one without
    episodes = read_bundle(find_bundles(folder)[0]).lifetime.episodes.num_rows
    why = f"chance drew none of its evaluation episodes ({episodes}) at execution.traces=0.25"
    code, out, _ = cli("verify", folder, "--episodes", "1")
    lines = out.splitlines()
    assert code == 0
    assert lines[1] == f"  not verified: keeps no traces: {why}"
    assert lines[-1] == "verified 1 of 1 episode of 1 bundle; 2 bundles without traces"
    code, out, _ = cli("verify", folder, "--json")
    data = json.loads(out)
    assert (code, data["equal"]) == (0, True)
    assert [each["equal"] for each in data["bundles"]] == [None, True, None]
    assert why in data["bundles"][0]["reason"]

    last = find_bundles(folder)[1]
    forged = tmp_path / "forged"
    row = traced(read_bundle(last))[0]
    rows = list(read_bundle(last).lifetime.episodes.to_pylist())
    at = [(r["block_index"], r["task_index"], r["episode_index"]) for r in rows].index(row)
    edited(last, forged, "episodes", lambda t: with_value(t, "length", at, 7))
    shutil.copytree(find_bundles(folder)[0], forged / find_bundles(folder)[0].name)
    code, out, _ = cli("verify", forged)
    assert code == 1
    assert "not verified" in out
    assert "length was 7" in out


def test_where_no_bundle_keeps_traces_the_error_says_what_to_try(tmp_path, cli):
    suite = probe_suite(1, seeds=[0, 1], scenario={"episodes": 1})
    lived(tmp_path, suite=suite, traces=1e-9)
    code, out, err = cli("verify", tmp_path / "run")
    assert (code, out) == (1, "")
    assert "none of 2 bundles keeps traces; the first keeps no traces: chance drew none" in err
    assert "at execution.traces=1e-09; run with execution.traces=1, or verify with" in err


def test_what_cannot_be_verified_is_told_apart(tmp_path, cli):
    bundle = lived(tmp_path, traces=0.0)
    code, _, err = cli("verify", bundle)
    assert code == 1
    assert f"{bundle}: ran with execution.traces=0; run with execution.traces=1, or" in err
    code, _, err = cli("verify", bundle, "--kept-agents", tmp_path)
    assert code == 2
    assert "keep_agents" in err
    assert cli("verify", bundle, "--rerun", "--episodes", "3")[0] == 2
    matrix = tmp_path / "accuracy.csv"
    matrix.write_text("0.9,0.1\n0.8,0.9\n")
    assert invoke(["import", "matrix", str(matrix), "-o", str(tmp_path / "imported")]) == 0
    code, _, err = cli("verify", find_bundles(tmp_path / "imported")[0])
    assert code == 2
    assert "was imported" in err
