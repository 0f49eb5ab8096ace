"""Getting the official demonstrations: what is missing is fetched, what is there is verified."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from l2bench.bundle.hashing import file_hash
from l2bench.errors import Unsupported
from l2bench_libero import layout, tasks
from l2bench_libero.hub import Entry, Hub, Moved

REPOSITORY = "yifengzhu-hf/LIBERO-datasets"

#: Called with one line for people.
Say = Callable[[str], None]


def unseen(done: int, total: int) -> None:
    """Show nothing."""


def fetch(
    suites: tuple[str, ...], folder: Path, hub: Hub, say: Say, moved: Moved = unseen
) -> dict[str, Any]:
    """Bring the demonstrations of suites to ``<folder>/<suite>``; what is there intact stays.

    Returns what was asked for and what was brought, as plain data; sizes are in bytes.

    Raises:
        UsageError: there is no such suite.
        Unsupported: a file is not there, or the disk is too small or read-only.
        RunFailed: the transfer broke, or what came is not what was published.
    """
    names = tuple(dict.fromkeys(tasks.suite_name(suite) for suite in suites))
    pinned = hub.pinned()
    wanted = {suite: _entries(pinned, suite) for suite in names}
    try:
        missing = _bring(pinned, wanted, folder, say, moved)
    except OSError as error:
        where = error.filename or folder
        raise Unsupported(f"{where} cannot be written: {error.strerror or error}") from error
    return {
        "folder": str(folder),
        "repository": pinned.repository,
        "revision": pinned.revision,
        "suites": {suite: [entry.name for entry in entries] for suite, entries in wanted.items()},
        "fetched": {entry.path: entry.size for entry in missing},
    }


def _bring(
    hub: Hub, wanted: dict[str, list[Entry]], folder: Path, say: Say, moved: Moved
) -> list[Entry]:
    """Fetch what is missing and return that."""
    missing = [e for suite, es in wanted.items() for e in es if not _there(folder / suite, e)]
    _check_room(folder, missing)
    for suite, entries in wanted.items():
        _write_manifest(folder / suite, hub, entries)
    total = sum(entry.size for entry in missing)
    say(f"{len(missing)} files to fetch, {total / 1e9:.2f} GB, into {folder}")
    for number, entry in enumerate(missing, 1):
        hub.download(entry, folder / entry.path, moved)
        say(f"{number}/{len(missing)} {entry.path}: {entry.size / 1e6:.1f} MB, verified")
    return missing


def _entries(hub: Hub, suite: str) -> list[Entry]:
    """Return the published file of each task of a suite.

    Raises:
        Unsupported: one is not there.
    """
    listed = hub.listing(suite)
    paths = [f"{suite}/{task.name}_demo.hdf5" for task in tasks.tasks(suite)]
    for path in paths:
        if path not in listed:
            raise Unsupported(
                f"{hub.repository} at {hub.revision} has no {path}; give another --revision"
            )
    return [listed[path] for path in paths]


def _there(folder: Path, entry: Entry) -> bool:
    path = folder / entry.name
    if not path.is_file() or path.stat().st_size != entry.size:
        return False
    return file_hash(path) == entry.sha256


def _check_room(folder: Path, missing: list[Entry]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    needed, free = sum(entry.size for entry in missing), shutil.disk_usage(folder).free
    if needed > free:
        raise Unsupported(
            f"{folder} has {free / 1e9:.1f} GB free, the files need {needed / 1e9:.1f} GB; "
            "make room, or give another folder with -o"
        )


def _write_manifest(folder: Path, hub: Hub, entries: list[Entry]) -> None:
    """Write what the files must be, for every later reader."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {
        "repository": hub.repository,
        "revision": hub.revision,
        "files": {entry.name: {"size": entry.size, "sha256": entry.sha256} for entry in entries},
    }
    temporary = folder / f".{layout.MANIFEST}.{uuid.uuid4().hex}"
    temporary.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    temporary.replace(folder / layout.MANIFEST)
