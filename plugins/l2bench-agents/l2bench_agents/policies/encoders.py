"""Image encoders: from images (N, C, H, W) in [0, 1] to features."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def positions(features: Tensor) -> Tensor:
    """Return the expected column, then row, in [-1, 1], of each feature map: (N, 2 * C).

    The spatial softmax of Levine et al. (2016): it keeps where things are.
    """
    _, _, height, width = features.shape
    weights = functional.softmax(features.flatten(2), dim=2).view_as(features)
    across = torch.linspace(-1, 1, width, device=features.device)
    down = torch.linspace(-1, 1, height, device=features.device)
    columns = (weights.sum(dim=2) * across).sum(dim=2)
    rows = (weights.sum(dim=3) * down).sum(dim=2)
    return torch.cat([columns, rows], dim=1)


class PositionEncoder(nn.Module):
    """The positions (N, 128) of 64 features: small, for the policy ``mlp``.

    The convolutions of Mnih et al. (2015), padded so that small images pass too.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(channels, 32, 8, stride=4, padding=2),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1, padding=1),
        )

    def forward(self, image: Tensor) -> Tensor:
        """Return the expected column and row of each feature."""
        return positions(self.convolutions(image - 0.5))


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions around which the input passes (He et al. 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _normalised(inputs, outputs, 3, stride)
        self.second = _normalised(outputs, outputs, 3, 1)
        same = inputs == outputs and stride == 1
        self.around = nn.Identity() if same else _normalised(inputs, outputs, 1, stride)

    def forward(self, features: Tensor) -> Tensor:
        """Return features of ``outputs`` channels."""
        inside = self.second(_positive(self.first(features)))
        return _positive(inside.add_(self.around(features)))


class ResNetEncoder(nn.Module):
    """The first half of ResNet-18, told the task after every block, to ``width`` numbers.

    The task enters as in FiLM (Perez et al. 2018): each channel is scaled and shifted by what a
    linear layer makes of the task's vector. Then come the positions of ``width / 2`` features and
    a linear layer.
    """

    def __init__(self, channels: int, width: int, task_width: int) -> None:
        super().__init__()
        self.stem = _normalised(channels, 64, 7, 2)
        sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
        self.blocks = nn.ModuleList(ResidualBlock(*size) for size in sizes)
        wanted = [outputs for _, outputs, _ in sizes] if task_width else []
        self.modulations = nn.ModuleList(nn.Linear(task_width, 2 * each) for each in wanted)
        self.keypoints = nn.Conv2d(128, width // 2, 1)
        self.projection = nn.Linear(width, width)

    def forward(self, image: Tensor, task: Tensor) -> Tensor:
        """Return features (N, width) of images and tasks (N, E)."""
        features = functional.max_pool2d(_positive(self.stem(image)), 3, 2, 1)
        for at, block in enumerate(self.blocks):
            features = block(features)
            if self.modulations:
                shift, scale = self.modulations[at](task)[:, :, None, None].chunk(2, dim=1)
                features = ((1 + scale) * features).add_(shift)
        return self.projection(positions(self.keypoints(features)))  # type: ignore[no-any-return]


class PatchEncoder(nn.Module):
    """Images at half size to one token for each patch: (N, patches, width)."""

    def __init__(self, channels: int, width: int, patch: int) -> None:
        super().__init__()
        self.stem = _normalised(channels, 64, 7, 2)
        self.patches = nn.Conv2d(64, width, patch, stride=patch)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, image: Tensor) -> Tensor:
        """Return the tokens, row by row."""
        tokens = self.norm(self.patches(_positive(self.stem(image))))
        return tokens.flatten(2).transpose(1, 2)  # type: ignore[no-any-return]


def _positive(normalised: Tensor) -> Tensor:
    """Return features with 0 for what is negative, in place: no gradient needs what was there."""
    return functional.relu(normalised, inplace=True)


def _normalised(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))
