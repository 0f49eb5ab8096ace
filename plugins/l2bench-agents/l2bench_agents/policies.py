"""Policy networks: observations in, the numbers an action head reads out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import skip_init

from l2bench_agents.observations import Layout
from l2bench_agents.rows import Rows
from l2bench_agents.settings import CloningSettings


class Standardiser(nn.Module):
    """Takes the mean off vectors (B, V), divides by the deviation and clips; at first the identity.

    Its statistics are part of the policy, and set once.
    """

    mean: Tensor
    deviation: Tensor
    fitted: Tensor

    def __init__(self, width: int, floor: float, clip: float) -> None:
        super().__init__()
        self._floor, self._clip = floor, clip
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("deviation", torch.ones(width))
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))

    def fit(self, mean: Tensor, deviation: Tensor) -> None:
        """Set the statistics, the deviation no smaller than the floor."""
        self.mean.copy_(mean)
        self.deviation.copy_(deviation.clamp(min=self._floor))
        self.fitted.fill_(True)

    def forward(self, vector: Tensor) -> Tensor:
        """Return the standardised vectors (B, V)."""
        return ((vector - self.mean) / self.deviation).clamp(-self._clip, self._clip)


class ImageEncoder(nn.Module):
    """Images (B, H, W, C) uint8 to the positions (B, 128) of 64 features, in [-1, 1].

    The convolutions of Mnih et al. (2015), padded so that small images pass too, then the spatial
    softmax of Levine et al. (2016), which keeps where things are and needs few parameters.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            _convolution(channels, 32, 8, 4, 2),
            nn.ReLU(),
            _convolution(32, 64, 4, 2, 1),
            nn.ReLU(),
            _convolution(64, 64, 3, 1, 1),
        )

    def forward(self, image: Tensor) -> Tensor:
        """Return the expected column and row of each feature."""
        pixels = image.permute(0, 3, 1, 2).float() / 255 - 0.5
        features = self.convolutions(pixels)
        _, _, height, width = features.shape
        weights = functional.softmax(features.flatten(2), dim=2).view_as(features)
        across = torch.linspace(-1, 1, width, device=image.device)
        down = torch.linspace(-1, 1, height, device=image.device)
        columns = (weights.sum(dim=2) * across).sum(dim=2)
        rows = (weights.sum(dim=3) * down).sum(dim=2)
        return torch.cat([columns, rows], dim=1)


class MlpPolicy(nn.Module):
    """Standardised vectors, task one-hot and encoded images through fully connected layers."""

    def __init__(self, layout: Layout, tasks: int, outputs: int, settings: CloningSettings) -> None:
        super().__init__()
        self._tasks = tasks
        self.standardise = Standardiser(layout.width, settings.std_floor, settings.clip)
        self.encoders = nn.ModuleDict(
            {f"image_{n}": ImageEncoder(size[2]) for n, size in enumerate(layout.images.values())}
        )
        self._images = [f"image.{key}" for key in layout.images]
        widths = [layout.width + tasks + 128 * len(layout.images), *settings.hidden]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [_linear(before, after), nn.ReLU()]
        self.layers = nn.Sequential(*layers, _linear(widths[-1], outputs))

    def forward(self, rows: Rows) -> Tensor:
        """Return the outputs (B, outputs) for B rows."""
        parts = [self.standardise(rows["vector"])] if "vector" in rows else []
        if self._tasks:
            parts.append(functional.one_hot(rows["task"], self._tasks).float())
        encoders = zip(self._images, self.encoders.values(), strict=True)
        parts += [encode(rows[name]) for name, encode in encoders]
        return self.layers(torch.cat(parts, dim=1))  # type: ignore[no-any-return]


POLICIES: Mapping[str, type[MlpPolicy]] = {"mlp": MlpPolicy}


def make_policy(
    layout: Layout, tasks: int, outputs: int, settings: CloningSettings, rng: np.random.Generator
) -> MlpPolicy:
    """Return a policy with weights drawn from ``rng``; torch's own generator is left alone."""
    policy = POLICIES[settings.policy](layout, tasks, outputs, settings)
    _draw_weights(policy, rng)
    return policy.eval()


def _linear(inputs: int, outputs: int) -> nn.Module:
    """Return a layer whose weights are still to be drawn."""
    return skip_init(nn.Linear, inputs, outputs)  # type: ignore[no-untyped-call,no-any-return]


def _convolution(inputs: int, outputs: int, kernel: int, stride: int, padding: int) -> nn.Module:
    return skip_init(  # type: ignore[no-untyped-call,no-any-return]
        nn.Conv2d, inputs, outputs, kernel, stride=stride, padding=padding
    )


def _draw_weights(network: nn.Module, rng: np.random.Generator) -> None:
    """Draw weights and biases uniformly within 1 / sqrt(inputs), as torch does by default."""
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            bound = float(module.weight[0].numel()) ** -0.5
            for values in (module.weight, module.bias):
                assert values is not None
                drawn: np.ndarray[Any, Any] = rng.uniform(-bound, bound, tuple(values.shape))
                values.data.copy_(torch.from_numpy(drawn))
