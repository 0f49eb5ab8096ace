"""Reading the tables of a bundle without trust: the footer first, then the rows in batches."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from l2bench.bundle.hashing import content_hash
from l2bench.bundle.store import VOLATILE
from l2bench.bundle.tables import (
    EXTRA_TABLES,
    NUMBERING,
    OPTIONAL,
    RUN_TABLES,
    SCHEMAS,
    plain,
)
from l2bench.check.evidence import Evidence
from l2bench.check.findings import Finding, broken

MOST_ROWS = 5_000_000
MOST_CELLS = 150_000_000
MOST_BYTES = 2 << 30  # of a table when unpacked
MOST_FOOTER = 8 << 20
BATCH = 1 << 16

#: Numbers of errors that are no fault of a file.
SCARCE = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)

#: The words that a column may hold.
WORDS: Mapping[tuple[str, str], frozenset[str]] = {
    ("blocks", "kind"): frozenset({"learn", "eval"}),
    ("blocks", "role"): frozenset({"pretest", "curve", "post", "wake"}),
    ("blocks", "policy_ref"): frozenset({"current", "best"}),
    ("blocks", "status"): frozenset({"ok", "failed", "missing"}),
    ("episodes", "status"): frozenset({"ok"}),  # one that fails ends its block, which is repeated
    ("learning", "status"): frozenset({"ok", "incomplete", "abandoned"}),
    ("learning", "subtype"): frozenset({"wake", "sleep"}),
}

#: Columns that only an import may leave null.
NEEDED: Mapping[str, frozenset[str]] = {
    "blocks": frozenset(
        {"lx_start", "lx_end", "env_steps_start", "env_steps_end", "started_at", "ended_at"}
    ),
    "episodes": frozenset({"env_seed", "length", "terminated", "truncated", "wall_s"}),
    "learning": frozenset({"length", "env_steps_total", "wall_s"}),
}


def read(evidence: Evidence) -> Iterator[Finding]:
    """R01, R02, M06: read every table that the manifest names."""
    aggregate = evidence.manifest.fidelity == "aggregate"
    if aggregate and not evidence.imported:
        text = "means without their rows come from an import only; this was run by L2bench"
        yield broken("R01", "manifest.json", text, expected="raw", found="aggregate")
        return
    needed = {*RUN_TABLES, *(("cells",) if aggregate else ())}
    named = set(evidence.manifest.tables)
    if named - set(EXTRA_TABLES) != needed:
        yield broken(
            "R01",
            "manifest.json",
            "these are not the tables of such a bundle",
            expected=sorted(needed),
            found=sorted(named),
        )
        return
    for name in sorted(named):
        yield from _read_one(evidence, name)


def _read_one(evidence: Evidence, name: str) -> Iterator[Finding]:
    path = f"tables/{name}.parquet"
    recorded = evidence.manifest.tables[name]
    schema_id = SCHEMAS[name].metadata[b"schema_id"].decode()
    if recorded.schema_id != schema_id:
        yield broken(
            "R01",
            "manifest.json",
            f"table {name} has an unknown schema",
            expected=schema_id,
            found=recorded.schema_id,
        )
        return
    try:
        file = pq.ParquetFile(evidence.folder / path, page_checksum_verification=True)
        with file:
            faults = list(_size(path, file.metadata))
            faults = faults or list(_schema(path, name, file, evidence.imported))
            table = None if faults else _rows(file)
    except (pa.ArrowException, MemoryError, OSError, ValueError, NotImplementedError) as error:
        if _wanting(error):
            raise  # the check could not be carried out: I01
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        yield broken("R01", path, f"cannot be read as Parquet: {text}")
        return
    yield from faults
    if table is None:
        return
    evidence.tables[name] = _filled(name, table)
    yield from _words(path, name, table, evidence.imported)
    if not evidence.imported:
        yield from _nulls(path, name, table)
    if table.num_rows != recorded.rows:
        yield broken(
            "M06",
            "manifest.json",
            f"table {name} has another number of rows",
            expected=table.num_rows,
            found=recorded.rows,
        )
    digest = content_hash(table, VOLATILE)
    if digest != recorded.content_sha256:
        yield broken(
            "H02",
            path,
            "the values are not those that the manifest records",
            expected=recorded.content_sha256,
            found=digest,
        )


def _wanting(error: Exception) -> bool:
    """Return whether this process lacks memory, threads or files: no fault of the table's."""
    scarce = isinstance(error, MemoryError) or getattr(error, "errno", None) in SCARCE
    return scarce or "Failed to launch worker thread" in str(error)  # Arrow has no class for it


