"""Rows of data: tensors by name that all have the same first dimension, one row per window.

A window has L frames. The names are ``vector`` (B, L, V) float32, ``image.<key>`` (B, L, H, W, C)
uint8, ``task`` (B, E) float32, and for learning also ``target`` (B, L + ahead, ...), what the
action head makes of the actions, and ``real`` (B, L + ahead) bool, false where a frame or action
is filled in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

Rows = Mapping[str, Tensor]


def count(rows: Rows) -> int:
    """Return the number of rows."""
    return len(rows["task"])


def join(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def take(rows: Rows, indices: Sequence[int]) -> Rows:
    """Return the rows at these positions."""
    where = torch.tensor(indices, device=rows["task"].device)
    return {name: values.index_select(0, where) for name, values in rows.items()}


def split(rows: Rows) -> list[Rows]:
    """Return every row by itself, still with its first dimension."""
    number = count(rows)
    return [{n: v[at : at + 1] for n, v in rows.items()} for at in range(number)]


def pinned(rows: Rows) -> Rows:
    """Return the rows in memory that a GPU reads directly."""
    return {name: values.pin_memory() for name, values in rows.items()}


def to(rows: Rows, device: torch.device) -> Rows:
    """Return the rows on a device."""
    if device.type == "cpu":
        return rows
    return {name: values.to(device, non_blocking=True) for name, values in rows.items()}
