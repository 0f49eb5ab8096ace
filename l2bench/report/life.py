"""One lifetime curve: what is learned when, how it goes, and how much of all that is kept.

Lifetimes that learn in different orders are brought together by place in the order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from l2bench.bundle.lifetime import Array, Lifetime, columns
from l2bench.metrics.statistics import Estimate, estimate
from l2bench.report.data import Cell, Curve, Lives, Point, Visit
from l2bench.report.text import ordinal
from l2bench.scoring import bootstrap_generator

#: A learning block's own experiences are shown as at most so many means.
BINS = 20

#: Imports that do not say how much of a task was learned, only that it was.
UNMETERED = frozenset({"import/matrix"})
#: What is counted where amounts of learning cannot be: one each.
BLOCKS, TASKS = "learning blocks", "tasks learned"

#: Positions in the learning block (0 to 1) and what was measured there.
Steps = tuple[tuple[float, Cell], ...]


@dataclass(frozen=True)
class Kept:
    """The mean over the tasks learned so far, in the evaluation after a learning block.

    ``tasks`` of the ``learned`` ones were evaluated; where they are fewer, the mean is partial.
    """

    over: Estimate
    tasks: int
    learned: int

    @property
    def partial(self) -> bool:
        """Whether tasks that were learned are missing from the mean."""
        return self.tasks < self.learned


@dataclass(frozen=True)
class Stage:
    """One learning block: its task (None where lifetimes differ), its place, what was measured.

    ``start`` and ``end`` count the unit of `Life`. ``steps`` lead through the block.
    """

    label: str
    task: str | None
    start: float
    end: float
    steps: Steps
    kept: Kept | None

    @property
    def first(self) -> float | None:
        """The mean at the first step."""
        return self.steps[0][1].mean if self.steps else None

    @property
    def last(self) -> float | None:
        """The mean at the last step."""
        return self.steps[-1][1].mean if self.steps else None


@dataclass(frozen=True)
class Life:
    """The stages of a lifetime in order.

    ``source`` says what the steps are: ``checkpoints``, or ``experiences`` with the number of them
    behind each mean in ``window``.
    """

    stages: tuple[Stage, ...]
    unit: str
    source: str | None
    window: int

    @property
    def measured(self) -> bool:
        """Whether there is anything to draw."""
        return any(stage.steps or stage.kept for stage in self.stages)

    @property
    def metered(self) -> bool:
        """Whether the unit is one of learning, such as episodes."""
        return self.unit not in (BLOCKS, TASKS)

    @property
    def partial(self) -> bool:
        """Whether the mean after some block leaves out tasks that were learned."""
        return any(stage.kept is not None and stage.kept.partial for stage in self.stages)


def life(lives: Lives) -> Life:
    """Return the lifetime curve of lifetimes of one agent on one suite."""
    count = max(len(visits) for visits in lives.visits)
    widths, unit = _widths(lives, count)
    steps, source, window = _steps(lives, count)
    kept = [_kept(lives, at) for at in range(1, count + 1)]
    stages, start = [], 0.0
    for at in range(count):
        task = lives.names[lives.visits[0][at][0]] if lives.aligned else None
        label = task or f"{ordinal(at + 1)} task"
        stages.append(Stage(label, task, start, start + widths[at], steps[at], kept[at]))
        start += widths[at]
    return Life(tuple(stages), unit, source, window)


def _widths(lives: Lives, count: int) -> tuple[list[float], str]:
    """Return how long each learning block is, and in which unit; else 1 each."""
    tasks = lives.lifetimes[0].suite.tasks
    if any(task.environment in UNMETERED for task in tasks):
        return [1.0] * count, TASKS
    units = {t.learning.unit for t in tasks if t.learning is not None}
    amounts = [_amounts(lifetime) for lifetime in lives.lifetimes]
    rows = [
        [found.get(visit, 0) for visit in visits]
        for found, visits in zip(amounts, lives.visits, strict=True)
    ]
    same = all(row == rows[0] for row in rows)
    if len(units) == 1 and same and all(width > 0 for width in rows[0]):
        return [float(width) for width in rows[0]], units.pop()
    return [1.0] * count, BLOCKS


def _amounts(lifetime: Lifetime) -> dict[Visit, int]:
    blocks = columns(lifetime.blocks)
    found: dict[Visit, int] = {}
    for at in np.flatnonzero(blocks["kind"] == "learn"):
        visit = int(blocks["learn_task"][at]), int(blocks["exposure"][at])
        found[visit] = max(found.get(visit, 0), int(blocks["checkpoint"][at]))
    return found


def _steps(lives: Lives, count: int) -> tuple[list[Steps], str | None, int]:
    """Return the steps of each block: checkpoints if there are any, else its own experiences."""
    if lives.curves:
        known = {(curve.task, curve.exposure): curve for curve in lives.curves}
        return [_checkpoints(lives, known, at) for at in range(count)], "checkpoints", 0
    rows = [experiences(lifetime) for lifetime in lives.lifetimes]
    longest = max((len(values) for found in rows for values in found.values()), default=0)
    if not longest:
        return [()] * count, None, 0
    steps = []
    for at in range(count):
        there = {}
        for seed, visits, found in zip(lives.seeds, lives.visits, rows, strict=True):
            if at < len(visits) and len(found.get(visits[at], ())):
                there[seed] = found[visits[at]]
        steps.append(binned(there))
    return steps, "experiences", math.ceil(longest / BINS)


def _checkpoints(lives: Lives, known: Mapping[tuple[str, int], Curve], at: int) -> Steps:
    points: dict[float, list[Point]] = {}
    for seed, visits in zip(lives.seeds, lives.visits, strict=True):
        if at >= len(visits):
            continue
        task, exposure = visits[at]
        curve = known.get((lives.names[task], exposure))
        learning = lives.lifetimes[0].suite.tasks[task].learning
        if curve is None or learning is None:
            continue
        for checkpoint, cell in zip(curve.checkpoints, curve.cells, strict=True):
            own = [point for point in cell.points if point.seed == seed]
            points.setdefault(checkpoint / learning.amount, []).extend(own)
    return tuple((place, Cell(tuple(points[place]))) for place in sorted(points) if points[place])


def experiences(lifetime: Lifetime) -> dict[Visit, Array]:
    """Return the performance in each visit's own learning, in order, unmeasured ones left out."""
    if not lifetime.learning.num_rows:
        return {}
    blocks, rows = columns(lifetime.blocks), columns(lifetime.learning)
    visit_of = {
        int(block): (int(task), int(exposure))
        for block, task, exposure in zip(
            blocks["block_index"], blocks["learn_task"], blocks["exposure"], strict=True
        )
    }
    performance = lifetime.placed(lifetime.learning)
    order = np.argsort(rows["lx_index"], kind="stable")
    found: dict[Visit, list[float]] = {}
    for at in order[~np.isnan(performance[order])]:
        found.setdefault(visit_of[int(rows["block_index"][at])], []).append(float(performance[at]))
    return {visit: np.array(values) for visit, values in found.items()}


