"""What the charts show: matrix, curves and courses of several lifetimes, brought together.

Everything is computed from the raw tables. A cell that no lifetime measured has no points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from l2bench.bundle.lifetime import Lifetime, columns
from l2bench.metrics.views import curves, matrix
from l2bench.report.colours import Looks, looks
from l2bench.report.text import ordinal

#: A task's visit: its position in the suite and how often it was learned before.
Visit = tuple[int, int]


@dataclass(frozen=True)
class Point:
    """One lifetime's mean performance in one evaluation, over ``n`` episodes or test items.

    An import may not say over how many.
    """

    seed: int
    value: float
    n: int | None
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Cell:
    """The points of the lifetimes that measured it."""

    points: tuple[Point, ...] = ()

    @property
    def mean(self) -> float | None:
        """The mean over lifetimes, each counting once; None where nothing was measured."""
        if not self.points:
            return None
        return math.fsum(point.value for point in self.points) / len(self.points)

    @property
    def span(self) -> tuple[float, float] | None:
        """The smallest and the largest point."""
        values = [point.value for point in self.points]
        return (min(values), max(values)) if values else None

    def of(self, seed: int) -> float | None:
        """Return one lifetime's value."""
        return next((point.value for point in self.points if point.seed == seed), None)


@dataclass(frozen=True)
class Row:
    """One evaluation of several tasks, at the same place in every lifetime.

    ``learned`` is the column of the task learned last (None: nothing yet), ``visits`` how many
    learning blocks lie before it.
    """

    label: str
    learned: int | None
    visits: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Matrix:
    """Performance on the tasks (columns) after each evaluation of several of them (rows).

    Columns are in the order of learning. Where lifetimes learn in different orders (``aligned`` is
    false), rows and columns stand for places in the order, not for tasks.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    aligned: bool

    @property
    def measured(self) -> bool:
        """Whether any cell has a value."""
        return any(cell.points for row in self.rows for cell in row.cells)

    def after_learning(self, column: int) -> Cell:
        """Return the cell of a task right after it was first learned."""
        rows = (row for row in self.rows if row.learned == column and row.cells[column].points)
        return next((row.cells[column] for row in rows), Cell())


@dataclass(frozen=True)
class Curve:
    """One task's performance at its checkpoints during one visit.

    ``kept`` holds the checkpoint whose policy went on, by lifetime, where the suite keeps the best.
    """

    task: str
    exposure: int
    unit: str
    checkpoints: tuple[int, ...]
    cells: tuple[Cell, ...]
    kept: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Course:
    """One task's performance over the lifetime; x counts the learning blocks that are over.

    ``lines`` holds each lifetime's evaluations, ``own`` where each lifetime learns the task. The
    mean and the checkpoints are there where all lifetimes learn in the same order.
    """

    task: str
    lines: Mapping[int, tuple[tuple[int, float], ...]]
    own: Mapping[int, tuple[int, ...]]
    mean: tuple[tuple[int, float], ...]
    within: tuple[tuple[tuple[float, float], ...], ...]

    def of(self, seed: int, visits: int) -> float | None:
        """Return one lifetime's last evaluation after so many learning blocks."""
        found = [value for at, value in self.lines[seed] if at == visits]
        return found[-1] if found else None


@dataclass(frozen=True)
class Lives:
    """Lifetimes of one agent on one suite, with the order of learning of each."""

    lifetimes: tuple[Lifetime, ...]
    visits: tuple[tuple[Visit, ...], ...]

    @classmethod
    def of(cls, lifetimes: Sequence[Lifetime]) -> Lives:
        """Find out in which order each lifetime learns."""
        return cls(tuple(lifetimes), tuple(_visits(lifetime) for lifetime in lifetimes))

    @property
    def seeds(self) -> tuple[int, ...]:
        """The lifetimes' seeds."""
        return tuple(lifetime.seed for lifetime in self.lifetimes)

    @property
    def names(self) -> tuple[str, ...]:
        """The task ids in the order of the suite."""
        return tuple(task.id for task in self.lifetimes[0].suite.tasks)

    @cached_property
    def looks(self) -> Looks:
        """How the tasks of the suite are drawn, by id."""
        return looks(self.names)

    @property
    def aligned(self) -> bool:
        """Whether all lifetimes learn in the same order."""
        return len(set(self.visits)) == 1

    def order(self, life: int) -> list[int]:
        """Return all tasks, those that one lifetime learns first, in its order."""
        learned = list(dict.fromkeys(task for task, _ in self.visits[life]))
        return learned + [t for t in range(len(self.names)) if t not in learned]

    @cached_property
    def matrix(self) -> Matrix:
        """The matrix over all lifetimes."""
        learned = len({task for task, _ in self.visits[0]})
        names = [self.names[task] for task in self.order(0)]
        if not self.aligned:
            names = [f"{ordinal(at + 1)} task" for at in range(learned)] + names[learned:]
        rows = []
        for at in range(max(len(part) for part in self._parts)):
            pairs = zip(self.seeds, self._parts, strict=True)
            there = [(seed, part[at]) for seed, part in pairs if at < len(part)]
            rows.append(_together(there, names))
        return Matrix(tuple(names), tuple(rows), self.aligned)

    @cached_property
    def alone(self) -> Mapping[int, Matrix]:
        """Each lifetime's own matrix, by seed."""
        found = {}
        for life, (seed, rows) in enumerate(zip(self.seeds, self._parts, strict=True)):
            names = [self.names[task] for task in self.order(life)]
            parts = tuple(_together([(seed, row)], names) for row in rows)
            found[seed] = Matrix(tuple(names), parts, True)
        return found

    @cached_property
    def curves(self) -> list[Curve]:
        """The curves of every visit, in the order of the first lifetime that has it."""
        found: dict[tuple[str, int], dict[int, dict[str, Any]]] = {}
        for lifetime in self.lifetimes:
            for curve in curves(lifetime):
                key = curve["task"], curve["exposure"]
                found.setdefault(key, {})[lifetime.seed] = curve
        kept = {lifetime.seed: _kept(lifetime) for lifetime in self.lifetimes}
        return [_curve(key, by_seed, kept) for key, by_seed in found.items()]

    @cached_property
    def courses(self) -> list[Course]:
        """Every task's course, in the order of learning of the first lifetime."""
        return [self._course(task) for task in self.order(0)]

    @cached_property
    def _parts(self) -> list[list[dict[str, Any]]]:
        return [_rows(lifetime, self.order(at)) for at, lifetime in enumerate(self.lifetimes)]

    def _course(self, task: int) -> Course:
        name = self.names[task]
        own = {
            seed: tuple(at for at, visit in enumerate(visits) if visit[0] == task)
            for seed, visits in zip(self.seeds, self.visits, strict=True)
        }
        learning = self.lifetimes[0].suite.tasks[task].learning
        within = []
        for curve in self.curves if self.aligned else ():
            if curve.task == name and learning:
                start = self.visits[0].index((task, curve.exposure))
                steps = zip(curve.checkpoints, curve.cells, strict=True)
                known = [(c, cell.mean) for c, cell in steps if cell.mean is not None]
                within.append(tuple((start + c / learning.amount, mean) for c, mean in known))
        lines = {seed: _line(matrix, name) for seed, matrix in self.alone.items()}
        mean = _line(self.matrix, name) if self.aligned else ()
        return Course(name, lines, own, mean, tuple(within))


