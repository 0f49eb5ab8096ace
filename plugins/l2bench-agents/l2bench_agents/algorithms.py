"""Lifelong algorithms: what is done about earlier tasks while a new one is learned.

An algorithm sees every pair of a task and decides what each update is computed on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from l2bench.seeding import pack, unpack
from l2bench_agents import rows
from l2bench_agents.memory import Memory
from l2bench_agents.rows import Rows
from l2bench_agents.settings import CloningSettings


class Sequential:
    """Learns one task after the other and does nothing about forgetting."""

    def __init__(self, settings: CloningSettings, rng: np.random.Generator) -> None:
        self.settings = settings
        self.rng = rng
        self.memory = Memory()

    def begin_task(self, key: str | None, pairs: int) -> None:
        """Called when a task of so many pairs begins; its key is None where it is hidden."""

    def end_task(self) -> None:
        """Called when a task is over, perhaps more than once."""

    @property
    def new_pairs(self) -> int:
        """How many pairs of the task in progress go into each batch."""
        return self.settings.batch_size

    def batch(self, new: Rows) -> Rows:
        """Return what the next update is computed on, given pairs of the task in progress."""
        return new

    def save(self) -> tuple[dict[str, Any], dict[str, Rows]]:
        """Return all that later behaviour depends on: plain data, and tensors by file name."""
        return {"generator": pack(self.rng)}, {}

    def load(self, plain: dict[str, Any], tensors: Mapping[str, Rows]) -> None:
        """Restore what `save` returned."""
        unpack(self.rng, plain["generator"])


class Replay(Sequential):
    """Experience replay: batches of the same size, part of them drawn from memory.

    Pairs of the task in progress are set aside in its first epoch, whose order is random, and
    enter the memory when the task is over (Chaudhry et al. 2019, "On tiny episodic memories").
    """

    def __init__(self, settings: CloningSettings, rng: np.random.Generator) -> None:
        super().__init__(settings, rng)
        self._key = ""
        self._wanted = 0
        self._aside: list[Rows] = []
        self._set_aside = 0

    def begin_task(self, key: str | None, pairs: int) -> None:
        """Finish what is left of an earlier task and start setting pairs aside."""
        self.end_task()
        self._key = f"hidden {len(self.memory.keys)}" if key is None else key
        self._wanted = math.ceil(self.settings.memory_part * pairs)

    def end_task(self) -> None:
        """Move the pairs set aside into the memory; repeated tasks are kept once."""
        if self._aside:
            self.memory.keep(self._key, rows.join(self._aside))
        self._aside, self._set_aside, self._wanted = [], 0, 0

    @property
    def new_pairs(self) -> int:
        """How many pairs of the task in progress go into each batch."""
        size = self.settings.batch_size
        if not len(self.memory):
            return size
        return min(max(round(size * (1 - self.settings.memory_share)), 1), size - 1)

    def batch(self, new: Rows) -> Rows:
        """Return the new pairs and as many from memory as keep the shares."""
        missing = self._wanted - self._set_aside
        if missing > 0:
            self._aside.append(rows.first(new, missing))
            self._set_aside += rows.count(self._aside[-1])
        if not len(self.memory):
            return new
        whole, given = self.new_pairs, rows.count(new)
        old = round((self.settings.batch_size - whole) * given / whole)
        return rows.join([new, self.memory.draw(max(old, 1), self.rng)])

    def save(self) -> tuple[dict[str, Any], dict[str, Rows]]:
        """Return the generator's state, the memory, and what is set aside for it."""
        plain, tensors = super().save()
        plain |= {"keys": self.memory.keys, "key": self._key, "wanted": self._wanted}
        if self.memory.pairs is not None:
            tensors["memory"] = self.memory.pairs
        if self._aside:
            self._aside = [rows.join(self._aside)]
            tensors["aside"] = self._aside[0]
        return plain, tensors

    def load(self, plain: dict[str, Any], tensors: Mapping[str, Rows]) -> None:
        """Restore them."""
        super().load(plain, tensors)
        self.memory = Memory()
        self.memory.keys, self.memory.pairs = list(plain["keys"]), tensors.get("memory")
        self._key, self._wanted = plain["key"], plain["wanted"]
        self._aside = [tensors["aside"]] if "aside" in tensors else []
        self._set_aside = sum(rows.count(part) for part in self._aside)


ALGORITHMS: Mapping[str, type[Sequential]] = {"sequential": Sequential, "replay": Replay}
