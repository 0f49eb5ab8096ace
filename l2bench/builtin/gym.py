"""Any environment registered with Gymnasium, as a task of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium

from l2bench.environment import Environment, TaskInfo
from l2bench.errors import Unsupported
from l2bench.suite import Task


class _Registered(Mapping[str, TaskInfo]):
    """Gymnasium's own registry, read as task infos."""

    def __getitem__(self, name: str) -> TaskInfo:
        spec = gymnasium.registry[name]
        horizon = spec.max_episode_steps
        return TaskInfo(frozenset({"interaction"}), horizon=horizon, measure="return")

    def __iter__(self) -> Iterator[str]:
        return iter(gymnasium.registry)

    def __len__(self) -> int:
        return len(gymnasium.registry)


class GymnasiumEnvironment(Environment):
    """Tasks named by Gymnasium id; a task's settings are the keyword arguments of ``make``."""

    def tasks(self) -> Mapping[str, TaskInfo]:
        """Return every registered id."""
        return _Registered()

    def make(self, task: Task) -> gymnasium.Env[Any, Any]:
        """Return the environment.

        Raises:
            Unsupported: if Gymnasium cannot make it, with its own words.
        """
        try:
            return gymnasium.make(task.task, **task.settings)
        except Exception as error:  # Gymnasium's environments raise what their makers chose
            raise Unsupported(f"Gymnasium cannot make '{task.task}': {error}") from error