def _size(path: str, footer: pq.FileMetaData) -> Iterator[Finding]:
    """R02: what the footer declares, before anything is read."""
    unpacked = sum(footer.row_group(at).total_byte_size for at in range(footer.num_row_groups))
    cells = footer.num_rows * footer.num_columns
    for what, found, most in (
        ("rows", footer.num_rows, MOST_ROWS),
        ("values", cells, MOST_CELLS),
        ("bytes unpacked", unpacked, MOST_BYTES),
        ("bytes of footer", footer.serialized_size, MOST_FOOTER),
    ):
        if found > most or found < 0:
            yield broken(
                "R02", path, f"more {what} than a table may have", expected=most, found=found
            )
            return


def _schema(path: str, name: str, file: pq.ParquetFile, imported: bool) -> Iterator[Finding]:
    """R01: exactly the columns of the format, with their types."""
    expected = {field.name: field.type for field in SCHEMAS[name]}
    extra = {field.name: field.type for field in NUMBERING} if imported else {}
    found = {field.name: field.type for field in file.schema_arrow}
    if len(found) < len(file.schema_arrow.names):
        yield broken("R01", path, "a column comes twice")
        return
    for column, dtype in expected.items():
        if found.get(column) != dtype and not (column in OPTIONAL and column not in found):
            yield broken(
                "R01",
                path,
                f"column '{column}' is missing or of another type",
                expected=str(dtype),
                found=str(found.get(column)),
            )
    for column, dtype in found.items():
        if column not in expected and extra.get(column) != dtype:
            yield broken("R01", path, f"the format has no column '{column:.60}'", found=str(dtype))


def _rows(file: pq.ParquetFile) -> pa.Table:
    batches = list(file.iter_batches(BATCH, use_threads=False))
    table = pa.Table.from_batches(batches, schema=file.schema_arrow)
    table.validate(full=True)
    return table.unify_dictionaries().combine_chunks()


def _filled(name: str, table: pa.Table) -> pa.Table:
    """Return a table with null columns in the place of those it need not have."""
    for field in SCHEMAS[name]:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table


def _words(path: str, name: str, table: pa.Table, imported: bool) -> Iterator[Finding]:
    """R01: columns of words hold known words; of rows, a source may have statuses of its own."""
    for (owner, column), known in WORDS.items():
        if owner != name or column not in table.column_names:
            continue
        if imported and column == "status" and name != "blocks":
            continue
        words = table[column].cast(plain(table[column].type))
        for word in sorted(set(words.unique().to_pylist()) - known - {None}):
            row = pc.index(words, word).as_py()
            yield broken(
                "R01",
                path,
                f"column '{column}' holds an unknown word",
                expected=sorted(known),
                found=word,
                row=row,
            )


def _nulls(path: str, name: str, table: pa.Table) -> Iterator[Finding]:
    """R01: no nulls where a lifetime that was run has none."""
    for field in SCHEMAS[name]:
        if field.name not in table.column_names:
            continue
        column = table[field.name]
        needed = not field.nullable or field.name in NEEDED.get(name, ())
        if needed and column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            yield broken("R01", path, f"column '{field.name}' has no value here", row=row)


def file_of(name: str) -> str:
    """Return the path of a table inside a bundle."""
    return (Path("tables") / f"{name}.parquet").as_posix()
