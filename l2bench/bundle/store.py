"""What lies in a finished bundle: its tables as files, and the digests of everything in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from l2bench.bundle.files import write_atomically, write_json
from l2bench.bundle.hashing import content_hash, document_hash, file_hash
from l2bench.bundle.model import FileRef, Manifest, TableRef
from l2bench.bundle.tables import SCHEMAS

#: Columns that differ from run to run of one lifetime; left out of the content hash.
VOLATILE = frozenset(
    {"wall_s", "cpu_s", "started_at", "ended_at", "attempt", "discarded_attempts",
     "peak_memory_bytes", "agent_bytes", "buffer_bytes"}
)  # fmt: skip


def write_table(folder: Path, name: str, whole: pa.Table) -> TableRef:
    """Write a table, its rows in key order, into a bundle and return its size and digests."""
    path = folder / "tables" / f"{name}.parquet"
    import pyarrow.parquet as pq  # takes long to import

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


def manifest_digest(data: Mapping[str, Any]) -> str:
    """Return the digest of a manifest's data, all of it but the digest itself."""
    rest = {key: value for key, value in data.items() if key != "manifest_digest"}
    return document_hash("l2bench.manifest.v1", rest)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a bundle's manifest with the digest of itself, atomically."""
    data = manifest.model_dump(mode="json")
    write_json(folder / "manifest.json", {**data, "manifest_digest": manifest_digest(data)})


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
