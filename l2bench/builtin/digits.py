"""Split digits: the 1797 handwritten 8 x 8 digits that come with scikit-learn, two a task."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from l2bench.environment import Environment, Samples, Spaces, TaskInfo
from l2bench.errors import Unsupported
from l2bench.suite import Task


class DigitsEnvironment(Environment):
    """Five tasks of two classes each, over one space of ten labels; every fifth image is a test."""

    def tasks(self) -> Mapping[str, TaskInfo]:
        """Return digits_01, digits_23, ..., and digits_all with the ten classes together."""
        info = TaskInfo(frozenset({"samples"}), measure="accuracy", step_seconds=1e-6)
        pairs = [f"digits_{first}{first + 1}" for first in range(0, 10, 2)]
        return dict.fromkeys([*pairs, "digits_all"], info)

    def spaces(self, task: Task) -> Spaces:
        """Return inputs (64,) in [0, 1] and ten labels."""
        return Spaces(Box(0.0, 1.0, (64,), np.float32), Discrete(10))

    def check(self, task: Task) -> None:
        """Refuse early where scikit-learn is not installed."""
        self.diagnose()

    def diagnose(self) -> None:
        """Refuse where scikit-learn is not installed."""
        if importlib.util.find_spec("sklearn") is None:
            raise Unsupported(
                "the digits tasks need scikit-learn, which is not installed; "
                "install it with: pip install 'l2bench[digits]'"
            )

    def samples(self, task: Task, data: Path) -> Samples:
        """Return the images of the task's classes."""
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        inputs = (np.asarray(images) / 16.0).astype(np.float32)
        labels = np.asarray(labels, dtype=np.int64)
        suffix = task.task.removeprefix("digits_")
        wanted = labels >= 0 if suffix == "all" else np.isin(labels, [int(d) for d in suffix])
        test = wanted & (np.arange(len(labels)) % 5 == 0)
        train = wanted & ~test
        origin: dict[str, Any] = {"package": "scikit-learn", "dataset": "load_digits"}
        return Samples(inputs[train], labels[train], inputs[test], labels[test], origin)
