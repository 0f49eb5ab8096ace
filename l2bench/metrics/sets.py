"""The metric sets of the core: LIBERO's metrics, and the L2M metrics in two readings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import ClassVar, get_args

import numpy as np

from l2bench.bundle.lifetime import Lifetime, columns
from l2bench.errors import Unsupported, UsageError, choices
from l2bench.metrics import l2m, libero
from l2bench.metrics.base import MetricSet
from l2bench.metrics.definitions import L2M, L2METRICS_SET, LIBERO
from l2bench.metrics.l2m_lifetime import log_of
from l2bench.metrics.l2m_log import Log, learning_part
from l2bench.metrics.l2m_settings import L2METRICS, TEXT, Settings
from l2bench.metrics.l2m_transfer import (
    METHODS,
    Direction,
    Transfer,
    first_value,
    listed,
    metric_id,
)
from l2bench.metrics.libero_parts import FloatArray, Missing, PerTask
from l2bench.metrics.scores import Metric, Scores, Value, undefined
from l2bench.metrics.views import cells


class LiberoMetrics(MetricSet):
    """FWT, NBT and AUC of Liu et al. 2023, from the curve and post evaluations of a lifetime.

    Own curves are the evaluations at the checkpoints of a task; later cells, and the re-evaluated
    diagonal, are the evaluations after whole tasks. Tasks count in the order they are learned.
    NBT and AUC need the policy of the best checkpoint to go on (``keep: best``).
    """

    name: ClassVar[str] = "libero"
    version: ClassVar[str] = "1.0"
    metrics: ClassVar[tuple[Metric, ...]] = LIBERO

    def __init__(self, missing: Missing = "strict") -> None:
        if missing not in get_args(Missing):
            known = choices(get_args(Missing))
            raise UsageError(f"missing={missing!r} is unknown; choose {known}")
        self.missing = missing

    def score(self, lifetime: Lifetime) -> Scores:
        """Return LIBERO's metrics of the lifetime and of each task it learns.

        Raises:
            Unsupported: if a score is infinite.
        """
        blocks = columns(lifetime.blocks)
        learned = blocks["kind"] == "learn"
        in_order = np.argsort(blocks["block_index"])
        order = list(dict.fromkeys(blocks["learn_task"][in_order][learned[in_order]].tolist()))
        names = [lifetime.suite.tasks[task].id for task in order]
        settings = {"missing": self.missing, "keep": lifetime.suite.scenario.keep}
        repeated = set(blocks["learn_task"][learned & (blocks["exposure"] > 0)].tolist())
        if not order or repeated:
            reason = "no task is learned"
            if repeated:
                again = lifetime.suite.tasks[min(repeated)].id
                reason = f"task {again} is learned again; LIBERO's metrics need one visit per task"
            empty = tuple(undefined(m.id, reason) for m in LIBERO if m.scope == "lifetime")
            return Scores(self.name, self.version, empty, settings)
        own, later, diagonal, points = _libero_cells(lifetime, order)
        scores = libero.score(
            own,
            later,
            reevaluated=diagonal,
            missing=self.missing,
            tasks=names,
            points=points,
            bounded=False,
        )
        values = list(_libero_values(scores, diagonal, names))
        if lifetime.suite.scenario.keep != "best":
            values = [_of_the_best(value) for value in values]
        return Scores(self.name, self.version, tuple(values), settings)


#: Metrics that compare later evaluations with the best of the curve.
_FROM_BEST = ("libero.NBT", "libero.NBT_k", "libero.NBT_excluding_last_task", "libero.AUC",
              "libero.AUC_k")  # fmt: skip


def _of_the_best(value: Value) -> Value:
    """Withhold what needs the best checkpoint's policy where the last one went on."""
    if value.id not in _FROM_BEST or value.value is None:
        return value
    reason = "the last policy went on, not the best checkpoint's (scenario.keep: best)"
    return undefined(value.id, reason, task=value.task)


def _libero_cells(
    lifetime: Lifetime, order: Sequence[int]
) -> tuple[list[list[float]], FloatArray, FloatArray, list[int] | None]:
    """Return own curves, later cells (K, K), the re-evaluated diagonal (K,) and the checkpoints."""
    blocks, measured = columns(lifetime.blocks), cells(lifetime)
    place = {task: position for position, task in enumerate(order)}
    own: list[list[float]] = [[] for _ in order]
    points: list[list[int]] = [[] for _ in order]
    later = np.full((len(order), len(order)), np.nan)
    done: set[int] = set()
    for row in np.argsort(blocks["block_index"]):
        index, after = int(blocks["block_index"][row]), int(blocks["learn_task"][row])
        if after not in place:
            continue
        found = {task: cell["value"] for task in order if (cell := measured.get((index, task)))}
        if blocks["role"][row] == "curve":
            own[place[after]].append(found.get(after, math.nan))
            points[place[after]].append(int(blocks["checkpoint"][row]))
        elif blocks["role"][row] == "post" and after not in done:
            done.add(after)
            for task, value in found.items():
                later[place[after], place[task]] = value
    same = points[0] if all(other == points[0] for other in points) else None
    return own, later, np.diagonal(later).copy(), same


