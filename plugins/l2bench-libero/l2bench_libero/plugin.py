"""What L2bench finds through the entry point ``libero``: one environment for each suite."""

from __future__ import annotations

from collections.abc import Mapping

from l2bench.hookspecs import hookimpl

_CLASSES = {
    "libero_spatial": "Spatial",
    "libero_object": "Object",
    "libero_goal": "Goal",
    "libero_10": "Long",
    "libero_long": "Long",
    "libero_90": "Ninety",
}


@hookimpl
def l2bench_environments() -> Mapping[str, str]:
    """Return the environments by name; none is imported yet."""
    return {name: f"l2bench_libero.environment:{kind}" for name, kind in _CLASSES.items()}
