"""What a check finds: one rule broken at one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from l2bench.check.codes import RULES

Severity = Literal["error", "warning"]

#: Texts of findings are cut here: what they quote may be anything.
LONGEST = 400


@dataclass(frozen=True)
class Finding:
    """One rule that was broken.

    ``code`` is stable (``R03``); ``path`` is the file, relative to what was checked; ``row`` the
    row of a table, counted from 0. ``expected`` and ``found`` are plain data.
    """

    code: str
    severity: Severity
    path: str
    message: str
    expected: Any = None
    found: Any = None
    hint: str | None = None
    row: int | None = None

    @property
    def title(self) -> str:
        """What the rule asks for."""
        return RULES[self.code].title

    def below(self, prefix: str) -> Finding:
        """Return the finding with its path below another one."""
        return replace(self, path="/".join(part for part in (prefix, self.path) if part))

    def data(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        return asdict(self)


def broken(
    code: str,
    path: str,
    message: str,
    *,
    expected: Any = None,
    found: Any = None,
    row: int | None = None,
    hint: str | None = None,
) -> Finding:
    """Return the finding that a rule is broken, with the rule's severity and hint."""
    rule = RULES[code]
    severity: Severity = "error" if rule.severity == "error" else "warning"
    return Finding(
        code,
        severity,
        path,
        _short(message),
        _plain(expected),
        _plain(found),
        hint or rule.hint,
        None if row is None else int(row),
    )


def from_data(data: Mapping[str, Any]) -> Finding:
    """Return a finding from what `Finding.data` gave."""
    return Finding(**data)


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that are errors."""
    return [found for found in findings if found.severity == "error"]


def first_few(findings: Iterable[Finding], limit: int = 5) -> list[Finding]:
    """Return the first findings of one code and, if there are more, how many in the last."""
    each = list(findings)
    if len(each) <= limit:
        return each
    kept = each[:limit]
    more = f"{kept[-1].message} (and {len(each) - limit} more like this)"
    return [*kept[:-1], replace(kept[-1], message=more)]


def _plain(value: Any) -> Any:
    """Return a value as plain JSON data of a size that can be printed."""
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, list | tuple):
        shown = [_plain(item) for item in value[:20]]
        return shown if len(value) <= 20 else [*shown, f"... ({len(value)} in all)"]
    return _short(str(value))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
