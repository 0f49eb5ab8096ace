"""Remembered demonstrations: each frame of a task once, and which windows of them are meant."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2bench.batches import gather, last_frames, window_frames
from l2bench_agents import rows
from l2bench_agents.rows import Rows
from l2bench_agents.settings import CloningSettings

Array = np.ndarray[Any, Any]


@dataclass
class TaskMemory:
    """The remembered part of one task.

    ``frames`` holds vectors, images and targets (F, ...) by name; ``first`` and ``last`` (W,) the
    first frame of each window and the last frame it may hold; ``task`` (E,) is the task's vector.
    """

    key: str
    task: Tensor
    frames: dict[str, Array]
    first: Array
    last: Array

    def __len__(self) -> int:
        return len(self.first)

    @property
    def bytes(self) -> int:
        """The number of bytes the frames take."""
        return sum(values.nbytes for values in self.frames.values())

    def windows(self, which: Array, length: int, ahead: int) -> Rows:
        """Return these windows (B,) as rows to learn from."""
        frames, real = window_frames(self.first[which], self.last[which], length + ahead)
        found = {"real": torch.from_numpy(real), "task": self.task.repeat(len(which), 1)}
        for name, values in self.frames.items():
            at = frames if name == "target" else frames[:, :length]
            found[name] = torch.from_numpy(gather(values, at))
        return found

    def tensors(self) -> dict[str, Tensor]:
        """Return all there is as tensors."""
        frames = {f"frames.{name}": torch.from_numpy(v) for name, v in self.frames.items()}
        windows = {"first": torch.from_numpy(self.first), "last": torch.from_numpy(self.last)}
        return {**frames, **windows, "task": self.task}

    @classmethod
    def of(cls, key: str, tensors: Mapping[str, Tensor]) -> TaskMemory:
        """Return what `tensors` was made from."""
        frames = {
            name.removeprefix("frames."): values.numpy()
            for name, values in tensors.items()
            if name.startswith("frames.")
        }
        first, last = tensors["first"].numpy(), tensors["last"].numpy()
        return cls(key, tensors["task"], frames, first, last)


class Recorder:
    """Takes the frames that chosen windows need out of a task's first epoch.

    ``chosen`` (W,) are the positions of the windows' first frames. Every frame is the first of one
    window an epoch, which is where it is taken from.
    """

    def __init__(self, key: str, task: Tensor, starts: Array, chosen: Array, reach: int) -> None:
        last = last_frames(starts)
        needed = np.unique(np.minimum(chosen[:, None] + np.arange(reach), last[chosen][:, None]))
        self._slots = np.full(len(last), -1)
        self._slots[needed] = np.arange(len(needed))
        final = self._slots[np.minimum(chosen + reach - 1, last[chosen])]
        self.memory = TaskMemory(key, task, {}, self._slots[chosen], final)
        self._missing = len(needed)
        self._count = len(needed)

    @classmethod
    def completed(cls, memory: TaskMemory) -> Recorder:
        """Return the recorder of a task that has seen all it wants."""
        recorder = cls.__new__(cls)
        recorder.memory, recorder._missing = memory, 0
        return recorder

    @property
    def complete(self) -> bool:
        """Whether every frame was seen."""
        return not self._missing

    def see(self, batch: Rows, positions: Array) -> None:
        """Take what is wanted of a batch of windows with these first frames (B,)."""
        if not self._missing:
            return
        slots = self._slots[positions]
        wanted = np.flatnonzero(slots >= 0)
        slots = slots[wanted]
        for name, values in batch.items():
            if name in ("real", "task"):
                continue
            new = values[:, 0].numpy()
            held = self.memory.frames.setdefault(
                name, np.zeros((self._count, *new.shape[1:]), new.dtype)
            )
            held[slots] = new[wanted]
        self._missing -= len(slots)


def choose(starts: Array, settings: CloningSettings, rng: np.random.Generator) -> Array:
    """Return the first frames (W,) of the windows of a task that are to be remembered.

    Random choices are of frames where windows have one, else of whole trajectories, of which the
    last may be taken in part.
    """
    total = int(starts[-1])
    number = math.ceil(settings.memory_part * total)
    number = min(number, settings.memory_count or number)
    if settings.memory_choice == "first" or number == total:
        return np.arange(number)
    if settings.length == 1:
        return np.sort(rng.permutation(total)[:number])
    order = rng.permutation(len(starts) - 1)
    trajectories = [np.arange(starts[each], starts[each + 1]) for each in order]
    return np.sort(np.concatenate(trajectories)[:number])


class Memory:
    """The remembered parts of the tasks that are over."""

    def __init__(self, settings: CloningSettings) -> None:
        self.parts: list[TaskMemory] = []
        self._length, self._ahead = settings.length, settings.predict - 1

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    @property
    def keys(self) -> list[str]:
        """The keys of the remembered tasks."""
        return [part.key for part in self.parts]

    @property
    def bytes(self) -> int:
        """The number of bytes the frames take."""
        return sum(part.bytes for part in self.parts)

    def keep(self, part: TaskMemory) -> None:
        """Add a task's windows, unless there are windows of this key already."""
        if part.key not in self.keys and len(part):
            self.parts.append(part)

    def draw(self, number: int, rng: np.random.Generator, without: str = "") -> Rows:
        """Return windows drawn uniformly, with replacement, over all tasks but one."""
        parts = [part for part in self.parts if part.key != without]
        edges = np.cumsum([0, *(len(part) for part in parts)])
        drawn = rng.integers(edges[-1], size=number)
        found = []
        for part, start, stop in zip(parts, edges[:-1], edges[1:], strict=True):
            which = drawn[(drawn >= start) & (drawn < stop)] - start
            if len(which):
                found.append(part.windows(which, self._length, self._ahead))
        return rows.join(found)

    def passes(
        self, part: TaskMemory, size: int, epochs: int, rng: np.random.Generator
    ) -> Sequence[tuple[Array, float]]:
        """Return batches of positions in a part, each with the share of ``epochs`` done before."""
        batches = []
        for epoch in range(epochs):
            order = rng.permutation(len(part))
            for at in range(0, len(order), size):
                batches.append((order[at : at + size], (epoch + at / len(order)) / epochs))
        return batches

    def windows(self, part: TaskMemory, which: Array) -> Rows:
        """Return windows of one task."""
        return part.windows(which, self._length, self._ahead)
