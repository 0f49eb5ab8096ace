"""Colours: the Okabe-Ito palette for tasks, one ramp for performance.

Source: Okabe and Ito 2008, "Color Universal Design". A task's colour and marker are a function of
its id alone, so that a task looks the same on every page, whatever comes before it.
"""

from __future__ import annotations

import hashlib

#: Fill, line on a light page, line on a dark page. Lines keep a contrast of 3 to the page.
PALETTE: tuple[tuple[str, str, str], ...] = (
    ("#E69F00", "#B27A00", "#E69F00"),
    ("#56B4E9", "#2A8BC2", "#56B4E9"),
    ("#009E73", "#008F68", "#14B88A"),
    ("#F0E442", "#8F8500", "#F0E442"),
    ("#0072B2", "#0072B2", "#3E9BD6"),
    ("#D55E00", "#D55E00", "#E8762C"),
    ("#CC79A7", "#B65C8E", "#CC79A7"),
    ("#767676", "#3A3A3A", "#C9C9C9"),
)
MARKERS = ("circle", "square", "triangle", "diamond")

#: Chosen so that tasks of the project's small suites have colours that are easily told apart.
SALT = b"4538:"

#: Performance 0 to 1 in steps of 0.05.
STEPS = 21
_LIGHT = ("#F3F1EA", "#C9DFD6", "#7FBDBE", "#3B87A8", "#1D4E7E", "#12284C")
_DARK = ("#22262B", "#1F3B4D", "#1E5F78", "#2C8F97", "#6CC3A8", "#E6F3C4")
_INK, _PAPER = "#000000", "#FFFFFF"

Ramp = tuple[tuple[str, str], ...]


def look(task_id: str) -> tuple[int, str]:
    """Return a task's palette index and marker, from the hash of its id."""
    digest = hashlib.sha256(SALT + task_id.encode("utf-8", "replace")).digest()
    word = int.from_bytes(digest[:4], "big")
    return word % len(PALETTE), MARKERS[word // len(PALETTE) % len(MARKERS)]


def step(value: float) -> int:
    """Return the place on the ramp of a performance; values outside [0, 1] take the nearest end."""
    return round(min(max(value, 0.0), 1.0) * (STEPS - 1))


def ramp(dark: bool) -> Ramp:
    """Return the ramp's fills, each with the text colour that reads best on it."""
    anchors = _DARK if dark else _LIGHT
    fills = [_between(anchors, at / (STEPS - 1)) for at in range(STEPS)]
    return tuple((fill, text_on(fill)) for fill in fills)


def text_on(fill: str) -> str:
    """Return black or white, whichever has the higher contrast on a fill."""
    return max((_INK, _PAPER), key=lambda ink: contrast(ink, fill))


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21 (WCAG 2.2)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    """Return the relative luminance of an sRGB colour ``#RRGGBB``, 0 to 1 (WCAG 2.2)."""
    linear = [_linear(part / 255) for part in _parts(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _linear(part: float) -> float:
    value: float = part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
    return value


def _parts(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def _between(anchors: tuple[str, ...], share: float) -> str:
    place = share * (len(anchors) - 1)
    at = min(int(place), len(anchors) - 2)
    pairs = zip(_parts(anchors[at]), _parts(anchors[at + 1]), strict=True)
    mixed = [round(low + (high - low) * (place - at)) for low, high in pairs]
    return "#" + "".join(f"{part:02X}" for part in mixed)
