"""An agent whose every answer depends on all it has lived through: a wrong resumption shows."""

from __future__ import annotations

import hashlib
import json
from typing import ClassVar

import numpy as np

from l2bench.agent import Agent
from l2bench.batches import DemonstrationLesson, SampleLesson
from l2bench.interaction import InteractionLesson
from l2bench.seeding import generator, pack, unpack


class Wanderer(Agent):
    """Mixes what it is handed, and its generator, into one number that decides its answers."""

    sources: ClassVar = frozenset({"interaction", "demonstrations", "samples"})

    def __init__(self, settings, life):
        super().__init__(settings, life)
        self._rng = generator(life.seed)
        self._walk = 0.0

    def learn(self, lesson, task):
        if isinstance(lesson, InteractionLesson):
            while lesson.remaining:
                observation = lesson.reset()
                over = False
                while not over and lesson.remaining:
                    shown, reward, ended, cut, _ = lesson.step(int(self._rng.integers(4)))
                    over = ended or cut
                    self._mix(observation, reward)
                    observation = shown
        elif isinstance(lesson, DemonstrationLesson):
            for batch in lesson.batches(5, self._rng):
                self._mix(batch.actions, len(batch.actions))
        elif isinstance(lesson, SampleLesson):
            for batch in lesson.batches(5, self._rng):
                self._mix(batch.labels, len(batch.labels))
        lesson.record(walk=self._walk)

    def _mix(self, values, more):
        weights = np.arange(1, np.size(values) + 1)
        self._walk = float(np.sin(self._walk + np.ravel(values) @ weights + more))

    def act(self, observations, acting):
        shown = np.argmax(np.asarray(observations), axis=1)
        luck = np.array([rng.random() for rng in acting.generators])
        return np.where(luck < 0.5 + self._walk / 2, shown, (shown + 1) % 4)

    def save(self, folder):
        state = {"walk": self._walk, "rng": pack(self._rng)}
        (folder / "state.json").write_text(json.dumps(state))

    def load(self, folder):
        state = json.loads((folder / "state.json").read_text())
        self._walk = state["walk"]
        unpack(self._rng, state["rng"])

    def fingerprint(self):
        return hashlib.sha256(repr(self._walk).encode()).hexdigest()
