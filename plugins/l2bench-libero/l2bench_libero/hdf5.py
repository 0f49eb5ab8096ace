"""The official demonstration files (HDF5): checked before use, read into arrays, and written.

One file holds one task: ``/data/demo_i`` with ``actions`` (T, 7), ``states``, ``robot_states``
(T, 9), ``rewards``, ``dones`` and a group ``obs``. The official files store the observation that
*follows* an action beside it; the files written here store the one *before* it, and say so.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from l2bench.environment import Demonstrations
from l2bench.errors import Unsupported, UsageError, choices, nearest
from l2bench_libero.observation import (
    CAMERAS,
    PROPRIO,
    STATE_SIZE,
    check_observation,
    proprio,
)

#: Attribute of ``/data`` that tells when observations were recorded, and its value here.
RECORDED, BEFORE = "observations_recorded", "before_action"
#: Attribute of ``/data`` with the origin of the demonstrations, as JSON.
ORIGIN = "l2bench_origin"
PAIRINGS = ("shifted", "as_stored")

#: Expected trailing shape (None: any size) and kind of every array that is read.
_Shape = tuple[int | None, ...]
_ARRAYS: Mapping[str, tuple[_Shape, str]] = {
    "actions": ((7,), "f"),
    "states": ((None,), "f"),
    "robot_states": ((9,), "f"),
    "rewards": ((), "ui"),
    "dones": ((), "ui"),
}
_OBSERVATIONS: Mapping[str, tuple[_Shape, str]] = {
    "state": ((STATE_SIZE,), "f"),
    **{name: ((size,), "f") for name, size in PROPRIO},
    **{name: ((None, None, 3), "u") for name in CAMERAS},
}


def _keys(observation: str) -> tuple[str, ...]:
    """Return the datasets below ``obs`` that an observation is made of."""
    check_observation(observation)
    low = ("state",) if observation in ("state", "both") else ()
    seen = (*(name for name, _ in PROPRIO), *CAMERAS) if observation != "state" else ()
    return low + seen


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file for this call only: handles do not survive in other processes."""
    if not path.is_file():
        raise Unsupported(f"no demonstrations at {path}; put the file there")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        size = path.stat().st_size
        raise Unsupported(
            f"{path} ({size} bytes) is truncated or no HDF5 file; download it again"
        ) from error
    with file:
        yield file


def _number(name: str) -> int:
    return int(name.removeprefix("demo_"))


def _demos(data: Any) -> list[str]:
    """Return the names of the demonstrations by number: demo_2 before demo_10."""
    return sorted((name for name in data if re.fullmatch(r"demo_\d+", name)), key=_number)


def _described(item: Any) -> str:
    if isinstance(item, h5py.Dataset):
        return f"{item.dtype} {item.shape}"
    return "nothing" if item is None else "a group"


def _array_problem(group: Any, key: str, shape: _Shape, kind: str, length: int | None) -> str:
    """Return what is wrong with an array, "" if nothing: "expected ..., found ..."."""
    item = group.get(key)
    sizes = ", ".join("any" if size is None else str(size) for size in (length, *shape))
    wanted = f"expected {'/'.join({'f': 'float', 'u': 'uint8', 'i': 'int'}[k] for k in kind)}"
    problem = f"{wanted} ({sizes}), found {_described(item)}"
    if not isinstance(item, h5py.Dataset) or item.dtype.kind not in kind:
        return problem
    if item.ndim != 1 + len(shape) or item.shape[0] == 0:
        return problem
    if length is not None and item.shape[0] != length:
        return problem
    fits = all(w is None or w == f for w, f in zip(shape, item.shape[1:], strict=True))
    return "" if fits else problem


def _demo_problems(demo: Any, name: str, observation: str) -> Iterator[str]:
    shape, kind = _ARRAYS["actions"]
    problem = _array_problem(demo, "actions", shape, kind, None)
    if problem:
        yield f"/data/{name}/actions: {problem}"
        return
    length = demo["actions"].shape[0]
    samples = demo.attrs.get("num_samples")
    if samples is None or int(samples) != length:
        found = "nothing" if samples is None else int(samples)
        yield f"/data/{name} attribute num_samples: expected {length}, found {found}"
    for key, (shape, kind) in _ARRAYS.items():
        problem = _array_problem(demo, key, shape, kind, length)
        if problem:
            yield f"/data/{name}/{key}: {problem}"
    obs = demo.get("obs")
    if not isinstance(obs, h5py.Group):
        yield f"/data/{name}/obs: expected a group, found {_described(obs)}"
        return
    for key in _keys(observation):
        shape, kind = _OBSERVATIONS[key]
        problem = _array_problem(obs, key, shape, kind, length)
        if problem:
            yield f"/data/{name}/obs/{key}: {problem}"
    actions = demo["actions"][()]
    low, high = float(actions.min()), float(actions.max())
    if not (np.isfinite(actions).all() and low >= -1.0 and high <= 1.0):
        yield f"/data/{name}/actions: expected values in [-1, 1], found {low:g} to {high:g}"


