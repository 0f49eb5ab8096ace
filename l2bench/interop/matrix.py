"""Reading an accuracy matrix: R[i][j] on task j after learning task i, and b before learning."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l2bench.bundle.files import read_json
from l2bench.errors import Unsupported, choices, nearest
from l2bench.interop.sequence import Evaluation, sequence
from l2bench.interop.source import UNKNOWN_AGENT, Options, Source
from l2bench.interop.text import MISSING, cells, read_bytes

KIND = "matrix"

#: The label of a row that was measured before anything was learned.
BEFORE = ("", "b", "before", "untrained")

#: What other tables have between their cells, in the order in which it is looked for.
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars", " ": "spaces"}

_DECIMALS = "decimals are written with a point, like .9"

_DECIMAL_COMMA = re.compile(r'[\s"]*[+-]?\d*,\d+%?[\s"]*')

_KEYS = ("R", "b", "tasks", "order", "n", "agent", "seed", "measure", "name")


@dataclass(frozen=True)
class _Matrix:
    """Values (rows of) NaN where not measured; ``learned`` is None for the row before learning.

    ``items`` counts the items of each task's cells, None where that is unknown.
    """

    tasks: tuple[str, ...]
    rows: tuple[tuple[str | None, tuple[float, ...]], ...]
    items: tuple[int | None, ...] = ()
    agent: str | None = None
    seed: int = 0
    measure: str = "accuracy"
    name: str | None = None


def read(path: Path, options: Options) -> Source:
    """Return the lifetime of a matrix in a CSV or JSON file.

    Raises:
        Unsupported: if it is malformed, naming line and column, or row and column.
    """
    matrix = _from_json(path) if path.suffix == ".json" else _from_csv(path)
    items = matrix.items or [None] * len(matrix.tasks)
    evaluations = [
        Evaluation(
            learned,
            {
                task: (value, n)
                for task, n, value in zip(matrix.tasks, items, values, strict=True)
                if not math.isnan(value)
            },
        )
        for learned, values in matrix.rows
    ]
    lifetime = sequence(
        matrix.name or path.stem,
        matrix.tasks,
        evaluations,
        environment="import/matrix",
        measure=options.measure or matrix.measure,
        score_range=options.score_range,
        seed=options.seed if options.seed is not None else matrix.seed,
        metrics=("l2bench/gem",),
    )
    unlearned = len(matrix.tasks) - sum(1 for learned, _ in matrix.rows if learned is not None)
    warnings = (f"no row after learning {unlearned} of the tasks",) if unlearned else ()
    agent = options.agent or matrix.agent or UNKNOWN_AGENT
    return Source(KIND, lifetime, (path,), agent=agent, warnings=warnings)


def _from_csv(path: Path) -> _Matrix:
    """Return a matrix from a CSV file, or say that something else than a comma separates cells."""
    raw = read_bytes(path)
    try:
        return _from_cells(list(cells(raw, path.name, ",")), path.name)
    except Unsupported:
        if cause := _separated(raw.decode("utf-8-sig", "replace")):
            raise Unsupported(f"{path.name}: {cause}") from None
        raise


def _separated(text: str) -> str:
    """Return what separates the cells of a text where that is no comma, else nothing."""
    lines = [line for line in text.splitlines() if line.strip()]
    for separator, name in _SEPARATORS.items():
        if lines and all(separator in line for line in lines):
            if "," not in text:
                return f"cells are separated by a comma; found {name}"
            found = [cell for line in lines for cell in line.split(separator) if "," in cell]
            if all(_DECIMAL_COMMA.fullmatch(cell) for cell in found):
                return f"cells are separated by a comma, and {_DECIMALS}; found {name} and commas"
    return ""


def _from_cells(lines: Sequence[tuple[int, list[str]]], name: str) -> _Matrix:
    """Return a matrix with a header of tasks and a first column of labels, or of bare numbers."""
    if not lines:
        raise Unsupported(f"{name} has no lines")
    width = len(lines[0][1])
    for line, texts in lines:
        if len(texts) != width:
            hint = f" (a comma separates cells; {_DECIMALS})" if len(texts) > width else ""
            raise Unsupported(f"{name}, line {line}: {len(texts)} cells, line 1 has {width}{hint}")
    if all(_is_value(text) for text in lines[0][1]):
        if len(lines) != width:
            raise Unsupported(
                f"{name}: {len(lines)} lines of {width} numbers; a matrix without names is "
                f"square (name the tasks in a first line and a first column otherwise; a comma "
                f"separates cells, and {_DECIMALS})"
            )
        tasks = tuple(f"task-{column + 1}" for column in range(width))
        labelled = [(line, task, texts) for (line, texts), task in zip(lines, tasks, strict=True)]
    else:
        tasks = tuple(text.strip() for text in lines[0][1][1:])
        labelled = [(line, texts[0].strip(), texts[1:]) for line, texts in lines[1:]]
    rows = []
    for line, label, texts in labelled:
        where = f"{name}, line {line}"
        learned = _label(label, tasks, where)
        pairs = zip(tasks, texts, strict=True)
        rows.append((learned, tuple(_number(text, f"{where}, column {t}") for t, text in pairs)))
    return _checked(_Matrix(tasks, tuple(rows)), name)


def _from_json(path: Path) -> _Matrix:
    data, name = read_json(path), path.name
    for key in data:
        if key not in _KEYS:
            raise Unsupported(f"{name}: unknown key '{key}'{nearest(key, _KEYS)}")
    table = data.get("R")
    if not isinstance(table, list) or not table or not all(isinstance(r, list) for r in table):
        raise Unsupported(f"{name}: R should be a list of lists of numbers")
    count = max(len(row) for row in table)
    tasks = _names(data, "tasks", name) or tuple(f"task-{at + 1}" for at in range(count))
    order = _names(data, "order", name) or tasks[: len(table)]
    if len(order) != len(table):
        raise Unsupported(f"{name}: {len(table)} rows of R, but an order of {len(order)}")
    rows: list[tuple[str | None, tuple[float, ...]]] = []
    if data.get("b") is not None:
        rows.append((None, _values(data["b"], tasks, f"{name}: b")))
    for row, learned in zip(table, order, strict=True):
        where = f"{name}: R, row {len(rows) - (data.get('b') is not None)}"
        rows.append((_label(learned, tasks, where), _values(row, tasks, where)))
    given, seed = data.get("n"), data.get("seed", 0)
    counts = given if isinstance(given, list) else [given] * len(tasks)
    if len(counts) != len(tasks):
        raise Unsupported(f"{name}: n has {len(counts)} numbers for {len(tasks)} tasks")
    for key, value in (*(("n", count) for count in counts), ("seed", seed)):
        if value is not None and (type(value) is not int or not 0 <= value < 2**63):
            raise Unsupported(f"{name}: {key} should be a whole number from 0, is {value!r}")
    items = tuple(count or None for count in counts)
    texts = {key: str(data[key]) for key in ("agent", "measure", "name") if data.get(key)}
    return _checked(_Matrix(tasks, tuple(rows), items, seed=seed or 0, **texts), name)


def _names(data: Mapping[str, Any], key: str, name: str) -> tuple[str, ...]:
    """Return a list of names or numbers as texts, empty where it is not given."""
    given = data.get(key)
    if given is None:
        return ()
    if not isinstance(given, list) or not all(type(each) in (str, int) for each in given):
        raise Unsupported(f"{name}: {key} should be a list of names, is {given!r:.80}")
    return tuple(str(each) for each in given)


def _values(row: Any, tasks: Sequence[str], where: str) -> tuple[float, ...]:
    if not isinstance(row, list) or len(row) != len(tasks):
        found = len(row) if isinstance(row, list) else type(row).__name__
        raise Unsupported(f"{where}: {found} values for {len(tasks)} tasks")
    values = []
    for column, value in enumerate(row):
        if value is None:
            values.append(math.nan)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            if abs(value) > sys.float_info.max:
                raise Unsupported(f"{where}, column {column}: too large a number")
            values.append(float(value))
        else:
            raise Unsupported(f"{where}, column {column}: {_no_number(value)}")
    return tuple(values)


def _no_number(value: Any) -> str:
    """Return what is wrong with a value that is no number, and how it is written."""
    text, hint = str(value).strip(), ""
    if isinstance(value, str) and text.endswith("%"):
        plain = text[:-1].strip() or "90"
        hint = f"; write {plain} without the sign and give --range 0 100, or write fractions (.9)"
    elif isinstance(value, str) and "," in text:
        hint = f"; {_DECIMALS}"
    return f"{value!r} is not a number{hint}"


def _label(label: str, tasks: Sequence[str], where: str) -> str | None:
    if label in tasks:
        return label
    if label.lower() in BEFORE:
        return None
    raise Unsupported(
        f"{where}: '{label}' is no column{nearest(label, tasks)}; a row is named after the task "
        f"learned last ({choices(tasks)}), or 'before'"
    )


def _checked(matrix: _Matrix, name: str) -> _Matrix:
    if not matrix.tasks or not any(learned is not None for learned, _ in matrix.rows):
        raise Unsupported(f"{name}: no row of accuracies after learning a task")
    labels = [learned or BEFORE[-1] for learned, _ in matrix.rows]
    for what, names in (("task", list(matrix.tasks)), ("row", labels)):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise Unsupported(f"{name}: the {what} {twice[0]} is there twice")
    return matrix


def _is_value(text: str) -> bool:
    try:
        float(text.strip().removesuffix("%"))  # a percentage is refused as a value, not a name
    except ValueError:
        return text.strip() in MISSING and text != ""
    return True


def _number(text: str, where: str) -> float:
    text = text.strip()
    if text in MISSING:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        raise Unsupported(f"{where}: {_no_number(text)}") from None
    if math.isinf(value):
        raise Unsupported(f"{where}: an infinite value")
    return value
