"""Demonstration files (HDF5): read in pairs of observation and action, and written.

The official files store the observation that *follows* an action beside it; the files written here
store the one *before* it, and say so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import h5py  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from l2bench.bundle.files import why
from l2bench.bundle.hashing import file_hash
from l2bench.environment import Demonstrations
from l2bench.errors import RunFailed, Unsupported, UsageError, choices, nearest
from l2bench_libero.layout import (
    BEFORE,
    ORIGIN,
    RECORDED,
    demos,
    keys,
    opened,
    origin_of,
    problems,
)
from l2bench_libero.observation import CAMERAS, PROPRIOS, combined, proprio, turn

__all__ = ["Request", "Writer", "digest", "problems", "read"]

#: How many actions at a demonstration's beginning are dropped, by pairing.
LOST: Mapping[str, int] = {"shifted": 1, "as_stored": 0}
PAIRINGS = tuple(LOST)


@dataclass(frozen=True)
class Request:
    """What is wanted of a file.

    ``pairing`` decides which observation goes with ``actions[t]``: ``shifted`` takes the one
    before it, ``obs[t-1]``, and drops the first action; ``as_stored`` takes ``obs[t]``, which in
    the official files comes *after* the action and is what LIBERO itself trains on. None takes
    what is physically right: ``shifted``, or ``as_stored`` for files recorded before the action.
    ``longest`` keeps the first so many pairs of each demonstration.
    ``stored`` is the orientation of the images in the file, ``orientation`` the one wanted;
    ``image_size`` is checked if it is given.
    """

    observation: str = "pixels"
    pairing: str | None = None
    count: int | None = None
    orientation: str = "none"
    stored: str = "none"
    proprio: str = "full"
    image_size: int | None = None
    longest: int | None = None


class Trajectory(NamedTuple):
    """T pairs of one demonstration, and the simulator's state at its first step."""

    observations: dict[str, NDArray[Any]]
    actions: NDArray[np.float32]
    start: NDArray[np.float64]


class Contents(NamedTuple):
    """What a file will give, before it is read: the origin, pairs by demonstration, and arrays."""

    origin: dict[str, Any]
    lengths: tuple[int, ...]
    names: tuple[str, ...]
    arrays: dict[str, tuple[tuple[int, ...], np.dtype[Any]]]


def digest(path: Path) -> str:
    """Return ``sha256:<hex>`` of a file."""
    return f"sha256:{file_hash(path)}"


def contents(path: Path, request: Request) -> Contents:
    """Check a file and return what it holds; ``arrays`` are trailing shape and type by key.

    Raises:
        Unsupported: the file is missing, damaged, wrongly oriented, or lacks a key.
        UsageError: a pairing that is unknown or does not fit the file, too large a count, or
            images of another size.
    """
    found = problems(path, request.observation, request.stored)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise Unsupported(f"{found[0]}{more}; get an intact file, or choose another observation")
    with opened(path) as file:
        data = file["data"]
        pairing = _pairing(path, request.pairing, data.attrs.get(RECORDED) == BEFORE)
        names = demos(data)
        if request.count is not None and not 1 <= request.count <= len(names):
            raise UsageError(f"{path} holds {len(names)} demonstrations, asked for {request.count}")
        names = names[: request.count]
        lengths = tuple(len(data[name]["actions"]) - LOST[pairing] for name in names)
        lengths = tuple(min(length, request.longest or length) for length in lengths)
        arrays = _arrays(path, [data[name]["obs"] for name in names], request)
        origin = origin_of(data) or {}
    origin |= {"file": path.name, "pairing": pairing, "count": len(names)}
    if request.longest:
        origin["longest"] = request.longest
    if request.observation != "state":
        origin |= {"orientation": request.orientation, "stored_orientation": request.stored}
    return Contents(origin, lengths, tuple(names), arrays)


