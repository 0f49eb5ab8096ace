"""Online elastic weight consolidation (Kirkpatrick et al. 2017, Schwarz et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from l2bench_agents.algorithms.base import Algorithm, Reader, parameters_of
from l2bench_agents.memory import TaskMemory
from l2bench_agents.rows import Rows


class Ewc(Algorithm):
    """Holds parameters where earlier tasks left them, each as strongly as it mattered.

    The loss gains ``strength`` times the sum of importance times squared distance. The importance
    of a parameter is the mean square of the loss's gradient over batches of the finished task,
    added to ``decay`` times what it was before.
    """

    records: ClassVar[bool] = True
    whole: ClassVar[bool] = True
    importance: dict[str, Tensor]
    anchor: dict[str, Tensor]

    def __init__(self, *asked: Any) -> None:
        super().__init__(*asked)
        self.importance, self.anchor = {}, {}

    def penalty(self) -> Tensor:
        """Return the sum () of importance times squared distance."""
        total = torch.zeros((), device=self.learner.device)
        for name, values in self.learner.policy.named_parameters():
            if name in self.anchor:
                total = total + (self.importance[name] * (values - self.anchor[name]) ** 2).sum()
        return total

    def update(self, windows: Rows) -> Tensor:
        """Take one step on the loss with the penalty; return the loss without."""
        loss = self.learner.loss(windows)
        strength = self.settings.ewc.strength
        self.learner.backward(loss + strength * self.penalty() if self.anchor else loss)
        self.learner.step()
        return loss.detach()

    def consolidate(self, remembered: TaskMemory) -> None:
        """Measure what mattered to the finished task, and where its parameters are."""
        policy, size = self.learner.policy, self.settings.batch_size
        fisher = {name: torch.zeros_like(values) for name, values in policy.named_parameters()}
        batches = self.memory.passes(remembered, size, 1, self.rng)
        buffers = {name: values.clone() for name, values in policy.named_buffers()}
        policy.train()
        for which, _ in batches:
            self.learner.backward(self.learner.loss(self.memory.windows(remembered, which)))
            for name, values in policy.named_parameters():
                if values.grad is not None:
                    fisher[name] += values.grad.square() / len(batches)
        policy.zero_grad()
        policy.eval()
        for name, held in policy.named_buffers():
            held.copy_(buffers[name])
        decay = self.settings.ewc.decay
        older = self.importance
        self.importance = {
            name: new + decay * older[name] if name in older else new
            for name, new in fisher.items()
        }
        self.anchor = parameters_of(policy)

    def save(self) -> tuple[dict[str, Any], dict[str, Mapping[str, Tensor]]]:
        """Return importance and anchor too, in a file that changes once a task."""
        plain, files = super().save()
        if self.anchor:
            anchors = {f"anchor/{name}": values for name, values in self.anchor.items()}
            files["ewc"] = {**{f"importance/{n}": v for n, v in self.importance.items()}, **anchors}
        return {**plain, "consolidated": bool(self.anchor)}, files

    def load(self, plain: Mapping[str, Any], read: Reader) -> None:
        """Restore them."""
        super().load(plain, read)
        found = read("ewc") if plain["consolidated"] else {}
        for kind in ("importance", "anchor"):
            chosen = {
                name.removeprefix(f"{kind}/"): values.to(self.learner.device)
                for name, values in found.items()
                if name.startswith(f"{kind}/")
            }
            setattr(self, kind, chosen)
