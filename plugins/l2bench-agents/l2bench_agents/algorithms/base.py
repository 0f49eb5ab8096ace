"""What a lifelong algorithm is: what is done about other tasks while one is learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from l2bench.errors import RunFailed
from l2bench.seeding import pack, unpack
from l2bench_agents.learner import Learner, torch_seeded
from l2bench_agents.memory import Memory, Recorder, TaskMemory, choose
from l2bench_agents.policies import Policy
from l2bench_agents.rows import Rows

#: Reads the tensors of a saved file by name.
Reader = Callable[[str], dict[str, Tensor]]


class TaskFacts(NamedTuple):
    """A task that begins: its key (None where it is hidden), vector, and trajectories' starts."""

    key: str | None
    vector: Tensor
    starts: np.ndarray[Any, Any]


class Algorithm:
    """Learns one task after the other and does nothing about forgetting.

    A subclass changes some of these: `begin_task`, `extend` or `update`, `end_task`, `network`,
    and what is saved. ``needs_identity`` refuses suites that hide the task, ``needs_boundaries``
    those that hide where tasks begin. ``records`` keeps the chosen windows of the task in progress
    until it is over, ``whole`` all of them.
    """

    needs_identity: ClassVar[bool] = False
    needs_boundaries: ClassVar[bool] = False
    records: ClassVar[bool] = False
    whole: ClassVar[bool] = False

    def __init__(self, learner: Learner, rng: np.random.Generator) -> None:
        self.learner, self.settings, self.rng = learner, learner.settings, rng
        self.memory = Memory(learner.settings)
        self.key: str | None = None
        self.begun = 0
        self.recorder: Recorder | None = None

    def begin_task(self, facts: TaskFacts) -> None:
        """Called when a task begins; finishes what is left of an earlier one."""
        self.end_task()
        self.key = f"hidden {self.begun}" if facts.key is None else facts.key
        self.begun += 1
        if self.records:
            everything = np.arange(facts.starts[-1])
            chosen = everything if self.whole else choose(facts.starts, self.settings, self.rng)
            reach = self.settings.length + self.settings.predict - 1
            self.recorder = Recorder(self.key, facts.vector, facts.starts, chosen, reach)

    def see(self, new: Rows, positions: np.ndarray[Any, Any]) -> None:
        """Called with every batch of the task in progress before it is learned from."""
        if self.recorder is not None:
            self.recorder.see(new, positions)

    @property
    def new_windows(self) -> int:
        """How many windows of the task in progress go into each batch."""
        return self.settings.batch_size

    def extend(self, new: Rows) -> Rows:
        """Return what the next update is computed on, given windows of the task in progress."""
        return new

    def update(self, windows: Rows) -> Tensor:
        """Take one step of gradient descent and return the loss ()."""
        loss = self.learner.loss(windows)
        self.learner.backward(loss)
        self.learner.step()
        return loss.detach()

    def end_task(self) -> None:
        """Called when a task is over, perhaps more than once."""
        if self.recorder is not None:
            remembered, self.recorder = self.recorder, None
            if not remembered.complete:
                raise RunFailed("a task ended before each of its demonstrations was seen once")
            with torch_seeded(int(self.rng.integers(2**63)), self.learner.device):
                self.consolidate(remembered.memory)

    def consolidate(self, remembered: TaskMemory) -> None:
        """Called once when a task is over, with the windows that were to be remembered of it."""

    def network(self, key: str | None) -> Policy:
        """Return the network that acts in a task."""
        return self.learner.policy

    def save(self) -> tuple[dict[str, Any], dict[str, Mapping[str, Tensor]]]:
        """Return all that later behaviour depends on: plain data, and tensors by file name.

        What does not change any more has a file of its own, whose bytes stay the same.
        """
        plain = {
            "generator": pack(self.rng),
            "key": self.key,
            "begun": self.begun,
            "keys": self.memory.keys,
            "recording": None if self.recorder is None else self.recorder.memory.key,
        }
        files = {f"memory-{n:03d}": part.tensors() for n, part in enumerate(self.memory.parts)}
        if self.recorder is not None:
            if not self.recorder.complete:
                raise RunFailed("an agent is saved between lessons, not inside an epoch")
            files[f"memory-{len(self.memory.parts):03d}"] = self.recorder.memory.tensors()
        return plain, dict(files)

    def load(self, plain: Mapping[str, Any], read: Reader) -> None:
        """Restore what `save` returned."""
        unpack(self.rng, plain["generator"])
        self.key, self.begun = plain["key"], plain["begun"]
        self.memory = Memory(self.settings)
        self.memory.parts = [
            TaskMemory.of(key, read(f"memory-{n:03d}")) for n, key in enumerate(plain["keys"])
        ]
        self.recorder = None
        if plain["recording"] is not None:
            found = read(f"memory-{len(self.memory.parts):03d}")
            self.recorder = Recorder.completed(TaskMemory.of(plain["recording"], found))

    def select(self, plain: Mapping[str, Any]) -> None:
        """Called when the policy of a checkpoint was taken over, with its plain data."""

    def learned(self) -> Mapping[str, Tensor]:
        """Return what was learned beside the policy's parameters, for the fingerprint."""
        return {}


def parameters_of(policy: torch.nn.Module) -> dict[str, Tensor]:
    """Return a copy of the parameters that are learned, by name."""
    return {name: values.detach().clone() for name, values in policy.named_parameters()}
