"""The rows of the tables: unique, in order, and belonging together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from l2bench.bundle.lifetime import Array, columns
from l2bench.bundle.tables import KEYS
from l2bench.check.evidence import Evidence
from l2bench.check.findings import Finding, broken, first_few
from l2bench.check.tables import file_of
from l2bench.seeding import DERIVATION, derive


def unique(evidence: Evidence) -> Iterator[Finding]:
    """R03, R06: no key comes twice, and rows stand in key order."""
    for name in ("blocks", "episodes", "learning", "traces", "cells"):
        if name not in evidence.tables:
            continue
        data = columns(evidence.tables[name].select(list(KEYS[name])))
        keys = np.stack([data[key] for key in KEYS[name]], axis=1).astype(np.int64)
        order = np.lexsort(keys.T[::-1])
        ordered = keys[order]
        same = np.flatnonzero(np.all(ordered[1:] == ordered[:-1], axis=1))
        rows = sorted(int(max(order[at], order[at + 1])) for at in same)
        yield from first_few(
            broken(
                "R03",
                file_of(name),
                f"the same {' and '.join(KEYS[name])} as in another row",
                found=keys[row].tolist(),
                row=row,
            )
            for row in rows
        )
        if not rows and not evidence.imported and np.any(np.diff(order) != 1):
            row = int(np.flatnonzero(order != np.arange(len(order)))[0])
            yield broken(
                "R06",
                file_of(name),
                f"rows are not in the order of {', '.join(KEYS[name])}",
                row=row,
            )


def references(evidence: Evidence) -> Iterator[Finding]:
    """R05: blocks and tasks that rows name exist and are of the right kind."""
    tasks = len(evidence.suite.tasks)
    for index, row in evidence.blocks.items():
        task = row["learn_task"]
        if task is not None and not 0 <= task < tasks:
            yield broken(
                "R05",
                file_of("blocks"),
                f"block {index} names a task that is not there",
                expected=f"0 to {tasks - 1}",
                found=task,
            )
    for name, kind in (
        ("episodes", "eval"),
        ("learning", "learn"),
        ("series", "learn"),
        ("cells", "eval"),
        ("traces", "eval"),
    ):
        if name not in evidence.tables:
            continue
        data = columns(evidence.tables[name])
        known = [at for at, row in evidence.blocks.items() if row["kind"] == kind]
        wrong = np.flatnonzero(~np.isin(data["block_index"], known))
        yield from first_few(
            broken(
                "R05",
                file_of(name),
                f"there is no block of kind {kind} of this index",
                found=int(data["block_index"][row]),
                row=row,
            )
            for row in wrong
        )
        if "task_index" in data:
            yield from _tasks(name, data["task_index"], tasks)
    if not evidence.imported:
        yield from _learned(evidence)


def _tasks(name: str, found: Array, tasks: int) -> Iterator[Finding]:
    wrong = np.flatnonzero((found < 0) | (found >= tasks))
    yield from first_few(
        broken(
            "R05",
            file_of(name),
            "there is no task of this index",
            expected=f"0 to {tasks - 1}",
            found=int(found[row]),
            row=row,
        )
        for row in wrong
    )


def _learned(evidence: Evidence) -> Iterator[Finding]:
    """R05: learning rows are of the task of their block."""
    learning = evidence.learning
    blocks = learning["block_index"]
    for index in np.unique(blocks):
        row = evidence.blocks.get(int(index))
        wrong = np.flatnonzero((blocks == index) & (learning["task_index"] != _task(row)))
        if row is not None and len(wrong):
            yield broken(
                "R05",
                file_of("learning"),
                f"block {index} learns another task",
                expected=row["learn_task"],
                found=int(learning["task_index"][wrong[0]]),
                row=wrong[0],
            )


def _task(row: dict[str, object] | None) -> object:
    return None if row is None else row["learn_task"]


def numbered(evidence: Evidence) -> Iterator[Finding]:
    """R06: episodes count from 0 in each cell, experiences and rows through the lifetime."""
    episodes = evidence.episodes
    for (block, task), rows in cells(evidence).items():
        found = episodes["episode_index"][rows]
        if not np.array_equal(np.sort(found), np.arange(len(rows))):
            yield broken(
                "R06",
                file_of("episodes"),
                f"the episodes of task {task} in block {block} are not numbered from 0",
                expected=f"0 to {len(rows) - 1}",
                found=found.tolist(),
                row=rows[0],
            )
            return
    for name, key in (("learning", "lx_index"), ("learning", "row_id"), ("episodes", "row_id")):
        data = evidence.learning if name == "learning" else evidence.episodes
        wrong = np.flatnonzero(np.sort(data[key]) != np.arange(len(data[key])))
        if len(wrong):
            yield broken(
                "R06",
                file_of(name),
                f"{key} does not count from 0 without gaps",
                expected=int(wrong[0]),
                found=int(np.sort(data[key])[wrong[0]]),
            )
            return


def cells(evidence: Evidence) -> dict[tuple[int, int], Array]:
    """Return the rows of the episodes table by (block, task)."""
    episodes = evidence.episodes
    pairs = np.stack([episodes["block_index"], episodes["task_index"]], axis=1)
    found: dict[tuple[int, int], list[int]] = {}
    for row, (block, task) in enumerate(pairs.tolist()):
        found.setdefault((block, task), []).append(row)
    return {key: np.array(rows) for key, rows in found.items()}


def seeds(evidence: Evidence) -> Iterator[Finding]:
    """R04: every episode's seed is the derived one."""
    ref = evidence.manifest.seed
    if ref.derivation != DERIVATION:
        yield broken(
            "R04",
            "manifest.json",
            "seeds are derived in an unknown way",
            expected=DERIVATION,
            found=ref.derivation,
        )
        return
    episodes = evidence.episodes
    keys = zip(*(episodes[key].tolist() for key in KEYS["episodes"]), strict=True)
    wrong, suite_hash = [], evidence.suite.hash  # made anew whenever it is asked for
    for row, (key, found) in enumerate(zip(keys, episodes["env_seed"].tolist(), strict=True)):
        expected = derive(suite_hash, ref.lifetime, "evaluation", *key)
        if found != expected:
            wrong.append(
                broken(
                    "R04",
                    file_of("episodes"),
                    "not the seed that is derived for this episode",
                    expected=expected,
                    found=found,
                    row=row,
                )
            )
    yield from first_few(wrong)


def starts(evidence: Evidence) -> Iterator[Finding]:
    """R04, Q10: initial states follow from the episode's index alone."""
    episodes = evidence.episodes
    state, task = episodes["init_state"], episodes["task_index"]
    for index in np.unique(task):
        rows = np.flatnonzero(task == index)
        found, at = state[rows], episodes["episode_index"][rows]
        if np.all(found < 0):
            continue  # the environment has no fixed initial states
        count = int(found.max()) + 1
        wrong = np.flatnonzero(found != at % count)
        name = evidence.suite.tasks[index].id
        if len(wrong):
            row = rows[wrong[0]]
            yield broken(
                "R04",
                file_of("episodes"),
                f"task {name}: the initial state does not follow from the episode's index",
                expected=int(at[wrong[0]] % count),
                found=int(state[row]),
                row=row,
            )
        elif int(at.max()) + 1 > count:
            yield broken(
                "Q10",
                file_of("episodes"),
                f"task {name}: {int(at.max()) + 1} episodes "
                f"start from {count} different initial states",
                expected=int(at.max()) + 1,
                found=count,
            )
