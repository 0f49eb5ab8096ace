"""From the rows of an experience log to the tables of a lifetime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from l2bench.bundle.lifetime import Lifetime
from l2bench.bundle.tables import table
from l2bench.interop.source import Options, frame, slug, words
from l2bench.metrics.l2m_log import BoolArray, FloatArray, IntArray
from l2bench.suite import Learning, Scenario, Suite, Task, WrittenBlock

#: A word per row: its code, and the words.
Coded = tuple[NDArray[Any], list[str]]


@dataclass(frozen=True, eq=False)
class Ordered:
    """The rows in order: block, learning, sleep, task (index into ``names``), score, all (N,)."""

    names: tuple[str, ...]
    block: IntArray
    learning: BoolArray
    sleep: BoolArray
    task: IntArray
    score: FloatArray


@dataclass(frozen=True)
class _Group:
    """The rows that form one block of a bundle: one learned task, or one evaluation of several."""

    learning: bool
    sleep: bool
    tasks: tuple[int, ...]
    rows: int


def lifetime_of(
    log: pa.Table, name: str, measure: str, options: Options, *, complete: bool
) -> Lifetime:
    """Return the lifetime of a valid log whose rows are in order (columns as in l2logger).

    A block of the bundle is the learning of one task in one block of the log, or the evaluation
    of all its tasks. A log does not say its score range; see `score_ranges`.
    """
    rows = _ordered(log, measure)
    groups, member = _groups(rows)
    suite = _suite(rows.names, groups, name, measure, score_ranges(rows, options))
    seed = options.seed if options.seed is not None else 0
    numbering = {
        "row_id": np.arange(len(rows.score)),
        "block_index": member,
        "task_index": rows.task,
        "score": rows.score,
        "block_num": rows.block,
        "exp_num": log["exp_num"].to_numpy(),
    }
    coded: dict[str, Coded] = {
        "status": _coded(log["exp_status"]),
        "subtype": (rows.sleep.astype(np.int32), ["wake", "sleep"]),
        "worker": _coded(log["worker_id"]),
    }
    learned = np.flatnonzero(rows.learning)
    at = np.flatnonzero(~rows.learning)
    at = at[np.lexsort((at, rows.task[at], member[at]))]
    fresh = np.ones(len(at), dtype=bool)
    fresh[1:] = (np.diff(member[at]) != 0) | (np.diff(rows.task[at]) != 0)
    place = np.arange(len(at))
    episode = place - np.maximum.accumulate(np.where(fresh, place, 0))
    extra = {"episode_index": episode, "task_id": words(rows.task[at], _ids(suite))}
    return Lifetime(
        suite,
        seed,
        _blocks(groups, member, learned, _times(log, member)),
        _part("episodes", at, numbering, coded, extra),
        _part("learning", learned, numbering, coded, {"lx_index": np.arange(len(learned))}),
        complete=complete,
    )


def score_ranges(rows: Ordered, options: Options) -> list[tuple[float, float]]:
    """Return the score range of each task: as given, or assumed from its scores.

    Scores in 0 to 1 or in 0 to 100 are taken for what they look like; others run from 0 (or the
    smallest below it) to the largest of their task.
    """
    low, high = np.zeros(len(rows.names)), np.zeros(len(rows.names))
    np.fmin.at(low, rows.task, rows.score)
    np.fmax.at(high, rows.task, rows.score)
    usual = next((top for top in (1.0, 100.0) if low.min() == 0 and high.max() <= top), None)
    found = []
    for task, name in enumerate(rows.names):
        ends = float(low[task]), usual or float(high[task])
        if not ends[0] < ends[1]:
            ends = ends[0], ends[0] + 1.0
        found.append(options.score_range or options.ranges.get(name) or ends)
    return found


def _ids(suite: Suite) -> list[str]:
    return [task.id for task in suite.tasks]


def _coded(column: pa.ChunkedArray) -> Coded:
    whole = column.unify_dictionaries().combine_chunks()
    return whole.indices.to_numpy(), whole.dictionary.to_pylist()


def _part(
    name: str,
    rows: IntArray,
    numbering: dict[str, Any],
    coded: dict[str, Coded],
    extra: dict[str, Any],
) -> pa.Table:
    given = {key: values[rows] for key, values in numbering.items()}
    given |= {key: words(codes[rows], names) for key, (codes, names) in coded.items()}
    return frame(name, len(rows), {**given, **extra}, numbered=True)


def _ordered(log: pa.Table, measure: str) -> Ordered:
    types, type_names = _coded(log["block_type"])
    subtypes, subtype_names = _coded(log["block_subtype"])
    codes, raw_names = _coded(log["task_name"])
    lowered = [name.lower() for name in raw_names]
    present = list(dict.fromkeys(lowered[code] for code in _first_seen(codes)))
    place = {name: position for position, name in enumerate(present)}
    task = np.array([place.get(name, -1) for name in lowered], dtype=np.int64)[codes]
    return Ordered(
        names=tuple(present),
        block=log["block_num"].to_numpy(),
        learning=np.array([name == "train" for name in type_names])[types],
        sleep=np.array([name == "sleep" for name in subtype_names])[subtypes],
        task=task,
        score=log[measure].to_numpy(),
    )


def _first_seen(codes: IntArray) -> list[int]:
    """Return the distinct codes in the order in which they appear."""
    found, first = np.unique(codes, return_index=True)
    return [int(code) for code in found[np.argsort(first)]]


def _groups(rows: Ordered) -> tuple[list[_Group], IntArray]:
    """Return the blocks of the bundle in order, and the block of each row."""
    width = len(rows.names) + 1
    kind = np.where(rows.learning, 1 + rows.task, 0)
    key = (rows.block * 2 + rows.sleep) * width + kind
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    member: IntArray = rank[inverse.reshape(-1)]
    sizes = np.bincount(member)
    pairs = np.unique(member * width + rows.task)
    tasks: list[list[int]] = [[] for _ in sizes]
    for pair in pairs.tolist():
        tasks[pair // width].append(pair % width)
    groups = [
        _Group(bool(rows.learning[row]), bool(rows.sleep[row]), tuple(tasks[at]), int(sizes[at]))
        for at, row in enumerate(np.sort(first).tolist())
    ]
    return groups, member


def _times(log: pa.Table, member: IntArray) -> list[tuple[datetime | None, datetime | None]]:
    """Return when each block began and ended, as far as the log says."""
    if "timestamp" not in log.column_names:
        return [(None, None)] * (int(member.max()) + 1)
    order = np.argsort(member, kind="stable")
    starts = np.flatnonzero(np.diff(member[order], prepend=-1))
    ends = np.append(starts[1:], len(order)) - 1
    first, last = (log["timestamp"].take(pa.array(order[at])).to_pylist() for at in (starts, ends))
    return [(_time(begun), _time(over)) for begun, over in zip(first, last, strict=True)]


def _time(text: str | None) -> datetime | None:
    """Return a time in the form of the logger, which names no time zone."""
    try:
        return (
            None
            if text is None
            else datetime.strptime(text, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)
        )
    except ValueError:
        return None


def _blocks(
    groups: Sequence[_Group],
    member: IntArray,
    learned: IntArray,
    times: Sequence[tuple[datetime | None, datetime | None]],
) -> pa.Table:
    """Return the blocks table; ``learned`` are the learning rows in order."""
    of = member[learned]
    position = np.arange(len(of))
    start = np.full(len(groups), len(of), dtype=np.int64)
    stop = np.zeros(len(groups), dtype=np.int64)
    np.minimum.at(start, of, position)
    np.maximum.at(stop, of, position + 1)
    rows = []
    exposures: dict[int, int] = {}
    current: int | None = None
    done = 0
    for index, group in enumerate(groups):
        if group.learning:
            current = group.tasks[0]
            exposures[current] = exposures.get(current, -1) + 1
            done = max(done, int(stop[index]))
        role = "pretest" if current is None else "post"
        rows.append(
            {
                "block_index": index,
                "kind": "learn" if group.learning else "eval",
                "role": ("sleep" if group.sleep else "wake") if group.learning else role,
                "learn_task": current,
                "exposure": None if current is None else exposures[current],
                "checkpoint": group.rows if group.learning else None,
                "policy_ref": "current",
                "lx_start": int(start[index]) if group.learning else done,
                "lx_end": int(stop[index]) if group.learning else done,
                "episodes_planned": 0 if group.learning else group.rows,
                "episodes_done": 0 if group.learning else group.rows,
                "attempt": 1,
                "discarded_attempts": 0,
                "status": "ok",
                "started_at": times[index][0],
                "ended_at": times[index][1],
            }
        )
    return table("blocks", rows)


def _suite(
    names: Sequence[str],
    groups: Sequence[_Group],
    name: str,
    measure: str,
    ranges: Sequence[tuple[float, float]],
) -> Suite:
    amounts: dict[int, int] = {}
    for group in groups:
        if group.learning:
            task = group.tasks[0]
            amounts[task] = max(amounts.get(task, 1), group.rows)
    tasks = [
        Task(
            id=slug(task),
            environment="import/l2logger",
            task=task,
            variant=task.partition("_")[2] or None,
            measure=measure if ranges[index] == (0.0, 1.0) else _own_name(measure),
            score_range=ranges[index],
            learning=_learning(amounts.get(index)),
        )
        for index, task in enumerate(names)
    ]
    return Suite(
        id=slug(name),
        version="imported",
        title=f"{name} (imported)",
        tasks=tuple(tasks),
        scenario=Scenario(
            kind="blocks",
            episodes=1,
            blocks=tuple(_written(group, tasks) for group in groups),
        ),
        seeds=(0,),
        metrics=("l2bench/l2m", "l2bench/l2metrics"),
    )


def _own_name(measure: str) -> str:
    """Return the name of a measure that has a range of its own, so it is no fraction."""
    return f"{measure}_score" if measure in ("accuracy", "success") else measure


def _learning(amount: int | None) -> Learning | None:
    if amount is None:
        return None
    return Learning(source="interaction", unit="episodes", amount=amount)


def _written(group: _Group, tasks: Sequence[Task]) -> WrittenBlock:
    ids = tuple(tasks[task].id for task in group.tasks)
    if group.learning:
        return WrittenBlock(learn=ids[0], amount=group.rows)
    return WrittenBlock(evaluate=ids)
