"""Replay memory: pairs of finished tasks, kept in main memory."""

from __future__ import annotations

import numpy as np
import torch

from l2bench_agents import rows
from l2bench_agents.rows import Rows


class Memory:
    """The pairs of every task kept so far, one after the other; the tasks have keys."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.pairs: Rows | None = None

    def __len__(self) -> int:
        return rows.count(self.pairs) if self.pairs is not None else 0

    @property
    def bytes(self) -> int:
        """The number of bytes the pairs take."""
        return rows.size(self.pairs) if self.pairs is not None else 0

    def keep(self, key: str, pairs: Rows) -> None:
        """Add a task's pairs, unless there are pairs of this key already."""
        if key not in self.keys:
            self.keys.append(key)
            self.pairs = pairs if self.pairs is None else rows.join([self.pairs, pairs])

    def draw(self, number: int, rng: np.random.Generator) -> Rows:
        """Return pairs drawn uniformly, with replacement, over all tasks together."""
        assert self.pairs is not None
        return rows.take(self.pairs, torch.from_numpy(rng.integers(len(self), size=number)))
