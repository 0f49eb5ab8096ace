"""Two views of a lifetime that reports and scores share: the matrix c[i][j] and the curves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from l2bench.bundle.lifetime import Lifetime, columns
from l2bench.errors import Unsupported
from l2bench.metrics.statistics import wilson

Cell = dict[str, Any]


def matrix(lifetime: Lifetime) -> dict[str, Any]:
    """Return mean performance after each evaluation of several tasks, as plain data.

    ``rows`` are the pretest and post evaluation blocks in order, ``columns`` the tasks of the
    suite; a cell that was not measured is None, never 0. ``wilson95`` is given for successes.
    """
    names = [task.id for task in lifetime.suite.tasks]
    measured = cells(lifetime)
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


def curves(lifetime: Lifetime) -> list[dict[str, Any]]:
    """Return each learned task's performance at its checkpoints, one entry per visit."""
    names = [task.id for task in lifetime.suite.tasks]
    measured = cells(lifetime)
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
    rows: list[dict[str, Any]] = lifetime.blocks.to_pylist()
    return sorted(rows, key=lambda row: row["block_index"])


def _unit(lifetime: Lifetime, task: int) -> str:
    learning = lifetime.suite.tasks[task].learning
    return learning.unit if learning else ""


def cells(lifetime: Lifetime) -> dict[tuple[int, int], Cell]:
    """Return the mean performance of each (block, task) that was evaluated.

    ``n`` counts episodes, or test items of a samples task; None where an import does not say.

    Raises:
        Unsupported: if a success or an accuracy is no fraction.
    """
    if lifetime.cells is not None:
        return _imported(lifetime, lifetime.cells)
    rows = columns(lifetime.episodes)
    performance = lifetime.performance()
    known = ~np.isnan(performance)
    tasks, blocks = rows["task_index"][known], rows["block_index"][known]
    values, lengths = performance[known], rows["length"][known]
    keys, member = np.unique(np.stack([blocks, tasks], axis=1), axis=0, return_inverse=True)
    member = member.reshape(-1)
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