def _libero_values(
    scores: libero.LiberoScores, diagonal: FloatArray, names: Sequence[str]
) -> Iterator[Value]:
    parts: dict[str, PerTask | None] = {
        "FWT": scores.fwt,
        "NBT": scores.nbt_best,
        "AUC": scores.auc,
        "NBT_reevaluated": scores.nbt_reevaluated,
    }
    short = {
        "NBT_excluding_last_task": scores.nbt_best_excluding_last_task,
        "NBT_reevaluated_excluding_last_task": scores.nbt_reevaluated_excluding_last_task,
    }
    for id, part in {**parts, **short}.items():
        if part is not None:
            yield _number(f"libero.{id}", part.mean, part.used, part.reason)
    for k, name in enumerate(names):
        for id, part in parts.items():
            if part is not None:
                value, count = part.values[k], part.counts[k]
                yield _number(f"libero.{id}_k", value, count, part.reasons[k], name)
        points, reason = scores.fwt.counts[k], scores.fwt.reasons[k]
        yield _number("libero.best_k", scores.best[k], points, reason, name)
        reason = f"task {name} {libero.AGAIN}"
        yield _number("libero.reevaluated_k", float(diagonal[k]), 1, reason, name)


def _number(id: str, value: float, n: int, reason: str | None, task: str | None = None) -> Value:
    if math.isnan(value):
        return Value(id, None, 0, task=task, reason=reason)
    return Value(id, value, n, task=task)


class L2MMetrics(MetricSet):
    """The L2M metrics of New et al. 2022, on performance in the tasks' score ranges.

    ``experts`` are lifetimes that learned a single task each; without them relative performance
    and sample efficiency are undefined.
    """

    name: ClassVar[str] = "l2m"
    version: ClassVar[str] = "1.0"
    metrics: ClassVar[tuple[Metric, ...]] = L2M
    profile: ClassVar[Settings] = TEXT
    #: Whether the values of single pairs of tasks are reported.
    pairs: ClassVar[bool] = True
    #: Whether imported rows are taken in the unit of their source; the profile scales them anyway.
    raw: ClassVar[bool] = False

    def __init__(self, experts: Sequence[Lifetime] = ()) -> None:
        logs = (_expert(lifetime, self.raw) for lifetime in experts)
        self.experts = [log for log in logs if log is not None]

    def score(self, lifetime: Lifetime) -> Scores:
        """Return the L2M metrics of the lifetime, its tasks, and its pairs of tasks.

        Raises:
            Unsupported: if a score is infinite.
        """
        settings = {key: value for key, value in asdict(self.profile).items() if value is not None}
        log = log_of(lifetime, raw=self.raw) if lifetime.cells is None else None
        if log is None:
            reason = "nothing has been recorded"
            if lifetime.cells is not None:
                reason = "aggregate import: there are no raw rows"
            empty = [
                undefined(metric.id, reason)
                for metric in self.metrics
                if metric.scope == "lifetime"
            ]
            return Scores(self.name, self.version, tuple(empty), settings)
        scores = l2m.score(log, self.experts, self.profile)
        values = tuple(
            replace(value, id=f"{self.name}.{value.id}") for value in self._values(scores)
        )
        return Scores(self.name, self.version, values, settings, scores.warnings)

    def _values(self, scores: l2m.L2MScores) -> Iterator[Value]:
        yield from scores.lifetime.values()
        for task in scores.tasks.values():
            for value in task.values.values():
                yield replace(value, id=f"{value.id}_k")
        if not self.pairs:
            return
        for members in scores.transfers.pairs.values():
            for value in members:
                yield replace(value, id=f"{value.id}_pair")
        yield from self._joint_values(scores.transfers.joint)

    def _joint_values(self, joint: Sequence[Transfer]) -> Iterator[Value]:
        """Yield one value of the same sources and target, by the rule that holds for pairs."""
        together: dict[tuple[Direction, str, str], list[Transfer]] = {}
        for item in joint:
            key = item.direction, listed(item.sources), item.target
            together.setdefault(key, []).append(item)
        for (direction, source, target), items in together.items():
            for method in METHODS:
                found = [item.get(method) for item in items]
                number, reason = first_value(found, self.profile)
                id = f"joint_{metric_id(direction, method)}"
                yield Value(id, number, int(number is not None), target, source, reason)


class L2MetricsMetrics(L2MMetrics):
    """The L2M metrics as the package l2metrics 3.1.0 computes them with its defaults."""

    name: ClassVar[str] = "l2metrics"
    metrics: ClassVar[tuple[Metric, ...]] = L2METRICS_SET
    profile: ClassVar[Settings] = L2METRICS
    pairs: ClassVar[bool] = False
    raw: ClassVar[bool] = True


def _expert(lifetime: Lifetime, raw: bool) -> Log | None:
    """Return the learning rows of an expert's lifetime; None where none of them is scored."""
    if lifetime.cells is not None:
        raise Unsupported("the L2M metrics need the raw rows of an expert; this one has none")
    log = log_of(lifetime, raw=raw)
    part = None if log is None else learning_part(log)
    learned = set() if part is None else {part.tasks[t] for t in part.task}
    if part is None or len(learned) != 1:
        raise Unsupported(f"an expert learns exactly one task; this lifetime learns {len(learned)}")
    if np.isnan(part.value).all():
        return None
    if np.isnan(part.value).any():
        raise Unsupported(f"the learning experiences of the expert of {learned.pop()} are unscored")
    return part
