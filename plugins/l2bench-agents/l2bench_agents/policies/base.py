"""What all policy networks have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from l2bench_agents.augmentation import augment
from l2bench_agents.heads import ActionHead
from l2bench_agents.observations import Layout
from l2bench_agents.rows import Rows
from l2bench_agents.settings import CloningSettings


class Standardiser(nn.Module):
    """Takes the mean off vectors (..., V), divides by the deviation and clips.

    Its statistics are part of the policy, and set once.
    """

    mean: Tensor
    deviation: Tensor
    fitted: Tensor

    def __init__(self, width: int, settings: CloningSettings) -> None:
        super().__init__()
        self._floor, self._clip = settings.std_floor, settings.clip
        self._used = settings.standardise
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("deviation", torch.ones(width))
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))

    @property
    def wants(self) -> bool:
        """Whether statistics are used and still missing."""
        return self._used and not bool(self.fitted)

    def fit(self, mean: Tensor, deviation: Tensor) -> None:
        """Set the statistics, the deviation no smaller than the floor."""
        self.mean.copy_(mean)
        self.deviation.copy_(deviation.clamp(min=self._floor))
        self.fitted.fill_(True)

    def forward(self, vector: Tensor) -> Tensor:
        """Return the standardised vectors."""
        if not self._used:
            return vector
        return ((vector - self.mean) / self.deviation).clamp(-self._clip, self._clip)


class Policy(nn.Module):
    """Windows of observations in; for each frame the numbers an action head reads out.

    A subclass sets ``width`` before it is asked for ``finish``, and offers `features`; one that
    remembers earlier frames of an episode offers `recall` too.
    """

    def __init__(
        self, layout: Layout, task_width: int, head: ActionHead, settings: CloningSettings
    ) -> None:
        super().__init__()
        self.layout, self.task_width, self._head = layout, task_width, head
        self._settings = settings
        self._shape = (settings.predict, head.size)
        self.standardise = Standardiser(layout.width, settings)

    def finish(self, width: int) -> None:
        """Add what leads from features (..., width) to the head's numbers; called last."""
        self.output = self._head.network(width, self._settings.predict)

    def forward(self, rows: Rows) -> Tensor:
        """Return outputs (B, L, P, size) of windows, as they are learned from."""
        features = self.features(self.vector(rows), self.images(rows), rows["task"])
        return self.output(features).unflatten(-1, self._shape)  # type: ignore[no-any-return]

    def features(self, vector: Tensor | None, images: Sequence[Tensor], task: Tensor) -> Tensor:
        """Return features (B, L, width).

        ``vector`` is (B, L, V), ``images`` are (B, L, H, W, C) in [0, 1] in the layout's order,
        ``task`` is (B, E).
        """
        raise NotImplementedError

    def step(self, frames: Rows, memories: Sequence[Any]) -> tuple[Tensor, list[Any]]:
        """Return outputs (B, P, size) of single frames (B, 1, ...), and what to remember of each.

        ``memories`` holds what each row's previous frame returned, None in an episode's first.
        """
        inputs = self.vector(frames), self.images(frames), frames["task"]
        features, remembered = self.recall(*inputs, memories)
        return self.output(features).unflatten(-1, self._shape), remembered

    def recall(
        self,
        vector: Tensor | None,
        images: Sequence[Tensor],
        task: Tensor,
        memories: Sequence[Any],
    ) -> tuple[Tensor, list[Any]]:
        """Return features (B, width) of single frames, and what to remember."""
        return self.features(vector, images, task)[:, 0], [None] * len(memories)

    def vector(self, rows: Rows) -> Tensor | None:
        """Return the vectors (B, L, V) as the network sees them, None if there are none."""
        return self.standardise(rows["vector"]) if "vector" in rows else None

    def images(self, rows: Rows) -> list[Tensor]:
        """Return the images (B, L, H, W, C) in [0, 1], changed where they are to be learned."""
        raw = {key: rows[f"image.{key}"] for key in self.layout.images}
        if raw and self.training and self._settings.augment:
            return list(augment(raw, self._settings.augmentation).values())
        return [image.float() / 255 for image in raw.values()]


def over_frames(encode: nn.Module, image: Tensor, *more: Tensor) -> Tensor:
    """Return what an encoder of (N, C, H, W) makes of (B, L, H, W, C), as (B, L, ...).

    ``more`` are (B, ...), handed over for every frame.
    """
    number, length = image.shape[:2]
    flat = image.flatten(0, 1).permute(0, 3, 1, 2)
    beside = [part.repeat_interleave(length, dim=0) for part in more]
    return encode(flat, *beside).unflatten(0, (number, length))  # type: ignore[no-any-return]
