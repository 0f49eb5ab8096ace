"""The lifelong-learning metrics of the L2M programme, from a table of experiences.

Source: New et al. 2022, arXiv 2201.08278, and the package l2metrics 3.1.0. The settings decide
which of the two is followed where they differ; docs/metrics.md lists the differences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from l2bench.metrics.l2m_columns import FloatArray, IntArray
from l2bench.metrics.l2m_experts import Comparison, Curve, compare
from l2bench.metrics.l2m_log import Log
from l2bench.metrics.l2m_preprocess import Processed, preprocess
from l2bench.metrics.l2m_regimes import (
    Regimes,
    measure_regimes,
    recovery_time,
)
from l2bench.metrics.l2m_settings import L2METRICS, Settings
from l2bench.metrics.l2m_transfer import DIRECTIONS, METHODS, Transfers, metric_id, transfers
from l2bench.metrics.scores import Value, undefined
from l2bench.metrics.theil_sen import median_slope

Groups = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class TaskScores:
    """What one task contributes: its values by metric id, and the parts they are made of.

    ``training`` and ``evaluation`` are the means of its regimes. ``maintenance`` holds differences
    from the reference evaluation and ``maintenance_from_learning`` those from the end of learning,
    both grouped by reference. ``low`` and ``high`` are the extremes of the processed rows.
    """

    values: Mapping[str, Value]
    training: tuple[float, ...]
    evaluation: tuple[float, ...]
    recovery_times: tuple[int, ...]
    maintenance: Groups
    maintenance_from_learning: Groups
    comparison: Comparison
    low: float
    high: float
    learning_rows: int
    evaluation_rows: int


@dataclass(frozen=True)
class L2MScores:
    """All L2M metrics of one lifetime; ``lifetime`` maps metric ids to values."""

    settings: Settings
    lifetime: Mapping[str, Value]
    tasks: Mapping[str, TaskScores]
    transfers: Transfers
    processed: Processed
    regimes: Regimes
    warnings: tuple[str, ...]


def score(log: Log, experts: Sequence[Log] = (), settings: Settings = L2METRICS) -> L2MScores:
    """Return the L2M metrics of a log (see `read_log`) and its experts (see `read_expert`).

    Raises:
        UsageError: if the given data ranges do not fit the tasks.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _score(log, experts, settings)


def _score(log: Log, experts: Sequence[Log], settings: Settings) -> L2MScores:
    processed = preprocess(log, experts, settings)
    work = _Work(processed, settings)
    moves = transfers(processed.log, work.regimes.terminal, work.evaluations, settings)
    tasks = {task: work.task(t) for t, task in enumerate(processed.log.tasks)}
    return L2MScores(
        settings=settings,
        lifetime=_lifetime(tasks, moves, settings),
        tasks=tasks,
        transfers=moves,
        processed=processed,
        regimes=work.regimes,
        warnings=(*log.warnings, *processed.warnings, *moves.warnings),
    )


