"""What the learner gains or loses against experts that learn one task alone, and to the bound."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from l2bench.bundle.lifetime import Lifetime
from l2bench.bundle.reader import Bundle
from l2bench.errors import Unsupported
from l2bench.metrics.bound import GAP, PERFORMANCE
from l2bench.metrics.views import curves
from l2bench.report.data import Cell, Lives, Point
from l2bench.report.life import Steps, binned, experiences
from l2bench.report.text import rate, signed


@dataclass(frozen=True)
class Versus:
    """A task's first visit beside its single-task expert, at places (0 to 1) in the learning.

    Learner and expert are means over lifetimes and over experts.
    """

    task: str
    unit: str
    amount: int
    places: tuple[float, ...]
    learner: tuple[float, ...]
    expert: tuple[float, ...]
    n_learners: int
    n_experts: int

    @property
    def means(self) -> tuple[float, float]:
        """The areas under both curves, each over the length of the learning."""
        return _area(self.places, self.learner), _area(self.places, self.expert)

    @property
    def gain(self) -> float:
        """The area between the curves: above 0 where the learner is ahead."""
        learner, expert = self.means
        return learner - expert


@dataclass(frozen=True)
class Transfer:
    """The tasks that can be compared, what the curves are, and why others cannot."""

    tasks: tuple[Versus, ...] = ()
    source: str | None = None
    missing: tuple[str, ...] = ()
    problem: str | None = None
    experts: tuple[Bundle, ...] = field(default=(), repr=False)
    bounds: tuple[Bundle, ...] = field(default=(), repr=False)


def transfer(bundles: Sequence[Bundle], lives: Lives) -> Transfer:
    """Return the comparison with the experts that belong to the bundles, and their bounds."""
    try:
        bounds = tuple(bundle.bound for bundle in bundles if bundle.bound is not None)
        experts = [expert for bundle in bundles for expert in bundle.experts]
        pairs = [(expert.suite.tasks[0].id, expert.lifetime) for expert in experts]
    except Unsupported as error:
        return Transfer(problem=str(error))
    alone: dict[str, list[Lifetime]] = {}
    for name, lifetime in pairs:
        alone.setdefault(name, []).append(lifetime)
    if not alone:
        return Transfer(bounds=bounds)
    source = "checkpoints" if lives.curves else "experiences"
    found, missing = [], []
    for task in lives.order(0):
        name = lives.names[task]
        versus = _versus(lives, name, alone.get(name, []), source)
        if versus is None:
            missing.append(name)
        else:
            found.append(versus)
    return Transfer(tuple(found), source, tuple(missing), None, tuple(experts), bounds)


def together(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that set each task, then their mean, beside the multitask bound.

    There are none where no lifetime has a bound.
    """
    found = {(metric["id"], metric["task"]): metric for metric in summary["metrics"]}
    tasks = [task for id, task in found if id == f"{PERFORMANCE}_k"]
    rows = []
    for task in [*tasks, None] if tasks else ():
        end = "" if task is None else "_k"
        bound, gap = (found.get((f"{id}{end}", task)) for id in (PERFORMANCE, GAP))
        if bound is None or gap is None or bound["mean"] is None or gap["mean"] is None:
            metric = gap or bound
            reasons = "; ".join(map(str, metric["undefined_reasons"][:3])) if metric else ""
            rows.append({"task": task, "bound": None, "reason": reasons})
            continue
        whole = bound["n_lifetimes"] == gap["n_lifetimes"]
        rows.append(
            {
                "task": task,
                "bound": rate(bound["mean"]),
                "learner": rate(bound["mean"] + gap["mean"]) if whole else None,
                "gap": signed(gap["mean"]),
                "n": gap["n_lifetimes"],
            }
        )
    return rows


def _versus(lives: Lives, name: str, experts: Sequence[Lifetime], source: str) -> Versus | None:
    if source == "checkpoints":
        ours, theirs = _checkpoints(lives.lifetimes, name), _checkpoints(experts, name)
        learning = lives.lifetimes[0].suite.tasks[lives.names.index(name)].learning
        unit, amount = (learning.unit, learning.amount) if learning else ("", 1)
    else:
        ours, theirs, amount = _experiences(lives.lifetimes, experts, name)
        unit = "experiences"
    learner = {place: cell.mean for place, cell in ours}
    expert = {place: cell.mean for place, cell in theirs}
    pairs = [
        (place, own, other)
        for place in sorted(learner.keys() & expert.keys())
        if (own := learner[place]) is not None and (other := expert[place]) is not None
    ]
    if len(pairs) < 2:
        return None
    return Versus(
        task=name,
        unit=unit,
        amount=amount,
        places=tuple(p for p, _, _ in pairs),
        learner=tuple(a for _, a, _ in pairs),
        expert=tuple(b for _, _, b in pairs),
        n_learners=max(len(cell.points) for _, cell in ours),
        n_experts=max(len(cell.points) for _, cell in theirs),
    )


def _checkpoints(lifetimes: Sequence[Lifetime], name: str) -> Steps:
    """Return the checkpoints of a task's first visit in all lifetimes that learn it."""
    points: dict[float, list[Point]] = {}
    for at, lifetime in enumerate(lifetimes):
        amounts = {task.id: task.learning.amount for task in lifetime.suite.tasks if task.learning}
        for curve in curves(lifetime):
            if (curve["task"], curve["exposure"]) != (name, 0):
                continue
            for point in curve["points"]:
                place = point["checkpoint"] / amounts[name]
                points.setdefault(place, []).append(Point(at, point["value"], point["n"], None))
    return tuple((place, Cell(tuple(points[place]))) for place in sorted(points))


def _experiences(
    learners: Sequence[Lifetime], experts: Sequence[Lifetime], name: str
) -> tuple[Steps, Steps, int]:
    """Return the first experiences of a task, as many as all that learn it have, and how many."""
    sides = []
    for lifetimes in (learners, experts):
        own = {}
        for at, lifetime in enumerate(lifetimes):
            tasks = [task.id for task in lifetime.suite.tasks]
            values = experiences(lifetime).get((tasks.index(name), 0)) if name in tasks else None
            if values is not None:
                own[at] = values
        sides.append(own)
    fewest = min((len(values) for own in sides for values in own.values()), default=0)
    ours, theirs = ({at: v[:fewest] for at, v in own.items()} for own in sides)
    return binned(ours), binned(theirs), fewest


def _area(places: Sequence[float], values: Sequence[float]) -> float:
    """Return the mean height under the straight lines between the points."""
    steps = itertools.pairwise(zip(places, values, strict=True))
    area = math.fsum((b - a) * (x + y) / 2 for (a, x), (b, y) in steps)
    return area / (places[-1] - places[0])


def between(versus: Versus) -> Iterator[tuple[bool, tuple[tuple[float, float], ...]]]:
    """Yield the areas between the curves: whether the learner is ahead, and the corners."""
    rows = list(zip(versus.places, versus.learner, versus.expert, strict=True))
    for (a, up, down), (b, later_up, later_down) in itertools.pairwise(rows):
        left, right = up - down, later_up - later_down
        if left * right >= 0:
            if left or right:
                corners = ((a, up), (b, later_up), (b, later_down), (a, down))
                yield left + right > 0, corners
            continue
        share = left / (left - right)
        x, y = a + share * (b - a), up + share * (later_up - up)
        yield left > 0, ((a, up), (x, y), (a, down))
        yield right > 0, ((x, y), (b, later_up), (b, later_down))
