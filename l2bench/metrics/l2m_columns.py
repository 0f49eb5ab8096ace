"""The columns of an experience log, checked one by one: every fault by row and column."""

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
Variants = Literal["aware", "agnostic"]

_WORKER = re.compile(r"[A-Za-z0-9_.-]+")
_REQUIRED = ("block_num", "exp_num", "block_type", "task_name")


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows in the order given, all arrays (N,); ``task`` is an index into ``tasks``.

    ``value`` is NaN where nothing was measured, ``complete`` false for experiences that were
    broken off.
    """

    tasks: tuple[str, ...]
    value: FloatArray
    exp_num: IntArray
    block: IntArray
    task: IntArray
    learning: BoolArray
    sleep: BoolArray
    complete: BoolArray
    warnings: tuple[str, ...] = ()

    def counted(self, name: str, measure: str) -> BoolArray:
        """Return which rows are complete and have a value.

        Raises:
            Unsupported: if none is.
        """
        kept: BoolArray = self.complete & ~np.isnan(self.value)
        if not kept.any():
            raise Unsupported(
                f"{name}: no complete row with a value of {measure} in {len(kept)} rows"
            )
        return kept


def read_rows(
    columns: Columns,
    *,
    measure: str = "performance",
    variants: Variants = "aware",
    declared: Collection[str] | None = None,
    name: str = "the log",
    where: Callable[[int], str] | None = None,
) -> Rows:
    """Return the rows of these columns (L2Logger names), each column checked.

    Needs ``block_num``, ``exp_num``, ``block_type``, ``task_name`` and the measure; a missing
    ``block_subtype`` means wake, a missing ``exp_status`` complete. ``declared`` lists the measures
    that the log says it has. Messages count rows from 0, or call a row what ``where`` returns for
    it.

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
    return Rows(tasks, value, exp_num, block, task, learning, sleep, complete, warnings)


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
        numbers = array.astype(np.int64, copy=False)
        if len(numbers) and numbers.min() < 0:
            row = int(np.argmax(numbers < 0))
            raise self.fail(column, row, f"{numbers[row]} is negative")
        return numbers

    def values(self, column: str) -> FloatArray:
        array = self.numbers(column).astype(np.float64, copy=False)
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
        dictionary, codes = encoded.dictionary, encoded.indices
        if not pa.types.is_string(dictionary.type):
            dictionary = dictionary.cast(pa.string())
        names: list[str | None] = dictionary.to_pylist()
        if codes.null_count:
            codes = codes.fill_null(len(names))
            names.append(None)
        return codes.to_numpy(), names

    def flags(self, column: str, yes: str, no: str, *, default: bool | None = None) -> BoolArray:
        if default is not None and column not in self.names():
            return np.full(len(self.columns["exp_num"]), default)
        codes, words = self.words(column)
        for code, word in enumerate(words):
            if word not in (yes, no) and (rows := np.flatnonzero(codes == code)).size:
                raise self.fail(column, int(rows[0]), f"{word!r} is neither {yes} nor {no}")
        if len(words) == 1:
            return np.full(len(codes), words[0] == yes)
        return np.asarray([word == yes for word in words], dtype=bool)[codes]

    def check_strings(self) -> None:
        """Check the columns that are part of the format although nothing is computed from them."""
        for column, check, what in (
            ("worker_id", _is_worker, "has characters other than letters, digits and _ - ."),
            ("task_params", _is_json, "is not JSON"),
        ):
            if column not in self.names():
                continue
            codes, words = self.words(column)
            bad = [word is not None and not check(word) for word in words]
            rows = np.flatnonzero(np.asarray(bad, dtype=bool)[codes] if any(bad) else [])
            if len(rows):
                raise self.fail(column, int(rows[0]), f"{words[codes[rows[0]]]!r} {what}")

    def tasks(self, variants: Variants) -> tuple[IntArray, tuple[str, ...], tuple[str, ...]]:
        """Return the task of each row, the task names, and warnings about the names."""
        codes, words = self.words("task_name")
        lowered = [(word or "").lower() for word in words]
        seen = np.zeros(len(words), dtype=bool)
        seen[codes] = True
        used = {word for word, there in zip(lowered, seen, strict=True) if there}
        if "" in used:
            blank = np.asarray([not word for word in words])[codes]
            raise self.fail("task_name", int(np.argmax(blank)), "no name")
        bare = sorted(name for name in used if "_" not in name)
        warnings = (f"{self.name}: no variant part in task names {choices(bare)}",) if bare else ()
        merged = lowered if variants == "aware" else [name.split("_")[0] for name in lowered]
        names = list(dict.fromkeys(merged))
        index = {name: position for position, name in enumerate(names)}
        task: IntArray = np.asarray([index[name] for name in merged], dtype=np.int64)[codes]
        return task, tuple(names), warnings


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
