"""Locks of files and folders: they end with the process that holds them, however it ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from l2bench.errors import UsageError


def take(descriptor: int, *, wait: bool) -> bool:
    """Lock what is open; return False where another process has it and ``wait`` is off."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process is inside a block of this lock file, then run the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        take(file.fileno(), wait=True)
        yield


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Wait until no other process is inside a block of this folder, then run the block.

    A folder that does not exist is nobody's.
    """
    if not folder.is_dir():
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        take(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def lock(path: Path) -> IO[bytes]:
    """Take the lock file of a running bundle; it is released when the process ends, however.

    Raises:
        UsageError: if another process holds it.
    """
    try:
        file = path.open("ab")
    except FileNotFoundError:
        raise UsageError(
            f"{path.parent.parent} was just finished by another process; ask again"
        ) from None
    if not take(file.fileno(), wait=False):
        file.close()
        raise UsageError(
            f"{path.parent.parent} is being written by another process; wait for it to end"
        )
    return file