def _file_problems(file: Any, observation: str) -> Iterator[str]:
    data = file.get("data")
    if not isinstance(data, h5py.Group):
        yield f"/data: expected a group, found {_described(data)}"
        return
    names = _demos(data)
    promised = data.attrs.get("num_demos")
    if promised is None or int(promised) != len(names) or not names:
        found = "nothing" if promised is None else int(promised)
        yield f"/data attribute num_demos: expected {max(len(names), 1)} (demo_*), found {found}"
    recorded = data.attrs.get(RECORDED)
    if recorded not in (None, BEFORE):
        yield f"/data attribute {RECORDED}: expected {BEFORE!r} or nothing, found {recorded!r}"
    for name in names:
        if isinstance(data[name], h5py.Group):
            yield from _demo_problems(data[name], name, observation)
        else:
            yield f"/data/{name}: expected a group, found {_described(data[name])}"


def problems(path: Path, observation: str = "pixels") -> list[str]:
    """Return everything that keeps a file from being read, one line each: file, key, what.

    Raises:
        Unsupported: the file cannot even be opened.
    """
    with _opened(path) as file:
        return [f"{path}: {problem}" for problem in _file_problems(file, observation)]


def digest(path: Path) -> str:
    """Return ``sha256:<hex>`` of a file."""
    with path.open("rb") as stream:
        return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()


def read(
    path: Path,
    observation: str = "pixels",
    *,
    pairing: str | None = None,
    count: int | None = None,
) -> Demonstrations:
    """Return the first ``count`` demonstrations of a file, in the order of their numbers.

    ``pairing`` decides which observation goes with ``actions[t]``: ``shifted`` takes the one
    before it, ``obs[t-1]``, and drops the first action; ``as_stored`` takes ``obs[t]``, which in
    the official files comes *after* the action and is what LIBERO itself trains on. None takes
    what is physically right: ``shifted``, or ``as_stored`` for files recorded before the action.

    Raises:
        Unsupported: the file is missing, damaged, or lacks a key (all are checked first).
        UsageError: an unknown pairing, one that does not fit the file, or too large a count.
    """
    found = problems(path, observation)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise Unsupported(f"{found[0]}{more}; get an intact file, or choose another observation")
    with _opened(path) as file:
        data = file["data"]
        before = data.attrs.get(RECORDED) == BEFORE
        chosen = _pairing(path, pairing, before)
        names = _demos(data)
        if count is not None and not 1 <= count <= len(names):
            raise UsageError(f"{path} holds {len(names)} demonstrations, asked for {count}")
        parts = [_pairs(data[name], observation, chosen) for name in names[:count]]
        origin: dict[str, Any] = json.loads(data.attrs.get(ORIGIN, "{}"))
    lengths = [len(actions) for _, actions in parts]
    origin |= {"file": path.name, "sha256": digest(path), "pairing": chosen, "count": len(parts)}
    return Demonstrations(
        observations={key: np.concatenate([o[key] for o, _ in parts]) for key in parts[0][0]},
        actions=np.concatenate([actions for _, actions in parts]),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        origin=origin,
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
    demo: Any, observation: str, pairing: str
) -> tuple[dict[str, NDArray[Any]], NDArray[np.float32]]:
    """Return observations by key and actions of one demonstration, T or T - 1 pairs."""
    seen, acted = (
        (slice(None), slice(None)) if pairing == "as_stored" else (slice(-1), slice(1, None))
    )
    stored = {key: demo["obs"][key][seen] for key in _keys(observation)}
    result = {key: stored[key] for key in ("state", *CAMERAS) if key in stored}
    if "state" in result:
        result["state"] = result["state"].astype(np.float32)
    if observation != "state":
        result["proprio"] = proprio(stored)
    return result, demo["actions"][acted].astype(np.float32)


class Writer:
    """Writes demonstrations one by one; the file appears under its name when all is well.

    Use as a context manager: an exception leaves no file behind.
    """

    def __init__(
        self, path: Path, attributes: Mapping[str, Any], origin: Mapping[str, Any]
    ) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
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

    def add(
        self,
        arrays: Mapping[str, NDArray[Any]],
        observations: Mapping[str, NDArray[Any]],
        init_state: NDArray[np.float64],
    ) -> None:
        """Append one demonstration; arrays are (T, ...) and ``arrays`` holds ``actions``."""
        demo = self._data.create_group(f"demo_{self.count}")
        for name, values in arrays.items():
            demo.create_dataset(name, data=values)
        obs = demo.create_group("obs")
        for name, values in observations.items():
            obs.create_dataset(name, data=values)
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
        self._data.attrs["num_demos"] = self.count
        self._data.attrs["total"] = self._total
        self._file.close()
        if kind is not None:
            self._temporary.unlink(missing_ok=True)
            return
        with self._temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        self._temporary.replace(self._path)
