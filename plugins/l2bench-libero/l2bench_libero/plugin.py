"""What L2bench finds through the entry point ``libero``: environments, an agent, a command."""

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


@hookimpl
def l2bench_agents() -> Mapping[str, str]:
    """Return the agents by name."""
    return {"scripted": "l2bench_libero.agent:Scripted"}


@hookimpl
def l2bench_commands() -> Mapping[str, str]:
    """Return the command ``l2bench libero``."""
    return {"libero": "l2bench_libero.commands:libero"}
