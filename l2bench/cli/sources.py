"""What the commands that read results share: opening a path, and scoring what is there."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from l2bench.bundle.reader import Bundle
from l2bench.errors import UsageError
from l2bench.interop.kinds import open_bundles, open_experts
from l2bench.interop.source import Options
from l2bench.plugins import Registry
from l2bench.scoring import MetricSettings, companions, metric_sets, score_bundle


def options(about: Mapping[str, Any]) -> Options:
    """Return what the command line says about a source.

    Raises:
        UsageError: if a range does not ascend.
    """
    low_high = about["range"]
    if low_high is not None and not low_high[0] < low_high[1]:
        raise UsageError(f"--range {low_high[0]:g} {low_high[1]:g} does not ascend")
    return Options(
        measure=about["measure"],
        score_range=low_high,
        agent=about["agent"],
        seed=about["seed"],
        suite=about["suite"],
    )


def metric_settings(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return settings SET.KEY=VALUE by metric set and key; a value is JSON, a number or a word.

    Raises:
        UsageError: if a text has not that form, or a setting is given twice.
    """
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        left, equals, value = text.partition("=")
        name, _, key = left.rpartition(".")
        if not (name and key and equals):
            raise UsageError(f"--setting {text} should be SET.KEY=VALUE, like kemker.ideal=0.97")
        own = found.setdefault(name, {})
        if key in own:
            raise UsageError(f"--setting {left} is given twice")
        own[key] = _setting(value)
    return found


def _setting(text: str) -> Any:
    """Return a value read as JSON, as a number such as ``.9`` that is no JSON, or a word."""
    try:
        value = json.loads(text)
    except ValueError:
        try:
            value = text if "_" in text else float(text)
        except ValueError:
            return text
    return text if isinstance(value, float) and not math.isfinite(value) else value


def opened(
    registry: Registry,
    path: Path,
    kind: str | None,
    experts: Sequence[Path],
    metrics: Sequence[str],
    about: Mapping[str, Any],
    settings: MetricSettings | None = None,
) -> list[Bundle]:
    """Return the bundles at a path, or the source there as one."""
    return open_bundles(
        registry, path, kind=kind, options=options(about), experts=experts, metrics=metrics,
        settings=settings,
    )  # fmt: skip


def rescored(
    registry: Registry,
    bundles: Sequence[Bundle],
    experts: Sequence[Path],
    metrics: Sequence[str],
    settings: MetricSettings | None = None,
) -> list[dict[str, Any]]:
    """Return fresh scores of each bundle, with the experts given or those that came with it."""
    found = []
    for bundle in bundles:
        names = metrics or bundle.suite.metrics
        lives, bound = companions(bundle)
        if experts and not lives:
            found_there = open_experts(registry, experts, bundle.lifetime)
            lives = [expert.lifetime for expert in found_there]
        sets = metric_sets(registry, names, lives, settings, bound=bound)
        found.append(score_bundle(bundle, sets))
    return found
