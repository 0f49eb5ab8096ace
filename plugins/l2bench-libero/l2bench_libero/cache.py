"""Demonstrations as memory-mapped arrays: read from HDF5 once, then paged in as they are used.

A folder holds one array file for each observation key, named by content: the digest of the source
file and everything that was asked of it. It is written beside its place and moved there whole, so
that any number of processes may make it at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from l2bench.environment import Demonstrations
from l2bench.errors import Unsupported
from l2bench_libero import hdf5, layout
from l2bench_libero.hdf5 import Request

#: Changes with the files that are written.
FORMAT = 1
_ABOUT = "about.json"
#: Unfinished folders older than this (s) were left by a process that died.
_STALE = 24 * 3600.0


def demonstrations(
    path: Path, request: Request, folder: Path, states: NDArray[np.float64] | None = None
) -> Demonstrations:
    """Return the demonstrations of a file, its observations as arrays mapped from ``folder``.

    The file is compared with its manifest, if there is one, and checked before anything is made of
    it. ``states`` (K, S) are the evaluation states; the origin tells how many of them are also
    first states of demonstrations.

    Raises:
        Unsupported: the file is missing, damaged, wrongly oriented, or lacks a key.
        UsageError: as for :func:`l2bench_libero.hdf5.contents`.
    """
    if not path.is_file():
        raise Unsupported(f"no demonstrations at {path}; put the file there")
    problem = layout.manifest_problem(path)
    sha256 = "" if problem else _digest(path, folder)
    problem = problem or layout.manifest_problem(path, sha256)
    if problem:
        raise Unsupported(problem)
    asked = asdict(request)
    if request.longest is None:  # it came later: arrays made before keep their name
        del asked["longest"]
    words = json.dumps([FORMAT, sha256, asked], sort_keys=True)
    place = folder / hashlib.sha256(words.encode()).hexdigest()[:32]
    found = _load(place)
    if found is None:
        try:
            _build(path, request, place, sha256)
        except OSError as error:
            raise Unsupported(
                f"the demonstrations of {path.name} cannot be kept at {folder} "
                f"({error.strerror or error}); make room there, or set execution.data"
            ) from error
        found = _load(place)
    if found is None:
        raise Unsupported(f"{place} cannot be read; delete it and run again")
    made, starts = found
    if states is not None:
        made = _with_overlap(made, starts, states)
    return made


def _with_overlap(
    made: Demonstrations, starts: NDArray[np.float64], states: NDArray[np.float64]
) -> Demonstrations:
    shared = overlap(starts, states)
    note = {"evaluation_states": len(states), "also_first_states_of_demonstrations": shared}
    origin = {**made.origin, "initial_states": note}
    return Demonstrations(made.observations, made.actions, made.starts, origin)


def overlap(starts: NDArray[np.float64], states: NDArray[np.float64]) -> int | None:
    """Return how many of K evaluation states are first states of demonstrations.

    Rows are time, positions, velocities; the time does not count, and 1e-6 is equal. None where
    the two describe different worlds.
    """
    if starts.shape[1] != states.shape[1]:
        return None
    distance = np.abs(states[:, None, 1:] - starts[None, :, 1:]).max(axis=2)
    return int((distance.min(axis=1) < 1e-6).sum())


def _digest(path: Path, folder: Path) -> str:
    """Return the digest of a file, remembered for as long as its size and time do not change."""
    stat = path.stat()
    name = hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:32]
    note, stamp = folder / f"{name}.json", [stat.st_size, stat.st_mtime_ns, stat.st_ino]
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(note.read_text(encoding="utf-8"))
        if kept["stamp"] == stamp:
            return str(kept["sha256"])
    sha256 = hdf5.digest(path)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        temporary = note.with_name(f".{note.name}.{uuid.uuid4().hex}")
        temporary.write_text(json.dumps({"stamp": stamp, "sha256": sha256}), encoding="utf-8")
        temporary.replace(note)
    return sha256


def _load(place: Path) -> tuple[Demonstrations, NDArray[np.float64]] | None:
    """Return what a folder holds, None if it is not there or not whole."""
    try:
        about: dict[str, Any] = json.loads((place / _ABOUT).read_text(encoding="utf-8"))
        arrays = {
            name: np.load(place / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in about["arrays"]
        }
        if any([list(a.shape), str(a.dtype)] != about["arrays"][n] for n, a in arrays.items()):
            return None
        first = np.array(arrays.pop("first_states"))
        actions, starts = np.array(arrays.pop("actions")), np.array(arrays.pop("starts"))
        return Demonstrations(arrays, actions, starts, about["origin"]), first
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _build(path: Path, request: Request, place: Path, sha256: str) -> None:
    """Write the arrays of a file and move them to their place, unless another process did."""
    found = hdf5.contents(path, request)
    place.parent.mkdir(parents=True, exist_ok=True)
    _sweep(place.parent)
    scratch = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    scratch.mkdir()
    try:
        _write(path, request, found, scratch, sha256)
        if place.exists():  # another process was faster, or it is damaged
            if _load(place) is not None:
                return
            shutil.rmtree(place)
        try:
            scratch.rename(place)
        except OSError:  # another process was faster still
            if not place.exists():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write(path: Path, request: Request, found: hdf5.Contents, scratch: Path, sha256: str) -> None:
    total = sum(found.lengths)
    maps: dict[str, NDArray[Any]] = {
        key: open_memmap(  # type: ignore[no-untyped-call]
            scratch / f"{key}.npy", mode="w+", dtype=dtype, shape=(total, *shape)
        )
        for key, (shape, dtype) in found.arrays.items()
    }
    actions, first, at = [], [], 0
    for part in hdf5.trajectories(path, request, found):
        for key, whole in maps.items():
            whole[at : at + len(part.actions)] = part.observations[key]
        at += len(part.actions)
        actions.append(part.actions)
        first.append(part.start)
    rest: dict[str, NDArray[Any]] = {
        "actions": np.concatenate(actions),
        "starts": np.concatenate([[0], np.cumsum(found.lengths)]).astype(np.int64),
        "first_states": np.stack(first),
    }
    for key, array in rest.items():
        np.save(scratch / f"{key}.npy", array, allow_pickle=False)
    for whole in maps.values():
        whole.flush()  # type: ignore[attr-defined]
    arrays = {key: [list(a.shape), str(a.dtype)] for key, a in (maps | rest).items()}
    about = {"origin": found.origin | {"sha256": sha256}, "arrays": arrays}
    (scratch / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
    for file in scratch.iterdir():
        with file.open("rb") as stream:
            os.fsync(stream.fileno())


def _sweep(folder: Path) -> None:
    """Remove what processes that died have left behind."""
    for left in folder.glob(".*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE:
                shutil.rmtree(left) if left.is_dir() else left.unlink()
