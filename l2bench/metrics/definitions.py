"""The definitions of the core's metrics: ids, units, directions, ranges and formulas."""

from __future__ import annotations

from dataclasses import replace

from l2bench.metrics.l2m_transfer import DIRECTIONS, METHODS, metric_id
from l2bench.metrics.scores import Metric, Range

RATE: Range = (0.0, 1.0)
CHANGE: Range = (-1.0, 1.0)
POSITIVE: Range = (0.0, None)
ANY: Range = (None, None)


def _both(metric: Metric) -> tuple[Metric, Metric]:
    """Return the definition of the lifetime value and that of one task's value."""
    task = replace(
        metric,
        id=f"{metric.id}_k",
        name=f"{metric.name} of a task",
        scope="task",
        headline=False,
    )
    return metric, task


def _lifetime(
    id: str,
    name: str,
    unit: str,
    higher_is_better: bool,
    range: Range,
    formula: str,
    headline: bool = False,
) -> Metric:
    return Metric(id, name, unit, higher_is_better, range, "lifetime", formula, headline)


_NBT = "mean over tasks k of mean over later tasks t of (diagonal_k - performance on k after t)"
_KEPT = "a second evaluation right after the task instead of the best checkpoint"
_NBT_NAME = "negative backward transfer"

LIBERO: tuple[Metric, ...] = (
    *_both(
        _lifetime(
            "libero.FWT",
            "forward transfer (mean of the learning curves)",
            "performance",
            True,
            RATE,
            "mean over tasks of the mean own curve, held at its best from there on",
            True,
        )
    ),
    *_both(
        _lifetime(
            "libero.NBT",
            _NBT_NAME,
            "performance",
            False,
            CHANGE,
            f"{_NBT}, diagonal_k the best checkpoint of k; the last task counts as 0",
            True,
        )
    ),
    *_both(
        _lifetime(
            "libero.AUC",
            "area under the curve",
            "performance",
            True,
            RATE,
            "mean over tasks k of the mean of FWT_k and the performances on k after later tasks",
            True,
        )
    ),
    *_both(
        _lifetime(
            "libero.NBT_reevaluated",
            f"{_NBT_NAME} from the re-evaluation",
            "performance",
            False,
            CHANGE,
            f"{_NBT}, diagonal_k {_KEPT}; the last task counts as 0",
        )
    ),
    _lifetime(
        "libero.NBT_excluding_last_task",
        f"{_NBT_NAME} without the last task",
        "performance",
        False,
        CHANGE,
        f"{_NBT}, diagonal_k the best checkpoint of k; the last task is left out",
    ),
    _lifetime(
        "libero.NBT_reevaluated_excluding_last_task",
        f"{_NBT_NAME} from the re-evaluation, without the last task",
        "performance",
        False,
        CHANGE,
        f"{_NBT}, diagonal_k {_KEPT}; the last task is left out",
    ),
    Metric(
        "libero.best_k",
        "best of the own curve",
        "performance",
        True,
        RATE,
        "task",
        "largest performance at the checkpoints of the task",
    ),
    Metric(
        "libero.reevaluated_k",
        "performance right after the task",
        "performance",
        True,
        RATE,
        "task",
        "performance on the task in the evaluation after it was learned",
    ),
)


def _l2m(prefix: str, unit: str, low: float, high: float, pooled: str) -> tuple[Metric, ...]:
    """Return the L2M definitions for performance in this unit and range."""
    spread: Range = (low - high, high - low)
    shared = (
        _lifetime(
            f"{prefix}.mean_training_performance",
            "mean training performance",
            unit,
            True,
            (low, high),
            "mean over tasks of the mean performance in learning",
        ),
        _lifetime(
            f"{prefix}.mean_evaluation_performance",
            "mean evaluation performance",
            unit,
            True,
            (low, high),
            "mean over tasks of the mean performance in evaluation",
        ),
        _lifetime(
            f"{prefix}.performance_recovery",
            "performance recovery",
            "experiences per learning block",
            True,
            ANY,
            "minus the median slope of a task's recovery times; mean over tasks",
        ),
        _lifetime(
            f"{prefix}.performance_maintenance",
            "performance maintenance",
            unit,
            True,
            spread,
            f"later evaluations minus the reference evaluation after learning; {pooled}",
            True,
        ),
        _lifetime(
            f"{prefix}.performance_maintenance_from_learning",
            "performance maintenance from the end of learning",
            unit,
            True,
            spread,
            f"later evaluations minus the end of learning; {pooled}",
        ),
        _lifetime(
            f"{prefix}.relative_performance",
            "relative performance",
            "ratio",
            True,
            ANY,
            "sum of the learner's performances over that of the single-task expert",
        ),
        _lifetime(
            f"{prefix}.sample_efficiency",
            "sample efficiency",
            "ratio",
            True,
            ANY,
            "(saturation / expert's saturation) * (expert's experiences to it / own experiences)",
        ),
    )
    return tuple(metric for item in shared for metric in _both(item))


def _transfer(prefix: str, headline: str) -> tuple[Metric, ...]:
    metrics = []
    for direction in DIRECTIONS:
        for method in METHODS:
            contrast = method == "contrast"
            formula = "(p2 - p1) / (p2 + p1)" if contrast else "p2 / p1"
            metric = _lifetime(
                f"{prefix}.{metric_id(direction, method)}",
                f"{direction} transfer ({method})",
                method,
                True,
                CHANGE if contrast else POSITIVE,
                f"{formula} of the target's evaluations before and after learning the source; "
                "first value of each pair, mean over pairs",
                method == headline,
            )
            metrics.append(metric)
    return tuple(metrics)


def _pairs(transfer: tuple[Metric, ...]) -> tuple[Metric, ...]:
    """Return the definitions of single pairs, and of changes that several sources share."""
    metrics = []
    for metric in transfer:
        prefix, id = metric.id.split(".")
        single = replace(metric, id=f"{metric.id}_pair", scope="pair", headline=False)
        joint = replace(
            single, id=f"{prefix}.joint_{id}", name=f"{metric.name} of several sources together"
        )
        metrics += [replace(single, name=f"{metric.name} of a pair"), joint]
    return tuple(metrics)


_TEXT_TRANSFER = _transfer("l2m", "contrast")

#: New et al. 2022, on performance in [0, 1].
L2M: tuple[Metric, ...] = (
    *_l2m("l2m", "performance", 0.0, 1.0, "mean over all such values"),
    *_TEXT_TRANSFER,
    *_pairs(_TEXT_TRANSFER),
)

#: The package l2metrics 3.1.0, on performance scaled to [1, 101] per task.
L2METRICS_SET: tuple[Metric, ...] = (
    *_l2m("l2metrics", "scaled performance", 1.0, 101.0, "mean over tasks of their means"),
    *_transfer("l2metrics", "ratio"),
)
