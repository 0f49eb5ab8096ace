"""A stranger's agent, registries that hold it, and how its failures are read."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from support import probe_suite, run_suite

from l2bench.agent import Agent, AgentSettings
from l2bench.builtin.known import Forgetter
from l2bench.errors import RunFailed
from l2bench.plugins import Registry
from l2bench.suite import Suite


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


class JointSettings(AgentSettings):
    joint: bool = False
    needs: int = 4


class Joint(Forgetter):
    """Knows the latest task; as a joint learner all tasks so far, if the last was learned long."""

    Settings: ClassVar = JointSettings
    multitask: ClassVar = {"joint": True}

    def learn(self, lesson, task):
        super().learn(lesson, task)
        self._progress["last"] = lesson.stop

    def knows(self, task):
        if not self.settings.joint:
            return super().knows(task)
        return task.id in self._progress and self._progress["last"] >= self.settings.needs


def asking(tasks: int = 3, **more) -> Suite:
    """A suite that asks for the bound and is scored by nothing else."""
    return probe_suite(tasks, bound=True, metrics=[], **more)
