"""The metric sets of GEM, Continual World and Kemker on lifetimes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from l2bench.bundle.lifetime import Lifetime, columns
from l2bench.errors import Unsupported, UsageError
from l2bench.metrics import continual_world, gem, kemker
from l2bench.metrics.base import MetricSet
from l2bench.metrics.continual_definitions import CONTINUAL_WORLD, GEM, KEMKER
from l2bench.metrics.libero_parts import FloatArray
from l2bench.metrics.results import Results, mean
from l2bench.metrics.scores import Metric, Scores, undefined
from l2bench.metrics.segments import Segment, learned
from l2bench.metrics.views import cells
from l2bench.suite import Task


def _scores(metric_set: MetricSet, results: Results, settings: dict[str, Any]) -> Scores:
    return Scores(metric_set.name, metric_set.version, results.values, settings, results.notes)


def _blank(metric_set: MetricSet, reason: str, settings: dict[str, Any]) -> Scores:
    """Return the scores of a lifetime on which nothing of the set is defined."""
    whole = [metric for metric in metric_set.metrics if metric.scope == "lifetime"]
    values = tuple(undefined(metric.id, reason) for metric in whole)
    return _scores(metric_set, Results(values), settings)


class GemMetrics(MetricSet):
    """ACC, BWT, FWT (Lopez-Paz and Ranzato 2017) and forgetting (Chaudhry et al. 2018).

    R are the evaluations after whole tasks, b those before anything is learned. Tasks count in the
    order they are learned; tasks that are only evaluated do not count.
    """

    name: ClassVar[str] = "gem"
    version: ClassVar[str] = "1.1"
    metrics: ClassVar[tuple[Metric, ...]] = GEM

    def score(self, lifetime: Lifetime) -> Scores:
        """Return the metrics of the lifetime and of each task it learns.

        Raises:
            Unsupported: if a score is infinite.
        """
        life = learned(lifetime, "GEM's metrics")
        settings = {"keep": lifetime.suite.scenario.keep}
        if life.reason:
            return _blank(self, life.reason, settings)
        results = gem.score(life.matrix(), life.untrained(), tasks=life.names, bounded=False)
        return _scores(self, results, settings)


class ContinualWorldMetrics(MetricSet):
    """Performance, forgetting and forward transfer of Wolczyk et al. 2021.

    The points of performance and forgetting are the evaluations after visits to a task, at most
    ``tail`` of them at the end of a segment; a task learned in one visit has one such point, which
    is the paper's reading. AUCs are over the checkpoints after time 0, or without any over those
    evaluations. ``experts`` are lifetimes that learned one task each, defined as it is here;
    without them forward transfer is undefined.
    """

    name: ClassVar[str] = "continual_world"
    version: ClassVar[str] = "1.0"
    metrics: ClassVar[tuple[Metric, ...]] = CONTINUAL_WORLD

    def __init__(self, experts: Sequence[Lifetime] = (), tail: int = continual_world.TAIL) -> None:
        if not isinstance(tail, int) or tail < 1:
            raise UsageError(f"tail={tail}: at least one point is averaged")
        self.tail = tail
        self.experts = [_expert(lifetime) for lifetime in experts]

    def score(self, lifetime: Lifetime) -> Scores:
        """Return the metrics of the lifetime and of each task it learns.

        Raises:
            Unsupported: if a score is infinite.
        """
        life = learned(lifetime, "Continual World's metrics")
        settings = {"tail": self.tail, "keep": lifetime.suite.scenario.keep}
        if life.reason:
            return _blank(self, life.reason, settings)
        baselines, reasons, notes = self._baselines(life.tasks, life.segments)
        results = continual_world.score(
            life.points()[np.newaxis],
            baselines,
            own=[segment.own_curve()[1] for segment in life.segments],
            lengths=[len(segment.points) for segment in life.segments],
            tail=self.tail,
            tasks=life.names,
            reasons=reasons,
            bounded=False,
        )
        return _scores(self, Results(results.values, notes), settings)

    def _baselines(
        self, tasks: Sequence[Task], segments: Sequence[Segment]
    ) -> tuple[list[FloatArray], list[str | None], tuple[str, ...]]:
        """Return for each task the curves (B, P) of its experts, or why there are none."""
        curves, reasons, notes = [], [], []
        for task, segment in zip(tasks, segments, strict=True):
            places, _ = segment.own_curve()
            fitting, faults = [], []
            for other, expert in self.experts:
                if other.id != task.id:
                    continue
                where, curve = expert.own_curve()
                if other != task:
                    faults.append(f"an expert of task {task.id} learned another task of this name")
                elif where != places:
                    faults.append(f"an expert of task {task.id} was evaluated at other points")
                else:
                    fitting.append(curve)
            curves.append(np.concatenate(fitting) if fitting else np.empty((0, 0)))
            reasons.append(faults[0] if faults and not fitting else None)
            notes += faults if fitting else []
        return curves, reasons, tuple(notes)


def _expert(lifetime: Lifetime) -> tuple[Task, Segment]:
    """Return what an expert learned, and how."""
    life = learned(lifetime)
    if len(life.segments) != 1:
        count = len({segment.task for segment in life.segments})
        raise Unsupported(f"an expert learns exactly one task; this lifetime learns {count}")
    return life.tasks[0], life.segments[0]


class KemkerMetrics(MetricSet):
    """The Omegas of Kemker et al. 2018, each learned task being a session.

    They need tasks that are learned from samples and scored by accuracy. ``ideal`` is the accuracy
    of an offline learner on the first task's test items, in [0, 1]. Without it, the last
    evaluations on that task are averaged over those ``experts``, lifetimes of an offline learner,
    that learned it.
    """

    name: ClassVar[str] = "kemker"
    version: ClassVar[str] = "1.1"
    metrics: ClassVar[tuple[Metric, ...]] = KEMKER

    def __init__(self, ideal: float | None = None, experts: Sequence[Lifetime] = ()) -> None:
        number = isinstance(ideal, int | float) and not isinstance(ideal, bool)
        if ideal is not None and not (number and 0 <= ideal <= 1):
            raise UsageError(f"ideal={ideal}: an accuracy is a fraction in [0, 1]")
        self.ideal = ideal
        self.experts = tuple(experts)

    def score(self, lifetime: Lifetime) -> Scores:
        """Return the Omegas of the lifetime and the accuracies after each session."""
        life = learned(lifetime, "Kemker's metrics")
        reason = life.reason or next(filter(None, map(_no_session, life.tasks)), None)
        if reason:
            return _blank(self, reason, {"ideal": self.ideal})
        base = life.tasks[0]
        ideal = self.ideal
        if ideal is None:
            found = [accuracy for e in self.experts if (accuracy := _last(e, base)) is not None]
            ideal = mean(found) if found else None
        results = kemker.score(
            life.matrix(),
            life.matrix("n"),
            ideal,
            tasks=life.names,
            unmeasured=f"no accuracy of an offline learner on task {base.id} was given",
        )
        return _scores(self, results, {"ideal": ideal})


def _no_session(task: Task) -> str | None:
    """Return why a task is no session."""
    if task.learning and task.learning.source == "samples" and task.measure == "accuracy":
        return None
    return f"task {task.id} is not learned from samples and scored by accuracy, as sessions are"


def _last(lifetime: Lifetime, task: Task) -> float | None:
    """Return the performance in the last evaluation of this task after any learning, if learned."""
    blocks, measured = columns(lifetime.blocks), cells(lifetime)
    after = blocks["block_index"][blocks["learn_task"] >= 0]
    learned = set(blocks["learn_task"][blocks["kind"] == "learn"].tolist())
    for index, other in enumerate(lifetime.suite.tasks):
        same = other.model_copy(update={"learning": task.learning}) == task
        if same and index in learned:
            found = [block for block, evaluated in measured if evaluated == index]
            last = max((block for block in found if block in after), default=None)
            return None if last is None else float(measured[last, index]["value"])
    return None
