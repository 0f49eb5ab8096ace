"""Canaries: where everything rests in each task's first evaluation state, as once recorded.

A simulator whose contacts differ moves objects before the agent does anything (from MuJoCo 3.4 on,
a bowl of libero_spatial slides off its ramekin); these numbers tell in one reset.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2bench.errors import RunFailed
from l2bench_libero import installation, tasks

if TYPE_CHECKING:
    from l2bench_libero.simulator import LiberoEnv

#: Idle steps before measuring, and the seed that decides where fixtures stand.
SETTLE_STEPS, SEED = 10, 0
#: How far a position (m) and an axis of a body (as a unit vector) may be from what was recorded.
POSITION, AXIS = 0.005, 0.05
_FILE = "canaries.json"

#: By body: position x, y, z (m), then its own vertical axis x, y, z in the world.
Readings = Mapping[str, list[float]]

_passed: set[str] = set()


def measure(env: LiberoEnv) -> dict[str, list[float]]:
    """Return where each object and fixture rests after settling from evaluation state 0."""
    return {
        name: [*position.tolist(), *axes[:, 2].tolist()]
        for name, (position, axes) in env.settled(SEED, SETTLE_STEPS).items()
    }


@functools.cache
def _recorded() -> dict[str, Any]:
    text = files("l2bench_libero").joinpath(_FILE).read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def recorded(task: tasks.Task) -> Readings | None:
    """Return what was recorded of a task, None for variants, which have no record."""
    found: Readings | None = _recorded()["tasks"].get(task.id)
    return found


def check(env: LiberoEnv) -> None:
    """Measure a task once a process and compare with the record.

    Raises:
        RunFailed: something rests elsewhere: task, quantity, expected, found, and the remedy.
    """
    expected = recorded(env.task)
    if expected is None or env.task.id in _passed:
        return
    problem = compare(expected, measure(env))
    if problem:
        raise RunFailed(
            f"canary of {env.task.id}: {problem}, after {SETTLE_STEPS} idle steps with mujoco "
            f"{installation.version('mujoco')}; the record is of mujoco {_recorded()['mujoco']}: "
            f"run: {installation.INSTALL}, or set canaries: off for a run that deviates"
        )
    _passed.add(env.task.id)


def compare(expected: Readings, found: Readings) -> str:
    """Return the largest difference beyond tolerance in words, "" if there is none."""
    if expected.keys() != found.keys():
        names = ", ".join(sorted(expected.keys() ^ found.keys()))
        return f"other bodies than recorded: {names}"
    excesses = []
    for body, values in expected.items():
        for part, what, tolerance in (
            (slice(0, 3), "position (m)", POSITION),
            (slice(3, 6), "vertical axis", AXIS),
        ):
            wanted, have = np.array(values[part]), np.array(found[body][part])
            excess = float(np.nan_to_num(np.linalg.norm(wanted - have), nan=np.inf)) / tolerance
            text = f"{what} of {body}: expected {_shown(wanted)}, found {_shown(have)}"
            excesses.append((excess, text))
    worst, text = max(excesses)
    return text if worst > 1.0 else ""


def _shown(values: np.ndarray[Any, Any]) -> str:
    return "(" + ", ".join(f"{value:.3f}" for value in values) + ")"


def main() -> None:
    """Record all tasks with the installed simulator: ``python -m l2bench_libero.canaries``."""
    from l2bench_libero.simulator import LiberoEnv

    lines = []
    for suite in tasks.SUITES:
        for task in tasks.tasks(suite):
            env = LiberoEnv(suite, task)
            try:
                values = {n: [round(x, 5) for x in v] for n, v in measure(env).items()}
            finally:
                env.close()
            lines.append(f"{json.dumps(task.id)}: {json.dumps(values)}")
    about = f'"mujoco": {json.dumps(installation.check_mujoco())}'
    text = "{\n" + about + ',\n"tasks": {\n' + ",\n".join(lines) + "\n}\n}\n"
    Path(__file__).with_name(_FILE).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