def _arrays(
    path: Path, groups: list[Any], request: Request
) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return trailing shape and type of each observation; images must be of one size."""
    result: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
    if request.observation != "pixels":
        result["state"] = groups[0]["state"].shape[1:], np.dtype(np.float32)
    if request.observation == "state":
        return result
    width = sum(groups[0][name].shape[1] for name in PROPRIOS[request.proprio])
    result["proprio"] = (width,), np.dtype(np.float32)
    for key in CAMERAS:
        shapes = {group[key].shape[1:] for group in groups}
        wanted = request.image_size
        if len(shapes) > 1 or (wanted and next(iter(shapes))[:2] != (wanted, wanted)):
            sizes = " and ".join(sorted("x".join(map(str, shape[:2])) for shape in shapes))
            raise UsageError(
                f"{path}: obs/{key}: expected images of {wanted or 'one size'}, found {sizes}; "
                "set image_size to theirs, or get files of another size"
            )
        result[key] = next(iter(shapes)), np.dtype(np.uint8)
    return result


def trajectories(path: Path, request: Request, found: Contents) -> Iterator[Trajectory]:
    """Yield the demonstrations one by one, in the order of their numbers."""
    change = combined(request.stored, request.orientation)
    with opened(path) as file:
        for name, length in zip(found.names, found.lengths, strict=True):
            demo = file["data"][name]
            observations, actions = _pairs(demo, request, LOST[found.origin["pairing"]], length)
            for key in CAMERAS:
                if key in observations and change != "none":
                    observations[key] = turn(observations[key], change)
            yield Trajectory(observations, actions, np.asarray(demo["states"][0], np.float64))


def read(path: Path, observation: str = "pixels", **wanted: Any) -> Demonstrations:
    """Return the demonstrations of a file in memory; further arguments as in :class:`Request`.

    Raises:
        Unsupported: the file is missing, damaged, or lacks a key (all are checked first).
        UsageError: an unknown pairing, one that does not fit the file, or too large a count.
    """
    request = Request(observation, **wanted)
    found = contents(path, request)
    parts = list(trajectories(path, request, found))
    return Demonstrations(
        observations={
            key: np.concatenate([part.observations[key] for part in parts]) for key in found.arrays
        },
        actions=np.concatenate([part.actions for part in parts]),
        starts=np.concatenate([[0], np.cumsum(found.lengths)]).astype(np.int64),
        origin=found.origin | {"sha256": digest(path)},
    )


def _pairing(path: Path, asked: str | None, before: bool) -> str:
    if asked is None:
        return "as_stored" if before else "shifted"
    if asked not in PAIRINGS:
        raise UsageError(
            f"no pairing {asked!r}{nearest(asked, PAIRINGS)}; there are {choices(PAIRINGS)}"
        )
    if before and asked == "shifted":
        raise UsageError(
            f"{path} holds observations recorded before the action: pairing 'shifted' would tear "
            "them apart; use 'as_stored'"
        )
    return asked


def _pairs(
    demo: Any, request: Request, lost: int, length: int
) -> tuple[dict[str, NDArray[Any]], NDArray[np.float32]]:
    """Return observations by key and actions of one demonstration, its first ``length`` pairs."""
    stored = {key: demo["obs"][key][:length] for key in keys(request.observation)}
    result = {key: stored[key] for key in ("state", *CAMERAS) if key in stored}
    if "state" in result:
        result["state"] = result["state"].astype(np.float32)
    if request.observation != "state":
        result["proprio"] = proprio(stored, request.proprio)
    return result, demo["actions"][lost : lost + length].astype(np.float32)


class Writer:
    """Writes demonstrations one by one; the file appears under its name when all is well.

    Use as a context manager: an exception leaves no file behind.

    Raises:
        RunFailed: the folder cannot be written to, or is full.
    """

    def __init__(
        self, path: Path, attributes: Mapping[str, Any], origin: Mapping[str, Any]
    ) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with self._told():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = h5py.File(self._temporary, "w")
        self._data = self._file.create_group("data")
        for name, value in attributes.items():
            self._data.attrs[name] = value
        self._data.attrs["macros_image_convention"] = "opengl"
        self._data.attrs["tag"] = "l2bench-libero-1"
        self._data.attrs[RECORDED] = BEFORE
        self._data.attrs[ORIGIN] = json.dumps(dict(origin), sort_keys=True)
        self._total = 0
        self.count = 0

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say where a write failed and what to do."""
        try:
            yield
        except OSError as error:
            raise RunFailed(
                f"demonstrations cannot be written below {self._path.parent} ({why(error)}); make "
                f"room there, or set execution.data to another folder"
            ) from error

    def add(
        self,
        arrays: Mapping[str, NDArray[Any]],
        observations: Mapping[str, NDArray[Any]],
        init_state: NDArray[np.float64],
    ) -> None:
        """Append one demonstration; arrays are (T, ...) and ``arrays`` holds ``actions``."""
        demo = self._data.create_group(f"demo_{self.count}")
        obs = demo.create_group("obs")
        with self._told():
            for group, datasets in ((demo, arrays), (obs, observations)):
                for name, values in datasets.items():
                    group.create_dataset(name, data=values)
        demo.attrs["num_samples"] = len(arrays["actions"])
        demo.attrs["init_state"] = init_state
        self._total += len(arrays["actions"])
        self.count += 1

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            with suppress(Exception):  # the first fault is the one to be told
                self._file.close()
            self._temporary.unlink(missing_ok=True)
            return
        try:
            with self._told():
                self._data.attrs["num_demos"] = self.count
                self._data.attrs["total"] = self._total
                self._file.close()
                with self._temporary.open("rb+") as stream:
                    os.fsync(stream.fileno())
                self._temporary.replace(self._path)
        finally:
            self._temporary.unlink(missing_ok=True)
