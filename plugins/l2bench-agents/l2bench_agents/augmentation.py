"""Changes made to training images: moved a little, and in other colours.

Following LIBERO's public configuration, every frame and camera of a window is changed alike. The
order of the four changes of colour is drawn once for a batch, their strengths for every window.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from l2bench_agents.settings import AugmentationSettings

#: Weights of red, green and blue in brightness (ITU-R BT.601).
LUMA = (0.299, 0.587, 0.114)


def augment(images: Mapping[str, Tensor], settings: AugmentationSettings) -> dict[str, Tensor]:
    """Return changed images (B, L, H, W, C) float32 in [0, 1] of images uint8 by key.

    Draws from torch's global generator of the CPU, whatever the device.
    """
    first = next(iter(images.values()))
    number, device = len(first), first.device
    reach = settings.translation // 2
    moves = torch.randint(-reach, reach + 1, (2, number)).to(device)
    order = torch.randperm(4).tolist()
    strengths = torch.tensor(
        [settings.brightness, settings.contrast, settings.saturation, settings.hue]
    )
    drawn = (torch.rand(4, number) * 2 - 1) * strengths[:, None]
    drawn[:3] += 1
    kept = torch.rand(number) < settings.skip
    drawn[:3, kept], drawn[3, kept] = 1.0, 0.0
    factors = drawn.to(device).view(4, number, 1, 1, 1, 1)
    changed = {}
    for key, image in images.items():
        moved = translate(image, moves).float().div_(255)
        for step in order:
            moved = _CHANGES[step](moved, factors[step])
        changed[key] = moved
    return changed


def translate(image: Tensor, moves: Tensor) -> Tensor:
    """Return images (B, L, H, W, C) moved by (2, B) rows and columns; edges are repeated."""
    number, _, height, width, _ = image.shape
    rows = torch.arange(height, device=image.device) + moves[0, :, None]
    columns = torch.arange(width, device=image.device) + moves[1, :, None]
    rows, columns = rows.clamp(0, height - 1), columns.clamp(0, width - 1)
    windows = torch.arange(number, device=image.device)[:, None, None]
    # indexed dimensions come first: (B, H, W, L, C)
    moved = image.transpose(1, 2).transpose(2, 3)[windows, rows[:, :, None], columns[:, None]]
    return moved.permute(0, 3, 1, 2, 4)


def _grey(image: Tensor) -> Tensor:
    weights = torch.tensor(LUMA, device=image.device)
    return (image * weights).sum(-1, keepdim=True)


def brightness(image: Tensor, factor: Tensor) -> Tensor:
    """Return brighter or darker images."""
    return (image * factor).clamp_(0, 1)


def contrast(image: Tensor, factor: Tensor) -> Tensor:
    """Return images further from, or nearer to, the mean brightness of each frame."""
    grey = _grey(image) if image.shape[-1] == 3 else image
    mean = grey.mean(dim=(2, 3, 4), keepdim=True)
    return (image - mean).mul_(factor).add_(mean).clamp_(0, 1)


def saturation(image: Tensor, factor: Tensor) -> Tensor:
    """Return more or less colourful images; only of three channels."""
    if image.shape[-1] != 3:
        return image
    grey = _grey(image)
    return (image - grey).mul_(factor).add_(grey).clamp_(0, 1)


def hue(image: Tensor, turn: Tensor) -> Tensor:
    """Return images with hues turned by a part of the circle; only of three channels."""
    if image.shape[-1] != 3:
        return image
    red, green, blue = image.unbind(-1)
    high, low = image.amax(-1), image.amin(-1)
    spread = high - low
    safe = spread.clamp(min=1e-8)
    angle = torch.where(
        high == red,
        (green - blue) / safe,
        torch.where(high == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    turned = angle + 6 * turn.squeeze(-1)
    channels = []
    for offset in (5, 3, 1):  # the piecewise linear form of HSV to RGB
        along = (turned + offset).remainder_(6)
        share = torch.minimum(along, 4 - along).clamp_(0, 1)
        channels.append(high - share.mul_(spread))
    return torch.stack(channels, dim=-1)


_CHANGES = (brightness, contrast, saturation, hue)
