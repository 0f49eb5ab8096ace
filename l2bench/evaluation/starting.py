"""How worker processes are started: forked where that is safe, else spawned."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence

from l2bench.cast import Execution
from l2bench.environment import Environment
from l2bench.suite import Task

#: Modules that hold an OpenGL context or the like once they are imported.
GRAPHICS = ("OpenGL", "mujoco.egl", "mujoco.osmesa", "mujoco.glfw", "glfw", "pyglet", "pygame")


def start_method(
    execution: Execution, environments: Mapping[str, Environment], tasks: Sequence[Task]
) -> tuple[str, str]:
    """Return ``fork`` or ``spawn``, and why; ``tasks`` are those that workers will act in.

    Forked workers share what was built before, and start in milliseconds.
    """
    if execution.start_method != "auto":
        return execution.start_method, "asked for"
    if sys.platform != "linux":
        return "spawn", "not on Linux"
    for task in tasks:
        if not environments[task.environment].forks(task):
            return "spawn", f"{task.environment} does not say that it may be forked"
    danger = unsafe()
    return ("spawn", danger) if danger else ("fork", "nothing speaks against it")


def unsafe() -> str:
    """Return what speaks against forking this process now, "" if nothing does."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "CUDA is in use"
    if "jax" in sys.modules:
        return "JAX is loaded, which has threads of its own"
    for name in GRAPHICS:
        if name in sys.modules:
            return f"{name} is loaded, and OpenGL does not survive a fork"
    for thread in threading.enumerate():
        own = type(thread).__module__.split(".")[0] == "rich"  # the progress bar's
        if thread is not threading.main_thread() and not own:
            return f"the thread '{thread.name}' is running"
    return ""
