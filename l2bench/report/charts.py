"""The geometry of the charts: plain numbers and paths, which the templates draw as SVG.

Performance axes always run from 0 to 1; a value outside is drawn at the edge, and said so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from l2bench.report.colours import Look, Looks, step
from l2bench.report.data import Cell, Course, Curve, Matrix
from l2bench.report.text import number, plural, rate, short_count, shorten

WIDTH, HEIGHT = 260, 150
LEFT, RIGHT, TOP, BOTTOM = 30, 8, 8, 26

#: The same for the templates: where a panel's plot begins and ends.
BOX = {
    "width": WIDTH,
    "height": HEIGHT,
    "left": LEFT,
    "right": WIDTH - RIGHT,
    "top": TOP,
    "bottom": HEIGHT - BOTTOM,
}


@dataclass(frozen=True)
class Label:
    """A text at a place; ``full`` is what it was shortened from."""

    x: str
    y: str
    text: str
    full: str = ""
    anchor: str = "middle"


@dataclass(frozen=True)
class Square:
    """A cell of the heat map; ``step`` is its place on the ramp, None where not measured."""

    x: str
    y: str
    step: int | None
    text: str
    title: str


@dataclass(frozen=True)
class HeatMap:
    """A matrix as squares; ``size`` is their side, ``gap`` the space for names at the left."""

    width: int
    height: int
    across: int
    down: int
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    squares: tuple[Square, ...]
    tilt: int
    numbers: bool


@dataclass(frozen=True)
class Panel:
    """One small chart of one task: thin lines are lifetimes, the thick one is their mean."""

    task: str
    look: Look
    bands: tuple[tuple[str, str], ...]
    ticks_x: tuple[Label, ...]
    rules_x: tuple[str, ...]
    ticks_y: tuple[Label, ...]
    thin: tuple[str, ...]
    faint: bool
    mean: str
    marks: str
    dashed: str
    kept: str
    title: str
    note: str


@dataclass(frozen=True)
class Strip:
    """A metric on its range: each lifetime's value, their mean, and the interval."""

    low: str
    high: str
    points: tuple[str, ...]
    mean: str
    interval: tuple[str, str] | None
    zero: str | None
    title: str


def swatch(look: Look) -> dict[str, Any]:
    """Return a colour index and the path of a marker, for legends and tables."""
    return {"colour": look.colour, "path": mark(look.marker, 6, 6, 4.4)}


