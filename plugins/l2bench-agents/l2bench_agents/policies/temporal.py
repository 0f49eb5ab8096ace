"""BC-Transformer: a ResNet for each camera, a transformer over frames (LIBERO, Liu et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from l2bench_agents.heads import ActionHead
from l2bench_agents.observations import Layout
from l2bench_agents.policies.base import Policy, over_frames
from l2bench_agents.policies.encoders import ResNetEncoder
from l2bench_agents.policies.transformer import TaskToken, TemporalTransformer, VectorTokens
from l2bench_agents.settings import CloningSettings


class FramePolicy(Policy):
    """A policy that makes tokens of each frame and looks at the last frames with a transformer.

    A subclass offers `tokens`; the first token of a frame is the one that is read out.
    """

    def __init__(
        self, layout: Layout, task_width: int, head: ActionHead, settings: CloningSettings
    ) -> None:
        super().__init__(layout, task_width, head, settings)
        width = settings.transformer.width
        self.task = TaskToken(task_width, width)
        self.vectors = VectorTokens(layout.widths, width)

    def finish(self, width: int) -> None:
        """Add the transformer over frames and what leads from its width to the head's numbers."""
        self.temporal = TemporalTransformer(self._settings.transformer)
        super().finish(width)

    def tokens(self, vector: Tensor | None, images: Sequence[Tensor], task: Tensor) -> Tensor:
        """Return tokens (B, L, n, width) of frames."""
        raise NotImplementedError

    def features(self, vector: Tensor | None, images: Sequence[Tensor], task: Tensor) -> Tensor:
        """Return features (B, L, width), each of its frame and those before."""
        return self.temporal(self.tokens(vector, images, task))  # type: ignore[no-any-return]

    def recall(
        self,
        vector: Tensor | None,
        images: Sequence[Tensor],
        task: Tensor,
        memories: Sequence[Any],
    ) -> tuple[Tensor, list[Any]]:
        """Return features (B, width) of the last frame, and the last frames' tokens."""
        new = self.tokens(vector, images, task)
        return self.temporal.latest(new, memories, self._settings.length)


class TemporalPolicy(FramePolicy):
    """One token a frame for the task, each vector and each camera."""

    def __init__(
        self, layout: Layout, task_width: int, head: ActionHead, settings: CloningSettings
    ) -> None:
        super().__init__(layout, task_width, head, settings)
        width = settings.transformer.width
        self.encoders = nn.ModuleList(
            ResNetEncoder(channels, width, task_width) for *_, channels in layout.images.values()
        )
        self.finish(width)

    def tokens(self, vector: Tensor | None, images: Sequence[Tensor], task: Tensor) -> Tensor:
        """Return tokens (B, L, n, width) of frames, the task's first."""
        pairs = zip(self.encoders, images, strict=True)
        seen = [over_frames(encode, image, task) for encode, image in pairs]
        parts = [*self.vectors(vector), *seen]
        told = self.task(task).unsqueeze(1).expand(-1, parts[0].shape[1], -1)
        return torch.stack([told, *parts], dim=2)
