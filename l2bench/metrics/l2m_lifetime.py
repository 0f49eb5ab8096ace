"""From the tables of a lifetime to the log that the L2M metrics read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from l2bench.bundle.lifetime import Lifetime, columns
from l2bench.errors import Unsupported
from l2bench.metrics.l2m_columns import BoolArray, IntArray, Rows
from l2bench.metrics.l2m_log import Log, cut

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class LoggedLifetime(Lifetime):
    """A lifetime that was imported from a log, with the checked rows its tables were made from.

    As long as it has these tables, the L2M metrics read ``rows``, whose tasks are those of the
    suite in order; that takes less time, and nothing else depends on it.
    """

    rows: Rows | None = field(default=None, repr=False, compare=False)
    made: tuple[pa.Table, ...] = field(default=(), repr=False, compare=False)

    def untouched(self) -> Rows | None:
        """Return the rows, or None if tables have been replaced since they were made."""
        tables = self.learning, self.episodes
        same = len(self.made) == 2 and all(a is b for a, b in zip(tables, self.made, strict=True))
        return self.rows if same else None


def log_of(lifetime: Lifetime, *, raw: bool = False) -> Log | None:
    """Return the log of a lifetime, valued by performance in the score range; None if empty.

    The segments of one visit to a task are one learning block. Evaluations are the pretest and
    post blocks, and the evaluation at checkpoint 0 where the task has not been evaluated since
    the last learning before it; other checkpoints are left out. Learning experiences that are not
    whole are dropped. Learning without scores keeps its place in the log, without values.
    Rows that were imported are taken as their source numbers them, all of its evaluations; with
    ``raw`` they are valued in the unit of the source.

    Raises:
        Unsupported: if a score is infinite.
    """
    rows = lifetime.untouched() if isinstance(lifetime, LoggedLifetime) else None
    if rows is not None:
        return _logged(lifetime, rows, raw)
    if "exp_num" in lifetime.learning.column_names:
        return _imported(lifetime, raw)
    episodes = columns(lifetime.episodes.select(["block_index", "task_index", "episode_index"]))
    learning = columns(
        lifetime.learning.select(["block_index", "task_index", "lx_index", "score", "status"])
    )
    performance = lifetime.performance()
    known = ~np.isnan(performance)
    pairs = np.unique(np.stack((episodes["block_index"], episodes["task_index"]))[:, known], axis=1)
    home, visits = _homes(columns(lifetime.blocks), pairs)
    at = home[episodes["block_index"]]
    evaluated = known & (at >= 0)
    score = lifetime.placed(lifetime.learning)
    learned = ~np.isnan(score) & (learning["status"] == "ok")
    learned_at = home[learning["block_index"]]
    unscored = np.array(sorted(set(visits) - set(learned_at[learned].tolist())), dtype=np.int64)
    value = np.concatenate((performance[evaluated], score[learned], np.full(len(unscored), np.nan)))
    if not len(value):
        return None
    if np.isinf(value).any():
        raise Unsupported("a score is infinite; scores must be finite or missing")
    block = np.concatenate((at[evaluated], learned_at[learned], unscored))
    task = np.concatenate(
        (
            episodes["task_index"][evaluated],
            learning["task_index"][learned],
            [visits[b] for b in unscored.tolist()],
        )
    ).astype(np.int64)
    position = np.concatenate(
        (
            episodes["episode_index"][evaluated],
            learning["lx_index"][learned],
            np.zeros(len(unscored), dtype=np.int64),
        )
    )
    train = np.ones(len(value), dtype=bool)
    train[: np.count_nonzero(evaluated)] = False
    order = np.lexsort((position, task, block))
    names = tuple(task.id for task in lifetime.suite.tasks)
    keys = block[order], train[order], np.zeros(len(value), dtype=bool), task[order]
    return cut(names, value[order], np.arange(len(value)), keys)


def _logged(lifetime: Lifetime, rows: Rows, raw: bool) -> Log | None:
    """Return the log of checked rows that are in order: those that are complete with a value."""
    value = rows.value if raw else lifetime.place(rows.value, rows.task)
    exp_num, keys = rows.exp_num, (rows.block, rows.learning, rows.sleep, rows.task)
    kept = rows.complete & ~np.isnan(value)
    if not kept.all():
        value, exp_num = value[kept], exp_num[kept]
        keys = (keys[0][kept], keys[1][kept], keys[2][kept], keys[3][kept])
    if not len(value):
        return None
    names = tuple(task.id for task in lifetime.suite.tasks)
    return cut(names, value, exp_num, keys, dropped=len(kept) - len(value))


def _imported(lifetime: Lifetime, raw: bool) -> Log | None:
    """Return the log of imported rows: complete rows with a value, in the order of their source."""
    parts = lifetime.learning, lifetime.episodes
    names = ("row_id", "block_num", "exp_num", "task_index")
    rows = {name: np.concatenate([part[name].to_numpy() for part in parts]) for name in names}
    if raw:
        value = np.concatenate([part["score"].to_numpy() for part in parts])
    else:
        value = np.concatenate([lifetime.placed(part) for part in parts])
    if np.isinf(value).any():
        raise Unsupported("a score is infinite; scores must be finite or missing")
    incomplete = np.concatenate([_equals(part["status"], "incomplete") for part in parts])
    sleep = np.concatenate([_equals(part["subtype"], "sleep") for part in parts])
    learning = np.arange(len(value)) < lifetime.learning.num_rows
    kept = np.flatnonzero(~np.isnan(value) & ~incomplete)
    if not len(kept):
        return None
    order = kept[np.argsort(rows["row_id"][kept], kind="stable")]
    keys = rows["block_num"][order], learning[order], sleep[order], rows["task_index"][order]
    return cut(
        tuple(task.id for task in lifetime.suite.tasks),
        value[order],
        rows["exp_num"][order],
        (keys[0], keys[1], keys[2], keys[3].astype(np.int64)),
        dropped=len(value) - len(kept),
    )


def _equals(column: pa.ChunkedArray, word: str) -> BoolArray:
    """Return where a column of words holds this word."""
    whole = column.unify_dictionaries().combine_chunks()
    words = whole.dictionary.to_pylist()
    codes = whole.indices.fill_null(-2) if whole.null_count else whole.indices
    at = words.index(word) if word in words else -1
    result: BoolArray = codes.to_numpy() == at
    return result


def _homes(blocks: Columns, pairs: IntArray) -> tuple[IntArray, dict[int, int]]:
    """Return the block that each block's rows belong to (-1: left out), and the learning visits.

    ``pairs`` (2, n) are the blocks and tasks that were evaluated. A visit maps the first block of
    a task's uninterrupted learning to the task.
    """
    evaluated: dict[int, set[int]] = {}
    for block, task in pairs.T.tolist():
        evaluated.setdefault(block, set()).add(task)
    home = np.full(int(blocks["block_index"].max(initial=-1)) + 1, -1, dtype=np.int64)
    visits: dict[int, int] = {}
    open_visit: tuple[int, int, int] | None = None
    fresh: set[int] = set()
    for row in np.argsort(blocks["block_index"]):
        index, task = int(blocks["block_index"][row]), int(blocks["learn_task"][row])
        if blocks["kind"][row] == "learn":
            visit = (task, int(blocks["exposure"][row]))
            if open_visit is None or open_visit[:2] != visit:
                open_visit = (*visit, index)
                visits[index] = task
            home[index] = open_visit[2]
            fresh = set()
        elif blocks["role"][row] == "curve":
            if blocks["checkpoint"][row] == 0 and task not in fresh:
                home[index] = index
                fresh.add(task)
        else:
            home[index] = index
            fresh |= evaluated.get(index, set())
            open_visit = None
    return home, visits
