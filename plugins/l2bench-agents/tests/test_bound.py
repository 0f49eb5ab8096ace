"""The multitask bound of behaviour cloning: what one after the other forgets, together is known."""

import numpy as np
import pytest

from l2bench.builtin.probe import ANSWERS, Probe, ProbeEnvironment
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.cast import AgentSpec, Cast, Execution
from l2bench.environment import Demonstrations
from l2bench.lifetimes import Run
from l2bench.plugins import Registry
from l2bench.suite import Suite


class Shifted(Probe):
    """The right answer is so many places after the one shown."""

    def __init__(self, shift):
        super().__init__()
        self.shift = shift

    def step(self, action):
        return super().step((int(action) - self.shift) % ANSWERS)


class Contradictions(ProbeEnvironment):
    """Probe tasks that contradict each other: only who knows the task knows the answer."""

    def make(self, task):
        return Shifted(int(task.task[-1]))

    def demonstrations(self, task, data, progress=lambda *_: None):
        made = super().demonstrations(task, data)
        actions = (made.actions + int(task.task[-1])) % ANSWERS
        return Demonstrations(made.observations, actions, made.starts, {})


def suite() -> Suite:
    learning = {"source": "demonstrations", "unit": "epochs", "amount": 30, "every": 30}
    tasks = [
        {"id": f"t{n}", "environment": "l2bench/contradictions", "task": f"probe_{n}",
         "learning": learning}
        for n in (1, 2, 3)
    ]  # fmt: skip
    scenario = {"kind": "sequential", "episodes": 20, "keep": "best"}
    return Suite.model_validate(
        {"id": "contradictions", "version": "1", "title": "Contradictions", "tasks": tasks,
         "scenario": scenario, "seeds": [0], "metrics": [], "bound": True}
    )  # fmt: skip


def live(folder, algorithm):
    """Run the suite with an algorithm and return its one bundle and scores by id."""
    registry = Registry()
    (plugin,) = (plugin for plugin in registry.plugins if plugin.name == "l2bench")
    plugin.names["environments"]["contradictions"] = Contradictions
    settings = {
        "algorithm": algorithm, "hidden": [32], "learning_rate": 0.01, "batch_size": 8,
    }  # fmt: skip
    execution = Execution(device="cpu", data=folder / "data", traces=0)
    cast = Cast.gather(registry, suite(), AgentSpec(name="agents/bc", settings=settings), execution)
    Run(registry, cast).execute(folder / algorithm, resume=False, progress=lambda *_: None)
    (path,) = find_bundles(folder / algorithm)
    bundle = read_bundle(path)
    scores = {m["id"]: m["value"] for m in bundle.scores["metrics"] if m["task"] is None}
    return bundle, scores


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bound")
    return {name: live(folder, name) for name in ("sequential", "multitask", "ewc")}


def test_together_everything_is_learned_and_one_after_the_other_it_is_forgotten(lives):
    _, scores = lives["sequential"]
    assert scores["bound.multitask_performance"] >= 0.95
    assert scores["bound.multitask_gap"] <= -0.5
    _, scores = lives["multitask"]
    assert scores["bound.multitask_gap"] == pytest.approx(0.0, abs=0.05)


def test_algorithms_that_differ_in_nothing_else_share_a_bound(lives):
    bounds = [bundle.bound for bundle, _ in lives.values()]
    assert len({bound.manifest.bundle_id for bound in bounds}) == 1
    assert bounds[0].agent.settings["algorithm"] == "multitask"
    shown = np.array(bounds[0].lifetime.blocks["kind"].to_pylist())
    assert shown.tolist() == ["learn", "learn", "learn", "eval"]
    assert len(bounds[0].series.to_pydict()["value"]) == 1 + 1 + 30
