"""A policy network in training: its loss, its optimiser, one update at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn, optim

from l2bench.errors import UsageError
from l2bench_agents import rows
from l2bench_agents.heads import ActionHead
from l2bench_agents.policies import Policy
from l2bench_agents.rows import Rows
from l2bench_agents.settings import CloningSettings

#: torch has the fused optimiser on the CPU from this version on.
FUSED_ON_CPU = (2, 4)


class Learner:
    """The network that learns, with an optimiser that is made when it is first needed."""

    def __init__(
        self, policy: Policy, head: ActionHead, settings: CloningSettings, device: torch.device
    ) -> None:
        self.policy, self.head = policy, head
        self.settings, self.device = settings, device
        self.optimiser: optim.AdamW | None = None
        self.updates = 0
        _check_gpu_settings(settings, device)
        self._forward: Any = torch.compile(policy) if settings.compile else policy

    def weights(self) -> dict[str, Tensor]:
        """Return a copy of all the policy holds."""
        return {name: v.detach().clone() for name, v in self.policy.state_dict().items()}

    def start_from(self, weights: Mapping[str, Tensor]) -> None:
        """Set all the policy holds; the optimiser starts anew."""
        self.policy.load_state_dict(weights)
        self.optimiser = None

    def loss(self, windows: Rows) -> Tensor:
        """Return the mean loss () of windows."""
        windows = rows.to(windows, self.device)
        predict = self.settings.predict
        targets = windows["target"].unfold(1, predict, 1)
        if targets.ndim == 4:
            targets = targets.transpose(2, 3)
        real = None
        if not self.settings.pad_loss:
            real = windows["real"].unfold(1, predict, 1)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.amp):
            outputs = self._forward(windows)
        return self.head.loss(outputs.float(), targets, real)

    def backward(self, loss: Tensor) -> None:
        """Set the gradients of a loss."""
        self.policy.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]

    def step(self) -> None:
        """Take one step along the gradients, shortened to the largest norm allowed."""
        if self.optimiser is None:
            self.optimiser = self._new_optimiser(self.settings.learning_rate)
        if self.settings.clip_gradient is not None:
            nn.utils.clip_grad_norm_(self.policy.parameters(), self.settings.clip_gradient)
        self.optimiser.step()
        self.updates += 1

    def set_rate(self, done: float, epochs: int) -> None:
        """Set the learning rate when ``done`` of a budget of so many epochs is used up."""
        rate, final = self.settings.learning_rate, self.settings.final_rate
        if self.settings.schedule == "cosine_epochs":
            done = math.floor(done * epochs + 1e-9) / epochs
        if self.settings.schedule != "constant":
            rate = final + (rate - final) * (1 + math.cos(math.pi * done)) / 2
        if self.optimiser is None:
            self.optimiser = self._new_optimiser(rate)
        for group in self.optimiser.param_groups:
            group["lr"] = rate

    def resume_optimiser(self) -> optim.AdamW:
        """Return a new optimiser, to be given a saved state."""
        self.optimiser = self._new_optimiser(self.settings.learning_rate)
        return self.optimiser

    def _new_optimiser(self, rate: float) -> optim.AdamW:
        version = tuple(int(part) for part in torch.__version__.split(".")[:2])
        return optim.AdamW(
            self.policy.parameters(),
            lr=rate,
            weight_decay=self.settings.weight_decay,
            fused=True if self.device.type == "cuda" or version >= FUSED_ON_CPU else None,
        )


def _check_gpu_settings(settings: CloningSettings, device: torch.device) -> None:
    if device.type == "cuda":
        return
    for name, why in (
        ("amp", "bfloat16 is slower than float32 on most CPUs"),
        ("compile", "compiling takes longer than it saves there"),
    ):
        if getattr(settings, name):
            raise UsageError(
                f"agent 'bc': {name} is for GPUs, and the device is {device} ({why}); "
                f"set {name} to false, or execution.device to cuda"
            )


@contextmanager
def torch_seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators for the block and restore them afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
