"""Rows of data: tensors by name that all have the same first dimension, one row per pair.

The names are ``vector`` (B, V) float32, ``image.<key>`` (B, H, W, C) uint8, ``task`` (B,) int64
(-1: not revealed) and ``target``, what the action head makes of the actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

Rows = Mapping[str, Tensor]


def count(rows: Rows) -> int:
    """Return the number of rows."""
    return len(rows["task"])


def first(rows: Rows, number: int) -> Rows:
    """Return the first rows, at most this many."""
    return {name: values[:number] for name, values in rows.items()}


def take(rows: Rows, indices: Tensor) -> Rows:
    """Return the rows at these positions (B,) int64."""
    return {name: values.index_select(0, indices) for name, values in rows.items()}


def join(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, one after the other."""
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def split(rows: Rows) -> list[Rows]:
    """Return every row by itself, still with its first dimension."""
    number = count(rows)
    return [{n: v[at : at + 1] for n, v in rows.items()} for at in range(number)]


def to(rows: Rows, device: torch.device) -> Rows:
    """Return the rows on a device."""
    if device.type == "cpu":
        return rows
    return {name: values.to(device, non_blocking=True) for name, values in rows.items()}


def size(rows: Rows) -> int:
    """Return the number of bytes the rows take."""
    return sum(values.numel() * values.element_size() for values in rows.values())
