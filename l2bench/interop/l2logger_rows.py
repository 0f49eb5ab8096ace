"""The rows of an l2logger log: those of all its files, in order and numbered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from l2bench.errors import Unsupported
from l2bench.interop.l2logger_file import NUMBERS, WORDS, Part, parts
from l2bench.interop.source import taken
from l2bench.interop.text import whole_lines
from l2bench.metrics.l2m_columns import BoolArray, IntArray

#: The word that stands in a column which a log may lack.
_DEFAULTS = {
    "worker_id": "worker-default",
    "block_subtype": "wake",
    "exp_status": "complete",
    "task_params": "",
}
#: Bytes that a line has at least, as a rule.
USUAL_LINE = 64


@dataclass(frozen=True)
class Places:
    """Which file each row comes from: the row at which each file starts."""

    files: tuple[str, ...]
    starts: IntArray

    def where(self, row: int) -> str:
        """Return the file and line of a row."""
        at = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"{self.files[at]}, line {row - int(self.starts[at]) + 2}"

    def same_file(self, rows: int) -> BoolArray:
        """Return for each row but the first whether it follows one of the same file."""
        same = np.ones(rows, dtype=bool)
        same[self.starts] = False
        result: BoolArray = same[1:]
        return result


@dataclass(frozen=True, eq=False)
class LogRows:
    """All rows of a log: columns by name, numbers as arrays and words as coded Arrow arrays.

    ``times`` holds the timestamps as bytes. ``order`` says which row as read each row is, None that
    all stand as read. ``counter`` names how the log counts experiences.
    """

    columns: Mapping[str, Any]
    times: pa.ChunkedArray
    places: Places
    torn: tuple[str, ...]
    order: IntArray | None = None
    counter: str = "lifetime"

    def where(self, row: int) -> str:
        """Return the file and line of a row."""
        return self.places.where(self._as_read(row))

    def time(self, row: int) -> str | None:
        """Return the timestamp of a row, if there is one that can be read."""
        text: bytes | None = self.times[self._as_read(row)].as_py()
        return None if text is None else text.decode(errors="replace")

    def _as_read(self, row: int) -> int:
        return row if self.order is None else int(self.order[row])


def read_files(folder: Path, files: Sequence[Path], measure: str) -> LogRows:
    """Return the rows of all files, in order of block, experience and worker.

    Raises:
        Unsupported: if a file is damaged or malformed, or the rows of a worker are out of order.
    """
    sizes = sum(file.stat().st_size for file in files)
    gathered = _Gathered(measure, sizes // USUAL_LINE)
    for file in files:
        gathered.add(file, str(file.relative_to(folder)))
    if not gathered.rows:
        raise Unsupported(f"{folder}: no row in {len(files)} data-log.tsv files")
    return _in_order(gathered.whole())


@dataclass
class _Words:
    """A column of words over all files; ``parts`` hold the codes of a file, or its only code."""

    known: dict[str, int] = field(default_factory=dict)
    parts: list[tuple[int, Any]] = field(default_factory=list)

    def add(self, rows: int, names: Sequence[str], codes: Any) -> None:
        """Add rows: their words, and the place of each row's word among several."""
        found = [self.known.setdefault(name, len(self.known)) for name in names]
        part = found[0] if len(found) == 1 else np.array(found, dtype=np.int32)[codes]
        self.parts.append((rows, part))

    def column(self, rows: int) -> pa.DictionaryArray:
        """Return the whole column."""
        codes = np.zeros(rows, dtype=np.int32)
        at = 0
        if len(self.known) > 1:  # or it is zero throughout, and takes no memory
            for count, part in self.parts:
                codes[at : at + count] = part
                at += count
        # safe: the codes are places in that list; to look at each of them would take memory
        return pa.DictionaryArray.from_arrays(pa.array(codes), list(self.known), safe=False)


