"""Transfer between tasks: how learning one task changes the performance on another.

With p1 and p2 the terminal performances of two neighbouring evaluations of the target, between
which the source was learned: contrast = (p2 - p1) / (p2 + p1), ratio = p2 / p1. Transfer is
forward if the source is learned before the target ever is, else backward.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from l2bench.metrics.l2m_columns import FloatArray, IntArray
from l2bench.metrics.l2m_log import Log
from l2bench.metrics.l2m_settings import Settings
from l2bench.metrics.scores import Value

Direction = Literal["forward", "backward"]
Method = Literal["contrast", "ratio"]
DIRECTIONS: tuple[Direction, ...] = ("forward", "backward")
METHODS: tuple[Method, ...] = ("contrast", "ratio")


@dataclass(frozen=True)
class Transfer:
    """One change of the target's performance while the sources, mostly one, were learned.

    ``before`` and ``after`` are the regimes of the two evaluations. ``contrast`` and ``ratio`` are
    None exactly where their reason says why; ``learned_target`` is false for a target that the
    lifetime never learns.
    """

    sources: tuple[str, ...]
    target: str
    direction: Direction
    before: int
    after: int
    contrast: float | None
    ratio: float | None
    contrast_reason: str | None
    ratio_reason: str | None
    learned_target: bool

    def get(self, method: Method) -> tuple[float | None, str | None]:
        """Return the value of this method and the reason where there is none."""
        if method == "contrast":
            return self.contrast, self.contrast_reason
        return self.ratio, self.ratio_reason


@dataclass(frozen=True)
class Transfers:
    """All transfers in time order, the joint ones apart, and one value per pair and metric.

    ``single`` has one source each; those that the settings refuse carry a reason. ``joint`` holds
    the changes that cannot be attributed because several tasks were learned. ``pairs`` maps metric
    ids such as ``forward_transfer_contrast`` to the values of all ordered pairs of that direction.
    """

    single: tuple[Transfer, ...]
    joint: tuple[Transfer, ...]
    pairs: dict[str, tuple[Value, ...]]
    warnings: tuple[str, ...]


def metric_id(direction: Direction, method: Method) -> str:
    """Return the id of a transfer metric."""
    return f"{direction}_transfer_{method}"


def transfers(
    log: Log, terminal: FloatArray, evaluations: Sequence[IntArray], settings: Settings
) -> Transfers:
    """Return the transfers of a log from the terminal performance (R,) of its regimes.

    ``evaluations[t]`` lists the evaluation regimes of task t that count, in order.
    """
    work = _Work(log, terminal, evaluations, settings)
    for target in range(len(log.tasks)):
        work.collect(target)
    return Transfers(
        single=tuple(item for item in work.found if len(item.sources) == 1),
        joint=tuple(item for item in work.found if len(item.sources) > 1),
        pairs=work.pairs(),
        warnings=tuple(dict.fromkeys(work.lost)),
    )


class _Work:
    """Goes over the pairs of neighbouring evaluations of every task."""

    def __init__(
        self,
        log: Log,
        terminal: FloatArray,
        evaluations: Sequence[IntArray],
        settings: Settings,
    ) -> None:
        self.log = log
        self.terminal = terminal
        self.evaluations = evaluations
        self.settings = settings
        self.learned = np.flatnonzero(log.learning)
        self.of_task = [self.learned[log.task[self.learned] == t] for t in range(len(log.tasks))]
        self.first = {t: int(own[0]) for t, own in enumerate(self.of_task) if len(own)}
        self.last = {t: int(own[-1]) for t, own in enumerate(self.of_task) if len(own)}
        seen, where = np.unique(log.task, return_index=True)
        self.appearance = dict(zip(seen.tolist(), where.tolist(), strict=True))
        self.found: list[Transfer] = []
        self.lost: list[str] = []

    def collect(self, target: int) -> None:
        """Add the transfers to one target, in time order."""
        regimes = self.evaluations[target]
        gaps = np.searchsorted(regimes, self.learned)
        between = (gaps > 0) & (gaps < len(regimes))
        if not between.any():
            return
        learned, gaps = self.learned[between], gaps[between]
        starts = np.flatnonzero(np.diff(gaps, prepend=-1))
        for inside, gap in zip(np.split(learned, starts[1:]), gaps[starts], strict=True):
            self.collect_gap(target, inside.tolist(), int(regimes[gap - 1]), int(regimes[gap]))

    def collect_gap(self, target: int, inside: list[int], before: int, after: int) -> None:
        """Add the transfers from the regimes learned in ``inside`` between two evaluations."""
        log, first = self.log, self.first.get(target, len(self.log.task))
        tasks = {r: int(log.task[r]) for r in inside}
        forward = {task for r, task in tasks.items() if r < first} - {target}
        backward = {task for r, task in tasks.items() if r > first} - {target}
        refusal = None
        sources = sorted(forward | backward)
        if self.settings.exclude_own_learning and target in tasks.values():
            refusal = f"task {log.tasks[target]} was itself learned between the two evaluations"
        elif self.settings.transfer_sources == "single" and len(sources) > 1:
            names = listed(log.tasks[s] for s in sources)
            refusal = f"not separable: {names} were learned between the same two evaluations"
            direction: Direction = "forward" if forward else "backward"
            self.add(sources, target, direction, (before, after), None)
        for direction, group in zip(DIRECTIONS, (forward, backward), strict=True):
            for source in self.kept(sorted(group), target, direction):
                self.add([source], target, direction, (before, after), refusal)

    def kept(self, sources: list[int], target: int, direction: Direction) -> list[int]:
        """Return the sources that keep their value when several share two evaluations."""
        if self.settings.transfer_sources != "last" or len(sources) < 2:
            return sources
        sources = sorted(sources, key=lambda s: self.appearance[s])
        names = [self.log.tasks[s] for s in sources]
        self.lost.append(
            f"{direction} transfer of {listed(names[:-1])} to {self.log.tasks[target]} is not "
            f"kept: {names[-1]} was learned between the same two evaluations"
        )
        return sources[-1:]

    def add(
        self,
        sources: list[int],
        target: int,
        direction: Direction,
        ends: tuple[int, int],
        refusal: str | None,
    ) -> None:
        """Add one transfer, refused with this reason if there is one."""
        p1, p2 = (float(self.terminal[end]) for end in ends)
        if refusal is None and self.settings.nonnegative and min(p1, p2) < 0:
            refusal = "a performance is negative"
        contrast, contrast_reason = _quotient(
            p2 - p1, p2 + p1, refusal, "the two performances sum to zero"
        )
        ratio, ratio_reason = _quotient(p2, p1, refusal, "the performance before is zero")
        self.found.append(
            Transfer(
                sources=tuple(self.log.tasks[s] for s in sources),
                target=self.log.tasks[target],
                direction=direction,
                before=ends[0],
                after=ends[1],
                contrast=contrast,
                ratio=ratio,
                contrast_reason=contrast_reason,
                ratio_reason=ratio_reason,
                learned_target=target in self.first,
            )
        )

    def pairs(self) -> dict[str, tuple[Value, ...]]:
        """Return one value per metric and ordered pair of tasks, with a reason for every blank."""
        grouped: dict[tuple[str, str, str], list[Transfer]] = defaultdict(list)
        for item in self.found:
            if len(item.sources) == 1:
                grouped[item.direction, item.sources[0], item.target].append(item)
        values: dict[str, list[Value]] = {
            metric_id(direction, method): [] for direction in DIRECTIONS for method in METHODS
        }
        for source, target, direction in self.ordered_pairs():
            names = self.log.tasks[source], self.log.tasks[target]
            items = grouped[direction, *names]
            gap = None if items else self.gap(source, target, direction)
            for method in METHODS:
                id = metric_id(direction, method)
                values[id].append(self.value(id, names, [i.get(method) for i in items], gap))
        return {id: tuple(members) for id, members in values.items()}

    def ordered_pairs(self) -> Iterator[tuple[int, int, Direction]]:
        """Yield every source, target and direction that the order of learning allows."""
        never = len(self.log.task)
        for source in self.first:
            for target in range(len(self.log.tasks)):
                if source != target:
                    if self.first[source] < self.first.get(target, never):
                        yield source, target, "forward"
                    if self.last[source] > self.first.get(target, never):
                        yield source, target, "backward"

    def value(
        self,
        id: str,
        names: tuple[str, str],
        found: list[tuple[float | None, str | None]],
        gap: str | None,
    ) -> Value:
        """Return the first value of a pair, or the reason why there is none."""
        source, target = names
        number, reason = first_value(found, self.settings) if found else (None, gap)
        return Value(id, number, int(number is not None), target, source, reason)

    def gap(self, source: int, target: int, direction: Direction) -> str:
        """Return which evaluation is missing for a pair without two fitting ones."""
        names = self.log.tasks[source], self.log.tasks[target]
        regimes = self.evaluations[target]
        first = self.first.get(target, len(self.log.task))
        if not len(regimes):
            return f"task {names[1]} was never evaluated"
        if direction == "forward" and regimes[0] > first:
            return f"task {names[1]} was never evaluated before its first learning block"
        of_source = self.of_task[source]
        useful = of_source[(of_source < first) == (direction == "forward")]
        if regimes[0] > useful[-1]:
            return f"task {names[1]} was not evaluated before task {names[0]} was learned"
        if any(regimes[0] < r < regimes[-1] for r in useful):
            return "not kept: another task was learned between the same two evaluations"
        return f"task {names[1]} was not evaluated after task {names[0]} was learned"


def first_value(
    found: Sequence[tuple[float | None, str | None]], settings: Settings
) -> tuple[float | None, str | None]:
    """Return the value, or the reason for none, that stands for several in time order."""
    known = (item for item in found if item[0] is not None)
    return next(known, found[0]) if settings.first_transfer == "defined" else found[0]


def _quotient(
    above: float, below: float, refusal: str | None, zero: str
) -> tuple[float | None, str | None]:
    """Return above / below, or why it is undefined."""
    if refusal is not None or below == 0:
        return None, refusal or zero
    value = above / below
    return (value, None) if math.isfinite(value) else (None, "the quotient is too large")


def listed(names: Iterable[str]) -> str:
    """Return names as they are joined in reasons and in the source of a joint transfer."""
    return " + ".join(names)
