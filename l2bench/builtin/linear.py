"""Softmax regression by stochastic gradient descent: the smallest honest learner on samples."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete
from pydantic import Field

from l2bench.agent import Acting, Agent, AgentSettings, Life, TaskContext
from l2bench.batches import SampleLesson
from l2bench.environment import Observation
from l2bench.errors import UsageError
from l2bench.lesson import Lesson
from l2bench.seeding import generator, pack, unpack
from l2bench.suite import Source


class LinearSettings(AgentSettings):
    """Settings of plain stochastic gradient descent."""

    learning_rate: float = Field(0.5, gt=0)
    batch: int = Field(16, ge=1)


class Linear(Agent):
    """One weight matrix for the whole lifetime; it forgets because nothing tells it not to."""

    sources: ClassVar[frozenset[Source]] = frozenset({"samples"})
    Settings: ClassVar[type[AgentSettings]] = LinearSettings

    def __init__(self, settings: AgentSettings, life: Life) -> None:
        super().__init__(settings, life)
        spaces = life.tasks[0].spaces
        for task in life.tasks:
            if task.spaces != spaces or not (
                isinstance(task.spaces.observation, Box)
                and isinstance(task.spaces.action, Discrete)
            ):
                raise UsageError(
                    "agent 'linear' needs tasks that share one space of numbers and one set of "
                    f"labels; task '{task.id}' has {task.spaces}"
                )
        assert isinstance(spaces.action, Discrete)
        features = int(np.prod(spaces.observation.shape or ()))
        self._weights = np.zeros((features + 1, int(spaces.action.n)), dtype=np.float64)
        self._rng = generator(life.seed)

    def learn(self, lesson: Lesson, task: TaskContext) -> None:
        """Follow the gradient of the cross-entropy, batch by batch."""
        assert isinstance(lesson, SampleLesson)
        for batch in lesson.batches(self.settings.batch, self._rng):
            inputs = _with_bias(batch.inputs)
            error = _softmax(inputs @ self._weights)
            error[np.arange(len(batch.labels)), batch.labels] -= 1.0
            self._weights -= self.settings.learning_rate / len(inputs) * (inputs.T @ error)

    def act(self, observations: Observation, acting: Acting) -> Any:
        """Return the most likely label of each row."""
        return np.argmax(_with_bias(observations) @ self._weights, axis=1)

    def save(self, folder: Path) -> None:
        """Write the weights and the generator's state."""
        np.save(folder / "weights.npy", self._weights, allow_pickle=False)
        (folder / "generator.json").write_text(json.dumps(pack(self._rng)))

    def load(self, folder: Path) -> None:
        """Read them back."""
        self._weights = np.load(folder / "weights.npy", allow_pickle=False)
        unpack(self._rng, json.loads((folder / "generator.json").read_text()))

    def fingerprint(self) -> str:
        """Return a digest of the weights."""
        return hashlib.sha256(self._weights.tobytes()).hexdigest()


def _with_bias(inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    flat = inputs.reshape(len(inputs), -1)
    return np.concatenate([flat, np.ones((len(flat), 1))], axis=1)


def _softmax(scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: np.ndarray[Any, Any] = powers / powers.sum(axis=1, keepdims=True)
    return result
