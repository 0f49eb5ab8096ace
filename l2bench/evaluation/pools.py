"""Live environments, and the pool that plays episodes in this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from l2bench.actions import allowed, checker
from l2bench.agent import Acting, TaskContext
from l2bench.cast import Execution
from l2bench.environment import Environment, close_quietly
from l2bench.errors import RunFailed
from l2bench.evaluation.episodes import (
    Act,
    Episode,
    Outcome,
    Rollout,
    asked,
    batch,
    chunk_of,
    plain,
    rows,
)
from l2bench.limits import TimeUp, available_memory, time_limit
from l2bench.seeding import Generators, isolated, reseed
from l2bench.suite import Task

if TYPE_CHECKING:
    import gymnasium

#: Building a simulator may take so long (s), or an episode's time if that is longer.
BUILD_SECONDS = 600.0
#: Simulators are closed, the oldest first, while less memory than this is left to each process.
SPARE = 1 << 30


class LiveEnvironments:
    """Environments kept alive between episodes, the oldest closed where there are too many.

    ``limit`` is how many at most; None keeps them all while memory is left, ``processes`` being
    how many processes build such.
    """

    def __init__(self, limit: int | None, processes: int = 1) -> None:
        self._limit = limit
        self._spare = SPARE * processes
        self._live: OrderedDict[str, gymnasium.Env[Any, Any]] = OrderedDict()

    def __contains__(self, task: Task) -> bool:
        return task.id in self._live

    def get(self, environment: Environment, task: Task) -> gymnasium.Env[Any, Any]:
        """Return the live environment of a task, made and built if need be."""
        if task.id in self._live:
            self._live.move_to_end(task.id)
            return self._live[task.id]
        while self._live and self._full():
            close_quietly(self._live.popitem(last=False)[1])
        env = environment.make(task)
        self._live[task.id] = env
        build = getattr(env, "build", None)
        if build is not None:
            build()
        return env

    def _full(self) -> bool:
        if self._limit is not None:
            return len(self._live) >= self._limit
        left = available_memory()
        return left is not None and left < self._spare

    def close(self) -> None:
        """Close them all."""
        while self._live:
            close_quietly(self._live.popitem()[1])


class LocalPool:
    """Plays the episodes one after the other in this process."""

    def __init__(self, environments: Mapping[str, Environment], execution: Execution) -> None:
        self._environments = environments
        self._seconds = execution.episode_seconds
        self._live = LiveEnvironments(execution.keep_environments)

    def run(
        self,
        task: Task,
        context: TaskContext,
        episodes: Sequence[Episode],
        act: Act,
        chunk: int = 1,
    ) -> Iterator[tuple[Episode, Outcome]]:
        """Yield each episode's outcome, in order.

        Raises:
            RunFailed: if building or an episode takes longer than it may.
        """
        try:
            with time_limit(build_limit(self._seconds)):
                env = self._live.get(self._environments[task.environment], task)
        except TimeUp:
            raise too_slow(task, None, build_limit(self._seconds)) from None
        with isolated(0):
            for episode in episodes:
                reseed(episode.env_seed)
                try:
                    with time_limit(self._seconds):
                        outcome = _play(env, task, context, episode, act, chunk)
                except TimeUp:
                    raise too_slow(task, episode, self._seconds) from None
                yield episode, outcome

    def facts(self) -> dict[str, str]:
        """Return how workers were started, for the record: there are none."""
        return {}

    def peak_memory(self) -> int:
        """Return the most memory of workers in bytes: there are none."""
        return 0

    def close(self) -> None:
        """Close the environments."""
        self._live.close()


def _play(
    env: gymnasium.Env[Any, Any],
    task: Task,
    context: TaskContext,
    episode: Episode,
    act: Act,
    chunk: int,
) -> Outcome:
    rollout = Rollout(env, task, episode)
    observation = rollout.start()
    slots = np.zeros(1, dtype=np.int64)
    generators = Generators([episode.agent_seed])
    acting = Acting(context, slots, np.ones(1, dtype=bool), generators)
    later = Acting(context, slots, np.zeros(1, dtype=bool), generators)
    space = context.spaces.action
    known, check = allowed(space), checker(space, asked(task))
    while rollout.outcome is None:
        (row,) = rows(act(batch([observation]), acting), 1)
        if chunk == 1:
            action = plain(row)
            if action.__class__ is not int or action not in known:
                check(action)
            observation = rollout.step(action)
        else:
            observation = rollout.play(chunk_of(row, chunk, check))
        acting = later
    return rollout.outcome


def build_limit(seconds: float | None) -> float | None:
    """Return how long building may take where an episode may take so long."""
    return None if seconds is None else max(seconds, BUILD_SECONDS)


def too_slow(task: Task, episode: Episode | None, seconds: float | None) -> RunFailed:
    """Return the error of an episode, or of a simulator's building, that did not end in time."""
    what = "the simulator was not built" if episode is None else f"episode {episode.index} hung"
    return RunFailed(
        f"task '{task.id}' ({task.environment}): {what} within {seconds:g} s "
        f"(execution.episode_seconds) and was stopped; if the environment is only slow, raise "
        f"execution.episode_seconds, then continue with --resume"
    )
