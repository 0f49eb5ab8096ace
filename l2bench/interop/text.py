"""Reading text tables strictly: whole lines only, and every fault by file, line and column."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from l2bench.bundle.files import refuse_pipe
from l2bench.errors import Unsupported, choices

#: What stands for a value that was not measured.
MISSING = ("", "nan", "NaN", "NA", "N/A", "null", "None", "-")


def read_bytes(path: Path) -> bytes:
    """Return a file's content.

    Raises:
        Unsupported: if it cannot be read.
    """
    try:
        refuse_pipe(path)
        return path.read_bytes()
    except OSError as error:
        raise Unsupported(f"{path} cannot be read: {error.strerror or error}") from None


def whole_lines(path: Path, name: str) -> tuple[bytes, str | None]:
    """Return the lines of a file that end, and a warning where a last one does not.

    A logger ends every line with a line break; one without was cut off while it was written.
    """
    raw = read_bytes(path)
    if raw.endswith(b"\n"):
        return raw, None
    if not raw:
        return raw, f"{name} is empty: the log was cut off before its first line"
    kept = raw[: raw.rfind(b"\n") + 1]
    line = kept.count(b"\n") + 1
    return kept, (
        f"{name}, line {line} does not end and is left out: the log was cut off there (if the line "
        f"is whole, end it with a line break)"
    )


@dataclass(frozen=True)
class Row:
    """A line of a table: its number, counted from 1, and its cells by column."""

    name: str
    line: int
    cells: dict[str, str]

    def fail(self, column: str, what: str) -> Unsupported:
        """Return the error for a cell of this row."""
        return Unsupported(f"{self.name}, line {self.line}, column {column}: {what}")

    def number(self, column: str) -> float:
        """Return a cell as a finite number, NaN where it was not measured.

        Raises:
            Unsupported: if it is no number, or infinite.
        """
        text = self.cells[column].strip()
        if text in MISSING:
            return math.nan
        try:
            value = float(text)
        except ValueError:
            raise self.fail(column, f"{text!r} is not a number") from None
        if math.isinf(value):
            raise self.fail(column, "an infinite value")
        return value

    def whole(self, column: str) -> int:
        """Return a cell as a whole number from 0.

        Raises:
            Unsupported: if it is none.
        """
        value = self.number(column)
        if math.isnan(value) or value != math.floor(value) or value < 0:
            raise self.fail(column, f"{self.cells[column]!r} is not a whole number from 0")
        return int(value)


def rows(raw: bytes, name: str, delimiter: str, required: Sequence[str] = ()) -> list[Row]:
    """Return the lines below the header.

    Raises:
        Unsupported: if the text is no UTF-8, a column is missing or named twice, or a line has
            more or fewer cells than the header.
    """
    lines = list(cells(raw, name, delimiter))
    if not lines:
        raise Unsupported(f"{name} has no lines")
    (_, header), body = lines[0], lines[1:]
    check_header(header, name, required)
    found = []
    for line, texts in body:
        if len(texts) != len(header):
            raise Unsupported(
                f"{name}, line {line}: {len(texts)} cells where the header has {len(header)}"
            )
        found.append(Row(name, line, dict(zip(header, texts, strict=True))))
    return found


def check_header(header: Sequence[str], name: str, required: Sequence[str]) -> None:
    """Refuse a header that lacks a column or names one twice.

    Raises:
        Unsupported: naming the column.
    """
    for column in required:
        if column not in header:
            found = choices(header)
            raise Unsupported(f"{name}, line 1: column {column} is missing; found {found}")
    twice = sorted({column for column in header if list(header).count(column) > 1})
    if twice:
        raise Unsupported(f"{name}, line 1: column {twice[0]} is there twice")


def cells(raw: bytes, name: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each line that is not blank, with its number.

    Raises:
        Unsupported: if the text is no UTF-8, or a line cannot be split.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise Unsupported(f"{name}, line {line}: not UTF-8 text") from None
    lines = re.split("\r\n|\n|\r", text)  # str.splitlines knows more ends, which cells may hold
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        try:
            texts = next(reader, None)
        except csv.Error as error:
            raise Unsupported(f"{name}, line {reader.line_num}: {error}") from None
        if texts is None:
            return
        if texts:
            yield reader.line_num, texts
