"""The tasks of the five LIBERO suites, known without importing LIBERO or a simulator."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from l2bench.errors import Unsupported, UsageError, choices, nearest
from l2bench_libero import installation

SUITES = ("libero_spatial", "libero_object", "libero_goal", "libero_10", "libero_90")
ALIASES = {"libero_long": "libero_10"}
INITIAL_STATES = 50


@dataclass(frozen=True)
class Task:
    """One task of a suite.

    ``instruction`` is the sentence of the task definition. ``prompt`` is the one that the
    upstream benchmark derives from the file name, with which most published policies were
    trained; the two differ in half of the suites. ``variant`` names a perturbed form of the task
    (see :func:`variants`), with its own definition, instruction and evaluation states.
    """

    suite: str
    index: int
    name: str
    instruction: str
    prompt: str
    variant: str | None = None

    @property
    def id(self) -> str:
        """The stable name ``suite/name``, followed by ``@variant`` if there is one."""
        return f"{self.suite}/{self.name}" + (f"@{self.variant}" if self.variant else "")

    @property
    def folder(self) -> str:
        """The folder of its files in the package."""
        return f"{self.suite}_{self.variant}" if self.variant else self.suite

    def definition(self) -> Path:
        """Return the path of the task definition (BDDL).

        Raises:
            Unsupported: the package lacks it.
        """
        path = installation.root() / "bddl_files" / self.folder / f"{self.name}.bddl"
        if not path.is_file():
            raise Unsupported(
                f"the task definition of {self.id} is missing: no file {path}; "
                f"run: {installation.INSTALL} --force-reinstall"
            )
        return path

    def initial_states(self) -> NDArray[np.float64]:
        """Return the evaluation states, one row each: time, positions, velocities.

        Raises:
            Unsupported: the file is missing or unreadable.
        """
        folder = installation.root() / "init_files" / self.folder
        path = folder / f"{self.name}.pruned_init.npz"
        try:
            with np.load(path, allow_pickle=False) as file:
                states = np.asarray(file["states"], dtype=np.float64)
        except (OSError, KeyError, ValueError) as error:
            raise Unsupported(
                f"initial states {path} cannot be read ({error}); run: {installation.INSTALL}"
            ) from error
        if states.ndim != 2 or len(states) != INITIAL_STATES:
            raise Unsupported(
                f"initial states {path} have shape {states.shape}, expected "
                f"({INITIAL_STATES}, state size); run: {installation.INSTALL}"
            )
        return states


@functools.cache
def _catalogue() -> tuple[dict[str, tuple[Task, ...]], tuple[tuple[int, ...], ...]]:
    text = files("l2bench_libero").joinpath("tasks.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    suites = {
        suite: tuple(Task(suite, index, **row) for index, row in enumerate(rows))
        for suite, rows in data["suites"].items()
    }
    return suites, tuple(tuple(order) for order in data["orders"])


@functools.cache
def _variants() -> dict[str, dict[str, list[str] | None]]:
    text = files("l2bench_libero").joinpath("variants.json").read_text(encoding="utf-8")
    data: dict[str, dict[str, list[str] | None]] = json.loads(text)
    return data


def variants(suite: str) -> tuple[str, ...]:
    """Return the perturbed forms in which all tasks of a suite exist, by their upstream names.

    They come from LIBERO-PRO: ``lan`` (reworded instructions), ``object`` (other looks and sizes),
    ``swap`` (objects change places), ``task`` (another goal in the same scene), and ``temp_x0.1``
    and so on in libero_object (placements moved).
    """
    return tuple(_variants().get(suite_name(suite), {}))


def _varied(task: Task, variant: str) -> Task:
    """Return a variant of a task.

    Raises:
        UsageError: the suite does not have it.
    """
    known = _variants().get(task.suite, {})
    if variant not in known:
        raise UsageError(
            f"{task.suite} has no variant {variant!r}{nearest(variant, known)}; "
            f"there are {choices(known, 20)}"
        )
    sentences = known[variant]
    sentence = sentences[task.index] if sentences else task.instruction
    prompt = sentence if sentences else task.prompt
    return replace(task, variant=variant, instruction=sentence, prompt=prompt)


def suite_name(asked: str) -> str:
    """Return the name of a suite; ``libero_long`` is ``libero_10``.

    Raises:
        UsageError: there is no such suite.
    """
    name = ALIASES.get(asked, asked)
    if name not in SUITES:
        known = (*SUITES, *ALIASES)
        raise UsageError(
            f"no LIBERO suite {asked!r}{nearest(asked, known)}; there are {choices(known)}"
        )
    return name


def tasks(suite: str) -> tuple[Task, ...]:
    """Return the tasks of a suite in the order of the upstream benchmark."""
    return _catalogue()[0][suite_name(suite)]


def find(suite: str, task: int | str, variant: str | None = None) -> Task:
    """Return a task by its position, its name, or ``suite/name``; a variant of it if one is named.

    Raises:
        UsageError: there is no such suite, task or variant.
    """
    found = _find(suite, task)
    return _varied(found, variant) if variant is not None else found


def _find(suite: str, task: int | str) -> Task:
    known = tasks(suite)
    if isinstance(task, int):
        if 0 <= task < len(known):
            return known[task]
        raise UsageError(f"{suite} has tasks 0 to {len(known) - 1}, not {task}")
    short = task.removeprefix(f"{suite}/").removeprefix(f"{suite_name(suite)}/")
    for candidate in known:
        if candidate.name == short:
            return candidate
    names = [candidate.name for candidate in known]
    raise UsageError(
        f"no task {task!r} in {suite}{nearest(short, names)}; give a position 0 to "
        f"{len(known) - 1} or a name"
    )


def task_order(suite: str, index: int) -> tuple[int, ...]:
    """Return one of the 21 published task orders of the suites of ten tasks.

    libero_90 has the order 0 only.

    Raises:
        UsageError: there is no such order.
    """
    count = len(tasks(suite))
    orders = _catalogue()[1]
    known = len(orders) if count == len(orders[0]) else 1
    if not 0 <= index < known:
        raise UsageError(f"{suite} has task orders 0 to {known - 1}, not {index}")
    return orders[index] if known > 1 else tuple(range(count))
