"""The layout of demonstration files, and everything that can be wrong with one.

One file holds one task: ``/data/demo_i`` with ``actions`` (T, 7), ``states``, ``robot_states``
(T, 9), ``rewards``, ``dones`` and a group ``obs``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np

from l2bench.errors import Unsupported
from l2bench_libero.observation import CAMERAS, ORIENTATIONS, PROPRIO, STATE_SIZE, check_observation

#: Attribute of ``/data`` that tells when observations were recorded, and its value here.
RECORDED, BEFORE = "observations_recorded", "before_action"
#: Attribute of ``/data`` with the origin of the demonstrations, as JSON.
ORIGIN = "l2bench_origin"
#: Attributes of ``/data`` with the orientation of the images: ours, and that of the official files.
ORIENTED, CONVENTION = "image_orientation", "macros_image_convention"
_CONVENTIONS = {"opengl": "none", "opencv": "flipud"}

#: Beside the files: their sizes and digests as published.
MANIFEST = "manifest.json"

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


def keys(observation: str) -> tuple[str, ...]:
    """Return the datasets below ``obs`` that an observation is made of."""
    check_observation(observation)
    low = ("state",) if observation in ("state", "both") else ()
    seen = (*(name for name, _ in PROPRIO), *CAMERAS) if observation != "state" else ()
    return low + seen


@contextmanager
def opened(path: Path) -> Iterator[Any]:
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
        try:
            yield file
        except OSError as error:
            raise Unsupported(f"{path} cannot be read ({error}); download it again") from error


def _number(name: str) -> int:
    return int(name.removeprefix("demo_"))


def demos(data: Any) -> list[str]:
    """Return the names of the demonstrations by number: demo_2 before demo_10."""
    return sorted((name for name in data if re.fullmatch(r"demo_\d+", name)), key=_number)


def origin_of(data: Any) -> dict[str, Any] | None:
    """Return what a file says of how it was made: nothing in official ones, None if unreadable."""
    try:
        found = json.loads(data.attrs.get(ORIGIN, "{}"))
    except (ValueError, TypeError):
        return None
    return found if isinstance(found, dict) else None


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


def _number_problem(item: Any) -> str:
    """Return which row of a float array (rows, ...) holds what is no finite number, "" if none."""
    values = item[()]
    if np.isfinite(values).all():
        return ""
    row, *_ = np.argwhere(~np.isfinite(values))[0]
    found = values[row][~np.isfinite(values[row])].flat[0]
    return f"expected finite numbers, found {found:g} in row {row}"


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
        if not problem and kind == "f" and key != "actions":  # their range is looked at below
            problem = _number_problem(demo[key])
        if problem:
            yield f"/data/{name}/{key}: {problem}"
    obs = demo.get("obs")
    if not isinstance(obs, h5py.Group):
        yield f"/data/{name}/obs: expected a group, found {_described(obs)}"
        return
    for key in keys(observation):
        shape, kind = _OBSERVATIONS[key]
        problem = _array_problem(obs, key, shape, kind, length)
        if not problem and kind == "f":
            problem = _number_problem(obs[key])
        if problem:
            yield f"/data/{name}/obs/{key}: {problem}"
    actions = demo["actions"][()]
    low, high = float(actions.min()), float(actions.max())
    if not (np.isfinite(actions).all() and low >= -1.0 and high <= 1.0):
        yield f"/data/{name}/actions: expected values in [-1, 1], found {low:g} to {high:g}"


def _orientation_problems(data: Any, stored: str) -> Iterator[str]:
    """Compare how the images are said to be stored with what the environment expects."""
    declared, convention = data.attrs.get(ORIENTED), data.attrs.get(CONVENTION)
    if declared is not None and declared not in ORIENTATIONS:
        known = ", ".join(ORIENTATIONS)
        yield f"/data attribute {ORIENTED}: expected one of {known}, found {declared!r}"
    elif declared is None and convention not in _CONVENTIONS:
        if stored == "none" or convention is not None:
            found = "nothing" if convention is None else repr(convention)
            yield f"/data attribute {CONVENTION}: expected 'opengl' or 'opencv', found {found}"
    else:
        found = declared if declared is not None else _CONVENTIONS[convention]
        if found != stored:
            yield (
                f"/data images: expected orientation {stored!r}, found {found!r} (set "
                f"stored_orientation: {found} if the file says so rightly)"
            )


def _file_problems(file: Any, observation: str, stored: str) -> Iterator[str]:
    data = file.get("data")
    if not isinstance(data, h5py.Group):
        yield f"/data: expected a group, found {_described(data)}"
        return
    names = demos(data)
    promised = data.attrs.get("num_demos")
    if promised is None or int(promised) != len(names) or not names:
        found = "nothing" if promised is None else int(promised)
        yield f"/data attribute num_demos: expected {max(len(names), 1)} (demo_*), found {found}"
    recorded = data.attrs.get(RECORDED)
    if recorded not in (None, BEFORE):
        yield f"/data attribute {RECORDED}: expected {BEFORE!r} or nothing, found {recorded!r}"
    if origin_of(data) is None:
        yield f"/data attribute {ORIGIN}: expected a JSON object, found {data.attrs[ORIGIN]!r:.80}"
    if observation != "state":
        yield from _orientation_problems(data, stored)
    for name in names:
        if isinstance(data[name], h5py.Group):
            yield from _demo_problems(data[name], name, observation)
        else:
            yield f"/data/{name}: expected a group, found {_described(data[name])}"


def problems(path: Path, observation: str = "pixels", stored: str = "none") -> list[str]:
    """Return everything that keeps a file from being read, one line each: file, key, what.

    ``stored`` is the orientation in which its images are expected.

    Raises:
        Unsupported: the file cannot even be opened.
    """
    with opened(path) as file:
        return [f"{path}: {problem}" for problem in _file_problems(file, observation, stored)]


def glance(path: Path, stored: str = "none") -> str:
    """Return what is wrong with a file as far as a look at its head tells, "" if nothing.

    A truncated file, one that holds no demonstrations, and images of another orientation are seen.

    Raises:
        Unsupported: the file cannot even be opened.
    """
    with opened(path) as file:
        data = file.get("data")
        if not isinstance(data, h5py.Group):
            return f"{path}: /data: expected a group, found {_described(data)}"
        problem = next(_orientation_problems(data, stored), "")
    return f"{path}: {problem}" if problem else ""


def manifest_problem(path: Path, digest: str | None = None) -> str:
    """Return how a file differs from its entry in ``manifest.json`` beside it, "" if it does not.

    Without a digest only the size is compared.
    """
    file = path.with_name(MANIFEST)
    try:
        entry = json.loads(file.read_text(encoding="utf-8"))["files"][path.name]
        size, sha256 = int(entry["size"]), str(entry["sha256"])
    except (OSError, KeyError):
        return ""
    except (ValueError, TypeError) as error:
        return f"{file} is damaged ({error}); delete it, or fetch the files again"
    found = path.stat().st_size
    if found != size:
        return f"{path}: size: expected {size} bytes, found {found}; fetch it again"
    if digest is not None and digest.removeprefix("sha256:") != sha256:
        found_digest = digest.removeprefix("sha256:")
        return f"{path}: sha256: expected {sha256}, found {found_digest}; fetch it again"
    return ""
