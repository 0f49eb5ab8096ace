"""Saved agent states: files that did not change since the last one are kept once."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from l2bench.bundle.hashing import file_hash


def state_digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file of a state by its name."""
    return {path.relative_to(folder).as_posix(): file_hash(path) for path in _files(folder)}


def share(new: Path, before: Path | None, known: Mapping[str, str]) -> dict[str, str]:
    """Link the files of a new state that equal those of the one before; return all digests.

    ``known`` are the digests of the state before. Where links are not possible the copies stay.
    """
    digests = {}
    for path in _files(new):
        name = path.relative_to(new).as_posix()
        twin = before / name if before is not None and name in known else None
        if twin is not None and twin.is_file() and path.samefile(twin):
            digests[name] = known[name]
            continue
        digests[name] = file_hash(path)
        if twin is not None and digests[name] == known[name] and twin.is_file():
            link = path.with_name(path.name + ".link")
            with contextlib.suppress(OSError):
                link.hardlink_to(twin)
                link.replace(path)
    return digests


def size(folder: Path) -> int:
    """Return the bytes of a state's files."""
    return sum(path.stat().st_size for path in _files(folder))


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