class _Gathered:
    """The rows of the files read so far, with room for this many."""

    def __init__(self, measure: str, room: int) -> None:
        self.measure = measure
        self.rows = 0
        self.names: list[str] = []
        self.starts: list[int] = []
        self.torn: list[str] = []
        self.times: list[pa.Array] = []
        # room that is not written to takes no memory
        self.numbers: dict[str, Any] = {name: np.empty(room, dtype=np.int64) for name in NUMBERS}
        self.numbers[measure] = np.empty(room)
        self.words = {name: _Words() for name in WORDS}

    def add(self, file: Path, name: str) -> None:
        """Read one file."""
        raw, warning = whole_lines(file, name)
        self.torn += [warning] if warning else []
        begin = self.rows
        for part in parts(raw, name, self.measure) if raw else ():
            self._append(part)
        if self.rows > begin:
            self.names.append(name)
            self.starts.append(begin)

    def _append(self, part: Part) -> None:
        begin, end = self.rows, self.rows + part.rows
        self.rows = end
        for column, values in part.numbers.items():
            room = self.numbers[column]
            if end > len(room):
                room = self.numbers[column] = np.resize(room, 2 * end)
            room[begin:end] = values
        for column, found in self.words.items():
            names, codes = part.words.get(column) or ([_DEFAULTS[column]], None)
            found.add(part.rows, names, codes)
        self.times.append(pa.nulls(part.rows, pa.binary()) if part.times is None else part.times)

    def whole(self) -> LogRows:
        """Return the rows of all files, as read."""
        columns: dict[str, Any] = {
            **{name: numbers[: self.rows] for name, numbers in self.numbers.items()},
            **{name: found.column(self.rows) for name, found in self.words.items()},
        }
        places = Places(tuple(self.names), np.array(self.starts))
        times = pa.chunked_array(self.times, type=pa.binary())
        return LogRows(columns, times, places, tuple(self.torn))


def _in_order(rows: LogRows) -> LogRows:
    """Return the rows by block, experience and worker, experiences counted over the lifetime."""
    block, exp = rows.columns["block_num"], rows.columns["exp_num"]
    if ((block[1:] >= block[:-1]) & (exp[1:] >= exp[:-1])).all():
        return rows
    order, numbers, counter = _numbered(rows, block, exp)
    sorted_columns: dict[str, Any] = {"exp_num": numbers[order]}
    for name, column in rows.columns.items():
        if isinstance(column, pa.DictionaryArray):
            sorted_columns[name] = taken(column, order)
        elif name != "exp_num":
            sorted_columns[name] = column[order]
    return replace(rows, columns=sorted_columns, order=order, counter=counter)


def _numbered(rows: LogRows, block: IntArray, exp: IntArray) -> tuple[IntArray, IntArray, str]:
    """Return the order of the rows, their experience numbers, and how those were counted.

    Experiences may be counted over the lifetime, from anew in each block, or by workers at their
    own pace; the latter two are renumbered.

    Raises:
        Unsupported: if a worker's rows are out of order.
    """
    places = rows.places
    same_file = places.same_file(len(block))
    back = same_file & ((np.diff(block) < 0) | ((np.diff(block) == 0) & (np.diff(exp) < 0)))
    if back.any():
        raise _disorder(places, int(np.argmax(back)) + 1, block, exp)
    order = np.lexsort((exp, block))
    starts = np.flatnonzero(np.diff(block[order], prepend=block.min() - 1))
    first = exp[order][starts]
    last = exp[order][np.append(starts[1:], len(order)) - 1]
    if (first[1:] >= last[:-1]).all():
        return order, exp, "lifetime"
    if (first == first[0]).all():
        counter = "block"
    else:
        worker = rows.columns["worker_id"].indices.to_numpy()
        back = (np.diff(worker) == 0) & (np.diff(exp) < 0)
        if back.any() or (worker == worker[0]).all():
            row = int(np.argmax(back)) + 1 if back.any() else int(order[starts[1]])
            raise _disorder(places, row, block, exp)
        counter = "worker"
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (np.diff(block[order]) != 0) | (np.diff(exp[order]) != 0)
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(fresh) - 1
    return order, numbers, counter


def _disorder(places: Places, row: int, block: IntArray, exp: IntArray) -> Unsupported:
    return Unsupported(
        f"{places.where(row)}, column exp_num: experience {exp[row]} of block {block[row]} follows "
        f"experience {exp[row - 1]} of block {block[row - 1]}; neither may go back within a worker"
    )
