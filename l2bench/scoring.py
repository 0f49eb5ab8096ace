"""From tables to scores: one bundle's scores.json, and the summary over a folder of lifetimes."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import l2bench
from l2bench.bundle.lifetime import Lifetime
from l2bench.bundle.reader import Bundle, read_bundle, refuse_mixture
from l2bench.errors import UsageError, choices, guarded, nearest
from l2bench.metrics.base import MetricSet
from l2bench.metrics.scores import Metric, Scores, Value
from l2bench.metrics.statistics import MINIMUM_FOR_BOOTSTRAP, estimate
from l2bench.metrics.unscored import explained, unscored
from l2bench.metrics.views import cells, curves, matrix
from l2bench.plugins import Registry
from l2bench.seeding import generator

FORMAT = "l2bench.scores"
FORMAT_VERSION = "1.0"


#: Values of settings by the name of a metric set.
MetricSettings = Mapping[str, Mapping[str, Any]]

#: Arguments of metric sets that are lifetimes to compare with, not settings.
COMPANIONS = ("experts", "bound")

#: Why an incomplete record has no lifetime values.
INCOMPLETE = "the record is incomplete"


def metric_sets(
    registry: Registry,
    names: Sequence[str],
    experts: Sequence[Lifetime] = (),
    settings: MetricSettings | None = None,
    *,
    bound: Lifetime | None = None,
) -> list[MetricSet]:
    """Return the metric sets of these names, ready to score; one that is named again counts once.

    ``experts`` are lifetimes that learned one task each, ``bound`` is the one that learned all
    tasks together, for the sets that compare with them.
    ``settings`` are values of a set's own settings, by the name of the set with or without its
    plugin.

    Raises:
        UsageError: for a setting that no set of these names has, or a value that does not fit.
    """
    given = {key: dict(values) for key, values in (settings or {}).items()}
    sets: list[MetricSet] = []
    asked: dict[str, str] = {}
    for name in names:
        asked.setdefault(registry.qualify("metric_sets", name), name)
    for full, name in asked.items():
        target = registry.resolve("metric_sets", full)
        forms = (name, full, full.rpartition("/")[2])
        own = next((given.pop(form) for form in forms if form in given), {})
        known = set(inspect.signature(target).parameters)
        for key in own:
            if key not in known - set(COMPANIONS):
                raise UsageError(
                    f"metric set '{name}' has no setting '{key}'{nearest(key, known)}; it has "
                    f"{choices(known - set(COMPANIONS))}"
                )
        for key, companion in zip(COMPANIONS, (experts, bound), strict=True):
            if companion and key in known:
                own = {**own, key: companion}
        with guarded(f"metric set '{name}'"):
            sets.append(target(**own))
    if given:
        raise UsageError(
            f"a setting is given for metric set '{next(iter(given))}', which is not asked for; "
            f"asked for: {choices(names)}"
        )
    return sets


def companions(bundle: Bundle) -> tuple[list[Lifetime], Lifetime | None]:
    """Return the experts and the multitask bound that belong to a bundle."""
    bound = bundle.bound
    experts = [expert.lifetime for expert in bundle.experts]
    return experts, None if bound is None else bound.lifetime


def score_lifetime(lifetime: Lifetime, sets: Sequence[MetricSet]) -> dict[str, Any]:
    """Return the scores of one lifetime as plain data, in the form of scores.json.

    Where the record is incomplete, values of the lifetime as a whole are withheld.
    """
    metrics: list[dict[str, Any]] = []
    scorers, warnings, silent = [], _odd_scores(lifetime), unscored(lifetime)
    for metric_set in sets:
        with guarded(f"metric set '{metric_set.name}'"):
            scores = metric_set.score(lifetime)
        definitions = {metric.id: metric for metric in metric_set.metrics}
        for value in scores.values:
            metric = definitions[value.id]
            whole = metric.scope == "lifetime" and value.value is not None
            if whole and not lifetime.complete:
                value = replace(value, value=None, n=0, reason=INCOMPLETE)
            metrics.append(_entry(metric, value))
            if value.reason is not None:
                metrics[-1]["undefined_reason"] = explained(value.reason, silent)
        scorers.append(_scorer(scores))
        warnings += [explained(warning, silent) for warning in scores.warnings]
    measured = cells(lifetime)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "scorer": {"l2bench": l2bench.__version__, "metric_sets": scorers},
        "coverage": {
            "tasks": len(lifetime.suite.tasks),
            "evaluation_episodes": lifetime.episodes.num_rows,
            "learning_experiences": lifetime.learning.num_rows,
        },
        "metrics": metrics,
        "matrix": matrix(lifetime, measured),
        "curves": curves(lifetime, measured),
        "warnings": warnings,
    }


def _odd_scores(lifetime: Lifetime) -> list[str]:
    """Return what a reader should know of scores that are missing or out of range."""
    if "score" not in lifetime.episodes.column_names:
        return []
    tasks = lifetime.episodes["task_index"].to_numpy()
    performance = lifetime.performance()
    found = []
    for index, task in enumerate(lifetime.suite.tasks):
        own = performance[tasks == index]
        missing, outside = int(np.isnan(own).sum()), int(((own < 0) | (own > 1)).sum())
        if missing:
            found.append(f"task {task.id}: {missing} of {len(own)} episodes have no score")
        if outside:
            low, high = task.score_range
            found.append(
                f"task {task.id}: {outside} of {len(own)} scores lie outside {low:g} to {high:g}"
            )
    return found


def score_bundle(bundle: Bundle, sets: Sequence[MetricSet]) -> dict[str, Any]:
    """Return a bundle's scores from its tables, with the digests of what was scored."""
    scores = score_lifetime(bundle.lifetime, sets)
    inputs = {name: ref.content_sha256 for name, ref in bundle.manifest.tables.items()}
    odd = list(bundle.manifest.source.warnings) if bundle.manifest.source else []
    return {**scores, "warnings": [*odd, *scores["warnings"]], "inputs": inputs}


