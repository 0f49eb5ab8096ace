"""Two views of a lifetime that reports and scores share: the matrix c[i][j] and the curves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from l2bench.bundle.lifetime import Lifetime, columns
from l2bench.errors import Unsupported
from l2bench.metrics.l2m_columns import IntArray
from l2bench.metrics.statistics import wilson

Cell = dict[str, Any]
#: Cells by block and task.
Cells = dict[tuple[int, int], Cell]


def matrix(lifetime: Lifetime, measured: Cells | None = None) -> dict[str, Any]:
    """Return mean performance after each evaluation of several tasks, as plain data.

    ``rows`` are the pretest and post evaluation blocks in order, ``columns`` the tasks of the
    suite; a cell that was not measured is None, never 0. ``wilson95`` is given for successes.
    ``measured`` are the `cells` of the lifetime, where they are known already.
    """
    names = [task.id for task in lifetime.suite.tasks]
    measured = cells(lifetime) if measured is None else measured
    rows = []
    for block in _in_order(lifetime):
        if block["role"] not in ("pretest", "post"):
            continue
        learned = None if block["learn_task"] is None else names[block["learn_task"]]
        rows.append(
            {
                "block": block["block_index"],
                "label": "before learning" if learned is None else f"after {learned}",
                "learned": learned,
                "exposure": block["exposure"],
                "cells": [measured.get((block["block_index"], at)) for at in range(len(names))],
            }
        )
    return {
        "axis_rows": "evaluated after learning",
        "axis_columns": "performance on task",
        "columns": names,
        "rows": rows,
    }


def curves(lifetime: Lifetime, measured: Cells | None = None) -> list[dict[str, Any]]:
    """Return each learned task's performance at its checkpoints, one entry per visit.

    ``measured`` are the `cells` of the lifetime, where they are known already.
    """
    names = [task.id for task in lifetime.suite.tasks]
    measured = cells(lifetime) if measured is None else measured
    visits: dict[tuple[int, int], list[Cell]] = {}
    for block in _in_order(lifetime):
        if block["role"] != "curve":
            continue
        task, exposure = block["learn_task"], block["exposure"]
        cell = measured.get((block["block_index"], task))
        if cell is not None:
            cell = {"checkpoint": block["checkpoint"], **cell}
            visits.setdefault((task, exposure), []).append(cell)
    return [
        {"task": names[task], "exposure": exposure, "unit": _unit(lifetime, task), "points": points}
        for (task, exposure), points in visits.items()
    ]


def _in_order(lifetime: Lifetime) -> list[dict[str, Any]]:
    """Return the rows of the blocks table in the order of the lifetime."""
    names = ["block_index", "role", "learn_task", "exposure", "checkpoint"]
    rows: list[dict[str, Any]] = lifetime.blocks.select(names).to_pylist()
    return sorted(rows, key=lambda row: row["block_index"])


def _unit(lifetime: Lifetime, task: int) -> str:
    learning = lifetime.suite.tasks[task].learning
    return learning.unit if learning else ""


def cells(lifetime: Lifetime) -> Cells:
    """Return the mean performance of each (block, task) that was evaluated.

    ``n`` counts episodes, or test items of a samples task; None where an import does not say.

    Raises:
        Unsupported: if a success or an accuracy is no fraction.
    """
    if lifetime.cells is not None:
        return _imported(lifetime, lifetime.cells)
    rows = columns(lifetime.episodes.select(["block_index", "task_index", "length"]))
    performance = lifetime.performance()
    known = ~np.isnan(performance)
    tasks, blocks = rows["task_index"][known], rows["block_index"][known]
    values, lengths = performance[known], rows["length"][known]
    if not len(values):
        return {}
    first, member = grouped(blocks.astype(np.int64) * len(lifetime.suite.tasks) + tasks)
    keys = np.stack([blocks[first], tasks[first]], axis=1)
    totals = np.bincount(member, weights=values, minlength=len(keys))
    counts = np.bincount(member, minlength=len(keys))
    items = np.bincount(member, weights=lengths, minlength=len(keys)) / counts
    found: dict[tuple[int, int], Cell] = {}
    for at, (block, task) in enumerate(keys.tolist()):
        value = float(totals[at] / counts[at])
        weighed = lifetime.suite.tasks[task].measure == "accuracy" and items[at] > 0
        n = int(items[at]) if weighed else int(counts[at])
        found[block, task] = _cell(lifetime, task, value, n)
    return found


def _imported(lifetime: Lifetime, table: pa.Table) -> dict[tuple[int, int], Cell]:
    """Return the cells of an aggregate import."""
    found: dict[tuple[int, int], Cell] = {}
    for row in table.to_pylist():
        task = row["task_index"]
        low, high = lifetime.suite.tasks[task].score_range
        value = (row["mean"] - low) / (high - low)
        found[row["block_index"], task] = _cell(lifetime, task, value, row["n"])
    return found


def _cell(lifetime: Lifetime, task: int, value: float, n: int | None) -> Cell:
    name, measure = lifetime.suite.tasks[task].id, lifetime.suite.tasks[task].measure
    cell: Cell = {"value": value, "n": n}
    if measure in ("success", "accuracy"):
        if not 0 <= value <= 1:
            raise Unsupported(f"{measure} of task '{name}' is {value}, outside 0 to 1")
        if n:
            cell["wilson95"] = list(wilson(value * n, n))
    return cell


def changes(*columns: NDArray[Any]) -> IntArray:
    """Return the rows at which a run of equal entries begins; columns have the shape (N,)."""
    fresh = np.zeros(len(columns[0]), dtype=bool)
    fresh[:1] = True
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(fresh)


def grouped(key: IntArray) -> tuple[IntArray, IntArray]:
    """Return the first row of each distinct key, keys ascending, and the place of each row's key.

    Takes time for sorting only by the number of runs of equal keys (N,).
    """
    start = changes(key)
    _, first, member = np.unique(key[start], return_index=True, return_inverse=True)
    return start[first], np.repeat(member, np.diff(np.append(start, len(key))))
