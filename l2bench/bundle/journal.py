"""The journal of a running bundle: one line for every sealed block."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass
class Sealed:
    """A sealed block as the journal has it: its row, its agent state, and its tables."""

    block: int
    row: dict[str, Any]
    state: str | None
    state_sha256: str | None
    tables: dict[str, str]
    line: str = ""


def parse(line: str) -> Sealed | None:
    """Return a journal line as a sealed block, or None where it is torn."""
    try:
        body = json.loads(line) if line.endswith("\n") else None
        return Sealed(**body, line=line) if body is not None else None
    except (ValueError, TypeError):
        return None
