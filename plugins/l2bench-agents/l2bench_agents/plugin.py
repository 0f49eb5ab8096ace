"""What L2bench finds through the entry point ``agents``."""

from __future__ import annotations

from collections.abc import Mapping

from l2bench.hookspecs import hookimpl


@hookimpl
def l2bench_agents() -> Mapping[str, str]:
    """Return the agents by name; torch is imported when one of them is used."""
    return {"bc": "l2bench_agents.bc:BehaviourCloning"}