def binned(values: Mapping[int, Array]) -> Steps:
    """Return the values (n,) of each seed as means of `BINS` parts or fewer, each in its middle."""
    if not values:
        return ()
    bins = min(BINS, *(len(own) for own in values.values()))
    parts = {seed: np.array_split(own, bins) for seed, own in values.items()}
    return tuple(
        (
            (at + 0.5) / bins,
            Cell(
                tuple(
                    Point(seed, float(own[at].mean()), len(own[at]), None)
                    for seed, own in parts.items()
                )
            ),
        )
        for at in range(bins)
    )


def _kept(lives: Lives, visits: int) -> Kept | None:
    """Return the mean over the tasks learned in so many blocks, over lifetimes that have it."""
    points, fewest, learned = [], [], []
    for seed, own in zip(lives.seeds, lives.visits, strict=True):
        rows = [row for row in lives.alone[seed].rows if row.visits == visits]
        count = len({task for task, _ in own[:visits]})
        means = [cell.mean for cell in rows[-1].cells[:count]] if rows else []
        known = [mean for mean in means if mean is not None]
        if known:
            points.append(math.fsum(known) / len(known))
            fewest.append(len(known))
            learned.append(count)
    if not points:
        return None
    rng = bootstrap_generator(repr(points), "learned so far", str(visits))
    return Kept(estimate(points, rng, (0.0, 1.0)), min(fewest), max(learned))
