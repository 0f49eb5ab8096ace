"""Toy demonstrations, and agents and lessons made in one line."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from l2bench.agent import Acting, Life, TaskContext
from l2bench.batches import DemonstrationLesson
from l2bench.environment import Demonstrations, Spaces
from l2bench.suite import Learning, judge
from l2bench_agents.bc import BehaviourCloning

VECTOR = Box(-np.inf, np.inf, (5,), np.float32)
ARM = Box(-1.0, 1.0, (4,), np.float32)


@pytest.fixture(autouse=True)
def one_thread():
    """Give the number of threads back that an agent sets for the process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def demonstrations(observations: dict[str, Any], actions: Any) -> Demonstrations:
    return Demonstrations(observations, actions, np.array([0, len(actions)]), {})


def reach(task: int, pairs: int = 256, key: str = "observation") -> Demonstrations:
    """Return demonstrations that move towards a point, or away from it in odd tasks."""
    rng = np.random.default_rng([task, 7])
    seen = rng.normal(0.3, [1, 1, 1, 0.2, 3], (pairs, 5)).astype(np.float32)
    towards = np.tanh(seen[:, :3]) * (-1 if task % 2 else 1)
    grip = np.where(seen[:, 3] * (-1 if task % 2 else 1) > 0, 1.0, -1.0)
    return demonstrations({key: seen}, np.column_stack([towards, grip]).astype(np.float32))


@dataclass
class School:
    """Makes agents, and teaches them toy tasks of one pair of spaces."""

    spaces: Spaces = field(default_factory=lambda: Spaces(VECTOR, ARM))
    tasks: int = 2
    revealed: bool = True

    @staticmethod
    def data(task: int, **changes: Any) -> Demonstrations:
        return reach(task, **changes)

    def context(self, task: int) -> TaskContext:
        if not self.revealed:
            return TaskContext(self.spaces)
        return TaskContext(self.spaces, task, f"task_{task}")

    def agent(self, seed: int = 0, device: str = "cpu", threads: int | None = None, **settings):
        known = [self.context(task) for task in range(self.tasks)][: None if self.revealed else 1]
        chosen = judge(BehaviourCloning.Settings, settings, "settings of agent 'agents/bc'")
        return BehaviourCloning(chosen, Life(tuple(known), seed, device, threads))

    def teach(
        self, agent, task, data=None, *, epochs=30, start=0, stop=None, close=True, told=None
    ):
        """Teach one lesson of a task of so many epochs and return it; ``told`` is its context."""
        told = told or self.context(task)
        learning = Learning(source="demonstrations", unit="epochs", amount=epochs)
        stop = epochs if stop is None else stop
        lesson = DemonstrationLesson(data or reach(task), learning, start, stop)
        if start == 0 and self.revealed:
            agent.start_task(told)
        agent.learn(lesson, told)
        lesson.close()
        if close and stop == epochs and self.revealed:
            agent.end_task(told)
        return lesson

    def acting(self, task: int, rows: int) -> Acting:
        generators = [np.random.default_rng(row) for row in range(rows)]
        return Acting(self.context(task), np.arange(rows), np.ones(rows, bool), generators)

    def act(self, agent, task, observations, rows=None):
        rows = len(observations) if rows is None else rows
        return agent.act(observations, self.acting(task, rows))

    def error(self, agent, task: int) -> float:
        """Return the mean absolute error of the actions in a task's demonstrations."""
        data = reach(task)
        actions = self.act(agent, task, data.observations["observation"])
        return float(np.abs(actions - data.actions).mean())


@pytest.fixture
def school():
    return School
