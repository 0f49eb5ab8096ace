"""The table of experiences that the L2M metrics read: checked, filtered and cut into regimes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from l2bench.errors import Unsupported, choices
from l2bench.metrics.l2m_columns import (
    BoolArray,
    Columns,
    FloatArray,
    IntArray,
    Rows,
    Variants,
    read_rows,
)


@dataclass(frozen=True, eq=False)
class Log:
    """Complete rows in order, and the regimes they form.

    A regime is a maximal run of rows with equal block number, type, subtype and task. ``tasks``
    lists the learned tasks in the order of their first learning, then those only evaluated.
    Per row (N,): ``value`` and ``exp_num``. Per regime (R,): ``start`` and ``stop`` of its rows,
    ``block``, ``task`` (index into ``tasks``), ``learning`` and ``sleep``. ``dropped`` counts the
    rows that were incomplete or had no value. A learning regime whose rows have no values at all
    may stand as a single row of NaN (`read_log` makes none): it still tells what was learned when.
    """

    tasks: tuple[str, ...]
    value: FloatArray
    exp_num: IntArray
    start: IntArray
    stop: IntArray
    block: IntArray
    task: IntArray
    learning: BoolArray
    sleep: BoolArray
    dropped: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def row_task(self) -> IntArray:
        """The task of each row (N,), as an index into ``tasks``."""
        return np.repeat(self.task, self.stop - self.start)

    def rows(self, regimes: IntArray) -> FloatArray:
        """Return the values of these regimes, one after the other."""
        parts = [self.value[self.start[r] : self.stop[r]] for r in regimes]
        return np.concatenate(parts) if parts else np.empty(0)

    def numbers(self, regimes: IntArray) -> IntArray:
        """Return the experience numbers of these regimes, one after the other."""
        parts = [self.exp_num[self.start[r] : self.stop[r]] for r in regimes]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def read_log(
    columns: Columns,
    *,
    measure: str = "performance",
    variants: Variants = "aware",
    declared: Collection[str] | None = None,
    name: str = "the log",
    where: Callable[[int], str] | None = None,
) -> Log:
    """Return the log of these columns (see `read_rows`) with its regimes, in linear time.

    Raises:
        Unsupported: if the log is malformed; the message names row and column.
    """
    where = where or (lambda row: f"{name}: row {row}")
    rows = read_rows(
        columns, measure=measure, variants=variants, declared=declared, name=name, where=where
    )
    order = _order(rows, where)
    keep = order[rows.counted(name, measure)[order]]
    return cut(
        rows.tasks,
        rows.value[keep],
        rows.exp_num[keep],
        (rows.block[keep], rows.learning[keep], rows.sleep[keep], rows.task[keep]),
        dropped=len(order) - len(keep),
        warnings=rows.warnings,
    )


def learning_part(log: Log) -> Log:
    """Return the log with its learning regimes only."""
    kept = np.flatnonzero(log.learning)
    row_kept = np.repeat(log.learning, log.stop - log.start)
    stop = np.cumsum(log.stop[kept] - log.start[kept])
    return Log(
        tasks=log.tasks,
        value=log.value[row_kept],
        exp_num=log.exp_num[row_kept],
        start=np.concatenate((np.zeros(1, dtype=np.int64), stop[:-1])) if len(kept) else stop,
        stop=stop,
        block=log.block[kept],
        task=log.task[kept],
        learning=log.learning[kept],
        sleep=log.sleep[kept],
        dropped=log.dropped,
        warnings=log.warnings,
    )


def read_expert(
    columns: Columns,
    *,
    measure: str = "performance",
    variants: Variants = "aware",
    name: str = "the expert log",
) -> Log:
    """Return the learning rows of a single-task expert; ``tasks`` starts with the task it learned.

    Raises:
        Unsupported: if the log is malformed or does not learn exactly one task.
    """
    log = learning_part(read_log(columns, measure=measure, variants=variants, name=name))
    learned = sorted({log.tasks[t] for t in log.task})
    if len(learned) != 1:
        raise Unsupported(f"{name}: an expert learns exactly one task; found {choices(learned)}")
    return log


def cut(
    names: tuple[str, ...],
    value: FloatArray,
    exp_num: IntArray,
    keys: tuple[IntArray, BoolArray, BoolArray, IntArray],
    *,
    dropped: int = 0,
    warnings: tuple[str, ...] = (),
) -> Log:
    """Return the log of rows that are in order, with its regimes found in one pass.

    ``keys`` are block number, learning, sleep and task (index into ``names``) of each row.
    """
    change = np.zeros(len(value), dtype=bool)
    for key in keys:
        change[1:] |= key[1:] != key[:-1]
    change[0] = True
    start = np.flatnonzero(change).astype(np.int64)
    block, learning, sleep, task = keys
    block, learning, sleep, task = block[start], learning[start], sleep[start], task[start]
    first_seen = [*task[learning].tolist(), *task[~learning].tolist()]
    used = list(dict.fromkeys(first_seen))
    position = np.zeros(len(names), dtype=np.int64)
    position[used] = np.arange(len(used))
    return Log(
        tasks=tuple(names[t] for t in used),
        value=value,
        exp_num=exp_num,
        start=start,
        stop=np.append(start[1:], len(value)),
        block=block,
        task=position[task],
        learning=learning,
        sleep=sleep,
        dropped=dropped,
        warnings=warnings,
    )


def _order(rows: Rows, where: Callable[[int], str]) -> IntArray:
    """Return the rows ordered by experience, then block; blocks must not go back."""
    order: IntArray = np.lexsort((rows.block, rows.exp_num))
    back = np.flatnonzero(np.diff(rows.block[order]) < 0)
    if len(back):
        row, before = int(order[back[0] + 1]), int(order[back[0]])
        raise Unsupported(
            f"{where(row)}, column block_num: block {rows.block[row]} at experience "
            f"{rows.exp_num[row]} follows block {rows.block[before]} at experience "
            f"{rows.exp_num[before]}; blocks must not decrease with experiences"
        )
    return order
