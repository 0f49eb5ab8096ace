"""What lies in a finished bundle: its tables as files, and the digests of everything in it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from l2bench.bundle.files import write_atomically
from l2bench.bundle.hashing import content_hash, file_hash
from l2bench.bundle.model import FileRef, TableRef
from l2bench.bundle.tables import SCHEMAS

#: Columns that differ from run to run of one lifetime; left out of the content hash.
VOLATILE = frozenset({"wall_s", "cpu_s", "started_at", "ended_at", "attempt", "discarded_attempts"})


def write_table(folder: Path, name: str, whole: pa.Table) -> TableRef:
    """Write a table, its rows in key order, into a bundle and return its size and digests."""
    path = folder / "tables" / f"{name}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(
        whole,
        sink,
        compression="zstd",
        compression_level=3,
        row_group_size=128 * 1024,
        write_page_checksum=True,
    )
    write_atomically(path, sink.getvalue().to_pybytes())
    return TableRef(
        rows=whole.num_rows,
        schema_id=SCHEMAS[name].metadata[b"schema_id"].decode(),
        bytes_sha256=file_hash(path),
        content_sha256=content_hash(whole, VOLATILE),
    )


def write_checksums(folder: Path) -> None:
    """Write checksums.sha256 over every file of a bundle but the manifest."""
    lines = [
        f"{file_hash(path)}  {path.relative_to(folder).as_posix()}\n" for path in _recorded(folder)
    ]
    write_atomically(folder / "checksums.sha256", "".join(lines).encode())


def file_refs(folder: Path) -> dict[str, FileRef]:
    """Return size and digest of every file of a bundle but the manifest."""
    return {
        path.relative_to(folder).as_posix(): FileRef(
            bytes=path.stat().st_size, sha256=file_hash(path)
        )
        for path in [*_recorded(folder), folder / "checksums.sha256"]
    }


def _recorded(folder: Path) -> list[Path]:
    apart = {folder / "manifest.json", folder / "checksums.sha256"}
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] != "work" and path not in apart
    )
