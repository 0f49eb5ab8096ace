"""One file of an l2logger log: its lines read strictly, as columns of numbers and words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import csv

from l2bench.errors import Unsupported
from l2bench.interop.text import MISSING, cells, check_header

#: The columns of the format; every other one is a measure.
STANDARD = (
    "block_num", "exp_num", "worker_id", "block_type", "block_subtype", "task_name",
    "task_params", "exp_status", "timestamp",
)  # fmt: skip
NUMBERS = ("block_num", "exp_num")
WORDS = ("worker_id", "block_type", "block_subtype", "task_name", "task_params", "exp_status")
_NEEDED = ("block_num", "exp_num", "block_type", "task_name")
_CODED = pa.dictionary(pa.int32(), pa.string())
_MISSING = frozenset(text.encode() for text in MISSING)
#: Bytes that are parsed at once; a file that is larger is taken in pieces.
PIECE = 2**28


@dataclass(frozen=True)
class Part:
    """Some rows of a file, columns by name: numbers (n,), and words with the code of each row.

    A single word may come without codes. ``times`` are bytes, None without such a column.
    """

    rows: int
    numbers: Mapping[str, Any]
    words: Mapping[str, tuple[list[str], Any]]
    times: pa.Array | None


def parts(raw: bytes, name: str, measure: str) -> Iterator[Part]:
    """Yield the rows of a file of whole lines, whose name is used in messages.

    Raises:
        Unsupported: naming the line and column that is wrong.
    """
    body = raw.find(b"\n") + 1
    _, header = next(cells(raw[:body], name, "\t"), (1, []))
    check_header(header, name, [*_NEEDED, measure])
    line = 2
    for begin, end in _pieces(raw, body):
        try:
            table = _table(raw, begin, end, header, measure)
            part = _part(table, measure)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise _fault(raw, name, len(header), measure, str(error)) from None
        for column in NUMBERS:
            if table[column].null_count:
                row = table[column].is_null().to_pylist().index(True)
                raise Unsupported(f"{name}, line {row + line}, column {column}: no number")
        line += table.num_rows
        yield part


def _pieces(raw: bytes, begin: int) -> Iterator[tuple[int, int]]:
    """Yield where pieces of whole lines begin and end."""
    while begin < len(raw):
        end = len(raw)
        if end - begin > PIECE:
            end = raw.rfind(b"\n", begin, begin + PIECE) + 1 or raw.find(b"\n", begin) + 1
        yield begin, end
        begin = end


def _table(raw: bytes, begin: int, end: int, header: Sequence[str], measure: str) -> pa.Table:
    """Return a piece as a table, words as bytes where one stands throughout, else coded.

    To read a column as bytes of one size takes less than half as long. Whether one word stands
    throughout is guessed from the first and the last line, and seen afterwards.
    """
    first = raw[begin : raw.find(b"\n", begin)].split(b"\t")
    last = raw[raw.rfind(b"\n", begin, end - 1) + 1 : end - 1].split(b"\t")
    guessed = {
        column: len(one)
        for column, one, other in zip(header, first, last, strict=False)
        if column in WORDS and one == other and one not in _MISSING
    }
    piece = memoryview(raw)[begin:end]
    try:
        table = _read(piece, header, measure, guessed)
        if all(_is_uniform(table[column].chunk(0), size) for column, size in guessed.items()):
            return table
    except pa.ArrowInvalid:  # a word of another size, or a fault that the next reading meets too
        pass
    return _read(piece, header, measure, {})


def _read(
    piece: memoryview, header: Sequence[str], measure: str, sizes: Mapping[str, int]
) -> pa.Table:
    """Return a table whose words are coded, or bytes where ``sizes`` has their number."""
    kinds = {**dict.fromkeys(WORDS, _CODED), **dict.fromkeys(NUMBERS, pa.int64())}
    kinds |= {"timestamp": pa.binary(), measure: pa.float64()}
    kinds |= {column: pa.binary(size) for column, size in sizes.items()}
    wanted = [column for column in header if column in kinds]
    return csv.read_csv(
        pa.BufferReader(piece),
        read_options=csv.ReadOptions(
            use_threads=False, block_size=len(piece), column_names=list(header)
        ),
        parse_options=csv.ParseOptions(delimiter="\t", ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            include_columns=wanted,
            column_types={column: kinds[column] for column in wanted},
            null_values=list(MISSING),
            strings_can_be_null=False,
        ),
    )


def _is_uniform(words: pa.FixedSizeBinaryArray, size: int) -> bool:
    """Return whether all words, of this many bytes each, are the same."""
    if words.null_count:  # among words of a size, those that stand for no value are told apart
        return False
    content = words.buffers()[1].slice(0, size * len(words))
    repeats = size * (len(words) - 1)  # the content is the same when it is moved by one word
    return not repeats or bool(content.slice(0, repeats).equals(content.slice(size, repeats)))


def _part(table: pa.Table, measure: str) -> Part:
    present = set(table.column_names)
    words: dict[str, tuple[list[str], Any]] = {}
    for column in WORDS:
        if column in present:
            found = table[column].chunk(0)
            if isinstance(found, pa.DictionaryArray):
                words[column] = found.dictionary.to_pylist(), found.indices.to_numpy()
            else:
                words[column] = [found[0].as_py().decode()], None
    return Part(
        rows=table.num_rows,
        numbers={column: table[column].to_numpy() for column in (*NUMBERS, measure)},
        words=words,
        times=table["timestamp"].chunk(0) if "timestamp" in present else None,
    )


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
            whole = column in NUMBERS
            if (whole or column == measure) and not _is_number(cell, whole):
                what = "a whole number" if whole else "a number"
                return Unsupported(f"{name}, line {line}, column {column}: {cell!r} is not {what}")
    return Unsupported(f"{name} cannot be read: {text.splitlines()[0]}")


def _is_number(text: str, whole: bool) -> bool:
    """Return whether a cell is read as a number, by what reads the columns."""
    if text in MISSING:
        return not whole
    try:
        pa.scalar(text.strip(" \t")).cast(pa.int64() if whole else pa.float64())
    except pa.ArrowInvalid:
        return False
    return True
