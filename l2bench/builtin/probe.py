"""Probe tasks: the observation shows the right answer, so that an agent's metrics are known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from l2bench.environment import (
    Demonstrations,
    Environment,
    Progress,
    Samples,
    Spaces,
    TaskInfo,
    silent,
)
from l2bench.suite import Source, Task

ANSWERS = 4


def _spaces() -> Spaces:
    return Spaces(Box(0.0, 1.0, (ANSWERS,), np.float32), Discrete(ANSWERS))


class Probe(gymnasium.Env[np.ndarray[Any, Any], int]):
    """One question, one step: success if the action is the one shown."""

    def __init__(self) -> None:
        spaces = _spaces()
        self.observation_space = spaces.observation
        self.action_space = spaces.action
        self._answer = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        """Ask the next question."""
        self._answer = int(np.random.default_rng(seed).integers(ANSWERS))
        return np.eye(ANSWERS, dtype=np.float32)[self._answer], {"success": False}

    def step(self, action: int) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        """Judge the answer; the episode is over."""
        right = int(action) == self._answer
        observation = np.zeros(ANSWERS, np.float32)
        return observation, float(right), True, False, {"success": right}


class ProbeEnvironment(Environment):
    """Nine equal tasks, ``probe_1`` to ``probe_9``, which can be learned from every source."""

    def tasks(self) -> Mapping[str, TaskInfo]:
        """Return the nine tasks."""
        sources: frozenset[Source] = frozenset({"interaction", "demonstrations", "samples"})
        info = TaskInfo(sources, horizon=1, step_seconds=2e-5)
        return {f"probe_{number}": info for number in range(1, 10)}

    def spaces(self, task: Task) -> Spaces:
        """Return four inputs, one of which is 1, and four answers."""
        return _spaces()

    def make(self, task: Task) -> Probe:
        """Return a live probe."""
        return Probe()

    def forks(self, task: Task) -> bool:
        """Return yes: nothing but numbers is held."""
        return True

    def demonstrations(self, task: Task, data: Path, progress: Progress = silent) -> Demonstrations:
        """Return 32 right answers, one a trajectory."""
        answers = np.arange(32) % ANSWERS
        shown = np.eye(ANSWERS, dtype=np.float32)[answers]
        return Demonstrations({"observation": shown}, answers[:, None], np.arange(33), {})

    def samples(self, task: Task, data: Path) -> Samples:
        """Return 32 questions to learn from and 20 to be tested on."""
        labels = np.arange(52) % ANSWERS
        inputs = np.eye(ANSWERS, dtype=np.float32)[labels]
        return Samples(inputs[:32], labels[:32], inputs[32:], labels[32:], {})
