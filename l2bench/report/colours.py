"""Colours: the Okabe-Ito palette for tasks, one ramp for performance.

Source: Okabe and Ito 2008, "Color Universal Design". A task's colour and marker follow from its id;
where two tasks of a suite would share them, one gives way. So a task looks the same on every page
of its suite, whatever the order of the tasks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

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


class Look(NamedTuple):
    """How a task is drawn: its palette index and its marker."""

    colour: int
    marker: str


Looks = Mapping[str, Look]


def looks(task_ids: Iterable[str]) -> Looks:
    """Return the looks of all tasks of a suite, by id.

    Each has the look of its id's hash, if that is free, else the next free one: no two tasks share
    a colour, or, where there are more tasks than colours, a colour and marker; when those are used
    up, they come again. Ids are gone through by name, so that the order of the suite's list
    changes nothing.
    """
    found: dict[str, Look] = {}
    taken: set[int] = set()
    ids = sorted(set(task_ids))
    few = len(ids) <= len(PALETTE)
    places = len(PALETTE) if few else len(PALETTE) * len(MARKERS)
    for id in ids:
        if len(taken) == places:  # all are in use; begin again
            taken.clear()
        own = _word(id)
        place = next(at % places for at in range(own, own + places) if at % places not in taken)
        taken.add(place)
        marker = (own if few else place) // len(PALETTE) % len(MARKERS)
        found[id] = Look(place % len(PALETTE), MARKERS[marker])
    return found


def _word(task_id: str) -> int:
    digest = hashlib.sha256(SALT + task_id.encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:4], "big")


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