def _line(matrix: Matrix, name: str) -> tuple[tuple[int, float], ...]:
    """Return (learning blocks over, performance) of each evaluation of one task."""
    column = matrix.columns.index(name)
    cells = [(row.visits, row.cells[column].mean) for row in matrix.rows]
    return tuple((visits, mean) for visits, mean in cells if mean is not None)


def _visits(lifetime: Lifetime) -> tuple[Visit, ...]:
    blocks = columns(lifetime.blocks)
    learning = blocks["kind"] == "learn"
    pairs = zip(blocks["learn_task"][learning], blocks["exposure"][learning], strict=True)
    return tuple(dict.fromkeys((int(task), int(exposure)) for task, exposure in pairs))


def _rows(lifetime: Lifetime, order: list[int]) -> list[dict[str, Any]]:
    """Return the rows of one lifetime's matrix, columns in this order."""
    view = matrix(lifetime)
    blocks = columns(lifetime.blocks)
    learning = blocks["kind"] == "learn"
    visited = list(zip(blocks["learn_task"], blocks["exposure"], strict=True))
    place = {view["columns"][task]: at for at, task in enumerate(order)}
    rows = []
    for row in view["rows"]:
        before = np.flatnonzero(learning & (blocks["block_index"] < row["block"]))
        rows.append(
            {
                "learned": place.get(row["learned"]),
                "exposure": -1 if row["exposure"] is None else row["exposure"],
                "visits": len({visited[at] for at in before}),
                "cells": [row["cells"][task] for task in order],
            }
        )
    return rows


def _together(there: list[tuple[int, dict[str, Any]]], names: Sequence[str]) -> Row:
    first = there[0][1]
    learned = first["learned"]
    cells = [
        Cell(tuple(_point(seed, row["cells"][j]) for seed, row in there if row["cells"][j]))
        for j in range(len(names))
    ]
    label = "before learning" if learned is None else f"after {names[learned]}"
    if first["exposure"] > 0:
        label += f" (visit {first['exposure'] + 1})"
    return Row(label, learned, first["visits"], tuple(cells))


def _point(seed: int, cell: Mapping[str, Any]) -> Point:
    wilson = cell.get("wilson95")
    interval = (float(wilson[0]), float(wilson[1])) if wilson else None
    return Point(seed, float(cell["value"]), cell["n"], interval)


def _curve(
    key: tuple[str, int],
    by_seed: Mapping[int, Mapping[str, Any]],
    kept: Mapping[int, Mapping[tuple[str, int], int]],
) -> Curve:
    at: dict[int, list[Point]] = {}
    for seed, curve in by_seed.items():
        for point in curve["points"]:
            at.setdefault(point["checkpoint"], []).append(_point(seed, point))
    checkpoints = tuple(sorted(at))
    selected = {seed: kept[seed][key] for seed in by_seed if key in kept[seed]}
    unit = next(iter(by_seed.values()))["unit"]
    return Curve(*key, unit, checkpoints, tuple(Cell(tuple(at[c])) for c in checkpoints), selected)


def _kept(lifetime: Lifetime) -> dict[tuple[str, int], int]:
    """Return the checkpoint that was kept of each visit, where one was chosen."""
    blocks = columns(lifetime.blocks)
    found = {}
    for at in np.flatnonzero((blocks["selected_checkpoint"] >= 0) & (blocks["kind"] == "eval")):
        name = lifetime.suite.tasks[int(blocks["learn_task"][at])].id
        found[name, int(blocks["exposure"][at])] = int(blocks["selected_checkpoint"][at])
    return found
