"""Comparison with single-task experts: relative performance and sample efficiency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from l2bench.metrics.l2m_columns import FloatArray, IntArray
from l2bench.metrics.l2m_log import Log
from l2bench.metrics.l2m_regimes import least_squares_slope, per_experience, saturation
from l2bench.metrics.l2m_settings import Settings

#: A learner below this share of the expert's saturation has not saturated.
FAR_BELOW = 0.2


@dataclass(frozen=True)
class Efficiency:
    """Saturation and experiences to saturation of learner and expert, and what follows."""

    saturation: float
    experiences: int
    expert_saturation: float
    expert_experiences: int
    value: float


@dataclass(frozen=True)
class Comparison:
    """A learner against the experts of its task: one entry an expert that could be compared.

    The reasons say why there is no entry at all. ``saturation`` and ``experiences`` to it are the
    learner's own, None without experts.
    """

    saturation: float | None
    experiences: int | None
    relative: tuple[float, ...]
    relative_reason: str | None
    efficiency: tuple[Efficiency, ...]
    efficiency_reason: str | None


@dataclass(frozen=True, eq=False)
class Curve:
    """A learning curve: the rows (n,) of all its learning regimes and their experience numbers."""

    value: FloatArray
    exp_num: IntArray

    def saturation(self, settings: Settings) -> tuple[float, int]:
        """Return the saturation value and the experiences to it."""
        merged = per_experience(self.value, self.exp_num)
        value, position = saturation(merged, settings.tie_tolerance)
        return value, position + settings.first_experience

    @property
    def falls(self) -> bool:
        """Whether the least-squares line through the rows goes down."""
        return least_squares_slope(self.exp_num, self.value) < 0


def compare(
    task: str, learner: Curve, experts: Sequence[Log], settings: Settings, empty: str
) -> Comparison:
    """Return relative performance and sample efficiency of a task's learner.

    Relative performance is the sum of the learner's values over the sum of the expert's, over as
    many rows as the shorter one has. Sample efficiency is
    (saturation / expert's saturation) * (expert's experiences to saturation / own experiences).
    ``empty`` says why the learner would have no rows.
    """
    if not len(learner.value):
        return Comparison(None, None, (), empty, (), empty)
    if not experts:
        reason = f"no single-task expert of task {task}"
        return Comparison(None, None, (), reason, (), reason)
    own = learner.saturation(settings)
    curves = [Curve(expert.value, expert.exp_num) for expert in experts]
    if settings.experts == "time":
        length = min(len(curve.value) for curve in curves)
        stacked = np.stack([curve.value[:length] for curve in curves])
        curves = [Curve(stacked.mean(axis=0), np.arange(length))]
    relative = [_relative(learner, curve) for curve in curves]
    known = tuple(value for value in relative if value is not None)
    entries, gap = _efficiency(task, learner, own, curves, settings)
    return Comparison(
        *own,
        relative=known,
        relative_reason=None if known else f"the sum of the expert of task {task} is zero",
        efficiency=entries,
        efficiency_reason=gap,
    )


def _relative(learner: Curve, expert: Curve) -> float | None:
    rows = min(len(learner.value), len(expert.value))
    total = float(expert.value[:rows].sum())
    if total == 0:
        return None
    value = float(learner.value[:rows].sum()) / total
    return value if math.isfinite(value) else None


def _efficiency(
    task: str,
    learner: Curve,
    own: tuple[float, int],
    experts: Sequence[Curve],
    settings: Settings,
) -> tuple[tuple[Efficiency, ...], str | None]:
    """Return one entry per expert that can be compared, or why there is none."""
    height, steps = own
    if steps == 0:
        return (), f"task {task} is best at its first experience, so saturation is not achieved"
    if settings.eligible_only and learner.falls:
        return (), f"no saturation: the learning curve of task {task} falls"
    entries = []
    reason = None
    for expert in experts:
        peak, count = expert.saturation(settings)
        if count == 0:
            reason = f"the expert of task {task} is best at its first experience"
        elif peak == 0:
            reason = f"the saturation of the expert of task {task} is zero"
        elif settings.eligible_only and (problem := _ineligible(task, height, peak, expert)):
            reason = problem
        else:
            hopeless = not settings.eligible_only and (height < FAR_BELOW * peak or learner.falls)
            value = 0.0 if hopeless else (height / peak) * (count / steps)
            if math.isfinite(value):
                entries.append(Efficiency(height, steps, peak, count, value))
            else:
                reason = f"the saturation of the expert of task {task} is too close to zero"
    return tuple(entries), None if entries else reason


def _ineligible(task: str, own: float, peak: float, expert: Curve) -> str | None:
    if expert.falls:
        return f"no saturation: the learning curve of the expert of task {task} falls"
    if own <= 0 or peak <= 0:
        return f"no saturation: task {task} or its expert never exceeds zero"
    if own < FAR_BELOW * peak:
        return f"no saturation: task {task} stays below {FAR_BELOW:.0%} of its expert"
    return None
