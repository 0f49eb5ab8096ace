"""A network for every task: no forgetting and no transfer."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from l2bench_agents.algorithms.base import Algorithm, Reader, TaskFacts
from l2bench_agents.policies import Policy


class SingleTask(Algorithm):
    """Learns every task from the first weights on, and acts in a task with its own network.

    A task not yet learned is acted in with the first weights; one that returns goes on.
    """

    needs_identity: ClassVar[bool] = True

    def __init__(self, *asked: Any) -> None:
        super().__init__(*asked)
        self._first = self.learner.weights()
        self._kept: dict[str, dict[str, Tensor]] = {}
        self._acting: tuple[str | None, Policy] | None = None

    def begin_task(self, facts: TaskFacts) -> None:
        """Put the present network aside, and start from the first weights."""
        if self.key is not None:
            self._kept[self.key] = self.learner.weights()
        super().begin_task(facts)
        self.learner.start_from(self._kept.pop(self.key or "", self._first))
        self._acting = None

    def network(self, key: str | None) -> Policy:
        """Return the task's own network."""
        if key == self.key:
            return self.learner.policy
        if self._acting is None or self._acting[0] != key:
            network = copy.deepcopy(self.learner.policy)
            network.load_state_dict(self._kept.get(key or "", self._first))
            self._acting = (key, network.eval())
        return self._acting[1]

    def save(self) -> tuple[dict[str, Any], dict[str, Mapping[str, Tensor]]]:
        """Return the networks put aside too, one file each."""
        plain, files = super().save()
        files |= {_file(n): tensors for n, tensors in enumerate(self._kept.values())}
        return {**plain, "kept": list(self._kept)}, files

    def load(self, plain: Mapping[str, Any], read: Reader) -> None:
        """Restore them."""
        super().load(plain, read)
        device = self.learner.device
        self._kept = {
            key: {name: values.to(device) for name, values in read(_file(n)).items()}
            for n, key in enumerate(plain["kept"])
        }
        self._acting = None

    def select(self, plain: Mapping[str, Any]) -> None:
        """Go on from the first weights if the checkpoint is older than the task."""
        if plain["key"] != self.key:
            self.learner.start_from(self._first)

    def learned(self) -> Mapping[str, Tensor]:
        """Return the networks put aside."""
        return {f"{key}/{n}": v for key, kept in self._kept.items() for n, v in kept.items()}


def _file(number: int) -> str:
    return f"network-{number:03d}"
