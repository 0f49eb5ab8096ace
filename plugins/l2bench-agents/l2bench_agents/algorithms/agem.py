"""A-GEM: gradients that would raise the loss on the memory are projected (Chaudhry et al. 2019)."""

from __future__ import annotations

import torch
from torch import Tensor

from l2bench_agents.algorithms.replay import Remembering
from l2bench_agents.rows import Rows


def project(gradient: Tensor, reference: Tensor) -> Tensor:
    """Return the vector nearest to a gradient (N,) that does not point against the reference (N,).

    g - (g . r / r . r) r where g . r < 0, else g itself.
    """
    along = torch.dot(gradient, reference)
    if along >= 0:
        return gradient
    return gradient - along / torch.dot(reference, reference) * reference


class Agem(Remembering):
    """Averaged gradient episodic memory."""

    def update(self, windows: Rows) -> Tensor:
        """Take one step along the projected gradient."""
        learner = self.learner
        loss = learner.loss(windows)
        learner.backward(loss)
        if len(self.memory):
            gradient = self._gradient()
            number = self.settings.memory_batch or self.settings.batch_size
            learner.backward(learner.loss(self.memory.draw(number, self.rng)))
            self._set_gradient(project(gradient, self._gradient()))
        learner.step()
        return loss.detach()

    def _gradient(self) -> Tensor:
        parts = (
            torch.zeros_like(p).view(-1) if p.grad is None else p.grad.reshape(-1)
            for p in self.learner.policy.parameters()
        )
        return torch.cat(list(parts))

    def _set_gradient(self, gradient: Tensor) -> None:
        parameters = list(self.learner.policy.parameters())
        parts = torch.split(gradient, [p.numel() for p in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)
