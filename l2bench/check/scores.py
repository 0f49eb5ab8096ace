"""The stored scores against those that the same scorer makes from the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any

import l2bench
from l2bench.check.evidence import Evidence
from l2bench.check.findings import Finding, broken, first_few
from l2bench.errors import L2benchError
from l2bench.metrics.base import MetricSet
from l2bench.plugins import Registry
from l2bench.scoring import metric_sets, score_lifetime

PATH = "scores.json"
TOLERANCE = 1e-9


def own_registry() -> Registry:
    """Return a registry of what comes with L2bench; no other plugin is loaded."""
    entry = EntryPoint("l2bench", "l2bench.builtin", "l2bench")
    return Registry([(entry, "l2bench", l2bench.__version__)])


def recompute(evidence: Evidence) -> Iterator[Finding]:
    """P05, X01, X04: score the tables again and compare."""
    names = _names(evidence)
    try:
        registry = Registry() if evidence.plugins else own_registry()
        bound = next(iter(evidence.lifetimes("multitask")), None)
        sets = metric_sets(registry, names, evidence.lifetimes("expert"), bound=bound)
    except L2benchError as error:
        yield broken("P05", "suite.json", str(error), found=names)
        return
    fresh = score_lifetime(evidence.lifetime, sets)
    source = evidence.manifest.source
    warnings = [*(source.warnings if source else ()), *fresh["warnings"]]
    inputs = {name: ref.content_sha256 for name, ref in evidence.manifest.tables.items()}
    evidence.recomputed = {**fresh, "warnings": warnings, "inputs": inputs}
    stale = list(_versions(evidence, sets))
    yield from stale
    yield from _compared(evidence, bool(stale))


def _names(evidence: Evidence) -> Sequence[str]:
    """Return the metric sets to compute: the suite's, or those that an import was scored with."""
    if not evidence.imported:
        return evidence.suite.metrics
    given = evidence.scores.get("scorer", {})
    listed = given.get("metric_sets", []) if isinstance(given, dict) else []
    return [str(item["name"]) for item in listed if isinstance(item, dict) and "name" in item]


def _versions(evidence: Evidence, sets: Sequence[MetricSet]) -> Iterator[Finding]:
    """X04: the versions of the metric sets that made the stored scores."""
    scorer = evidence.scores.get("scorer")
    listed = scorer.get("metric_sets", []) if isinstance(scorer, dict) else []
    stored = {item.get("name"): item.get("version") for item in listed if isinstance(item, dict)}
    for metric_set in sets:
        found = stored.get(metric_set.name)
        if found is not None and found != metric_set.version:
            yield broken(
                "X04",
                PATH,
                f"scored by version {found} of metric set "
                f"'{metric_set.name}'; this release has {metric_set.version}",
                expected=metric_set.version,
                found=found,
            )


def _compared(evidence: Evidence, stale: bool) -> Iterator[Finding]:
    fresh, stored = dict(evidence.recomputed), dict(evidence.scores)
    if stale:  # their numbers may differ; what they were made from may not
        fresh, stored = {"inputs": fresh["inputs"]}, {"inputs": stored.get("inputs")}
    for data in (fresh, stored):
        scorer = data.get("scorer")
        if isinstance(scorer, dict):
            data["scorer"] = {k: v for k, v in scorer.items() if k != "l2bench"}
    yield from first_few(
        broken("X01", PATH, f"{where} is not what the tables give", expected=expected, found=found)
        for where, expected, found in unequal(_by_name(fresh), _by_name(stored))
    )


def _by_name(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores with the list of metrics as a mapping, so that a difference has a name."""
    metrics = scores.get("metrics")
    if not isinstance(metrics, list) or not all(isinstance(entry, dict) for entry in metrics):
        return dict(scores)
    named: dict[str, Any] = {}
    for entry in metrics:
        parts = (entry.get(key) for key in ("id", "task", "source"))
        name = " ".join(str(part) for part in parts if part is not None)
        named[name if name not in named else f"{name} (again)"] = entry
    return {**scores, "metrics": named}


def unequal(
    expected: Any, found: Any, where: str = "", tolerance: float = TOLERANCE
) -> Iterator[tuple[str, Any, Any]]:
    """Yield (place, expected, found) for every difference; numbers may differ by the tolerance."""
    number = (int, float)
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in {**expected, **found}:
            inner = f"{where}.{key}" if where else str(key)
            if key not in expected or key not in found:
                yield inner, expected.get(key), found.get(key)
            else:
                yield from unequal(expected[key], found[key], inner, tolerance)
    elif isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        if len(expected) != len(found):
            yield where, f"{len(expected)} items", f"{len(found)} items"
            return
        for at, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from unequal(one, other, f"{where}[{at}]", tolerance)
    elif isinstance(expected, bool) or isinstance(found, bool):
        if expected is not found:
            yield where, expected, found
    elif isinstance(expected, number) and isinstance(found, number):
        if not abs(expected - found) <= tolerance:
            yield where, expected, found
    elif expected != found:
        yield where, expected, found
