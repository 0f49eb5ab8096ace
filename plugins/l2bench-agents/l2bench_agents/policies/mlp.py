"""A multilayer perceptron that sees one frame."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from l2bench_agents.heads import ActionHead
from l2bench_agents.observations import Layout
from l2bench_agents.policies.base import Policy, over_frames
from l2bench_agents.policies.encoders import PositionEncoder
from l2bench_agents.settings import CloningSettings


class MlpPolicy(Policy):
    """Standardised vectors, the task and encoded images through fully connected layers."""

    def __init__(
        self, layout: Layout, task_width: int, head: ActionHead, settings: CloningSettings
    ) -> None:
        super().__init__(layout, task_width, head, settings)
        self.encoders = nn.ModuleList(PositionEncoder(c) for *_, c in layout.images.values())
        widths = [layout.width + task_width + 128 * len(layout.images), *settings.hidden]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.finish(widths[-1])

    def features(self, vector: Tensor | None, images: Sequence[Tensor], task: Tensor) -> Tensor:
        """Return features (B, L, width), each of its frame alone."""
        length = (images[0] if vector is None else vector).shape[1]
        parts = [] if vector is None else [vector]
        parts.append(task.unsqueeze(1).expand(-1, length, -1))
        pairs = zip(self.encoders, images, strict=True)
        parts += [over_frames(encode, image) for encode, image in pairs]
        return self.layers(torch.cat(parts, dim=-1))  # type: ignore[no-any-return]
