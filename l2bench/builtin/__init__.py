"""The built-ins: a plugin like any other, its objects named by string."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from l2bench.hookspecs import hookimpl


@hookimpl
def l2bench_environments() -> Mapping[str, str]:
    """Return the environments that need numpy and gymnasium only, and digits (an extra)."""
    return {
        "catch": "l2bench.builtin.catch:CatchEnvironment",
        "digits": "l2bench.builtin.digits:DigitsEnvironment",
        "gymnasium": "l2bench.builtin.gym:GymnasiumEnvironment",
        "probe": "l2bench.builtin.probe:ProbeEnvironment",
    }


@hookimpl
def l2bench_agents() -> Mapping[str, str]:
    """Return the agents that need numpy only."""
    return {
        "random": "l2bench.builtin.baselines:Random",
        "tabular": "l2bench.builtin.tabular:Tabular",
        "linear": "l2bench.builtin.linear:Linear",
        "perfect": "l2bench.builtin.known:Perfect",
        "frozen": "l2bench.builtin.known:Frozen",
        "forgetter": "l2bench.builtin.known:Forgetter",
        "late_bloomer": "l2bench.builtin.known:LateBloomer",
    }


@hookimpl
def l2bench_metric_sets() -> Mapping[str, str]:
    """Return the metric sets of the core."""
    return {
        "libero": "l2bench.metrics.sets:LiberoMetrics",
        "l2m": "l2bench.metrics.sets:L2MMetrics",
        "l2metrics": "l2bench.metrics.sets:L2MetricsMetrics",
        "gem": "l2bench.metrics.continual_sets:GemMetrics",
        "continual_world": "l2bench.metrics.continual_sets:ContinualWorldMetrics",
        "kemker": "l2bench.metrics.continual_sets:KemkerMetrics",
        "bound": "l2bench.metrics.bound:BoundMetrics",
    }


@hookimpl
def l2bench_suites() -> Mapping[str, Path]:
    """Return the suites that come with L2bench, by file name."""
    return {path.stem: path for path in sorted(_suites_folder().glob("*.yaml"))}


def _suites_folder() -> Path:
    package = Path(__file__).parent.parent
    inside = package / "suites"  # where the wheel puts them
    return inside if inside.is_dir() else package.parent / "suites"
