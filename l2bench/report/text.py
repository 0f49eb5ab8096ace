"""Words and numbers as readers see them; names from bundles are taken to be hostile."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Iterable, Sequence

#: What stands where nothing was measured.
NOTHING = "\N{EN DASH}"

#: Names longer than this are cut in running text; no page is carried away by one of them.
LONGEST = 200

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    """Return text in which control, bidirectional and other unseen characters are spelled out.

    A right-to-left override becomes ``[U+202E]``. Newlines and tabs become spaces.
    """
    return "".join(
        " " if c in "\n\t\r" else f"[U+{ord(c):04X}]" if unicodedata.category(c) in _HIDDEN else c
        for c in text
    )


def printable(text: str) -> str:
    """Return text for a terminal: unseen characters are removed, newlines become spaces."""
    return "".join(
        " " if c in "\n\t\r" else "" if unicodedata.category(c) in _HIDDEN else c for c in text
    )


def shorten(text: str, limit: int = LONGEST) -> str:
    """Return text of at most ``limit`` characters, cut in the middle where it is longer.

    The middle goes because the names of related tasks differ most at their ends.
    """
    if len(text) <= limit:
        return text
    head = (limit - 1) * 3 // 5
    tail = limit - 1 - head
    return text[:head].rstrip() + "\N{HORIZONTAL ELLIPSIS}" + text[len(text) - tail :].lstrip()


def number(value: float | None) -> str:
    """Return a measured number with two decimals, or two digits where it is small; None: a dash.

    Raises:
        ValueError: for NaN or infinity, which no bundle may hold.
    """
    if value is None:
        return NOTHING
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a number")
    size = abs(value)
    if size == 0:
        text = "0.00"
    elif size < 0.01 or size >= 1e9:
        text = f"{size:.2g}"
    elif size < 100:
        text = f"{size:.2f}"
    else:
        text = f"{size:,.0f}" if size >= 1000 else f"{size:.1f}"
    return f"\N{MINUS SIGN}{text}" if value < 0 else text


def signed(value: float | None) -> str:
    """Return a difference with its sign, two decimals or two digits; a dash for None."""
    return f"+{number(value)}" if value is not None and value > 0 else number(value)


def rate(value: float | None) -> str:
    """Return a performance with exactly two decimals, for columns of them; a dash for None."""
    if value is None:
        return NOTHING
    text = f"{abs(value):.2f}"
    return f"\N{MINUS SIGN}{text}" if value < 0 and text != "0.00" else text


def count(value: int) -> str:
    """Return a whole number with thousands set apart."""
    return f"{value:,}"


def short_count(value: int) -> str:
    """Return a whole number as an axis label: 1500 is 1.5k."""
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:.4g}{letter}"
    return str(value)


def duration(seconds: float) -> str:
    """Return a duration with its two largest units."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    parts = (
        (whole // 86400, "d"),
        (whole % 86400 // 3600, "h"),
        (whole % 3600 // 60, "min"),
        (whole % 60, "s"),
    )
    first = next(at for at, (amount, _) in enumerate(parts) if amount)
    return " ".join(f"{amount} {unit}" for amount, unit in parts[first : first + 2] if amount)


def byte_size(amount: int) -> str:
    """Return a size with its unit, thousands at a time: 1500 is 1.5 kB."""
    for size, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (1000, "kB")):
        if amount >= size:
            value = amount / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{amount} B"


def ordinal(position: int) -> str:
    """Return a position as a word: 1 is 1st."""
    suffix = "th" if position % 100 in (11, 12, 13) else _SUFFIXES.get(position % 10, "th")
    return f"{position}{suffix}"


_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}


def plural(amount: int, word: str) -> str:
    """Return an amount with its noun: 1 lifetime, 5 lifetimes."""
    return f"{count(amount)} {word}{'' if amount == 1 else 's'}"


def listing(items: Iterable[object], limit: int = 12) -> str:
    """Return items set apart by commas; where there are too many, the first and how many more."""
    texts = [str(item) for item in items]
    if len(texts) <= limit:
        return ", ".join(texts)
    return f"{', '.join(texts[:limit])} and {len(texts) - limit} more"


def changed(deviations: Collection[str]) -> str:
    """Return what goes behind a suite's name where it was not run as it stands; else nothing."""
    return f" (changed: {plural(len(deviations), 'key')})" if deviations else ""


def deviates(deviations: Iterable[str]) -> str:
    """Return the line for a terminal that names the changed keys of a suite; empty without any."""
    keys = ", ".join(shorten(key, 80) for key in deviations)
    return printable(f"deviates from the suite in: {keys}") if keys else ""


def of_seeds(seeds: Collection[int]) -> str:
    """Return seeds with their noun: seed 3, seeds 0, 1, 2."""
    return f"seed{'' if len(seeds) == 1 else 's'} {listing(seeds)}"


def sentence_list(parts: Sequence[str]) -> str:
    """Return parts joined as in a sentence: a, b and c."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
