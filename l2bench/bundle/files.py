"""Files that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from l2bench.errors import RunFailed, Unsupported, UsageError


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file by temporary name, flush, and rename, so that readers see all or nothing."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write strict, readable JSON (no NaN or infinity), atomically."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read strict JSON with an object at its root.

    Raises:
        Unsupported: naming the file and what is wrong: missing, not UTF-8, not JSON, a repeated
            key, NaN or infinity, or nested too deeply.
    """
    try:
        data = json.loads(
            path.read_text(encoding="utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except FileNotFoundError:
        raise Unsupported(f"{path} is missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise Unsupported(f"{path} is not readable JSON: {error}") from None
    if not isinstance(data, dict):
        raise Unsupported(f"{path} holds {type(data).__name__}, expected an object")
    return data


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise ValueError(f"the key '{twice[0]}' is given twice")
    return dict(pairs)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large a number")
    return value


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``path`` if the block succeeds, replacing it."""
    temporary = path.with_name(path.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    yield temporary
    for file in temporary.rglob("*"):
        if file.is_file():
            with file.open("rb+") as handle:
                os.fsync(handle.fileno())
    shutil.rmtree(path, ignore_errors=True)
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def claim(folder: Path) -> Path:
    """Create an output folder that must not exist yet.

    Raises:
        UsageError: if it exists; nothing in it is touched.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
    except FileExistsError:
        raise UsageError(
            f"{folder} exists already; give another folder with -o, continue an interrupted run "
            f"with --resume, or remove it"
        ) from None
    except OSError as error:
        raise RunFailed(f"cannot create {folder}: {error.strerror}") from None
    return folder


def lock(path: Path) -> IO[bytes]:
    """Take the lock file of a running bundle; it is released when the process ends, however.

    Raises:
        UsageError: if another process holds it.
    """
    import fcntl

    try:
        file = path.open("ab")
    except FileNotFoundError:
        raise UsageError(
            f"{path.parent.parent} was just finished by another process; ask again"
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise UsageError(
            f"{path.parent.parent} is being written by another process; wait for it to end"
        ) from None
    return file


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process is inside a block of this lock file, then run the block."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def guard_writes(what: str) -> Callable[[OSError], RunFailed]:
    """Return a function that turns a failed write into the error users see."""

    def refuse(error: OSError) -> RunFailed:
        return RunFailed(
            f"cannot write {what}: {error.strerror or error}; what was sealed before is safe, "
            f"free some space or permissions and continue with --resume"
        )

    return refuse
