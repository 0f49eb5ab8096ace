"""Canonical documents and content hashes that do not depend on how a file was written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import rfc8785


def document_hash(domain: str, data: Mapping[str, Any]) -> str:
    """Return ``"sha256:<hex>"`` over the domain and the RFC 8785 form of the data."""
    canonical = rfc8785.dumps(dict(data))
    return "sha256:" + hashlib.sha256(domain.encode() + b"\n" + canonical).hexdigest()


def file_hash(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def listing_hash(digests: Mapping[str, str]) -> str:
    """Return the SHA-256 over sorted lines ``path NUL sha256 LF``, in hexadecimal."""
    lines = "".join(f"{path}\0{digest}\n" for path, digest in sorted(digests.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def content_hash(table: pa.Table, leave_out: frozenset[str] = frozenset()) -> str:
    """Return ``"sha256:<hex>"`` over the table's values, in the row order given.

    Per column in name order: name, class of type, validity bytes, then the values: integers and
    timestamps as little-endian int64, floats as float64 with one NaN pattern and no negative
    zero, booleans as bytes, texts by length and UTF-8, lists by length and their values, bytes of
    a fixed number as they are (zeros for null). Codec, chunks and the Arrow version play
    no part. ``leave_out`` names columns to leave out, such as wall times.
    """
    digest = hashlib.sha256()
    for name in sorted(set(table.column_names) - leave_out):
        column = table[name]
        values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        kind, payload = _payload(values)
        valid = values.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
        digest.update(f"{name}\0{kind}\0{len(values)}\0".encode())
        digest.update(valid.tobytes())
        digest.update(payload)
    return "sha256:" + digest.hexdigest()


def _texts(values: pa.Array) -> bytes:
    """Return all lengths, then all texts end to end; Arrow keeps them in just that form."""
    whole = pa.concat_arrays([values.cast(pa.large_string()).fill_null("")])
    _, offsets, texts = whole.buffers()
    if not len(whole):
        return b""
    ends = np.frombuffer(offsets, dtype="<i8")[whole.offset : whole.offset + len(whole) + 1]
    data = texts.to_pybytes()[ends[0] : ends[-1]] if texts is not None else b""
    return bytes(np.diff(ends).astype("<i8").tobytes() + data)


def _payload(values: pa.Array) -> tuple[str, bytes]:
    dtype = values.type
    if pa.types.is_dictionary(dtype):
        values, dtype = values.cast(dtype.value_type), dtype.value_type
    if pa.types.is_string(dtype):
        return "text", _texts(values)
    if pa.types.is_timestamp(dtype):
        values = values.cast(pa.int64())
        return "time", values.fill_null(0).to_numpy(zero_copy_only=False).astype("<i8").tobytes()
    if pa.types.is_list(dtype):
        lengths = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        kind, payload = _payload(values.flatten())
        return f"list of {kind}", lengths.astype("<i8").tobytes() + payload
    if pa.types.is_fixed_size_binary(dtype):
        blank = bytes(dtype.byte_width)
        return "bytes", b"".join(value or blank for value in values.to_pylist())
    if pa.types.is_boolean(dtype):
        filled = values.fill_null(False).to_numpy(zero_copy_only=False)
        return "bool", filled.astype(np.uint8).tobytes()
    if pa.types.is_floating(dtype):
        floats = values.fill_null(0.0).to_numpy(zero_copy_only=False).astype("<f8") + 0.0
        floats[np.isnan(floats)] = np.nan
        return "float", floats.tobytes()
    return "int", values.fill_null(0).to_numpy(zero_copy_only=False).astype("<i8").tobytes()
