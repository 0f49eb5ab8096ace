"""The words and tables of a report: header, summary, headline, tasks and all metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from l2bench.bundle.reader import Bundle
from l2bench.metrics.meanings import MEANINGS, NEVER_LEARNED, about_keeping
from l2bench.metrics.statistics import FEW
from l2bench.report.charts import strip
from l2bench.report.data import Lives, Matrix
from l2bench.report.origin import deviations
from l2bench.report.text import (
    changed,
    count,
    listing,
    number,
    of_seeds,
    plural,
    rate,
    sentence_list,
    shorten,
)
from l2bench.suite import Suite

#: Longer tables of metrics are cut, and say by how much.
MOST_ROWS = 1000

_DIRECTIONS = {
    True: ("\N{UPWARDS ARROW}", "higher is better"),
    False: ("\N{DOWNWARDS ARROW}", "lower is better"),
    None: ("\N{MIDDLE DOT}", "neither is better"),
}

Metric = Mapping[str, Any]


def direction(metric: Metric) -> tuple[str, str]:
    """Return a metric's direction as a symbol and in words."""
    return _DIRECTIONS[metric["higher_is_better"]]


def headline(summary: Mapping[str, Any]) -> list[Metric]:
    """Return the metrics that are shown first: the headline ones, else all of the lifetime."""
    own = [metric for metric in summary["metrics"] if metric["scope"] == "lifetime"]
    return [metric for metric in own if metric["headline"]] or own


def spread(metric: Metric) -> str:
    """Return the interval of a metric, and its points where there is none or they are few."""
    if metric["mean"] is None:
        return ""
    points = sorted(metric["points"])
    each = f"{'point' if len(points) == 1 else 'points'} {listing(map(number, points))}"
    if metric["low"] is None or metric["high"] is None:
        return each
    return f"{interval(metric)}; {each}" if len(points) < FEW else interval(metric)


def interval(metric: Metric) -> str:
    """Return the interval of a metric that has one."""
    return f"{number(metric['low'])} to {number(metric['high'])}"


def reasons(metric: Metric, lifetimes: int) -> str:
    """Return why a metric has no value, or has none in some lifetimes; empty where all have."""
    if not metric["undefined_reasons"]:
        return ""
    text = "; ".join(shorten(str(reason)) for reason in metric["undefined_reasons"][:3])
    lost = lifetimes - metric["n_lifetimes"]
    return text if metric["mean"] is None else f"{plural(lost, 'lifetime')} without: {text}"


