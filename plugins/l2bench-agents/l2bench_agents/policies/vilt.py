"""BC-ViLT: a transformer over the patches of a frame, another over frames (Liu et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from l2bench.errors import UsageError
from l2bench_agents.heads import ActionHead
from l2bench_agents.observations import Layout
from l2bench_agents.policies.base import over_frames
from l2bench_agents.policies.encoders import PatchEncoder
from l2bench_agents.policies.temporal import FramePolicy
from l2bench_agents.policies.transformer import TaskToken, Transformer
from l2bench_agents.settings import CloningSettings


class ViltPolicy(FramePolicy):
    """One token a frame for the task, for all that is seen, and for each vector."""

    def __init__(
        self, layout: Layout, task_width: int, head: ActionHead, settings: CloningSettings
    ) -> None:
        super().__init__(layout, task_width, head, settings)
        shape = settings.spatial
        counts = [_patches(key, size, shape.patch) for key, size in layout.images.items()]
        if not counts:
            raise UsageError(
                "policy 'vilt' looks at patches of images, and these observations have none; "
                "set policy to transformer, rnn or mlp"
            )
        self.encoders = nn.ModuleList(
            PatchEncoder(channels, shape.width, shape.patch)
            for *_, channels in layout.images.values()
        )
        self.text = TaskToken(task_width, shape.width)
        self.summary = nn.Parameter(torch.zeros(shape.width))
        self.places = nn.Parameter(torch.zeros(sum(counts), shape.width))
        self.kinds = nn.Parameter(torch.zeros(len(counts) + 1, shape.width))
        self._counts = [*counts, 1]
        self.look = Transformer(shape)
        self.narrow = nn.Linear(shape.width, settings.transformer.width)
        self.finish(settings.transformer.width)

    def tokens(self, vector: Tensor | None, images: Sequence[Tensor], task: Tensor) -> Tensor:
        """Return tokens (B, L, n, width) of frames, the task's first."""
        pairs = zip(self.encoders, images, strict=True)
        patches = torch.cat([over_frames(encode, image) for encode, image in pairs], dim=2)
        number, length = patches.shape[:2]
        told = self.text(task)[:, None, None].expand(-1, length, -1, -1)
        counts = torch.tensor(self._counts, device=task.device)
        seen = torch.cat([patches + self.places, told], dim=2)
        seen = seen + self.kinds.repeat_interleave(counts, dim=0, output_size=sum(self._counts))
        summary = self.summary.expand(number, length, 1, -1)
        looked = self.look(torch.cat([summary, seen], dim=2).flatten(0, 1))[:, 0]
        scene = self.narrow(looked).unflatten(0, (number, length))
        told = self.task(task).unsqueeze(1).expand(-1, length, -1)
        return torch.stack([told, scene, *self.vectors(vector)], dim=2)


def _patches(key: str, size: tuple[int, int, int], patch: int) -> int:
    """Return the number of whole patches in an image at half size."""
    height, width = ((side + 1) // 2 // patch for side in size[:2])
    if not height * width:
        raise UsageError(
            f"policy 'vilt' halves images and cuts them into patches of {patch}; image '{key}' of "
            f"{size[0]} x {size[1]} holds none; set spatial.patch lower"
        )
    return height * width
