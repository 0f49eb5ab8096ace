"""The hooks through which plugins register what they bring.

Every hook returns a mapping from a bare name to an object or, better, to a string
``"module:attribute"`` that is imported only when the name is used: listing must not import a
simulator. The qualified name is ``plugin/name``, where ``plugin`` is the entry point's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pluggy

GROUP = "l2bench"

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@hookspec
def l2bench_environments() -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Environments by name: `l2bench.environment.Environment` classes or instances.

    Asked when names are listed or resolved.
    """


@hookspec
def l2bench_agents() -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Agents by name: `l2bench.agent.Agent` classes.

    Asked when names are listed or resolved.
    """


@hookspec
def l2bench_metric_sets() -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Metric sets by name: `l2bench.metrics.base.MetricSet` classes.

    Asked when names are listed or resolved.
    """


@hookspec
def l2bench_suites() -> Mapping[str, Path]:  # type: ignore[empty-body]
    """Suite files by name: paths of YAML files.

    Asked when suites are listed or one is named.
    """


@hookspec
def l2bench_configs() -> Mapping[str, Path]:  # type: ignore[empty-body]
    """Hydra search paths by name: folders with config groups such as ``agent/``.

    Asked when a suite is composed.
    """


@hookspec
def l2bench_observers() -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Observers by name: callables handed (row of the blocks table, tables by name) at each seal.

    Asked when a run names one in ``execution.observers``. What an observer raises ends the run.
    """


@hookspec
def l2bench_commands() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Commands by name: ``"module:attribute"`` of a click command or group, ``l2bench NAME``.

    Asked when the command line lists its commands or is given a name it does not have itself. What
    a plugin needs before a run, such as fetching its data, then needs no program of its own.
    """
