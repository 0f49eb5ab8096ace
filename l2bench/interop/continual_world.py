"""Reading runs of Continual World: ``progress.tsv`` with success on every task at every point."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from l2bench.bundle.files import read_json
from l2bench.errors import Unsupported
from l2bench.interop.sequence import Evaluation, sequence
from l2bench.interop.source import UNKNOWN_AGENT, Options, Source
from l2bench.interop.text import Row, rows, whole_lines
from l2bench.suite import Learning

KIND = "continual_world"

_SUCCESS = re.compile(r"test/stochastic/(\d+)/([^/]+)/success")
_ACTIVE, _STEPS = "train/active_env", "total_env_steps"


def read(path: Path, options: Options) -> Source:
    """Return the lifetime of one run; a run on a single task is the expert of that task.

    Each line is an evaluation of all tasks after a visit to the active one.

    Raises:
        Unsupported: if the file is damaged or malformed, naming line and column, or is of a run
            that learned all tasks at once.
    """
    file = path / "progress.tsv" if path.is_dir() else path
    raw, torn = whole_lines(file, file.name)
    lines = rows(raw, file.name, "\t", [_STEPS])
    if not lines:
        raise Unsupported(f"{file.name} has no evaluation")
    columns = _columns(lines[0], file.name)
    tasks = _names([name for name, _ in columns])
    if len(tasks) > 1 and _ACTIVE not in lines[0].cells:
        raise Unsupported(
            f"{file.name} has no column {_ACTIVE}: all tasks were learned at once, so nothing is "
            f"forgotten or transferred"
        )
    config_file = file.parent / "config.json"
    config = read_json(config_file) if config_file.is_file() else {}
    evaluations, points = _evaluations(lines, columns, tasks)
    lifetime = sequence(
        _suite_name(config, len(tasks)),
        tasks,
        evaluations,
        environment="import/continual_world",
        measure="success",
        seed=_seed(config, options),
        learning=Learning(source="interaction", unit="steps", amount=_steps_per_task(lines)),
        metrics=("l2bench/continual_world", "l2bench/gem"),
    )
    warnings = [torn] if torn else []
    short = [tasks[at] for at, count in enumerate(points) if 0 < count < points[0]]
    warnings += [f"learning of {task} was stopped early" for task in short]
    if 0 in points:
        warnings.append(f"{len(points) - points.count(0)} of {len(tasks)} tasks were learned")
    lifetime = replace(lifetime, complete=lifetime.complete and not warnings)
    return Source(
        KIND,
        lifetime,
        (file, *([config_file] if config else [])),
        agent=options.agent or _agent(config),
        settings={"columns": "test/stochastic", "points": len(lines)},
        warnings=tuple(warnings),
    )


def _columns(first: Row, name: str) -> list[tuple[str, str]]:
    """Return name and column of each task in order."""
    found = {
        int(match[1]): (match[2], column)
        for column in first.cells
        if (match := _SUCCESS.fullmatch(column))
    }
    if sorted(found) != list(range(len(found))) or not found:
        raise Unsupported(
            f"{name}, line 1: columns test/stochastic/0/NAME/success and so on are missing; found "
            f"those of tasks {sorted(found)}"
        )
    return [found[index] for index in range(len(found))]


def _names(names: Sequence[str]) -> list[str]:
    """Return the names with a number on those that come again."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}.{seen[name]}")
    return result


def _evaluations(
    lines: Sequence[Row], columns: Sequence[tuple[str, str]], tasks: Sequence[str]
) -> tuple[list[Evaluation], list[int]]:
    """Return one evaluation per line, and the number of lines in each task's segment."""
    points = [0] * len(tasks)
    evaluations = []
    steps, before = 0, 0
    for row in lines:
        active = row.whole(_ACTIVE) if _ACTIVE in row.cells else 0
        if not before <= active <= before + 1 or active >= len(tasks):
            raise row.fail(_ACTIVE, f"task {active} cannot follow task {before}")
        total = row.whole(_STEPS)
        if total <= steps:
            raise row.fail(_STEPS, f"{total} steps follow {steps}; they must grow")
        means = {}
        for task, (_, column) in zip(tasks, columns, strict=True):
            value = row.number(column)
            if not 0 <= value <= 1 and value == value:
                raise row.fail(column, f"{value:g} is no success rate")
            if value == value:
                means[task] = (value, None)
        evaluations.append(Evaluation(tasks[active], means, total - steps))
        points[active] += 1
        steps, before = total, active
    return evaluations, points


def _steps_per_task(lines: Sequence[Row]) -> int:
    """Return the steps in the segment of the first task."""
    own = [r for r in lines if _ACTIVE not in r.cells or r.whole(_ACTIVE) == 0]
    if not own:
        raise lines[0].fail(_ACTIVE, "a run starts with task 0")
    return own[-1].whole(_STEPS)


def _suite_name(config: Mapping[str, Any], tasks: int) -> str:
    named = config.get("tasks")
    return f"continual-world-{named if isinstance(named, str) else tasks}"


def _seed(config: Mapping[str, Any], options: Options) -> int:
    seed = options.seed if options.seed is not None else config.get("seed")
    return seed if isinstance(seed, int) and 0 <= seed < 2**63 else 0


def _agent(config: Mapping[str, Any]) -> str:
    """Return the method; a reservoir buffer is a method of its own there."""
    if config.get("buffer_type") == "reservoir":
        return "reservoir"
    if "cl_method" not in config:
        return UNKNOWN_AGENT
    return str(config["cl_method"] or "finetuning")