def summarise(folders: Sequence[Path], sets: Sequence[MetricSet] | None = None) -> dict[str, Any]:
    """Return metric estimates over the lifetimes of one agent on one suite.

    The stored scores are read unless metric sets are given to score anew.
    """
    bundles = [read_bundle(folder) for folder in folders]
    if sets is None:
        return summarise_bundles(bundles)
    return summarise_bundles(bundles, [score_bundle(bundle, sets) for bundle in bundles])


def summarise_bundles(
    bundles: Sequence[Bundle], scored: Sequence[Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Return metric estimates over bundles and their scores, by default the stored ones.

    Lifetimes stand in the order of their seeds. The bootstrap generator of a metric starts from
    its name and the digests of the tables: the same bundles give the same interval, whatever else
    is asked for.
    """
    refuse_mixture(bundles)
    scored = [bundle.scores for bundle in bundles] if scored is None else scored
    _refuse_versions(bundles, scored)
    pairs = sorted(zip(bundles, scored, strict=True), key=lambda p: p[0].manifest.seed.lifetime)
    bundles, scored = [bundle for bundle, _ in pairs], [scores for _, scores in pairs]
    first = bundles[0]
    inputs = inputs_of(bundles, scored)
    return {
        "format": "l2bench.summary",
        "format_version": FORMAT_VERSION,
        "suite": {
            **first.manifest.suite.model_dump(mode="json"),
            "deviations": sorted({d for each in bundles for d in each.manifest.suite.deviations}),
        },
        "agent": first.manifest.agent.model_dump(mode="json"),
        "seeds": [bundle.manifest.seed.lifetime for bundle in bundles],
        "bundles": [bundle.folder.name for bundle in bundles],
        "n_lifetimes": len(bundles),
        "n_tasks": len(first.suite.tasks),
        "metrics": [_across(entries, inputs) for entries in _by_metric(bundles, scored)],
    }


def inputs_of(bundles: Sequence[Bundle], scored: Sequence[Mapping[str, Any]]) -> str:
    """Return what tells the lifetimes of an agent from others: their tables' digests by seed."""
    pairs = sorted(zip(bundles, scored, strict=True), key=lambda p: p[0].manifest.seed.lifetime)
    return "".join(str(scores.get("inputs")) for _, scores in pairs)


def bootstrap_generator(inputs: str, *names: str | None) -> np.random.Generator:
    """Return the generator of one estimate: from what was measured and what is asked of it."""
    digest = hashlib.sha256("\0".join([inputs, *(name or "" for name in names)]).encode()).digest()
    return generator(int.from_bytes(digest[:8], "big"))


def _refuse_versions(bundles: Sequence[Bundle], scored: Sequence[Mapping[str, Any]]) -> None:
    """Refuse scores of different versions of a metric set: their definitions may differ."""
    first: dict[str, str] = {}
    for bundle, scores in zip(bundles, scored, strict=True):
        for found in scores["scorer"]["metric_sets"]:
            known = first.setdefault(found["name"], found["version"])
            if found["version"] != known:
                raise UsageError(
                    f"{bundle.folder.name} was scored by version {found['version']} of "
                    f"'{found['name']}', others by {known}; score them all anew with: "
                    f"l2bench score {bundle.folder.parent}"
                )


def _by_metric(
    bundles: Sequence[Bundle], scored: Sequence[Mapping[str, Any]]
) -> list[list[Mapping[str, Any]]]:
    """Return the entries of each metric, task and source over the lifetimes, together.

    Raises:
        UsageError: if a lifetime has one of them twice, which would count it twice.
    """
    together: dict[tuple[str, str | None, str | None], list[Mapping[str, Any]]] = {}
    for bundle, scores in zip(bundles, scored, strict=True):
        seen: set[tuple[Any, ...]] = set()
        for entry in scores["metrics"]:
            key = (entry["id"], entry["task"], entry["source"])
            if key in seen:
                raise UsageError(
                    f"{bundle.folder.name} holds the metric {entry['id']} twice for one task; "
                    f"score it anew with: l2bench score {bundle.folder}"
                )
            seen.add(key)
            together.setdefault(key, []).append(entry)
    return list(together.values())


def _across(entries: Sequence[Mapping[str, Any]], inputs: str) -> dict[str, Any]:
    """Return one metric's estimate over lifetimes."""
    known = [entry["value"] for entry in entries if entry["value"] is not None]
    names = (entries[0][key] for key in ("id", "task", "source"))
    enough = len(known) >= MINIMUM_FOR_BOOTSTRAP
    rng = bootstrap_generator(inputs, *names) if enough else None
    reasons = sorted({e["undefined_reason"] for e in entries if e["undefined_reason"]})
    shared = {k: v for k, v in entries[0].items() if k not in ("value", "n", "undefined_reason")}
    return {
        **shared,
        **asdict(estimate(known, rng, entries[0]["range"])),
        "n_lifetimes": len(known),
        "undefined_reasons": reasons,
    }


def _entry(metric: Metric, value: Value) -> dict[str, Any]:
    return {
        "id": metric.id,
        "name": metric.name,
        "task": value.task,
        "source": value.source,
        "value": value.value,
        "n": value.n,
        "undefined_reason": value.reason,
        "unit": metric.unit,
        "higher_is_better": metric.higher_is_better,
        "range": list(metric.range),
        "scope": metric.scope,
        "headline": metric.headline,
    }


def _scorer(scores: Scores) -> dict[str, Any]:
    return {
        "name": scores.metric_set,
        "version": scores.version,
        "settings": dict(scores.settings),
    }
