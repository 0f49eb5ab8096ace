"""What the commands that read results share: opening a path, and scoring what is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from l2bench.bundle.reader import Bundle
from l2bench.errors import UsageError
from l2bench.interop.kinds import open_bundles, open_experts
from l2bench.interop.source import Options
from l2bench.plugins import Registry
from l2bench.scoring import metric_sets, score_bundle


def options(about: Mapping[str, Any]) -> Options:
    """Return what the command line says about a source.

    Raises:
        UsageError: if a range does not ascend.
    """
    low_high = about["range"]
    if low_high is not None and not low_high[0] < low_high[1]:
        raise UsageError(f"--range {low_high[0]:g} {low_high[1]:g} does not ascend")
    return Options(
        measure=about["measure"], score_range=low_high, agent=about["agent"], seed=about["seed"]
    )


def opened(
    registry: Registry,
    path: Path,
    kind: str | None,
    experts: Sequence[Path],
    metrics: Sequence[str],
    about: Mapping[str, Any],
) -> list[Bundle]:
    """Return the bundles at a path, or the source there as one."""
    return open_bundles(
        registry, path, kind=kind, options=options(about), experts=experts, metrics=metrics
    )


def rescored(
    registry: Registry, bundles: Sequence[Bundle], experts: Sequence[Path], metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """Return fresh scores of each bundle, with the experts given or those that came with it."""
    found = []
    for bundle in bundles:
        names = metrics or bundle.suite.metrics
        companions: Sequence[Bundle] = bundle.experts
        if experts and not companions:
            companions = open_experts(registry, experts, bundle.lifetime)
        sets = metric_sets(registry, names, [expert.lifetime for expert in companions])
        found.append(score_bundle(bundle, sets))
    return found
