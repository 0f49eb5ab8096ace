"""Which EGL device renders: EGL and CUDA number the GPUs of a machine each in its own way."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l2bench.errors import Unsupported, UsageError

#: What MuJoCo and robosuite read when they open the process's one EGL display.
VARIABLE = "MUJOCO_EGL_DEVICE_ID"
ALL = "all"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_DRIVER = Path("/proc/driver/nvidia/version")

# 0x323A is EGL_CUDA_DEVICE_NV; a device without CUDA does not have it.
_QUERY = """
import ctypes, os
from mujoco.egl import egl_ext as EGL
kind = ctypes.CFUNCTYPE(
    ctypes.c_uint, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_ssize_t)
)
address = EGL.eglGetProcAddress("eglQueryDeviceAttribEXT")
attribute = kind(address) if address else lambda *_: 0
for device in EGL.eglQueryDevicesEXT():
    number = ctypes.c_ssize_t(-1)
    has = attribute(device, 0x323A, ctypes.byref(number))
    print("device", number.value if has else -1, flush=True)
os._exit(0)  # without the destructors, which may fail in their own ways
"""


@dataclass(frozen=True)
class Device:
    """An EGL device: its number there, and CUDA's on the whole machine, None without CUDA."""

    egl: int
    cuda: int | None

    def __str__(self) -> str:
        return f"EGL {self.egl} = {'no CUDA' if self.cuda is None else f'CUDA {self.cuda}'}"


@dataclass(frozen=True)
class Wish:
    """What is asked for: the agent's ``device``, and the option ``egl_device``."""

    device: str = "auto"
    egl: int | str | None = None


@dataclass
class _Here:
    """This process: what is wished for, which worker it is, and what its EGL display is on."""

    wish: Wish = Wish()
    worker: int | None = None
    opened: int | None = None
    variable: str = ""  # as the user had set it


_here = _Here()  # of the process, because MuJoCo opens one EGL display in it and keeps that


def asked(options: Mapping[str, Any]) -> int | str | None:
    """Return the option ``egl_device``: a number of EGL, ``all``, or None where it is not given.

    Raises:
        UsageError: anything else.
    """
    found = options.get("egl_device")
    if found is None or found == ALL or (type(found) is int and found >= 0):
        return found
    raise UsageError(
        f"egl_device is {found!r}; give the number of an EGL device (0, 1, ...), or all, which "
        f"spreads the evaluation workers over the GPUs"
    )


def wish(wished: Wish) -> None:
    """Take note of what environments that render in this process ask for."""
    _here.wish = wished


def work(worker: int | None) -> None:
    """Take note that this process is the evaluation worker of this number, None if it is none."""
    _here.worker = worker


