"""A stranger's agent, registries that hold it, and how its failures are read."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from support import probe_suite, run_suite

from l2bench.agent import Agent
from l2bench.errors import RunFailed
from l2bench.plugins import Registry


def catch_suite(amount: int, horizon: int):
    from l2bench.suite import Suite, judge

    learning = {"source": "interaction", "unit": "steps", "amount": amount}
    task = {"id": "catch", "environment": "l2bench/catch", "task": "catch", "horizon": horizon,
            "measure": "catch_rate", "learning": learning}  # fmt: skip
    data = {"id": "c", "version": "1", "title": "c", "tasks": [task], "seeds": [0],
            "scenario": {"kind": "sequential", "episodes": 2}}  # fmt: skip
    return judge(Suite, data, "c")


class Stub(Agent):
    """A stranger's agent, to be given faults."""

    sources: ClassVar = frozenset({"interaction"})
    state = 0

    def learn(self, lesson, task):
        while lesson.remaining:
            lesson.reset()
            lesson.step(0)

    def act(self, observations, acting):
        return np.zeros(len(observations), dtype=int)

    def save(self, folder):
        (folder / "state").write_text("0")

    def load(self, folder):
        pass


def stubbed(agent: type[Agent], **environments) -> Registry:
    registry = Registry()
    plugin = registry.plugins[[p.name for p in registry.plugins].index("l2bench")]
    plugin.names["agents"]["stub"] = agent
    plugin.names["environments"].update(environments)
    return registry


def failure(registry, folder, suite=None) -> str:
    with pytest.raises(RunFailed) as caught:
        run_suite(registry, suite or probe_suite(2), "stub", folder)
    return str(caught.value)
