"""Off-screen images: which OpenGL backend works here, and a renderer made on first use."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import subprocess
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from l2bench.errors import Unsupported, UsageError
from l2bench_libero import devices
from l2bench_libero.installation import quiet_environment

BACKENDS = ("egl", "osmesa")
_PROBE = """
import importlib, os, mujoco
try:
    context = importlib.import_module("mujoco." + {backend!r}).GLContext(64, 64)
    context.make_current()
    model = mujoco.MjModel.from_xml_string("<mujoco><worldbody/></mujoco>")
    mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150)
except BaseException as error:
    print("fails", type(error).__name__ + ":", " ".join(str(error).split()), flush=True)
else:
    print("works", flush=True)
os._exit(0)  # without the destructors, which may fail in their own ways
"""


@functools.cache
def probe(backend: str, device: int | None = None) -> str:
    """Try a backend in a child process; return "" if it works, else its error.

    ``device`` is the EGL device to try; without it the first one that works will do.
    """
    hidden = ("PYOPENGL_PLATFORM", "MUJOCO_GL", devices.VARIABLE)
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    variables["MUJOCO_GL"] = "disable"
    if device is not None:
        variables[devices.VARIABLE] = str(device)
    command = [sys.executable, "-c", _PROBE.format(backend=backend)]
    try:
        child = subprocess.run(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "no answer within 120 s"
    answer = child.stdout.strip()
    if answer == "works":
        return ""
    return answer.removeprefix("fails ") or f"exit code {child.returncode}"


def backend() -> str:
    """Return the OpenGL backend for images: ``MUJOCO_GL`` if set, else egl, else osmesa.

    Raises:
        UsageError: ``MUJOCO_GL`` names a backend that cannot render without a display.
        Unsupported: no backend works; the text says what was tried.
    """
    chosen = os.environ.get("MUJOCO_GL", "").lower().strip()
    if chosen and chosen not in BACKENDS:
        raise UsageError(
            f"images need MUJOCO_GL to be unset, egl or osmesa; it is {chosen!r}. "
            "Unset it, or choose the observation 'state'"
        )
    failures = []
    for candidate in (chosen,) if chosen else BACKENDS:
        failure = probe(candidate)
        if not failure:
            return candidate
        failures.append(f"{candidate}: {failure}")
    raise Unsupported(
        f"no OpenGL backend works here ({'; '.join(failures)}); install libegl1 or libosmesa6"
        f"{', unset MUJOCO_GL' if chosen else ''}, or choose the observation 'state'"
    )


def place(backend: str) -> dict[str, str]:
    """Return where images will be rendered, for the record: EGL's and CUDA's numbers of the device.

    Raises:
        UsageError: there is no such device, or it was asked for and EGL does not render.
        Unsupported: the device cannot render.
    """
    if backend != "egl":
        devices.check_unused(backend)
        return {}
    found = devices.record()
    for device in devices.assigned() if len(devices.query()) > 1 else ():
        if failure := probe(backend, device.egl):
            raise Unsupported(
                f"{device} cannot render here ({failure}); set execution.environments.libero."
                f"egl_device to another of {', '.join(map(str, devices.query()))}"
            )
    return found


def _load_triton() -> None:
    """Load triton, which CUDA builds of torch use, before Mesa.

    Both bring an LLVM of their own; triton's crashes the process if Mesa's is there first.
    """
    if importlib.util.find_spec("triton") is not None:
        with contextlib.suppress(Exception):  # whoever needs it will be told
            importlib.import_module("triton")


def _context(name: str, width: int, height: int) -> Any:
    _load_triton()
    if name == "egl":
        devices.take()
    platform = os.environ.pop("PYOPENGL_PLATFORM", None)
    try:
        with quiet_environment():
            return importlib.import_module(f"mujoco.{name}").GLContext(width, height)
    except Exception as error:
        raise Unsupported(
            f"OpenGL backend {name} works in a new process but not in this one ({error}): another "
            "library chose its backend first; set MUJOCO_GL before starting"
        ) from error
    finally:
        if platform is not None:
            os.environ["PYOPENGL_PLATFORM"] = platform


class Renderer:
    """Renders the cameras of one model; owns an OpenGL context until closed.

    Make it in the process that uses it: OpenGL does not survive a fork.
    """

    def __init__(self, model: Any, image_size: int) -> None:
        import mujoco  # type: ignore[import-untyped]

        self.backend = backend()
        self._mujoco = mujoco
        self._model = model
        self._viewport = mujoco.MjrRect(0, 0, image_size, image_size)
        self._size = image_size
        wide = max(image_size, int(model.vis.global_.offwidth))
        high = max(image_size, int(model.vis.global_.offheight))
        model.vis.global_.offwidth, model.vis.global_.offheight = wide, high
        self._gl = _context(self.backend, wide, high)
        self._gl.make_current()
        self._scene = mujoco.MjvScene(model, maxgeom=1000)
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._options = mujoco.MjvOption()
        self._options.geomgroup[0] = 0  # collision shapes
        self._options.geomgroup[1] = 1  # visible shapes
        self._mjr = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._mjr)

    def render(self, data: Any, camera: str) -> NDArray[np.uint8]:
        """Return the image of a camera, (size, size, 3) uint8, row 0 at the bottom."""
        mj = self._mujoco
        self._gl.make_current()
        self._camera.fixedcamid = mj.mj_name2id(self._model, mj.mjtObj.mjOBJ_CAMERA, camera)
        mj.mjv_updateScene(
            self._model,
            data,
            self._options,
            None,
            self._camera,
            mj.mjtCatBit.mjCAT_ALL,
            self._scene,
        )
        mj.mjr_render(self._viewport, self._scene, self._mjr)
        image = np.empty((self._size, self._size, 3), dtype=np.uint8)
        mj.mjr_readPixels(image, None, self._viewport, self._mjr)
        return image

    def close(self) -> None:
        """Free the OpenGL context."""
        if self._gl is not None:
            self._gl.make_current()
            self._mjr.free()
            self._gl.free()
            self._gl = None