def heat_map(matrix: Matrix) -> HeatMap:
    """Return the heat map of a matrix; many tasks get small squares without numbers."""
    count = len(matrix.columns)
    across, down, letters = _sizes(count)
    numbered = [_numbered(matrix, name, at) for at, name in enumerate(matrix.columns)]
    starts = [_numbered(matrix, row.label, row.learned, "after ") for row in matrix.rows]
    left = 8 + round(7.0 * min(letters + 6, max(len(text) for text in starts)))
    tilt = -90 if count > 24 else -40
    longest = min(letters, max(len(text) for text in numbered))
    reach = 7.2 * longest
    top = round(20 + reach * (1.0 if count > 24 else 0.64))
    squares = [
        _square(left + j * across, top + i * down, row.label, matrix.columns[j], cell)
        for i, row in enumerate(matrix.rows)
        for j, cell in enumerate(row.cells)
    ]
    rows = [
        Label(f"{left - 8}", f"{top + (i + 0.5) * down:.1f}", shorten(text, letters + 6), text)
        for i, text in enumerate(starts)
    ]
    heads = [
        Label(f"{left + (j + 0.5) * across:.1f}", f"{top - 8}", shorten(text, letters), text)
        for j, text in enumerate(numbered)
    ]
    overhang = 10 if count > 24 else round(reach * 0.77)
    return HeatMap(
        width=left + count * across + max(10, overhang - across // 2),
        height=top + len(matrix.rows) * down + 4,
        across=across,
        down=down,
        rows=tuple(rows),
        columns=tuple(heads),
        squares=tuple(squares),
        tilt=tilt,
        numbers=count <= 24,
    )


def _sizes(tasks: int) -> tuple[int, int, int]:
    """Return width and height of a cell, and how many letters a name may have."""
    sizes = ((5, (92, 52, 26)), (12, (62, 42, 26)), (24, (40, 28, 22)))
    return next((size for most, size in sizes if tasks <= most), (15, 15, 20))


def _numbered(matrix: Matrix, text: str, column: int | None, before: str = "") -> str:
    """Return a name with its place in the order of learning, unless it is a place itself."""
    if column is None or not matrix.aligned:
        return text
    return f"{before}{column + 1} {text.removeprefix(before)}"


def _square(x: int, y: int, row: str, column: str, cell: Cell) -> Square:
    mean = cell.mean
    where = f"{shorten(row, 80)}, on {shorten(column, 80)}"
    if mean is None:
        return Square(f"{x}", f"{y}", None, number(None), f"{where}: not measured")
    parts = []
    for point in cell.points:
        spread = (
            f", 95 % {rate(point.interval[0])} to {rate(point.interval[1])}"
            if (point.interval)
            else ""
        )
        parts.append(f"seed {point.seed}: {rate(point.value)} (n = {point.n or 'unknown'}{spread})")
    title = f"{where}: mean {rate(mean)} of {plural(len(parts), 'lifetime')}; {'; '.join(parts)}"
    return Square(f"{x}", f"{y}", step(mean), rate(mean), title)


@dataclass(frozen=True)
class Frame:
    """Places data in a chart: x from ``first`` to ``last``, y from 0 to 1.

    Other charts than the small panels say where their plot begins and ends.
    """

    first: float
    last: float
    left: float = LEFT + 4
    right: float = WIDTH - RIGHT - 4
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM

    def x(self, value: float) -> float:
        """Return where a value lies across."""
        span = (self.last - self.first) or 1.0
        return self.left + (value - self.first) / span * (self.right - self.left)

    def y(self, value: float) -> float:
        """Return where a performance lies; outside of 0 to 1 at the edge."""
        inside = min(max(value, -0.03), 1.03)
        return self.top + (1 - inside) * (self.bottom - self.top)

    def path(self, points: Iterable[tuple[float, float | None]]) -> str:
        """Return a polyline that breaks where a value is missing."""
        parts, pen = [], "M"
        for at, value in points:
            if value is None:
                pen = "M"
                continue
            parts.append(f"{pen}{self.x(at):.1f} {self.y(value):.1f}")
            pen = "L"
        return "".join(parts)

    def marks(self, shape: str, points: Iterable[tuple[float, float | None]], size: float) -> str:
        """Return one path with a marker at every point."""
        known = [(at, value) for at, value in points if value is not None]
        return "".join(mark(shape, self.x(at), self.y(value), size) for at, value in known)

    def area(self, corners: Iterable[tuple[float, float]]) -> str:
        """Return a closed outline."""
        places = (f"{self.x(at):.1f} {self.y(value):.1f}" for at, value in corners)
        return f"M{'L'.join(places)}z"

    def ticks_y(self) -> tuple[Label, ...]:
        """Return the labels of 0, one half and 1."""
        return tuple(
            Label(f"{self.left - 10:.0f}", f"{self.y(value):.1f}", text)
            for value, text in ((0.0, "0"), (0.5, "0.5"), (1.0, "1"))
        )

    def ticks_x(self, values: Sequence[int], unit: str) -> tuple[Label, ...]:
        """Return labels at the values; the last one carries the unit."""
        labels = [
            Label(f"{self.x(value):.1f}", f"{HEIGHT - 8}", short_count(value))
            for value in values[:-1]
        ]
        last = f"{short_count(values[-1])} {unit}".strip()
        return (*labels, Label(f"{WIDTH - RIGHT}", f"{HEIGHT - 8}", last, anchor="end"))


def curve_panel(curve: Curve, seeds: Sequence[int], looks: Looks) -> Panel:
    """Return the panel of one task's checkpoints."""
    look = looks[curve.task]
    frame = Frame(curve.checkpoints[0], curve.checkpoints[-1])
    means = [(float(c), cell.mean) for c, cell in zip(curve.checkpoints, curve.cells, strict=True)]
    lines = [
        [(float(c), cell.of(seed)) for c, cell in zip(curve.checkpoints, curve.cells, strict=True)]
        for seed in seeds
    ]
    values = dict(zip(curve.checkpoints, curve.cells, strict=True))
    chosen = [(float(c), values[c].of(seed)) for seed, c in curve.kept.items() if c in values]
    visit = f", visit {curve.exposure + 1}" if curve.exposure else ""
    return Panel(
        task=curve.task,
        look=look,
        bands=(),
        ticks_x=frame.ticks_x(_spread(curve.checkpoints), curve.unit),
        rules_x=(),
        ticks_y=frame.ticks_y(),
        thin=tuple(frame.path(line) for line in lines) if len(seeds) > 1 else (),
        faint=True,
        mean=frame.path(means),
        marks=frame.marks(look.marker, means, 2.6),
        dashed="",
        kept=frame.marks("ring", chosen, 4.5),
        title=f"{curve.task}{visit}: performance at its checkpoints",
        note=", ".join(filter(None, (visit.removeprefix(", "), _kept_note(curve.kept)))),
    )


def course_panel(course: Course, visits: int, looks: Looks) -> Panel:
    """Return the panel of one task over the whole lifetime, with its learning blocks marked."""
    look = looks[course.task]
    frame = Frame(0, max(visits, 1))
    owns = set(course.own.values())
    own = next(iter(owns)) if len(owns) == 1 else ()
    bands = tuple((f"{frame.x(at):.1f}", f"{frame.x(at + 1) - frame.x(at):.1f}") for at in own)
    rules = range(visits + 1) if visits <= 40 else ()
    alone = [frame.path(line) for line in course.lines.values()]
    fresh = [
        point
        for seed, line in course.lines.items()
        for point in line
        if point[0] - 1 in course.own[seed]
    ]
    return Panel(
        task=course.task,
        look=look,
        bands=bands,
        ticks_x=frame.ticks_x(_spread(range(visits + 1)), "learned"),
        rules_x=tuple(f"{frame.x(at):.1f}" for at in rules),
        ticks_y=frame.ticks_y(),
        thin=tuple(path for path in alone if path) if len(alone) > 1 or not course.mean else (),
        faint=bool(course.mean),
        mean=frame.path(course.mean),
        marks=frame.marks(look.marker, course.mean or fresh, 2.6),
        dashed="".join(frame.path(points) for points in course.within),
        kept="",
        title=f"{course.task}: performance over the lifetime",
        note="" if course.lines and any(course.lines.values()) else "not evaluated",
    )


def strip(metric: Mapping[str, Any]) -> Strip | None:
    """Return a metric on its range; None where the range is open or there is no value."""
    low, high = metric["range"]
    if metric["mean"] is None or low is None or high is None or not low < high:
        return None

    def place(value: float) -> str:
        inside = min(max((value - low) / (high - low), 0.0), 1.0)
        return f"{8 + inside * 184:.1f}"

    interval = None
    if metric["low"] is not None and metric["high"] is not None:
        interval = place(metric["low"]), place(metric["high"])
    spread = (
        f", 95 % interval {number(metric['low'])} to {number(metric['high'])}" if interval else ""
    )
    return Strip(
        low=number(low).removesuffix(".00"),
        high=number(high).removesuffix(".00"),
        points=tuple(place(value) for value in metric["points"]),
        mean=place(metric["mean"]),
        interval=interval,
        zero=place(0.0) if low < 0 < high else None,
        title=f"mean {number(metric['mean'])}{spread}, on a range from {number(low)} to "
        f"{number(high)}",
    )


def _kept_note(kept: Mapping[int, int]) -> str:
    if not kept:
        return ""
    low, high = min(kept.values()), max(kept.values())
    return f"kept at {short_count(low)}" + (f" to {short_count(high)}" if low < high else "")


def _spread(values: Sequence[int]) -> list[int]:
    """Return the first, the last and, if there is room, the middle one of ascending values."""
    if len(values) < 3:
        return list(values)
    return [values[0], values[len(values) // 2], values[-1]]


def mark(shape: str, x: float, y: float, r: float) -> str:
    """Return a marker's outline as a path around (x, y), r from its middle."""
    if shape == "square":
        return f"M{x - r:.1f} {y - r:.1f}h{2 * r:.1f}v{2 * r:.1f}h{-2 * r:.1f}z"
    if shape == "triangle":
        return f"M{x:.1f} {y - 1.2 * r:.1f}l{1.2 * r:.1f} {2.1 * r:.1f}h{-2.4 * r:.1f}z"
    if shape == "diamond":
        r *= 1.3
        return f"M{x:.1f} {y - r:.1f}l{r:.1f} {r:.1f}l{-r:.1f} {r:.1f}l{-r:.1f} {-r:.1f}z"
    return (
        f"M{x - r:.1f} {y:.1f}a{r:.1f} {r:.1f} 0 1 0 {2 * r:.1f} 0"
        f"a{r:.1f} {r:.1f} 0 1 0 {-2 * r:.1f} 0z"
    )
