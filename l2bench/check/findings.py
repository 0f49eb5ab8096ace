"""What a check finds: one rule broken at one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One rule that was broken.

    ``code`` is stable (``R03``); ``path`` is the file, relative to what was checked; ``row`` the
    row of a table, counted from 0.
    """

    code: str
    severity: Severity
    path: str
    message: str
    expected: Any = None
    found: Any = None
    hint: str | None = None
    row: int | None = None