class _Work:
    """The processed log with the regimes of each task at hand."""

    def __init__(self, processed: Processed, settings: Settings) -> None:
        self.processed = processed
        self.settings = settings
        self.log = log = processed.log
        self.regimes = measure_regimes(log)
        self.low = np.fmin.reduceat(log.value, log.start)
        self.high = np.fmax.reduceat(log.value, log.start)
        by_task = [np.flatnonzero(log.task == t) for t in range(len(log.tasks))]
        self.learning = [own[log.learning[own]] for own in by_task]
        self.all_evaluations = [own[~log.learning[own]] for own in by_task]
        self.sleeping = bool(settings.sleep_rule and log.sleep.any())
        self.evaluations: list[IntArray] = [
            own[log.sleep[own]] if self.sleeping else own for own in self.all_evaluations
        ]

    def unevaluated(self, t: int) -> str:
        """Return why no evaluation of the task counts."""
        if len(self.all_evaluations[t]):
            return (
                f"task {self.log.tasks[t]} has only wake evaluations, which do not count in a log "
                "with sleep rows"
            )
        return f"task {self.log.tasks[t]} was never evaluated"

    def unlearned(self, t: int) -> str:
        """Return why the learning of a task has no values."""
        if len(self.learning[t]):
            return f"the learning experiences of task {self.log.tasks[t]} are not scored"
        return f"task {self.log.tasks[t]} was never learned"

    def task(self, t: int) -> TaskScores:
        """Return the scores of one task."""
        log, name = self.log, self.log.tasks[t]
        learning, evaluations = self.learning[t], self.evaluations[t]
        awake = learning[~log.sleep[learning]]
        values_awake, numbers = log.rows(awake), log.numbers(awake)
        scored = ~np.isnan(values_awake)
        curve = Curve(values_awake[scored], numbers[scored])
        untaught = self.unlearned(t)
        comparison = compare(name, curve, self.processed.experts[name], self.settings, untaught)
        recovery = self.recovery_times(awake) if scored.all() else []
        groups, from_learning, gap = self.maintenance(t)
        values = (
            self.mean("mean_training_performance", t, learning, untaught),
            self.mean("mean_evaluation_performance", t, evaluations, self.unevaluated(t)),
            self.recovery(t, recovery, len(awake)),
            _averaged("performance_maintenance", name, _flat(groups), gap),
            _averaged(
                "performance_maintenance_from_learning",
                name,
                _flat(from_learning),
                untaught if groups else gap,
            ),
            _averaged(
                "relative_performance", name, comparison.relative, comparison.relative_reason
            ),
            _averaged(
                "sample_efficiency",
                name,
                [entry.value for entry in comparison.efficiency],
                comparison.efficiency_reason,
            ),
        )
        own = np.concatenate((learning, self.all_evaluations[t]))
        lengths = log.stop - log.start
        return TaskScores(
            values={value.id: value for value in values},
            training=tuple(self.regimes.average[learning].tolist()),
            evaluation=tuple(self.regimes.average[evaluations].tolist()),
            recovery_times=tuple(recovery),
            maintenance=groups,
            maintenance_from_learning=from_learning,
            comparison=comparison,
            low=float(np.fmin.reduce(self.low[own])),
            high=float(np.fmax.reduce(self.high[own])),
            learning_rows=int(lengths[learning].sum()),
            evaluation_rows=int(lengths[self.all_evaluations[t]].sum()),
        )

    def mean(self, id: str, t: int, regimes: IntArray, empty: str) -> Value:
        """Return the mean performance over these regimes, by blocks or by rows."""
        members: FloatArray = self.regimes.average[regimes]
        if self.settings.mean_over == "rows":
            members = self.log.rows(regimes)
        return _averaged(id, self.log.tasks[t], members[~np.isnan(members)], empty)

    def recovery_times(self, awake: IntArray) -> list[int]:
        """Return the recovery time of each wake learning regime after the first."""
        log, terminal = self.log, self.regimes.terminal
        rows = [slice(log.start[r], log.stop[r]) for r in awake]
        return [
            recovery_time(log.value[there], log.exp_num[there], float(terminal[before]))
            for before, there in zip(awake[:-1], rows[1:], strict=True)
        ]

    def recovery(self, t: int, times: list[int], blocks: int) -> Value:
        """Return minus the median slope of the recovery times."""
        id, name = "performance_recovery", self.log.tasks[t]
        if len(times) < 2:
            reason = self.unlearned(t)
            if blocks < 3:
                often = ("never", "once", "twice")[blocks]
                reason = f"task {name} was learned {often}; performance recovery needs three times"
            return undefined(id, reason, task=name)
        return Value(id, 0.0 - median_slope(times), len(times), task=name)

    def maintenance(self, t: int) -> tuple[Groups, Groups, str]:
        """Return the maintenance values from both references, and why there would be none."""
        name, terminal = self.log.tasks[t], self.regimes.terminal
        learning, evaluations = self.learning[t], self.evaluations[t]
        groups: list[tuple[float, ...]] = []
        from_learning: list[tuple[float, ...]] = []
        indirect = None
        positions = np.searchsorted(evaluations, learning)
        starts = np.unique(positions[positions < len(evaluations)])
        ends = np.append(starts[1:], len(evaluations))[: len(starts)]
        for start, stop in zip(starts, ends, strict=True):
            reference = evaluations[start]
            before = learning[np.searchsorted(learning, reference) - 1]
            if self.settings.direct_references and self.others_between(t, before, reference):
                indirect = (
                    f"task {name} was first evaluated after its learning only when another task "
                    "had been learned as well"
                )
                continue
            later = evaluations[start + 1 : stop]
            if len(later):
                groups.append(tuple((terminal[later] - terminal[reference]).tolist()))
                if not np.isnan(terminal[before]):
                    from_learning.append(tuple((terminal[later] - terminal[before]).tolist()))
        if not len(learning):
            gap = f"task {name} was never learned"
        elif not len(evaluations):
            gap = self.unevaluated(t)
        elif not len(starts):
            gap = f"task {name} was not evaluated after its learning"
        else:
            gap = indirect or f"task {name} was evaluated only once after its learning"
        return tuple(groups), tuple(from_learning), gap

    def others_between(self, t: int, before: int, after: int) -> bool:
        """Return whether another task was learned between these two regimes."""
        between = slice(int(before) + 1, int(after))
        return bool((self.log.learning[between] & (self.log.task[between] != t)).any())


