"""From the rows of an experience log to the tables of a lifetime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from l2bench.bundle.lifetime import Lifetime
from l2bench.bundle.tables import table
from l2bench.interop.l2logger_rows import LogRows
from l2bench.interop.source import Options, frame, slug, taken, words
from l2bench.metrics.l2m_columns import IntArray, Rows
from l2bench.metrics.l2m_lifetime import LoggedLifetime
from l2bench.metrics.views import changes, grouped
from l2bench.suite import Learning, Scenario, Suite, Task, WrittenBlock

#: Rows are copied where their runs are shorter than this on average.
COPIED = 1000


@dataclass(frozen=True)
class _Group:
    """The rows that form one block of a bundle: one learned task, or one evaluation of several."""

    learning: bool
    sleep: bool
    tasks: tuple[int, ...]
    rows: int


@dataclass(frozen=True, eq=False)
class _Runs:
    """Runs of rows with equal keys, all (R,): ``first`` row, number of rows, group and task."""

    first: IntArray
    length: IntArray
    group: IntArray
    task: IntArray

    def take(self, order: IntArray) -> _Runs:
        """Return some of the runs, in this order."""
        return _Runs(self.first[order], self.length[order], self.group[order], self.task[order])

    def rows(self) -> IntArray:
        """Return the numbers of all rows (N,)."""
        before = np.cumsum(self.length) - self.length
        shift: IntArray = np.repeat(self.first - before, self.length)
        return shift + np.arange(len(shift))


def lifetime_of(rows: Rows, log: LogRows, name: str, measure: str, options: Options) -> Lifetime:
    """Return the lifetime of checked rows that are in order; ``log`` is what they come from.

    A block of the bundle is the learning of one task in one block of the log, or the evaluation
    of all its tasks. A log does not say its score range; see `score_ranges`.
    """
    rows = _tasks_by_appearance(rows)
    groups, runs = _groups(rows)
    suite = _suite(rows.tasks, groups, name, measure, score_ranges(rows, options))
    shared = _columns(rows, log, runs)
    learning = rows.learning[runs.first]
    learned, evaluated = runs.take(np.flatnonzero(learning)), runs.take(np.flatnonzero(~learning))
    evaluated = evaluated.take(np.lexsort((evaluated.first, evaluated.task, evaluated.group)))
    own = {
        "episode_index": _episodes(evaluated),
        "task_id": words(
            np.repeat(evaluated.task, evaluated.length), [task.id for task in suite.tasks]
        ),
    }
    numbers = {"lx_index": shared["row_id"][: int(learned.length.sum())]}
    episodes = _part("episodes", evaluated, shared, own)
    learning_table = _part("learning", learned, shared, numbers)
    return LoggedLifetime(
        suite,
        options.seed if options.seed is not None else 0,
        _blocks(groups, rows, runs, _times(log, runs, len(groups))),
        episodes,
        learning_table,
        complete=not log.torn,
        rows=rows,
        made=(learning_table, episodes),
    )


def _tasks_by_appearance(rows: Rows) -> Rows:
    """Return the rows with their tasks in the order in which they appear."""
    seen = list(dict.fromkeys(rows.task[changes(rows.task)].tolist()))
    if seen == list(range(len(rows.tasks))):
        return rows
    place = np.zeros(len(rows.tasks), dtype=np.int64)
    place[seen] = np.arange(len(seen))
    return replace(rows, tasks=tuple(rows.tasks[task] for task in seen), task=place[rows.task])


def score_ranges(rows: Rows, options: Options) -> list[tuple[float, float]]:
    """Return the score range of each task: as given, or assumed from its scores.

    Scores in 0 to 1 or in 0 to 100 are taken for what they look like; others run from 0 (or the
    smallest below it) to the largest of their task.
    """
    low, high = np.zeros(len(rows.tasks)), np.zeros(len(rows.tasks))
    first = changes(rows.task)
    np.fmin.at(low, rows.task[first], np.fmin.reduceat(rows.value, first))
    np.fmax.at(high, rows.task[first], np.fmax.reduceat(rows.value, first))
    usual = next((top for top in (1.0, 100.0) if low.min() == 0 and high.max() <= top), None)
    found = []
    for task, name in enumerate(rows.tasks):
        ends = float(low[task]), usual or float(high[task])
        if not ends[0] < ends[1]:
            ends = ends[0], ends[0] + 1.0
        found.append(options.score_range or options.ranges.get(name) or ends)
    return found


def _columns(rows: Rows, log: LogRows, runs: _Runs) -> dict[str, pa.Array]:
    """Return the columns that the tables of episodes and learning share, for all rows."""
    count = len(rows.value)
    known = {
        "row_id": np.arange(count),
        "block_index": np.repeat(runs.group.astype(np.int32), runs.length),
        "task_index": rows.task,
        "score": rows.value,
        "block_num": rows.block,
        "exp_num": rows.exp_num,
        "status": log.columns["exp_status"],
        "subtype": words(rows.sleep, ["wake", "sleep"]),
        "worker": log.columns["worker_id"],
    }
    whole = frame("learning", count, known, numbered=True)
    return {key: whole[key].chunk(0) for key in known}


def _episodes(runs: _Runs) -> IntArray:
    """Return the number of each row (N,) among those of its group and task, from 0."""
    before = np.cumsum(runs.length) - runs.length
    fresh = changes(runs.group, runs.task)
    started = np.repeat(before[fresh], np.diff(np.append(fresh, len(before))))
    shift: IntArray = np.repeat(started, runs.length)
    return np.arange(len(shift)) - shift


def _part(
    name: str, runs: _Runs, shared: Mapping[str, pa.Array], own: Mapping[str, Any]
) -> pa.Table:
    """Return the table of these rows; where the runs are long, they are not copied."""
    rows = int(runs.length.sum())
    if len(runs.first) > rows // COPIED + 1:
        at = runs.rows()
        given = {key: taken(column, at) for key, column in shared.items()}
    else:
        pieces = list(zip(runs.first.tolist(), runs.length.tolist(), strict=True))
        given = {
            key: pa.chunked_array([column.slice(*piece) for piece in pieces], type=column.type)
            for key, column in shared.items()
        }
    return frame(name, rows, {**given, **own}, numbered=True)


def _groups(rows: Rows) -> tuple[list[_Group], _Runs]:
    """Return the blocks of the bundle in order, and the runs of rows that belong to each."""
    first = changes(rows.block, rows.learning, rows.sleep, rows.task)
    length = np.diff(np.append(first, len(rows.value)))
    block, learning, sleep = rows.block[first], rows.learning[first], rows.sleep[first]
    task = rows.task[first]
    kind = np.where(learning, 1 + task, 0)
    begin, member = grouped((block * 2 + sleep) * (len(rows.tasks) + 1) + kind)
    rank = np.empty(len(begin), dtype=np.int64)
    rank[np.argsort(begin)] = np.arange(len(begin))
    group = rank[member]
    sizes = np.zeros(len(begin), dtype=np.int64)
    np.add.at(sizes, group, length)
    tasks: list[set[int]] = [set() for _ in sizes]
    for which, one in zip(group.tolist(), task.tolist(), strict=True):
        tasks[which].add(one)
    return [
        _Group(bool(learning[run]), bool(sleep[run]), tuple(sorted(tasks[at])), int(sizes[at]))
        for at, run in enumerate(np.sort(begin).tolist())
    ], _Runs(first, length, group, task)


def _times(log: LogRows, runs: _Runs, groups: int) -> list[tuple[datetime | None, datetime | None]]:
    """Return when each block began and ended, as far as the log says."""
    first, last = np.full(groups, np.iinfo(np.int64).max), np.zeros(groups, dtype=np.int64)
    np.minimum.at(first, runs.group, runs.first)
    np.maximum.at(last, runs.group, runs.first + runs.length - 1)
    pairs = zip(first.tolist(), last.tolist(), strict=True)
    return [(_time(log.time(begun)), _time(log.time(over))) for begun, over in pairs]


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
    rows: Rows,
    runs: _Runs,
    times: Sequence[tuple[datetime | None, datetime | None]],
) -> pa.Table:
    """Return the blocks table."""
    learned = np.where(rows.learning[runs.first], runs.length, 0)
    before = np.cumsum(learned) - learned
    start = np.full(len(groups), int(learned.sum()))
    stop = np.zeros(len(groups), dtype=np.int64)
    np.minimum.at(start, runs.group, before)
    np.maximum.at(stop, runs.group, before + learned)
    found = []
    exposures: dict[int, int] = {}
    current: int | None = None
    done = 0
    for index, group in enumerate(groups):
        if group.learning:
            current = group.tasks[0]
            exposures[current] = exposures.get(current, -1) + 1
            done = max(done, int(stop[index]))
        role = "pretest" if current is None else "post"
        found.append(
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
    return table("blocks", found)


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
