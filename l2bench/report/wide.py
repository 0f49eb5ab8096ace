"""The geometry of the wide charts: the lifetime curve, and the learner beside its experts."""

from __future__ import annotations

from dataclasses import dataclass

from l2bench.report.charts import BOX, Frame, Label
from l2bench.report.colours import Look, Looks
from l2bench.report.life import Kept, Life, Stage
from l2bench.report.text import number, rate, short_count, shorten, signed
from l2bench.report.transfer import Versus, between

WIDTH, HEIGHT = 1040, 310
LEFT, RIGHT, TOP, BOTTOM = 34, 12, 30, 30

#: How wide a letter of a band's name is, and the narrowest band that gets its number.
LETTER, NARROWEST = 6.2, 17

#: More learning blocks than this are drawn in finer lines, without the marks of their steps.
CROWDED = 30


@dataclass(frozen=True)
class Band:
    """A learning block: where it lies, its task's colour, its name above, the steps in it."""

    x: str
    width: str
    colour: int | None
    name: Label | None
    title: str
    line: str
    dots: str


@dataclass(frozen=True)
class Whisker:
    """A mean with its interval, or its points where there is none."""

    x: str
    y: str
    low: str | None
    high: str | None
    points: tuple[str, ...]
    title: str


@dataclass(frozen=True)
class LifeChart:
    """The lifetime curve as SVG needs it."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    bands: tuple[Band, ...]
    ticks_x: tuple[Label, ...]
    ticks_y: tuple[Label, ...]
    fine: bool
    kept: str
    whiskers: tuple[Whisker, ...]


def life_chart(life: Life, looks: Looks) -> LifeChart:
    """Return the chart of a lifetime; names give way to numbers, and these to nothing."""
    frame = Frame(0, life.stages[-1].end, LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM)
    kept = [(stage.end, stage.kept) for stage in life.stages if stage.kept]
    ends = [(at, found.over.mean) for at, found in kept]
    return LifeChart(
        WIDTH,
        HEIGHT,
        LEFT,
        WIDTH - RIGHT,
        TOP,
        HEIGHT - BOTTOM,
        bands=tuple(_band(frame, life, at, looks) for at in range(len(life.stages))),
        ticks_x=_ticks(frame, life),
        ticks_y=frame.ticks_y(),
        fine=len(life.stages) > CROWDED,
        kept=frame.path(ends),
        whiskers=tuple(_whisker(frame, at, found) for at, found in kept),
    )


def _band(frame: Frame, life: Life, at: int, looks: Looks) -> Band:
    stage = life.stages[at]
    left, right = frame.x(stage.start), frame.x(stage.end)
    steps = [(_place(stage, place), cell.mean) for place, cell in stage.steps]
    colour, marker = looks[stage.task] if stage.task else (None, "circle")
    what = f"block {at + 1}, {shorten(stage.label, 80)}"
    if steps:
        what += f": {rate(stage.first)} at its first step, {rate(stage.last)} at its last"
    return Band(
        x=f"{left:.1f}",
        width=f"{max(right - left - 1, 0.5):.1f}",
        colour=colour,
        name=_name(stage, at, left, right - left),
        title=what,
        line=frame.path(steps),
        dots="" if len(life.stages) > CROWDED else frame.marks(marker, steps, 2.4),
    )


def _name(stage: Stage, at: int, left: float, width: float) -> Label | None:
    """Return a band's number and as much of its name as fits; nothing where none does."""
    if width < NARROWEST:
        return None
    whole = f"{at + 1} {stage.label}" if stage.task else stage.label
    room = int((width - 12) / LETTER)
    text = shorten(whole, room) if room >= 9 else f"{at + 1}"
    return Label(f"{left + width / 2:.1f}", f"{TOP - 9}", text, whole)


def _place(stage: Stage, place: float) -> float:
    return stage.start + place * (stage.end - stage.start)


def _whisker(frame: Frame, at: float, kept: Kept) -> Whisker:
    found = kept.over
    assert found.mean is not None
    low = high = None
    if found.low is not None and found.high is not None:
        low, high = f"{frame.y(found.low):.1f}", f"{frame.y(found.high):.1f}"
        spread = f"95 % {rate(found.low)} to {rate(found.high)}"
    else:
        spread = f"points {', '.join(rate(point) for point in sorted(found.points))}"
    share = f"partial, {kept.tasks} of {kept.learned}" if kept.partial else f"{kept.learned}"
    return Whisker(
        x=f"{frame.x(at):.1f}",
        y=f"{frame.y(found.mean):.1f}",
        low=low,
        high=high,
        points=() if low else tuple(f"{frame.y(point):.1f}" for point in found.points),
        title=f"mean over the tasks learned so far ({share}): {rate(found.mean)}; {spread}",
    )


def _ticks(frame: Frame, life: Life) -> tuple[Label, ...]:
    """Return the ends of some learning blocks, six at most; the last one carries the unit."""
    ends = [0.0, *(stage.end for stage in life.stages)]
    every = -(-(len(ends) - 1) // 5)
    chosen = [*ends[:-1:every], ends[-1]]
    if len(chosen) > 2 and frame.x(chosen[-1]) - frame.x(chosen[-2]) < 120:
        del chosen[-2]
    labels = [
        Label(f"{frame.x(end):.1f}", f"{HEIGHT - 10}", short_count(round(end)))
        for end in chosen[:-1]
    ]
    last = f"{short_count(round(chosen[-1]))} {life.unit}"
    return (*labels, Label(f"{WIDTH - RIGHT}", f"{HEIGHT - 10}", last, anchor="end"))


@dataclass(frozen=True)
class Beside:
    """A small panel: the learner's curve, the expert's, and what lies between."""

    task: str
    look: Look
    gain: str
    loss: str
    learner: str
    marks: str
    expert: str
    ticks_x: tuple[Label, ...]
    ticks_y: tuple[Label, ...]
    title: str
    note: str


def beside_panel(versus: Versus, looks: Looks) -> Beside:
    """Return the panel of one task, from the beginning of its learning to the end."""
    look = looks[versus.task]
    frame = Frame(0, 1)
    areas = list(between(versus))
    own = list(zip(versus.places, versus.learner, strict=True))
    learner, expert = versus.means
    words = (
        f"{shorten(versus.task, 80)}: mean {rate(learner)}, expert {rate(expert)}, "
        f"difference {signed(versus.gain)}"
    )
    end = Label(
        f"{BOX['right']}",
        f"{BOX['height'] - 8}",
        f"{short_count(round(versus.amount))} {versus.unit}".strip(),
        anchor="end",
    )
    return Beside(
        task=versus.task,
        look=look,
        gain="".join(frame.area(corners) for ahead, corners in areas if ahead),
        loss="".join(frame.area(corners) for ahead, corners in areas if not ahead),
        learner=frame.path(own),
        marks=frame.marks(look.marker, own, 2.4),
        expert=frame.path(zip(versus.places, versus.expert, strict=True)),
        ticks_x=(Label(f"{frame.x(0):.1f}", f"{BOX['height'] - 8}", "0"), end),
        ticks_y=frame.ticks_y(),
        title=words,
        note=f"{signed(versus.gain)}" if abs(versus.gain) >= 0.005 else number(0.0),
    )
