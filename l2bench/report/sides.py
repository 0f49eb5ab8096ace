"""Agents side by side: their colours, the performance profile, and strips on one range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from l2bench.report.charts import Frame, Label, Strip, mark, strip
from l2bench.report.colours import MARKERS, PALETTE
from l2bench.report.text import rate

WIDTH, HEIGHT = 620, 300
LEFT, RIGHT, TOP, BOTTOM = 34, 14, 10, 28

#: The order in which agents take colours: neighbours differ in hue and in lightness.
COLOURS = (4, 5, 2, 6, 7, 0, 1, 3)


@dataclass(frozen=True)
class Side:
    """How an agent is drawn: palette index, marker path, and the dashes of its line."""

    label: str
    colour: int
    path: str
    dash: int


def sides(labels: Sequence[str]) -> tuple[Side, ...]:
    """Return how agents are drawn, by their place."""
    return tuple(
        Side(
            label,
            COLOURS[at % len(PALETTE)],
            mark(MARKERS[at % len(MARKERS)], 6, 6, 4.4),
            at % len(MARKERS),
        )
        for at, label in enumerate(labels)
    )


@dataclass(frozen=True)
class ProfileLine:
    """An agent's share of scores above each threshold, with the band of its interval."""

    side: Side
    line: str
    band: str


@dataclass(frozen=True)
class ProfileChart:
    """The performance profile as SVG needs it."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    ticks_x: tuple[Label, ...]
    ticks_y: tuple[Label, ...]
    lines: tuple[ProfileLine, ...]


def profile_chart(agents: Sequence[Mapping[str, Any]], looks: Sequence[Side]) -> ProfileChart:
    """Return the chart of `l2bench.outcomes.profile` of several agents."""
    frame = Frame(0, 1, LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM)
    lines = []
    for agent, side in zip(agents, looks, strict=True):
        found = agent["profile"]
        taus, band = found["taus"], ""
        if found["low"] is not None:
            upper = list(zip(taus, found["high"], strict=True))
            lower = list(zip(taus, found["low"], strict=True))
            band = frame.area([*upper, *reversed(lower)])
        lines.append(ProfileLine(side, frame.path(zip(taus, found["share"], strict=True)), band))
    ticks = tuple(
        Label(f"{frame.x(value):.1f}", f"{HEIGHT - 10}", text, anchor=anchor)
        for value, text, anchor in ((0.0, "0", "middle"), (0.5, "0.5", "middle"), (1.0, "1", "end"))
    )
    return ProfileChart(
        WIDTH, HEIGHT, LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM, ticks, frame.ticks_y(),
        tuple(lines),
    )  # fmt: skip


def shared_range(metric: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the range that all agents' strips of a metric share.

    It is the metric's own, or what the lifetimes span where that is open. None without a width.
    """
    points = [point for found in metric["estimates"] for point in found["points"]]
    low, high = metric["range"]
    low = min(points, default=None) if low is None else low
    high = max(points, default=None) if high is None else high
    return (low, high) if low is not None and high is not None and low < high else None


def on_range(found: Mapping[str, Any], ends: tuple[float, float] | None) -> Strip | None:
    """Return an estimate on a range."""
    return strip({**found, "range": ends}) if ends else None


def difference_strip(row: Mapping[str, Any], ends: tuple[float, float]) -> Strip | None:
    """Return a difference and its interval on a range around 0."""
    if row["verdict"] == "undefined":
        return None
    found = {"mean": row["difference"], "low": row["low"], "high": row["high"], "points": ()}
    return strip({**found, "range": ends})


def span(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return a range around 0, in steps of a quarter, that holds all differences."""
    known = [row for row in rows if row["verdict"] != "undefined"]
    sizes = [
        abs(row[key])
        for row in known
        for key in ("difference", "low", "high")
        if row[key] is not None
    ]
    most = next((end for end in (0.25, 0.5, 1.0) if max(sizes, default=0.0) <= end), 1.0)
    return -most, most


def share_row(agent: Mapping[str, Any]) -> list[str]:
    """Return an agent's profile as texts, in the order of the thresholds."""
    return [rate(share) for share in agent["profile"]["share"]]
