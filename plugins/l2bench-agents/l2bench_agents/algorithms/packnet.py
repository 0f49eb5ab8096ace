"""PackNet: every task gets weights of its own in one network (Mallya and Lazebnik 2018)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from l2bench_agents.algorithms.base import Algorithm, Reader, TaskFacts
from l2bench_agents.memory import TaskMemory
from l2bench_agents.policies import Policy
from l2bench_agents.rows import Rows

#: Layers whose weights (not biases) are shared out.
SHARED = (nn.Linear, nn.Conv2d, nn.LSTM)


class PackNet(Algorithm):
    """Frees a part of a task's weights when it is over, trains the rest once more, and fixes it.

    ``owners`` holds, for each weight, the number of the task it belongs to (from 1), 0 if it is
    free. A task acts with the weights of the tasks up to it; all else (biases, normalisations,
    tokens) is learned with the first task and fixed from then on. The training after pruning
    takes its ``epochs`` over the task's demonstrations, which are kept for it, and is beyond the
    suite's budget. A task that returns is left as it is.
    """

    needs_identity: ClassVar[bool] = True
    needs_boundaries: ClassVar[bool] = True
    records: ClassVar[bool] = True
    whole: ClassVar[bool] = True
    owners: dict[str, Tensor]

    def __init__(self, *asked: Any) -> None:
        super().__init__(*asked)
        self._numbers: dict[str, int] = {}
        self._held: dict[str, Tensor] | None = None
        self._acting: tuple[str | None, Policy] | None = None
        self._repeats = False
        self.owners = {
            f"{path}.{name}": torch.zeros(values.shape, dtype=torch.uint8, device=values.device)
            for path, module in self.learner.policy.named_modules()
            if isinstance(module, SHARED)
            for name, values in module.named_parameters(recurse=False)
            if values.ndim > 1
        }

    def begin_task(self, facts: TaskFacts) -> None:
        """Give all free weights to the task, unless it was learned before."""
        self.end_task()
        self._repeats = facts.key in self._numbers
        self._acting = self._held = None
        if self._repeats:
            self.key = facts.key
            return
        super().begin_task(facts)
        assert self.key is not None
        self._numbers[self.key] = number = len(self._numbers) + 1
        for owner in self.owners.values():
            owner[owner == 0] = number

    def update(self, windows: Rows) -> Tensor:
        """Take one step that changes the weights of the present task only."""
        if self._repeats:
            _fix_normalisations(self.learner.policy)
            with torch.no_grad():
                return self.learner.loss(windows)
        if self._held is None:
            self._held = {n: v.detach().clone() for n, v in self.learner.policy.named_parameters()}
        number, learner = self._numbers[self.key or ""], self.learner
        if number > 1:
            _fix_normalisations(learner.policy)
        loss = learner.loss(windows)
        learner.backward(loss)
        for name, values in learner.policy.named_parameters():
            if values.grad is not None and (fixed := self._fixed(name, number)) is not None:
                values.grad.masked_fill_(fixed, 0)
        learner.step()
        with torch.no_grad():  # the optimiser's decay knows no masks
            for name, values in learner.policy.named_parameters():
                if (fixed := self._fixed(name, number)) is not None:
                    values.copy_(torch.where(fixed, self._held[name], values))
        return loss.detach()

    def _fixed(self, name: str, number: int) -> Tensor | None:
        """Return which values the present task may not change, None if it may change all."""
        if name in self.owners:
            return self.owners[name] != number
        return torch.ones((), dtype=torch.bool, device=self.learner.device) if number > 1 else None

    def consolidate(self, remembered: TaskMemory) -> None:
        """Free the smallest weights of the task and train the others again."""
        number = self._numbers[remembered.key]
        with torch.no_grad():
            for name, values in self.learner.policy.named_parameters():
                if name in self.owners:
                    prune(values, self.owners[name], number, self.settings.packnet.prune)
        self._acting = self._held = self.learner.optimiser = None
        epochs = self.settings.packnet.epochs
        self.learner.policy.train()
        size = self.settings.batch_size
        for which, done in self.memory.passes(remembered, size, epochs, self.rng):
            self.learner.set_rate(done, epochs)
            self.update(self.memory.windows(remembered, which))
        self.learner.policy.eval()
        self._held = self.learner.optimiser = None

    def network(self, key: str | None) -> Policy:
        """Return the network of a task's own weights and those of the tasks before it."""
        number = self._numbers.get(key or "")
        if number is None or (
            key == self.key and not self._repeats and number == len(self._numbers)
        ):
            return self.learner.policy
        if self._acting is None or self._acting[0] != key:
            network = copy.deepcopy(self.learner.policy)
            with torch.no_grad():
                for name, values in network.named_parameters():
                    if name in self.owners:
                        values.masked_fill_(self.owners[name] > number, 0)
            self._acting = (key, network.eval())
        return self._acting[1]

    def save(self) -> tuple[dict[str, Any], dict[str, Mapping[str, Tensor]]]:
        """Return the owners too, in a file that changes when a task begins or ends."""
        plain, files = super().save()
        files["owners"] = self.owners
        return {**plain, "numbers": self._numbers, "repeats": self._repeats}, files

    def load(self, plain: Mapping[str, Any], read: Reader) -> None:
        """Restore them."""
        super().load(plain, read)
        device = self.learner.device
        self._numbers, self._repeats = dict(plain["numbers"]), plain["repeats"]
        self.owners = {name: values.to(device) for name, values in read("owners").items()}
        self._acting = self._held = None

    def select(self, plain: Mapping[str, Any]) -> None:
        """Forget networks made of other weights."""
        self._acting = self._held = None

    def learned(self) -> Mapping[str, Tensor]:
        """Return the owners."""
        return {f"owners/{name}": values for name, values in self.owners.items()}


def prune(weights: Tensor, owners: Tensor, number: int, part: float) -> None:
    """Free the smallest of a task's weights: set them to 0 and their owner to nobody.

    Exactly round(part * n) of its n weights go; of equal ones, those that come first.
    """
    own = (owners.view(-1) == number).nonzero().squeeze(1)
    order = weights.reshape(-1)[own].abs().sort(stable=True).indices
    freed = own[order[: round(part * len(own))]]
    weights.view(-1)[freed] = 0
    owners.view(-1)[freed] = 0


def _fix_normalisations(policy: nn.Module) -> None:
    for module in policy.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
