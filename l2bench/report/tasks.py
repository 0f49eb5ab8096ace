"""The table of the tasks: what each is, how it fared, and its own metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from l2bench.report.data import Curve, Lives
from l2bench.report.life import UNMETERED
from l2bench.report.sections import Metric, direction, spread
from l2bench.report.text import count, number, rate, short_count, shorten
from l2bench.suite import Suite


def task_table(lives: Lives, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the per-task table: what each task is, how it fared, and its own metrics."""
    metrics = [m for m in summary["metrics"] if m["scope"] == "task" and m["source"] is None]
    known = {(m["id"], m["task"]): m for m in metrics}
    ids = dict.fromkeys(m["id"] for m in metrics if m["mean"] is not None)
    heads = {m["id"]: m for m in reversed(metrics)}
    ends = [id.rpartition(".")[2] for id in ids]
    chosen = [
        {
            "short": shorten(end if ends.count(end) == 1 else id, 60),
            "name": shorten(heads[id]["name"]),
            "symbol": direction(heads[id])[0],
            "direction": direction(heads[id])[1],
        }
        for id, end in zip(ids, ends, strict=True)
    ]
    suite = lives.lifetimes[0].suite
    kept = any(curve.kept for curve in lives.curves)
    gaps = [abs(gap) for at in lives.order(0) if (gap := _course(lives, at)["gap"]) is not None]
    gap = max(gaps, default=None) if kept else None
    rows = [
        {
            "task": suite.tasks[at].id,
            "terms": _terms(suite, at),
            "kept": _kept(lives.curves, suite.tasks[at].id),
            **{key: None if v is None else rate(v) for key, v in _course(lives, at).items()},
            "n": _counts(lives, suite.tasks[at].id),
            "metrics": [_task_value(known.get((id, suite.tasks[at].id))) for id in ids],
        }
        for at in lives.order(0)
    ]
    terms = {row["terms"] for row in rows}
    return {
        "heads": chosen,
        "rows": rows,
        "kept": kept,
        "gap": None if gap is None else rate(gap),
        "terms": terms.pop() if len(terms) == 1 else None,
    }


def _terms(suite: Suite, at: int) -> str:
    """Return what a task is measured by, on which range, and how much of it is learned."""
    task = suite.tasks[at]
    low, high = (number(end).removesuffix(".00") for end in task.score_range)
    measured = f"{shorten(task.measure, 60)} from {low} to {high}"
    if task.learning is None:
        return f"{measured}; never learned"
    if task.environment in UNMETERED:
        return f"{measured}; how much of it was learned is not known"
    return f"{measured}; {count(task.learning.amount)} {task.learning.unit} of learning from " + (
        task.learning.source
    )


def _kept(curves: Sequence[Curve], task: str) -> str | None:
    values = [c for curve in curves if curve.task == task for c in curve.kept.values()]
    if not values:
        return None
    ends = [short_count(end) for end in sorted({min(values), max(values)})]
    return " to ".join(ends)


def _course(lives: Lives, task: int) -> dict[str, float | None]:
    """Return a task's performance along its life, means over the lifetimes that have it.

    ``best`` is the highest checkpoint of the first visit, ``gap`` what of it the evaluation of the
    policy that was kept does not show, ``forgetting`` what is lost between learning and the end.
    """
    found: dict[str, list[float]] = {
        key: [] for key in ("before", "best", "after", "gap", "end", "forgetting")
    }
    name = lives.names[task]
    curve = next((c for c in lives.curves if (c.task, c.exposure) == (name, 0)), None)
    for seed, matrix in lives.alone.items():
        column = matrix.columns.index(name)
        first = matrix.rows[0] if matrix.rows else None
        early = first.cells[column].mean if first and first.learned is None else None
        fresh = matrix.after_learning(column).mean
        last = matrix.rows[-1].cells[column].mean if matrix.rows else None
        steps = [cell.of(seed) for cell in curve.cells] if curve else []
        best = max((value for value in steps if value is not None), default=None)
        for key, value in (
            ("before", early),
            ("best", best),
            ("after", fresh),
            ("gap", _minus(best, fresh)),
            ("end", last),
            ("forgetting", _minus(fresh, last)),
        ):
            found[key] += [value] if value is not None else []
    return {k: math.fsum(values) / len(values) if values else None for k, values in found.items()}


def _minus(one: float | None, other: float | None) -> float | None:
    return one - other if one is not None and other is not None else None


def _counts(lives: Lives, task: str) -> str | None:
    """Return over how many episodes or test items the task's evaluations of one lifetime are."""
    sizes = {
        point.n
        for matrix in lives.alone.values()
        for row in matrix.rows
        for point in row.cells[matrix.columns.index(task)].points
        if point.n is not None
    }
    return " to ".join(count(end) for end in sorted({min(sizes), max(sizes)})) if sizes else None


def _task_value(metric: Metric | None) -> dict[str, Any]:
    if metric is None:
        return {"value": None, "reason": "not given by the metric set"}
    if metric["mean"] is None:
        return {"value": None, "reason": "; ".join(map(str, metric["undefined_reasons"][:3]))}
    return {"value": number(metric["mean"]), "reason": "", "spread": spread(metric)}
