"""Files written by ``torch.save``, read without torch and without running anything in them."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from l2bench.errors import Unsupported
from l2bench.interop.pickles import FUNCTIONS, MOST_BYTES, Machine, Name, Scalar, array, plain
from l2bench.interop.text import read_bytes

#: The first object of a file that torch wrote before version 1.6.
_LEGACY = 0x1950A86A20F9469CFC6C

_STORAGES = {
    "torch.DoubleStorage": "f8",
    "torch.FloatStorage": "f4",
    "torch.HalfStorage": "f2",
    "torch.LongStorage": "i8",
    "torch.IntStorage": "i4",
    "torch.ShortStorage": "i2",
    "torch.CharStorage": "i1",
    "torch.ByteStorage": "u1",
    "torch.BoolStorage": "b1",
}


def load(path: Path, name: str) -> Any:
    """Return the plain data and arrays in a file of ``torch.save``; tensors become arrays.

    Raises:
        Unsupported: if the file is damaged, or holds anything else; its class is named.
    """
    raw = read_bytes(path)
    if len(raw) > MOST_BYTES:
        raise Unsupported(f"{name} has {len(raw)} bytes; result files are smaller")
    try:
        return plain(_zipped(raw) if raw.startswith(b"PK") else _legacy(raw))
    except Unsupported as error:
        raise Unsupported(f"{name} is refused: it holds {error}") from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
        raise Unsupported(f"{name} is damaged: {error}") from None


def _zipped(raw: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        inside = [n for n in archive.namelist() if n.count("/") == 1 and n.endswith("/data.pkl")]
        if len(inside) != 1:
            raise Unsupported("no data.pkl, so torch.save did not write it")
        prefix = inside[0].removesuffix("data.pkl")
        order = "<"
        if prefix + "byteorder" in archive.namelist():
            order = {b"little": "<", b"big": ">"}.get(_member(archive, prefix + "byteorder"), "<")

        def storage(given: Any) -> Any:
            return _storage(archive, prefix, order, given)

        machine = Machine(storage, _functions())
        return machine.run(io.BytesIO(_member(archive, inside[0])))


def _legacy(raw: bytes) -> Any:
    """Return the object in a file from before torch 1.6, or in a plain pickle."""
    stream = io.BytesIO(raw)
    first = Machine(_refuse, _functions()).run(stream)
    if first != _LEGACY:
        return first
    for _ in ("protocol version", "properties of the machine"):
        Machine(_refuse, _functions()).run(stream)
    return Machine(_refuse, _functions()).run(stream)


def _refuse(_: Any) -> Any:
    raise Unsupported("tensors in the form of torch before 1.6; save it again with a newer torch")


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        with archive.open(name) as member:
            data = member.read(MOST_BYTES + 1)
    except KeyError:
        raise Unsupported(f"no part {name}") from None
    if len(data) > MOST_BYTES:
        raise Unsupported(f"a part of more than {MOST_BYTES} bytes")
    return data


def _storage(archive: zipfile.ZipFile, prefix: str, order: str, given: Any) -> Any:
    """Return the numbers of a tensor's storage."""
    match given:
        case ("storage", Name(path=kind), str(key), str(), int(numel)) if kind in _STORAGES:
            raw = _member(archive, f"{prefix}data/{key}")
            return array(raw, Scalar(_STORAGES[kind], order), (numel,), "C")
    raise Unsupported("a reference to something that is no storage")


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Any:
    """Return the part of a storage that a tensor shows."""
    if not isinstance(storage, np.ndarray) or len(size) != len(stride):
        raise Unsupported("a tensor without a storage")
    if math.prod(size) > MOST_BYTES:
        raise Unsupported(f"a tensor of shape {size}")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if min([offset, *size, *stride], default=0) < 0 or (0 not in size and last >= len(storage)):
        raise Unsupported("a tensor outside its storage")
    steps = [step * storage.itemsize for step in stride]
    view = np.lib.stride_tricks.as_strided(storage[offset:], size, steps, writeable=False)
    return view.copy()


def _named_only(*_: Any) -> Any:
    raise Unsupported("a call of a storage")


def _functions() -> dict[str, Any]:
    storages = dict.fromkeys(_STORAGES, _named_only)
    return {**FUNCTIONS, **storages, "torch._utils._rebuild_tensor_v2": _tensor}
