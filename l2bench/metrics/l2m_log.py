"""The table of experiences that the L2M metrics read: checked, filtered and cut into regimes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from l2bench.errors import Unsupported, choices, nearest

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
#: Columns by name, one entry a row; a pyarrow Table will do as well.
Columns = Mapping[str, Any]

_WORKER = re.compile(r"[A-Za-z0-9_.-]+")
_REQUIRED = ("block_num", "exp_num", "block_type", "task_name")


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
    variants: Literal["aware", "agnostic"] = "aware",
    declared: Collection[str] | None = None,
    name: str = "the log",
    where: Callable[[int], str] | None = None,
) -> Log:
    """Return the log of these columns (L2Logger names) with its regimes.

    Needs ``block_num``, ``exp_num``, ``block_type``, ``task_name`` and the measure; a missing
    ``block_subtype`` means wake, a missing ``exp_status`` complete. ``declared`` lists the measures
    that the log says it has. Messages count rows from 0, or call a row what ``where`` returns for
    it. Takes time linear in the rows.

    Raises:
        Unsupported: if the log is malformed; the message names row and column.
    """
    reader = _Reader(columns, name, where or (lambda row: f"{name}: row {row}"))
    present = reader.names()
    lacking = [column for column in _REQUIRED if column not in present]
    if lacking:
        raise Unsupported(f"{name}: column {lacking[0]} is missing; found {choices(present)}")
    if declared is not None and measure not in declared:
        raise Unsupported(
            f"{name}: measure {measure!r} is not declared{nearest(measure, declared)}; "
            f"declared are {choices(declared)}"
        )
    if measure not in present:
        raise Unsupported(f"{name}: column {measure} (the measure) is missing")
    reader.check_lengths()
    block, exp_num = reader.integers("block_num"), reader.integers("exp_num")
    learning = reader.flags("block_type", "train", "test")
    sleep = reader.flags("block_subtype", "sleep", "wake", default=False)
    complete = reader.flags("exp_status", "complete", "incomplete", default=True)
    reader.check_strings()
    value = reader.values(measure)
    task, tasks, warnings = reader.tasks(variants)
    order = reader.order(exp_num, block)
    keep = order[(complete & ~np.isnan(value))[order]]
    if not len(keep):
        raise Unsupported(f"{name}: no complete row with a value of {measure} in {len(order)} rows")
    return cut(
        tasks,
        value[keep],
        exp_num[keep],
        (block[keep], learning[keep], sleep[keep], task[keep]),
        dropped=len(order) - len(keep),
        warnings=warnings,
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
    variants: Literal["aware", "agnostic"] = "aware",
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


@dataclass(frozen=True)
class _Reader:
    """Reads and checks one column after the other."""

    columns: Columns
    name: str
    where: Callable[[int], str]

    def names(self) -> list[str]:
        return list(getattr(self.columns, "column_names", self.columns))

    def check_lengths(self) -> None:
        rows = len(self.columns["exp_num"])
        for column in self.names():
            if len(self.columns[column]) != rows:
                raise Unsupported(
                    f"{self.name}: column {column} has {len(self.columns[column])} rows, "
                    f"exp_num has {rows}"
                )

    def fail(self, column: str, row: int, what: str) -> Unsupported:
        return Unsupported(f"{self.where(row)}, column {column}: {what}")

    def numbers(self, column: str) -> NDArray[Any]:
        raw = self.columns[column]
        if isinstance(raw, pa.Array | pa.ChunkedArray):
            raw = pa.chunked_array([raw]) if isinstance(raw, pa.Array) else raw
            raw = raw.to_numpy()
        array = np.asarray(raw)
        if array.dtype.kind not in "iufO" or array.ndim != 1:
            raise Unsupported(f"{self.name}: column {column} does not hold numbers")
        try:
            return array.astype(np.float64) if array.dtype.kind == "O" else array
        except (TypeError, ValueError):
            raise Unsupported(f"{self.name}: column {column} does not hold numbers") from None

    def integers(self, column: str) -> IntArray:
        array = self.numbers(column)
        if array.dtype.kind == "f":
            whole = np.isfinite(array) & (array == np.floor(array))
            if not whole.all():
                row = int(np.argmin(whole))
                raise self.fail(column, row, f"{array[row]} is not a whole number")
        numbers = array.astype(np.int64)
        if len(numbers) and numbers.min() < 0:
            row = int(np.argmax(numbers < 0))
            raise self.fail(column, row, f"{numbers[row]} is negative")
        return numbers

    def values(self, column: str) -> FloatArray:
        array = self.numbers(column).astype(np.float64)
        infinite = np.isinf(array)
        if infinite.any():
            raise self.fail(column, int(np.argmax(infinite)), "an infinite value")
        return array

    def words(self, column: str) -> tuple[IntArray, list[str | None]]:
        """Return a code per row and the word of each code; None is a missing word."""
        raw = self.columns[column]
        if not isinstance(raw, pa.Array | pa.ChunkedArray):
            raw = np.asarray(raw)
            raw = pa.array(raw if raw.dtype.kind in "iuU" else raw.tolist(), from_pandas=True)
        if isinstance(raw, pa.ChunkedArray):
            raw = raw.unify_dictionaries().combine_chunks()
        encoded = raw
        if not pa.types.is_dictionary(raw.type):
            encoded = raw.cast(pa.string()).dictionary_encode()
        codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy().astype(np.int64)
        return codes, [*encoded.dictionary.cast(pa.string()).to_pylist(), None]

    def flags(self, column: str, yes: str, no: str, *, default: bool | None = None) -> BoolArray:
        if default is not None and column not in self.names():
            return np.full(len(self.columns["exp_num"]), default)
        codes, words = self.words(column)
        for code, word in enumerate(words):
            if word not in (yes, no) and (rows := np.flatnonzero(codes == code)).size:
                raise self.fail(column, int(rows[0]), f"{word!r} is neither {yes} nor {no}")
        return np.asarray([word == yes for word in words])[codes]

    def check_strings(self) -> None:
        """Check the columns that are part of the format although nothing is computed from them."""
        for column, check, what in (
            ("worker_id", _is_worker, "has characters other than letters, digits and _ - ."),
            ("task_params", _is_json, "is not JSON"),
        ):
            if column not in self.names():
                continue
            codes, words = self.words(column)
            bad = np.asarray([word is not None and not check(word) for word in words])[codes]
            if bad.any():
                row = int(np.argmax(bad))
                raise self.fail(column, row, f"{words[codes[row]]!r} {what}")

    def tasks(
        self, variants: Literal["aware", "agnostic"]
    ) -> tuple[IntArray, tuple[str, ...], tuple[str, ...]]:
        """Return the task of each row, the task names, and warnings about the names."""
        codes, words = self.words("task_name")
        blank = np.asarray([not word for word in words])[codes]
        if blank.any():
            raise self.fail("task_name", int(np.argmax(blank)), "no name")
        lowered = [(word or "").lower() for word in words]
        used = {lowered[code] for code in np.flatnonzero(np.bincount(codes))}
        bare = sorted(name for name in used if "_" not in name)
        warnings = (f"{self.name}: no variant part in task names {choices(bare)}",) if bare else ()
        merged = lowered if variants == "aware" else [name.split("_")[0] for name in lowered]
        names = list(dict.fromkeys(merged))
        index = {name: position for position, name in enumerate(names)}
        task: IntArray = np.asarray([index[name] for name in merged], dtype=np.int64)[codes]
        return task, tuple(names), warnings

    def order(self, exp_num: IntArray, block: IntArray) -> IntArray:
        """Return the rows ordered by experience, then block; blocks must not go back."""
        order: IntArray = np.lexsort((block, exp_num))
        back = np.flatnonzero(np.diff(block[order]) < 0)
        if len(back):
            row, before = int(order[back[0] + 1]), int(order[back[0]])
            raise self.fail(
                "block_num",
                row,
                f"block {block[row]} at experience {exp_num[row]} follows block {block[before]} "
                f"at experience {exp_num[before]}; blocks must not decrease with experiences",
            )
        return order


def _is_worker(word: str) -> bool:
    return _WORKER.fullmatch(word) is not None


def _is_json(word: str) -> bool:
    if not word:
        return True
    try:
        json.loads(word)
    except (ValueError, RecursionError):
        return False
    return True
