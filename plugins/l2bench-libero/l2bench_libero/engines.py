"""Which engine plays the episodes: the lean one, or LIBERO's own, which gives the same bits."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from l2bench.errors import Unsupported, UsageError, choices, nearest
from l2bench_libero import installation
from l2bench_libero.reference import ReferenceEnv
from l2bench_libero.simulator import LiberoEnv

ENGINES: Mapping[str, type[LiberoEnv]] = {"lean": LiberoEnv, "reference": ReferenceEnv}
#: What ``execution.environments`` may say for LIBERO.
OPTIONS = ("engine", "egl_device")


def asked(options: Mapping[str, Any]) -> str | None:
    """Return the engine that ``execution.environments`` names, None where it names none.

    Raises:
        UsageError: an unknown option or engine.
    """
    for name in options:
        if name not in OPTIONS:
            raise UsageError(
                f"LIBERO has no execution option '{name}'{nearest(name, OPTIONS)}; there are "
                f"engine ({' or '.join(ENGINES)}) and egl_device (a number, or all)"
            )
    engine = options.get("engine")
    if engine is not None and engine not in ENGINES:
        raise UsageError(
            f"LIBERO has no engine {engine!r}{nearest(str(engine), ENGINES)}; "
            f"choose {choices(ENGINES)}"
        )
    return engine


def choose(engine: str | None) -> str:
    """Return the engine to use: the one asked for, else the lean one where it is verified.

    Raises:
        Unsupported: the lean engine was asked for on a version of MuJoCo it was not verified on.
    """
    found = installation.version("mujoco") or "?"
    if engine == "reference" or found in installation.VERIFIED:
        return engine or "lean"
    verified = ", ".join(installation.VERIFIED)
    if engine == "lean":
        raise Unsupported(
            f"the lean engine is verified on mujoco {verified} only, this is {found}; leave the "
            f"engine out or set it to reference"
        )
    logging.getLogger("l2bench").warning(
        "mujoco %s: the lean engine is verified on %s only, so LIBERO's own, slower one is used",
        found, verified,
    )  # fmt: skip
    return "reference"
