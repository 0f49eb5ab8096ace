"""Weights drawn from an agent's own generator; torch's is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

NetworkT = TypeVar("NetworkT", bound=nn.Module)


def built(make: Callable[[], NetworkT], rng: np.random.Generator) -> NetworkT:
    """Return a network with its weights drawn from ``rng``."""
    with torch.random.fork_rng(devices=[]):
        network = make()
    draw_weights(network, rng)
    return network


def draw_weights(network: nn.Module, rng: np.random.Generator) -> None:
    """Draw the weights of all parts, in their order.

    Uniformly within 1 / sqrt(inputs), as torch does by default, for layers and, with the width in
    place of the inputs, recurrent ones; normally, with mean square 2 / outputs, for convolutions
    without bias, as is usual for residual networks; normally for parameters that stand alone.
    Normalisations start as the identity.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d) and module.bias is None:
            outputs = module.out_channels * int(np.prod(module.kernel_size))
            _set(module.weight, rng.normal(0, (2 / outputs) ** 0.5, tuple(module.weight.shape)))
        elif isinstance(module, nn.Linear | nn.Conv2d):
            bound = float(module.weight[0].numel()) ** -0.5
            for values in module.parameters():
                _uniform(values, bound, rng)
        elif isinstance(module, nn.LSTM):
            for values in module.parameters():
                _uniform(values, module.hidden_size**-0.5, rng)
        elif not isinstance(module, nn.BatchNorm2d | nn.LayerNorm):
            for values in module.parameters(recurse=False):
                _set(values, rng.normal(size=tuple(values.shape)))


def _uniform(values: Tensor, bound: float, rng: np.random.Generator) -> None:
    _set(values, rng.uniform(-bound, bound, tuple(values.shape)))


def _set(values: Tensor, drawn: np.ndarray[Any, Any]) -> None:
    values.data.copy_(torch.from_numpy(drawn))
