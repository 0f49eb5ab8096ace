"""The rows of an l2logger log: its files read strictly, put in order and numbered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from l2bench.errors import Unsupported
from l2bench.interop.source import taken
from l2bench.interop.text import MISSING, cells, check_header, whole_lines
from l2bench.metrics.l2m_columns import BoolArray, IntArray

#: The columns of the format; every other one is a measure.
STANDARD = (
    "block_num", "exp_num", "worker_id", "block_type", "block_subtype", "task_name",
    "task_params", "exp_status", "timestamp",
)  # fmt: skip
_NEEDED = ("block_num", "exp_num", "block_type", "task_name")
_NUMBERS = ("block_num", "exp_num")
#: The word that stands in a column which a log may lack.
_DEFAULTS = {
    "worker_id": "worker-default",
    "block_subtype": "wake",
    "exp_status": "complete",
    "task_params": "",
}
#: Bytes that a line has at least, as a rule.
USUAL_LINE = 64
_WORD = pa.dictionary(pa.int32(), pa.string())


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

    ``times`` holds the timestamps as texts. ``order`` says which row as read each row is, None that
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
        """Return the timestamp of a row, if there is one."""
        text: str | None = self.times[self._as_read(row)].as_py()
        return text

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

    def add(self, rows: int, names: Sequence[str], codes: Any = 0) -> None:
        """Add the rows of a file: its words, and the place of each row's word among them."""
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
        self.numbers: dict[str, Any] = {name: np.empty(room, dtype=np.int64) for name in _NUMBERS}
        self.numbers[measure] = np.empty(room)
        self.words = {name: _Words() for name in ("block_type", "task_name", *_DEFAULTS)}

    def add(self, file: Path, name: str) -> None:
        """Read one file."""
        raw, warning = whole_lines(file, name)
        self.torn += [warning] if warning else []
        part = _parsed(raw, name, self.measure) if raw else None
        if part is None or not part.num_rows:
            return
        begin, end = self.rows, self.rows + part.num_rows
        self.names.append(name)
        self.starts.append(begin)
        self.rows = end
        for column, numbers in self.numbers.items():
            if end > len(numbers):
                numbers = self.numbers[column] = np.resize(numbers, 2 * end)
            numbers[begin:end] = part[column].to_numpy()
        present = set(part.column_names)
        for column, found in self.words.items():
            if column in present:
                coded = part[column].chunk(0)
                found.add(len(coded), coded.dictionary.to_pylist(), coded.indices.to_numpy())
            else:
                found.add(end - begin, [_DEFAULTS[column]])
        timed = "timestamp" in present
        self.times += part["timestamp"].chunks if timed else [pa.nulls(end - begin, pa.string())]

    def whole(self) -> LogRows:
        """Return the rows of all files, as read."""
        columns: dict[str, Any] = {
            **{name: numbers[: self.rows] for name, numbers in self.numbers.items()},
            **{name: found.column(self.rows) for name, found in self.words.items()},
        }
        places = Places(tuple(self.names), np.array(self.starts))
        times = pa.chunked_array(self.times, type=pa.string())
        return LogRows(columns, times, places, tuple(self.torn))


def _parsed(raw: bytes, name: str, measure: str) -> pa.Table:
    """Return the rows of one file.

    Raises:
        Unsupported: naming the line and column that is wrong.
    """
    _, header = next(cells(raw[: raw.find(b"\n") + 1], name, "\t"), (1, []))
    check_header(header, name, [*_NEEDED, measure])
    kinds = {
        "block_num": pa.int64(),
        "exp_num": pa.int64(),
        "timestamp": pa.string(),
        measure: pa.float64(),
    }
    wanted = [c for c in header if c in (*STANDARD, measure)]
    convert = csv.ConvertOptions(
        include_columns=wanted,
        column_types={column: kinds.get(column, _WORD) for column in wanted},
        null_values=list(MISSING),
        strings_can_be_null=False,
    )
    try:
        table = csv.read_csv(
            pa.BufferReader(raw),
            read_options=csv.ReadOptions(use_threads=False, block_size=max(len(raw), 1)),
            parse_options=csv.ParseOptions(delimiter="\t", ignore_empty_lines=False),
            convert_options=convert,
        )
    except pa.ArrowException as error:
        raise _fault(raw, name, len(header), measure, str(error)) from None
    for column in _NUMBERS:
        if table[column].null_count:
            row = table[column].is_null().to_pylist().index(True)
            raise Unsupported(f"{name}, line {row + 2}, column {column}: no number")
    return table


def _fault(raw: bytes, name: str, width: int, measure: str, text: str) -> Unsupported:
    """Return the error that names the first line which cannot be read."""
    header: list[str] = []
    for line, texts in cells(raw, name, "\t"):
        if len(texts) != width:
            return Unsupported(f"{name}, line {line}: {len(texts)} cells, the header has {width}")
        header = header or texts
        if line == 1:
            continue
        for column, cell in zip(header, texts, strict=True):
            whole = column in _NUMBERS
            if (whole or column == measure) and not _is_number(cell, whole):
                what = "a whole number" if whole else "a number"
                return Unsupported(f"{name}, line {line}, column {column}: {cell!r} is not {what}")
    return Unsupported(f"{name} cannot be read: {text.splitlines()[0]}")


def _is_number(text: str, whole: bool) -> bool:
    if text in MISSING:
        return not whole
    try:
        value = float(text)
    except ValueError:
        return False
    return not whole or text.strip().lstrip("+-").isdecimal() or value != value


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
