"""Tabular Q-learning over whatever observations occur, one table for the whole lifetime."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete
from pydantic import Field

from l2bench.agent import Acting, Agent, AgentSettings, Life, TaskContext
from l2bench.environment import Observation
from l2bench.errors import UsageError
from l2bench.interaction import InteractionLesson
from l2bench.lesson import Lesson
from l2bench.seeding import generator, pack, unpack
from l2bench.suite import Source


class TabularSettings(AgentSettings):
    """Settings of Q(lambda) with epsilon-greedy exploration.

    ``trace`` is lambda: how far a reward reaches back over the steps before it.
    """

    learning_rate: float = Field(0.3, gt=0, le=1)
    discount: float = Field(0.9, ge=0, le=1)
    epsilon: float = Field(0.1, ge=0, le=1)
    trace: float = Field(0.9, ge=0, le=1)


class Tabular(Agent):
    """Watkins' Q(lambda) for discrete actions (Sutton and Barto, section 12.10).

    Knowing nothing of tasks, it overwrites what it knew wherever two tasks look alike.
    """

    sources: ClassVar[frozenset[Source]] = frozenset({"interaction"})
    Settings: ClassVar[type[AgentSettings]] = TabularSettings

    def __init__(self, settings: AgentSettings, life: Life) -> None:
        super().__init__(settings, life)
        for task in life.tasks:
            if not isinstance(task.spaces.action, Discrete):
                raise UsageError(
                    f"agent 'tabular' needs discrete actions; "
                    f"task '{task.id}' has {task.spaces.action}"
                )
            seen = task.spaces.observation
            if isinstance(seen, Box) and not seen.is_bounded():
                raise UsageError(
                    f"agent 'tabular' needs observations that recur; those of task '{task.id}' "
                    f"are unbounded numbers ({seen}), of which it would never meet one twice"
                )
        self._rng = generator(life.seed)
        self._table: dict[bytes, list[float]] = {}

    def learn(self, lesson: Lesson, task: TaskContext) -> None:
        """Play episodes until the budget is used up."""
        assert isinstance(lesson, InteractionLesson)
        assert isinstance(task.spaces.action, Discrete)
        while lesson.remaining:
            self._episode(lesson, int(task.spaces.action.n))

    def _episode(self, lesson: InteractionLesson, actions: int) -> None:
        settings = self.settings
        decay = settings.discount * settings.trace
        values = self._values(lesson.reset(), actions)
        eligible: list[tuple[list[float], int]] = []
        while lesson.remaining:
            best = max(values)
            action = self._choose(values, best, actions)
            if values[action] < best:
                eligible.clear()  # a reward after exploring says nothing of the greedy path
            eligible.append((values, action))
            observation, reward, terminated, truncated, _ = lesson.step(action)
            following = self._values(observation, actions)
            bootstrap = 0.0 if terminated else settings.discount * max(following)
            step = settings.learning_rate * (reward + bootstrap - values[action])
            for row, chosen in reversed(eligible):
                if abs(step) < 1e-6:
                    break
                row[chosen] += step
                step *= decay
            if len(eligible) > 50:
                del eligible[:25]
            if terminated or truncated:
                return
            values = following

    def _choose(self, values: list[float], best: float, actions: int) -> int:
        if self._rng.random() < self.settings.epsilon:
            return int(self._rng.integers(actions))
        equal = [action for action, value in enumerate(values) if value == best]
        return equal[0] if len(equal) == 1 else equal[int(self._rng.integers(len(equal)))]

    def _values(self, observation: Observation, actions: int) -> list[float]:
        key = _key(observation)
        values = self._table.get(key)
        if values is None:
            values = self._table[key] = [0.0] * actions
        return values

    def act(self, observations: Observation, acting: Acting) -> Any:
        """Return the greedy actions; among equals one is drawn from the row's generator."""
        assert isinstance(acting.task.spaces.action, Discrete)
        unknown = [0.0] * int(acting.task.spaces.action.n)
        actions = []
        for observation, rng in zip(observations, acting.generators, strict=True):
            values = self._table.get(_key(observation), unknown)
            best = max(values)
            equal = [action for action, value in enumerate(values) if value == best]
            actions.append(equal[0] if len(equal) == 1 else equal[int(rng.integers(len(equal)))])
        return np.array(actions)

    def save(self, folder: Path) -> None:
        """Write the table and the generator's state."""
        keys = np.frombuffer(b"".join(self._table), dtype=np.uint8).reshape(-1, 16)
        lengths = np.array([len(row) for row in self._table.values()], dtype=np.int32)
        flat = np.array([value for row in self._table.values() for value in row])
        np.savez(folder / "table.npz", keys=keys, lengths=lengths, flat=flat)
        (folder / "generator.json").write_text(json.dumps(pack(self._rng)))

    def load(self, folder: Path) -> None:
        """Read them back."""
        with np.load(folder / "table.npz", allow_pickle=False) as data:
            ends = np.cumsum(data["lengths"]).tolist()
            flat = data["flat"].tolist()
            keys = [key.tobytes() for key in data["keys"]]
        starts = [0, *ends[:-1]]
        self._table = {k: flat[a:b] for k, a, b in zip(keys, starts, ends, strict=False)}
        unpack(self._rng, json.loads((folder / "generator.json").read_text()))

    def fingerprint(self) -> str:
        """Return a digest of the table."""
        digest = hashlib.sha256()
        for key, values in self._table.items():
            digest.update(key + np.array(values).tobytes())
        return digest.hexdigest()

    def details(self) -> dict[str, Any]:
        """Return the number of observations in the table."""
        return {"device": "cpu", "states": len(self._table)}


def _key(observation: Observation) -> bytes:
    return hashlib.blake2b(observation.tobytes(), digest_size=16).digest()
