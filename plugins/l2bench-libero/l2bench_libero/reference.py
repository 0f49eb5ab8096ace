"""LIBERO's own road through an episode: its wrapper, a hard reset, its own step, its own images."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from l2bench.errors import UsageError
from l2bench.seeding import isolated
from l2bench_libero import devices, installation, rendering
from l2bench_libero import observation as obs
from l2bench_libero.simulator import Array, LiberoEnv
from l2bench_libero.stepping import Observe

#: The names of the cameras' images in LIBERO's observations.
_IMAGES = {key: f"{camera}_image" for key, camera in obs.CAMERAS.items()}
_SENSOR = "l2bench_world"


class ReferenceEnv(LiberoEnv):
    """One LIBERO task, played as LIBERO plays it: slower, and the same to the last bit.

    With images it drives ``OffScreenRenderEnv``, without them the ``ControlEnv`` beneath it, which
    needs no OpenGL. What LIBERO does not observe itself (places of the goal, its predicates) is
    read by an observable of its own, at the moment at which robosuite reads all of them.
    """

    def build(self) -> None:
        """Build LIBERO's wrapper unless it is there."""
        if self._inner is not None:
            return
        self._backend = None if self.observation == "state" else rendering.backend()
        envs = installation.simulation()
        if self._backend is not None:
            _choose_context(self._backend)
        visible = self._backend is not None
        wrapper = envs.env_wrapper.OffScreenRenderEnv if visible else envs.env_wrapper.ControlEnv
        hidden = {} if visible else {"has_offscreen_renderer": False}
        with isolated(0), installation.quiet_environment():
            self._wrapper = wrapper(
                bddl_file_name=str(self.task.definition()),
                use_camera_obs=visible,
                camera_heights=self.image_size,
                camera_widths=self.image_size,
                ignore_done=True,  # else an episode of 1000 steps is an error
                **hidden,
            )
        self._inner = self._wrapper.env
        if not visible:
            self._inner._reset_internal = self._as_if_rendered(self._inner._reset_internal)
        self._adopt()
        self._stepper = self
        self._watch()

    def _adopt(self) -> None:
        """Take over the simulation, which every hard reset makes anew."""
        sim = self._inner.sim
        self._model, self._data = sim.model._model, sim.data._data
        self._find_references()

    def _as_if_rendered(self, reset: Callable[[], None]) -> Callable[[], None]:
        """Return a reset with the one evaluation that the making of a renderer comes with.

        The solver remembers it, so that without it the last bits would differ.
        """

        def wrapped() -> None:
            self._inner.sim.forward()
            reset()

        return wrapped

    def _watch(self) -> None:
        from robosuite.utils.observables import (  # type: ignore[import-untyped]
            Observable,
            sensor,
        )

        @sensor(modality="l2bench")  # type: ignore[untyped-decorator]
        def world(cache: dict[str, Any]) -> float:
            if self._data is not self._inner.sim.data._data:
                self._adopt()
            self._snapshot = self._world()
            return 0.0

        self._inner.add_observable(Observable(_SENSOR, world, sampling_rate=20))

    def _soft_reset(self) -> None:
        # Every construction and hard reset adds samplers to those before, and each draws numbers.
        self._inner.object_property_initializers.clear()
        self._make_current()  # in which the old renderer frees what it holds
        super()._soft_reset()
        self._adopt()

    def set_state(self, state: Array) -> None:
        """Put the simulator into a state with LIBERO's ``set_init_state``."""
        self.build()
        size = 1 + self._inner.sim.model.nq + self._inner.sim.model.nv
        if np.shape(state) != (size,):
            raise UsageError(f"{self.task.id} has states of {size} numbers, not {np.shape(state)}")
        self._make_current()
        self._see(self._wrapper.set_init_state(np.asarray(state, dtype=np.float64)))

    def restart(self) -> None:
        """Nothing is left to do after a hard reset."""

    def advance(self, action: Array, observe: Observe) -> None:
        """Take one of LIBERO's steps."""
        self._make_current()
        seen, _, self._done, _ = self._wrapper.step(action)
        self._see(seen)

    def _finish_step(self) -> bool:
        return bool(self._done)

    def _take(self) -> None:
        """Do nothing: what is seen was taken in the step."""

    def _make_current(self) -> None:
        """Choose this simulation's OpenGL context, which robosuite does only when it makes one."""
        context = self._inner.sim._render_context_offscreen if self._backend else None
        if context is not None:
            context.gl_ctx.make_current()

    def _see(self, seen: dict[str, Any]) -> None:
        if self._backend is not None:
            self._images = {key: np.array(seen[name]) for key, name in _IMAGES.items()}

    def _camera(self, name: str) -> NDArray[np.uint8]:
        size = self.image_size
        self._make_current()
        image: NDArray[np.uint8] = self._inner.sim.render(width=size, height=size, camera_name=name)
        return image

    @property
    def backend(self) -> str | None:
        """The OpenGL backend in use, or None without images."""
        return None if self._inner is None else self._backend

    def close(self) -> None:
        """Close LIBERO's wrapper."""
        if self._inner is not None:
            self._make_current()
            self._wrapper.close()
        self._inner = None


def _choose_context(backend: str) -> None:
    """Give robosuite its class of OpenGL contexts, which it was imported without."""
    from robosuite.utils import binding_utils  # type: ignore[import-untyped]

    if backend == "egl":
        devices.take()  # robosuite would take a number of CUDA for one of EGL
    if hasattr(binding_utils, "GLContext"):
        return
    platform = os.environ.pop("PYOPENGL_PLATFORM", None)
    try:
        with installation.quiet_environment():
            module = importlib.import_module(f"robosuite.renderers.context.{backend}_context")
    finally:
        if platform is not None:
            os.environ["PYOPENGL_PLATFORM"] = platform
    name = {"egl": "EGLGLContext", "osmesa": "OSMesaGLContext"}[backend]
    binding_utils.GLContext = getattr(module, name)