def _flat(groups: Groups) -> list[float]:
    return [value for group in groups for value in group]


def _averaged(
    id: str, task: str, members: Sequence[float] | FloatArray, reason: str | None
) -> Value:
    if not len(members):
        return undefined(id, reason or "no value", task=task)
    return _bounded(id, float(np.mean(members)), len(members), task)


def _bounded(id: str, value: float, n: int, task: str | None = None) -> Value:
    if not math.isfinite(value):
        return undefined(id, "the values are too large to add", task=task)
    return Value(id, value, n, task=task)


def _combined(id: str, members: Iterable[Value], settings: Settings, empty: str) -> Value:
    """Return the mean or median of the members that are defined."""
    listed = list(members)
    known = [member.value for member in listed if member.value is not None]
    if not known:
        reasons = list(dict.fromkeys(m.reason for m in listed if m.reason is not None))
        others = len(reasons) - 1
        more = f" (and {others} more reason{'s' * (others > 1)})" if others > 0 else ""
        return undefined(id, reasons[0] + more if reasons else empty)
    combine = np.mean if settings.aggregate == "mean" else np.median
    return _bounded(id, float(combine(known)), len(known))


def _lifetime(
    tasks: Mapping[str, TaskScores], moves: Transfers, settings: Settings
) -> dict[str, Value]:
    """Return the lifetime value of every metric."""
    values: dict[str, Value] = {}
    for id in next(iter(tasks.values())).values:
        values[id] = _combined(id, (scores.values[id] for scores in tasks.values()), settings, "")
    if settings.pool_maintenance:
        for id, kind in (
            ("performance_maintenance", "maintenance"),
            ("performance_maintenance_from_learning", "maintenance_from_learning"),
        ):
            pooled = [x for scores in tasks.values() for x in _flat(getattr(scores, kind))]
            if pooled:
                values[id] = _bounded(id, float(np.mean(pooled)), len(pooled))
    learned = {task for task, scores in tasks.items() if scores.learning_rows}
    for direction in DIRECTIONS:
        for method in METHODS:
            id = metric_id(direction, method)
            counted = [
                pair
                for pair in moves.pairs[id]
                if pair.task in learned or not settings.learned_targets
            ]
            empty = _no_pairs(direction, len(tasks), len(learned))
            values[id] = _combined(id, counted, settings, empty)
    return values


def _no_pairs(direction: str, tasks: int, learned: int) -> str:
    if tasks < 2:
        return "transfer needs two tasks; there is one"
    if not learned:
        return "no task was learned"
    when = "before" if direction == "forward" else "after"
    return f"no task was learned {when} another one that is learned"
