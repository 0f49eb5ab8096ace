"""Files that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from l2bench.bundle.locks import take
from l2bench.errors import RunFailed, Unsupported, UsageError


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file by temporary name, flush, and rename, so that readers see all or nothing."""
    with new_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file that becomes ``path`` if the block succeeds, replacing it.

    Nothing is left of it if the block fails. Processes that write one path do so in turn.
    """
    temporary = _hidden(path)
    try:
        with _in_turn(temporary) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        sync_folder(path.parent)
    except OSError as error:
        error.filename = str(path)  # a full disk does not say of which file
        raise


def _hidden(path: Path, suffix: str = "tmp") -> Path:
    """Return the name beside a path that is L2bench's own; no user's file is called like it."""
    return path.with_name(f".{path.name}.l2bench-{suffix}")


@contextlib.contextmanager
def _in_turn(path: Path) -> Iterator[IO[bytes]]:
    """Yield an empty file that no other process has until the block ends; wait for them."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        with os.fdopen(descriptor, "r+b") as file:
            take(descriptor, wait=True)
            if _is_at(path, descriptor):  # not renamed or removed by the one before
                file.truncate(0)
                yield file
                return


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write strict, readable JSON (no NaN or infinity), atomically."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


def refuse_pipe(path: Path) -> None:
    """Refuse to read a pipe, which would be waited for without end.

    Raises:
        Unsupported: if the path is one.
    """
    if path.is_fifo():
        raise Unsupported(f"{path} is a pipe, expected a file; write it to one first")


def read_json(path: Path) -> dict[str, Any]:
    """Read strict JSON with an object at its root.

    Raises:
        Unsupported: naming the file and what is wrong: missing, not UTF-8, half of a character,
            not JSON, a repeated key, NaN or infinity, or nested too deeply.
    """
    try:
        refuse_pipe(path)
        text = path.read_text(encoding="utf-8")
        data = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
        if "\\ud" in text.lower():
            json.dumps(data, ensure_ascii=False).encode()  # halves of characters have no UTF-8
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
def new_folder(path: Path, *, replace: bool = True, sync: bool = True) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``path`` if the block succeeds.

    What is at ``path`` is replaced, unless ``replace`` is off. Nothing is left of the temporary
    folder if the block fails; what a killed process left is removed by the next one. ``sync``
    flushes every file to the disk.

    Raises:
        UsageError: if another process writes there, or, without ``replace``, has done so meanwhile.
    """
    if path.is_symlink() and replace:
        try:
            path = path.resolve()
        except (OSError, RuntimeError):  # a loop is the one or the other, by version of Python
            raise UsageError(f"{path} is a link that leads nowhere; remove it") from None
    temporary, earlier = _hidden(path), _hidden(path, "old")
    with _alone_with(temporary, path):
        if earlier.exists() and not path.exists():
            earlier.rename(path)  # a killed process was about to replace it
        try:
            yield temporary
            for file in temporary.rglob("*") if sync else ():
                if file.is_file():
                    with file.open("rb+") as handle:
                        os.fsync(handle.fileno())
            _put(temporary, path, earlier, replace=replace)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    sync_folder(path.parent)
    shutil.rmtree(earlier, ignore_errors=True)


@contextlib.contextmanager
def _alone_with(folder: Path, path: Path) -> Iterator[None]:
    """Make an empty folder that no other process has until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if not (take(descriptor, wait=False) and _is_at(folder, descriptor)):
            raise UsageError(f"{path} is being written by another process; wait for it to end")
        for left in folder.iterdir():
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        yield
    finally:
        os.close(descriptor)


def _put(folder: Path, path: Path, earlier: Path, *, replace: bool) -> None:
    """Rename a folder to ``path``; what is there is put aside first, and stays whole."""
    if os.path.lexists(path):
        if not replace:
            raise UsageError(f"{path} exists already; another process has just written it")
        shutil.rmtree(earlier, ignore_errors=True)
        path.rename(earlier)
    folder.rename(path)


def why(error: OSError) -> str:
    """Return what a failed write is due to, in words."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        return str(error.args[0][-1][-1])  # of the many files of a folder, the last
    return error.strerror or str(error)


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
        raise exists_already(folder) from None
    except OSError as error:
        raise RunFailed(f"cannot create {folder}: {error.strerror}") from None
    return folder


def exists_already(folder: Path) -> UsageError:
    """Return the refusal of an output folder that exists."""
    return UsageError(
        f"{folder} exists already; give another folder with -o, continue an interrupted run "
        f"with --resume, or remove it"
    )


def guard_writes(what: str) -> Callable[[OSError], RunFailed]:
    """Return a function that turns a failed write into the error users see."""

    def refuse(error: OSError) -> RunFailed:
        return RunFailed(
            f"cannot write {what}: {why(error)}; what was sealed before is safe, "
            f"free some space or permissions and continue with --resume"
        )

    return refuse
