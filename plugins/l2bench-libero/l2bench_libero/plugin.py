"""What L2bench finds through the entry point ``libero``: one environment for each suite."""

from __future__ import annotations

from collections.abc import Mapping

from l2bench.hookspecs import hookimpl
from l2bench_libero.tasks import ALIASES, SUITES


@hookimpl
def l2bench_environments() -> Mapping[str, str]:
    """Return the environments by name; none is imported yet."""
    return {name: f"l2bench_libero.environment:{name}" for name in (*SUITES, *ALIASES)}