@functools.cache
def query() -> tuple[Device, ...]:
    """Return the EGL devices, asked for in a child process.

    The child does not see ``CUDA_VISIBLE_DEVICES``, by which drivers renumber what they answer.

    Raises:
        Unsupported: they cannot be listed.
    """
    hidden = ("PYOPENGL_PLATFORM", "MUJOCO_GL", _VISIBLE, VARIABLE)
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    try:
        child = subprocess.run(
            [sys.executable, "-c", _QUERY], env=variables | {"MUJOCO_GL": "disable"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Unsupported("EGL's devices: no answer within 120 s; set MUJOCO_GL=osmesa") from None
    lines = [line.split() for line in child.stdout.splitlines()]
    numbers = [int(line[1]) for line in lines if line[:1] == ["device"]]
    if not numbers:
        reason = (child.stderr.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
        raise Unsupported(f"EGL lists no device ({reason}); set MUJOCO_GL=osmesa")
    return tuple(Device(at, None if cuda < 0 else cuda) for at, cuda in enumerate(numbers))


@functools.cache
def _numbers() -> Mapping[str, int]:
    """Return the driver's number of each GPU by its identity, nothing where it does not tell."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {}
    command = [tool, "--query-gpu=uuid,index", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = [line.split(",") for line in done.stdout.splitlines()]
    return {row[0].strip(): int(row[1]) for row in rows if len(row) == 2}


def visible() -> tuple[int | None, ...] | None:
    """Return the machine's CUDA numbers in the order in which this process sees them.

    None if it sees all; a GPU that is named by an identity nobody knows is None.
    """
    text = os.environ.get(_VISIBLE)
    if text is None:
        return None
    found: list[int | None] = []
    for entry in (part.strip() for part in text.split(",")):
        if entry.isdigit():
            found.append(int(entry))
        elif entry.startswith(("GPU-", "MIG-")):
            named = [number for name, number in _numbers().items() if name.startswith(entry)]
            found.append(named[0] if len(named) == 1 else None)
        else:
            break  # as CUDA does: what follows is hidden, too
    return tuple(found)


def choices(
    devices: Sequence[Device], wished: Wish, seen: tuple[int | None, ...] | None
) -> tuple[Device, ...]:
    """Return the devices that workers take in turn, the agent's own first; mostly one.

    A GPU that was asked for by name (``cuda``, ``cuda:N``) has to have an EGL device; for ``auto``
    and ``cpu`` it is the first GPU that is visible, else a device without CUDA.

    Raises:
        UsageError: there is no such device; the text states both numberings.
        Unsupported: a GPU was asked for by name, and there is none.
    """
    if isinstance(wished.egl, int):
        if wished.egl >= len(devices):
            raise _refusal(f"there is no EGL device {wished.egl}", devices, wished)
        return (devices[wished.egl],)
    ordinal = int(wished.device.partition(":")[2] or 0)
    numbers = range(ordinal + 1) if seen is None else seen
    number = numbers[ordinal] if ordinal < len(numbers) else None
    own = [device for device in devices if number is not None and device.cuda == number][:1]
    if wished.egl == ALL:
        gpus = [d for d in devices if d.cuda is not None and (seen is None or d.cuda in seen)]
        if not gpus:
            raise _refusal("no EGL device belongs to a visible GPU", devices, wished)
        return tuple(dict.fromkeys([*own, *gpus]))
    if own:
        return tuple(own)
    if wished.device.startswith("cuda"):
        if not _DRIVER.exists() and all(device.cuda is None for device in devices):
            raise Unsupported(
                f"execution.device is {wished.device}, and no NVIDIA GPU is seen here (there is no "
                f"{_DRIVER}, and none among EGL's devices); leave it at auto on this machine"
            )
        what = "is not visible" if number is None else f"is CUDA {number} of the machine"
        raise _refusal(f"{wished.device} {what}, and no EGL device belongs to it", devices, wished)
    return (min(devices, key=lambda device: (device.cuda is not None, device.egl)),)


def _refusal(what: str, devices: Sequence[Device], wished: Wish) -> UsageError:
    return UsageError(
        f"images cannot be rendered as asked (execution.device {wished.device}, egl_device "
        f"{'not set' if wished.egl is None else wished.egl}, {_VISIBLE} "
        f"{os.environ.get(_VISIBLE, 'not set')}): {what}; there is "
        f"{', '.join(map(str, devices))}. Set execution.environments.libero.egl_device to one of "
        f"EGL's numbers, or MUJOCO_GL=osmesa to render on the CPU"
    )


def assigned() -> tuple[Device, ...]:
    """Return the devices that workers of this run take in turn.

    ``MUJOCO_EGL_DEVICE_ID``, if it was set by the user, counts where there is no ``egl_device``.

    Raises:
        UsageError: there is no such device.
    """
    wished, variable = _here.wish, _here.variable
    if _here.opened is None:
        variable = os.environ.get(VARIABLE, "").strip()
    if wished.egl is None and variable:
        if not variable.isdigit():
            raise UsageError(f"{VARIABLE} is {variable!r}; it has to be the number of a device")
        wished = Wish(wished.device, int(variable))
    return choices(query(), wished, visible())


def record() -> dict[str, str]:
    """Return both numbers of the devices that render, for the record, in the order of workers.

    A warning is logged where the CPU renders although the machine has a GPU's driver.
    """
    found = assigned()
    if _here.wish.egl is None and found[0].cuda is None and _DRIVER.exists():
        logging.getLogger("l2bench").warning(
            "images are rendered on the CPU although there is an NVIDIA driver: EGL has only %s; "
            "see docs/gpu.md",
            ", ".join(map(str, query())),
        )
    cuda = ["none" if device.cuda is None else str(device.cuda) for device in found]
    egl = [str(device.egl) for device in found]
    return {"egl_device": ", ".join(egl), "egl_cuda_device": ", ".join(cuda)}


def take() -> int:
    """Have the EGL display that is opened next in this process be of the device assigned to it.

    Raises:
        UsageError: there is no such device, or this process renders on another one already.
    """
    found = assigned()
    number = found[(_here.worker or 0) % len(found)].egl
    if _here.opened is None:
        _here.opened, _here.variable = number, os.environ.get(VARIABLE, "").strip()
        os.environ[VARIABLE] = str(number)
    if _here.opened != number:
        raise UsageError(
            f"this process renders on EGL device {_here.opened} and cannot change to {number}; "
            f"give all LIBERO suites of a run the same egl_device"
        )
    return number


def check_unused(backend: str) -> None:
    """Refuse an ``egl_device`` where EGL does not render.

    Raises:
        UsageError: naming the backend that does.
    """
    if _here.wish.egl is not None:
        raise UsageError(
            f"egl_device is set to {_here.wish.egl}, but images are rendered by {backend} here; "
            f"leave it out, or have EGL work and set MUJOCO_GL=egl"
        )
