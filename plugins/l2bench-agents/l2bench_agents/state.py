"""Saved states: tensors as safetensors, everything else as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn, optim

from l2bench.errors import Unsupported


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name."""
    save_file({name: values.detach().cpu().contiguous() for name, values in tensors.items()}, path)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Return what `save_tensors` wrote, on the CPU.

    Raises:
        Unsupported: if the file is missing or damaged.
    """
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise Unsupported(f"cannot read the agent's state {path}: {error}") from error


def save_plain(path: Path, plain: Mapping[str, Any]) -> None:
    """Write plain data as JSON."""
    path.write_text(json.dumps(plain, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")


def load_plain(path: Path) -> dict[str, Any]:
    """Return what `save_plain` wrote.

    Raises:
        Unsupported: if the file is missing or damaged.
    """
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise Unsupported(f"cannot read the agent's state {path}: {error}") from error


def load_network(network: nn.Module, path: Path) -> None:
    """Fill a network with the tensors of a file.

    Raises:
        Unsupported: if they are those of another network.
    """
    tensors = load_tensors(path)
    own = {name: tuple(values.shape) for name, values in network.state_dict().items()}
    if own != {name: tuple(values.shape) for name, values in tensors.items()}:
        raise Unsupported(
            f"{path} holds the network of an agent with other settings or other tasks; "
            f"go on with the settings it was started with"
        )
    network.load_state_dict(tensors)


def optimiser_tensors(optimiser: optim.Optimizer, network: nn.Module) -> dict[str, Tensor]:
    """Return the optimiser's state as tensors named ``<parameter>/<quantity>``."""
    return {
        f"{name}/{quantity}": values
        for name, parameter in network.named_parameters()
        for quantity, values in optimiser.state.get(parameter, {}).items()
    }


def load_optimiser(
    optimiser: optim.Optimizer, network: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    """Give a new optimiser the state that `optimiser_tensors` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for position, (name, _) in enumerate(network.named_parameters()):
        quantities = {k.split("/")[1]: v for k, v in tensors.items() if k.split("/")[0] == name}
        if quantities:
            state[position] = quantities
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of tensors: names, types, shapes and bytes, in alphabetical order."""
    sha = hashlib.sha256()
    for name in sorted(tensors):
        values = tensors[name].detach().cpu().contiguous()
        sha.update(f"{name} {values.dtype} {tuple(values.shape)};".encode())
        sha.update(values.numpy().tobytes())
    return sha.hexdigest()
