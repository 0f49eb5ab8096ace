"""In which keys two suites differ, as far as that can change a score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from l2bench.suite import BOUND_METRICS, PRESENTATION, Suite


def differences(base: Suite, changed: Suite) -> tuple[str, ...]:
    """Return the dotted keys in which two resolved suites differ, as far as scores can.

    A key that differs in every task they share is given once, as ``tasks.*.key``. The metric set
    that a suite with a bound adds by itself goes with ``bound``, and is no difference of its own.
    """
    if base.hash == changed.hash:
        return ()
    before, after = base.resolved(), changed.resolved()
    if base.bound != changed.bound:
        for side in (before, after):
            side["metrics"] = [name for name in side["metrics"] if name not in BOUND_METRICS]
    old = {task["id"]: flat(task) for task in before.pop("tasks")}
    new = {task["id"]: flat(task) for task in after.pop("tasks")}
    keys = [key for key in _unequal(flat(before), flat(after)) if key not in PRESENTATION]
    keys += [f"tasks.{id}" for id in old.keys() ^ new.keys()]
    shared = [id for id in old if id in new]
    changes = {id: set(_unequal(old[id], new[id])) for id in shared}
    everywhere = set.intersection(*changes.values()) if len(shared) > 1 else set()
    keys += [f"tasks.*.{key}" for key in everywhere]
    keys += [f"tasks.{id}.{key}" for id in shared for key in changes[id] - everywhere]
    return tuple(sorted(keys))


def _unequal(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [key for key in {**before, **after} if before.get(key) != after.get(key)]


def flat(data: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one, by dotted key; an empty one inside is a value itself."""
    if isinstance(data, Mapping) and (data or not prefix):
        return {k: v for key in data for k, v in flat(data[key], f"{prefix}{key}.").items()}
    return {prefix.removesuffix("."): data}
