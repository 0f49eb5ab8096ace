"""Reading folders of the logger l2logger: rows of learning and evaluation experiences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from l2bench.bundle.files import read_json
from l2bench.bundle.lifetime import Lifetime
from l2bench.errors import Unsupported, UsageError, choices, nearest
from l2bench.interop.experiences import lifetime_of
from l2bench.interop.source import UNKNOWN_AGENT, Options, Source, words
from l2bench.interop.text import MISSING, cells, check_header, whole_lines
from l2bench.metrics.l2m_log import BoolArray, IntArray, read_log

KIND = "l2logger"
LOOKS_LIKE = "a folder with logger_info.json and BLOCK-TYPE/data-log.tsv below it"

#: The columns of the format; every other one is a measure.
STANDARD = (
    "block_num", "exp_num", "worker_id", "block_type", "block_subtype", "task_name",
    "task_params", "exp_status", "timestamp",
)  # fmt: skip
_NEEDED = ("block_num", "exp_num", "block_type", "task_name")
_WORD = pa.dictionary(pa.int32(), pa.string())

Where = Callable[[int], str]


def matches(path: Path) -> bool:
    """Return whether a path looks like a log."""
    return path.is_dir() and bool(
        (path / "logger_info.json").is_file() or next(path.rglob("data-log.tsv"), None)
    )


def read(path: Path, options: Options) -> Source:
    """Return the lifetime of the one log at or below a path.

    Raises:
        Unsupported: if a file is damaged or malformed, naming it with line and column.
        UsageError: if there are several logs, or a measure must be chosen.
    """
    folder = _log_folder(path)
    files = sorted(folder.rglob("data-log.tsv"), key=_place)
    if not files:
        raise Unsupported(f"{folder} has no data-log.tsv below it")
    declared = _declared(folder)
    measure = _measure(folder, files, declared, options)
    table, places, torn = _gather(folder, files, measure)
    order, numbers, counter = _numbered(table, places)
    if counter != "lifetime":
        at = table.column_names.index("exp_num")
        table = table.set_column(at, "exp_num", pa.array(numbers))
    if (np.diff(order) < 0).any():
        table = table.take(pa.array(order)).combine_chunks()
    log = read_log(
        table, measure=measure, name=folder.name, where=lambda row: places.where(int(order[row]))
    )
    lifetime = lifetime_of(table, folder.name, measure, options, complete=not torn)
    warnings = [*torn, *log.warnings, *_assumed(lifetime, options)]
    settings: dict[str, Any] = {"measure": measure, "experience_counter": counter}
    if log.dropped:
        settings["dropped_rows"] = log.dropped
        warnings.append(f"{log.dropped} rows are incomplete or have no value; they do not count")
    if declared is None:
        warnings.append("logger_info.json is missing")
    agent = options.agent or UNKNOWN_AGENT
    return Source(KIND, lifetime, tuple(files), agent, settings, tuple(warnings))


@dataclass(frozen=True)
class _Places:
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


def _gather(
    folder: Path, files: Sequence[Path], measure: str
) -> tuple[pa.Table, _Places, tuple[str, ...]]:
    """Return all rows in the order of the files, their places, and what was torn."""
    parts, starts, used, torn = [], [], [], []
    total = 0
    for file in files:
        name = str(file.relative_to(folder))
        part, warning = _read_file(file, name, measure)
        torn += [warning] if warning else []
        if part is not None and part.num_rows:
            parts.append(part)
            used.append(name)
            starts.append(total)
            total += part.num_rows
    if not parts:
        raise Unsupported(f"{folder}: no row in {len(files)} data-log.tsv files")
    whole = pa.concat_tables(parts, promote_options="default").unify_dictionaries()
    return whole.combine_chunks(), _Places(tuple(used), np.array(starts)), tuple(torn)


def _assumed(lifetime: Lifetime, options: Options) -> list[str]:
    """Return what was assumed about score ranges."""
    ranges = {task.score_range for task in lifetime.suite.tasks if task.task not in options.ranges}
    if options.score_range or not ranges or ranges == {(0.0, 1.0)}:
        return []
    ends = " and ".join(f"{low:g} to {high:g}" for low, high in sorted(ranges)[:3])
    more = ", ..." if len(ranges) > 3 else ""
    return [
        f"the log does not say its smallest and largest score; {ends}{more} is assumed, set it "
        f"with --range"
    ]


def _log_folder(path: Path) -> Path:
    if (path / "logger_info.json").is_file():
        return path
    logs = sorted(info.parent for info in path.rglob("logger_info.json"))
    if len(logs) > 1:
        names = choices(str(log.relative_to(path)) for log in logs)
        raise UsageError(f"{path} holds {len(logs)} logs; give one of them: {names}")
    return logs[0] if logs else path


def _place(file: Path) -> tuple[str, int, str]:
    """Return the sort key of a log file: worker, then block."""
    block = file.parent.name.partition("-")[0]
    number = int(block) if block.isdecimal() else -1
    return str(file.parent.parent), number, file.parent.name


def _declared(folder: Path) -> list[str] | None:
    """Return the measures that logger_info.json declares; None without the file."""
    path = folder / "logger_info.json"
    if not path.is_file():
        return None
    names = read_json(path).get("metrics_columns")
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise Unsupported(f"{path}: metrics_columns should be a list of names, found {names!r:.80}")
    return names


def _measure(
    folder: Path, files: Sequence[Path], declared: Sequence[str] | None, options: Options
) -> str:
    known = declared
    if known is None:
        raw, _ = whole_lines(files[0], str(files[0]))
        _, header = next(cells(raw, str(files[0]), "\t"), (1, []))
        known = [column for column in header if column not in STANDARD]
    if options.measure is not None:
        if options.measure not in known:
            hint = nearest(options.measure, known)
            raise UsageError(
                f"{folder} has no measure '{options.measure}'{hint}; it has {choices(known)}"
            )
        return options.measure
    if len(known) != 1:
        raise UsageError(
            f"{folder} has {len(known)} measures; choose one with --measure: {choices(known)}"
        )
    return known[0]


def _read_file(path: Path, name: str, measure: str) -> tuple[pa.Table | None, str | None]:
    """Return the rows of one file, and a warning if its end is missing."""
    raw, warning = whole_lines(path, name)
    if not raw:
        return None, warning
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
    for column in ("block_num", "exp_num"):
        if table[column].null_count:
            row = table[column].is_null().to_pylist().index(True)
            raise Unsupported(f"{name}, line {row + 2}, column {column}: no number")
    return _filled(table), warning


def _filled(table: pa.Table) -> pa.Table:
    """Return a table with the columns that a log may lack."""
    for column, word in (
        ("worker_id", "worker-default"),
        ("block_subtype", "wake"),
        ("exp_status", "complete"),
    ):
        if column not in table.column_names:
            table = table.append_column(column, words(np.zeros(table.num_rows), [word]))
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
            whole = column in ("block_num", "exp_num")
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


def _numbered(table: pa.Table, places: _Places) -> tuple[IntArray, IntArray, str]:
    """Return the order of the rows, their experience numbers, and how those were counted.

    The order is block, experience, worker. Experiences may be counted over the lifetime, from
    anew in each block, or by workers at their own pace; the latter two are renumbered.

    Raises:
        Unsupported: if a worker's rows are out of order.
    """
    block, exp = table["block_num"].to_numpy(), table["exp_num"].to_numpy()
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
        worker = table["worker_id"].combine_chunks().indices.to_numpy()
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


def _disorder(places: _Places, row: int, block: IntArray, exp: IntArray) -> Unsupported:
    return Unsupported(
        f"{places.where(row)}, column exp_num: experience {exp[row]} of block {block[row]} follows "
        f"experience {exp[row - 1]} of block {block[row - 1]}; neither may go back within a worker"
    )