def headline_rows(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the headline table."""
    total = summary["n_lifetimes"]
    return [
        {
            "name": shorten(metric["name"]),
            "id": shorten(metric["id"]),
            "unit": shorten(metric["unit"]),
            "mean": None if metric["mean"] is None else number(metric["mean"]),
            "spread": spread(metric),
            "note": metric["note"] if metric["mean"] is not None else None,
            "symbol": direction(metric)[0],
            "direction": direction(metric)[1],
            "lifetimes": f"{metric['n_lifetimes']} of {total}",
            "reason": reasons(metric, total),
            "strip": strip(metric),
            "meaning": MEANINGS.get(metric["id"]),
        }
        for metric in headline(summary)
    ]


def caution(metrics: Iterable[Metric]) -> str:
    """Return what to bear in mind where metrics reward keeping what was learned; else nothing."""
    names = [shorten(metric["name"], 80) for metric in metrics if about_keeping(metric["name"])]
    if not names:
        return ""
    return f"{NEVER_LEARNED}: read {sentence_list(names)} beside what was learned."


def measure_name(suite: Suite) -> str:
    """Return what performance means in this suite, to stand in a sentence."""
    measures = {task.measure for task in suite.tasks}
    if len(measures) > 1:
        return "performance"
    name = "success rate" if measures == {"success"} else measures.pop().replace("_", " ")
    return shorten(name if _plain(suite) else f"normalised {name}", 60)


def measure_note(suite: Suite) -> str:
    """Return how performance is brought to 0 to 1, in one sentence."""
    if _plain(suite) and len({task.measure for task in suite.tasks}) == 1:
        return f"Performance is the {measure_name(suite)}, from 0 to 1."
    return (
        "Performance is each task's score placed on its score range: 0 is the low end of the "
        "range, 1 the high end. The table of the tasks names measures and ranges."
    )


def _plain(suite: Suite) -> bool:
    """Return whether scores run from 0 to 1 as they are."""
    return all(task.score_range == (0.0, 1.0) for task in suite.tasks)


def sentences(
    bundles: Sequence[Bundle], summary: Mapping[str, Any], matrix: Matrix, learned: int
) -> str:
    """Return the summary of the whole page: two sentences with numbers."""
    suite = bundles[0].suite
    first = (
        f"{shorten(bundles[0].manifest.agent.name)} learned {plural(learned, 'task')} of "
        f"{suite.id} {shorten(suite.version, 40)}{changed(deviations(bundles))} in "
        f"{plural(len(bundles), 'lifetime')} "
        f"({of_seeds(summary['seeds'])})."
    )
    known = [_phrase(metric) for metric in headline(summary) if metric["mean"] is not None]
    parts = [_before_and_after(matrix, measure_name(suite), learned), sentence_list(known[:3])]
    text = "; ".join(part for part in parts if part)
    if not text:
        return f"{first} No headline metric has a value; the reasons are in the table below."
    return f"{first} {text[0].upper()}{text[1:]}."


def counts(bundles: Sequence[Bundle], lives: Lives) -> str:
    """Return over what the page's means are: runs, tasks and episodes, told apart.

    Where an evaluation leaves out tasks, the share that was evaluated is said.
    """
    columns = range(len(lives.names))
    names = {
        matrix.columns[at]
        for matrix in lives.alone.values()
        for row in matrix.rows
        for at in columns
        if row.cells[at].points
    }
    names |= {curve.task for curve in lives.curves}
    total = len(lives.names)
    partial = "" if len(names) in (0, total) else f" (partial {len(names)}/{total})"
    episodes = sum(bundle.lifetime.episodes.num_rows for bundle in bundles)
    known = count(episodes) if episodes else "unknown"
    return (
        f"n_runs = {len(bundles)}, n_tasks = {len(names)} of {total} evaluated{partial}, "
        f"n_episodes = {known}"
    )


def _phrase(metric: Metric) -> str:
    name = shorten(metric["name"], 80)
    if metric["low"] is None or metric["high"] is None:
        return f"{name} is {number(metric['mean'])}"
    low, high = number(metric["low"]), number(metric["high"])
    return f"{name} is {number(metric['mean'])} (95 % interval {low} to {high})"


def _before_and_after(matrix: Matrix, what: str, learned: int) -> str:
    """Return the mean performance right after learning and at the end, over the same tasks."""
    pairs = []
    for column in range(len(matrix.columns) if matrix.rows else 0):
        fresh, last = matrix.after_learning(column).mean, matrix.rows[-1].cells[column].mean
        if fresh is not None and last is not None:
            pairs.append((fresh, last))
    if not pairs:
        return ""
    fresh, last = (math.fsum(part) / len(pairs) for part in zip(*pairs, strict=True))
    which = "" if len(pairs) == learned else f" over the {plural(len(pairs), 'task')} measured then"
    return (
        f"the mean {what} is {rate(fresh)} right after a task is learned and {rate(last)} at the "
        f"end of the lifetime{which}"
    )


def metric_tables(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return every value by metric, and what is undefined by metric and reason."""
    total = summary["n_lifetimes"]
    known = [metric for metric in summary["metrics"] if metric["mean"] is not None]
    values = [
        {
            "id": metric["id"],
            "about": _about(metric),
            "mean": number(metric["mean"]),
            "spread": spread(metric),
            "lifetimes": f"{metric['n_lifetimes']} of {total}",
        }
        for metric in known
    ]
    gaps = _undefined(summary["metrics"], total)
    heads = {
        metric["id"]: {
            "id": shorten(metric["id"]),
            "name": shorten(metric["name"]),
            "unit": shorten(metric["unit"]),
            "direction": " ".join(direction(metric)),
        }
        for metric in summary["metrics"]
    }
    return {
        "defined": _by_metric(values[:MOST_ROWS], heads),
        "defined_cut": max(0, len(values) - MOST_ROWS),
        "undefined": _by_metric(gaps[:MOST_ROWS], heads),
        "undefined_cut": max(0, len(gaps) - MOST_ROWS),
    }


def _by_metric(
    rows: Iterable[dict[str, Any]], heads: Mapping[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["id"], []).append(row)
    return [{**heads[id], "rows": members} for id, members in groups.items()]


def _about(metric: Metric) -> str:
    if metric["task"] is None:
        return "lifetime"
    if metric["source"] is None:
        return shorten(metric["task"])
    return f"{shorten(metric['source'])} \N{RIGHTWARDS ARROW} {shorten(metric['task'])}"


def _undefined(metrics: Iterable[Metric], total: int) -> list[dict[str, Any]]:
    """Return one row per metric and reason, with the tasks or pairs it concerns."""
    groups: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for metric in metrics:
        lost = total - metric["n_lifetimes"]
        for reason in metric["undefined_reasons"]:
            groups.setdefault((metric["id"], str(reason)), []).append((_about(metric), lost))
    return [
        {
            "id": id,
            "reason": shorten(reason, 400),
            "about": listing([about for about, _ in members], 6),
            "lifetimes": f"{max(lost for _, lost in members)} of {total}",
        }
        for (id, reason), members in groups.items()
    ]
