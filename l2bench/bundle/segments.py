"""The segments of a provenance: the conditions of each start and resumption."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from l2bench.bundle.files import read_json, write_json
from l2bench.bundle.model import Provenance, Segment
from l2bench.bundle.privacy import redacted

#: Parts of a segment that plugins fill with what they like.
FREE = ("agent", "execution", "data")


def add(path: Path, segment: Segment) -> None:
    """Append a segment to the provenance at a path, without secrets and paths."""
    known = Provenance.model_validate(read_json(path)) if path.exists() else Provenance()
    parts = {part: redacted(getattr(segment, part)) for part in FREE}
    _write(path, (*known.segments, segment.model_copy(update=parts)))


def amend(path: Path, changes: Mapping[str, Any]) -> None:
    """Replace parts of the last segment of the provenance at a path."""
    *earlier, last = Provenance.model_validate(read_json(path)).segments
    clean = {part: redacted(data) if part in FREE else data for part, data in changes.items()}
    _write(path, (*earlier, last.model_copy(update=clean)))


def _write(path: Path, segments: tuple[Segment, ...]) -> None:
    write_json(path, Provenance(segments=segments).model_dump(mode="json"))
