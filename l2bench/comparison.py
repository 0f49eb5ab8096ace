"""Comparing agents on one suite: paired by seed, with intervals, ranks as groups, and refusals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from l2bench import conditions
from l2bench.bundle.reader import Bundle, find_bundles, read_bundle, refuse_mixture
from l2bench.deviations import differences
from l2bench.errors import UsageError, choices, nearest
from l2bench.metrics.statistics import (
    MINIMUM_FOR_BOOTSTRAP,
    MINIMUM_FOR_INTERVAL,
    difference_interval,
    estimate,
    mean_interval,
    t_quantile,
)
from l2bench.scoring import bootstrap_generator, inputs_of

#: Standard normal quantile of a two-sided 95 % interval.
Z = 1.959963984540054


@dataclass(frozen=True)
class Contender:
    """The lifetimes of one agent: a label, its bundles, and lifetime values by metric and seed."""

    label: str
    bundles: tuple[Bundle, ...]
    values: Mapping[str, Mapping[int, float]]
    definitions: Mapping[str, Mapping[str, Any]]


def contender(path: Path) -> Contender:
    """Read the complete lifetimes at a path.

    Raises:
        UsageError: if they are not of one agent on one suite.
        Incomplete: if a lifetime has not finished.
    """
    bundles = [read_bundle(folder) for folder in find_bundles(path)]
    return gathered(path.resolve().name, bundles)


def gathered(label: str, bundles: Sequence[Bundle]) -> Contender:
    """Return bundles that were read already as one side of a comparison, under this label.

    Raises:
        UsageError: if they are not of one agent on one suite.
    """
    refuse_mixture(bundles)
    values: dict[str, dict[int, float]] = {}
    definitions: dict[str, Mapping[str, Any]] = {}
    for bundle in bundles:
        for metric in bundle.scores["metrics"]:
            if metric["scope"] != "lifetime":
                continue
            definitions.setdefault(metric["id"], metric)
            if metric["value"] is not None:
                seed = bundle.manifest.seed.lifetime
                values.setdefault(metric["id"], {})[seed] = metric["value"]
    return Contender(label, tuple(bundles), values, definitions)


def incomparable(one: Contender, other: Contender) -> list[str]:
    """Return the reasons why two contenders cannot be compared; none if they can."""
    a, b = one.bundles[0], other.bundles[0]
    reasons = []
    if a.manifest.suite.suite_hash != b.manifest.suite.suite_hash:
        if (a.suite.id, a.suite.version) != (b.suite.id, b.suite.version):
            reasons.append(
                f"they ran different suites: {a.suite.id} {a.suite.version} and "
                f"{b.suite.id} {b.suite.version}"
            )
        else:
            keys = choices(differences(a.suite, b.suite))
            reasons.append(f"their protocols differ in {keys}")
    reasons += conditions.differing(one.bundles, other.bundles)
    if _scorers(one) != _scorers(other):
        reasons.append(
            f"they were scored by {_scorers(one)} and {_scorers(other)}; score them anew"
        )
    return reasons


def _warnings(contenders: Sequence[Contender]) -> list[str]:
    """Return what a reader should know before believing the differences."""
    found = [
        f"{one.label} and {other.label}: {doubt}"
        for at, one in enumerate(contenders)
        for other in contenders[at + 1 :]
        for doubt in conditions.doubts(one.bundles, other.bundles)
    ]
    for each in contenders:
        if tasks := conditions.unseeded(each.bundles):
            found.append(f"{each.label}: {choices(tasks)} did not honour the seed given")
    return found


def _scorers(one: Contender) -> dict[str, str]:
    sets = [s for bundle in one.bundles for s in bundle.scores["scorer"]["metric_sets"]]
    return {found["name"]: found["version"] for found in sets}


def settings_that_differ(contenders: Sequence[Contender]) -> dict[str, list[Any]]:
    """Return what differs in the agents' cards, by key, one value per contender."""
    cards = [c.bundles[0].agent.model_dump(mode="json") for c in contenders]
    flat = [{**card, **{f"settings.{k}": v for k, v in card["settings"].items()}} for card in cards]
    keys = sorted({key for card in flat for key in card} - {"settings"})
    rows = {key: [card.get(key) for card in flat] for key in keys}
    return {key: row for key, row in rows.items() if any(value != row[0] for value in row)}


def compare(contenders: Sequence[Contender], metrics: Sequence[str] = ()) -> dict[str, Any]:
    """Return the comparison of at least two contenders as plain data.

    Without ``metrics`` all headline metrics are compared. Two agents count as told apart where the
    95 % interval of their difference leaves out 0; it is over lifetimes, paired by seed where both
    lived the same seeds: Student's (unpaired: Welch's) below ten lifetimes, from ten on a
    percentile bootstrap.

    Raises:
        UsageError: for fewer than two contenders, or an unknown metric.
    """
    if len(contenders) < 2:
        raise UsageError("comparing needs at least two folders of bundles")
    labels = [c.label for c in contenders]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise UsageError(f"two folders are called '{twice}'; rename one, so that both have a name")
    reasons = [
        f"{one.label} and {other.label}: {reason}"
        for at, one in enumerate(contenders)
        for other in contenders[at + 1 :]
        for reason in incomparable(one, other)
    ]
    head = {
        "format": "l2bench.comparison",
        "agents": [c.label for c in contenders],
        "n_lifetimes": [len(c.bundles) for c in contenders],
        "settings": settings_that_differ(contenders),
        "comparable": not reasons,
        "reasons": reasons,
        "warnings": _warnings(contenders),
    }
    if reasons:
        return {**head, "metrics": []}
    inputs = [inputs_of(c.bundles, [b.scores for b in c.bundles]) for c in contenders]
    chosen = _chosen(contenders, metrics)
    return {**head, "metrics": [_metric(contenders, id, inputs) for id in chosen]}


def _chosen(contenders: Sequence[Contender], metrics: Sequence[str]) -> list[str]:
    known = {id: d for c in contenders for id, d in c.definitions.items()}
    for id in metrics:
        if id not in known:
            raise UsageError(f"unknown metric '{id}'{nearest(id, known)}; known: {choices(known)}")
    return list(metrics) or [id for id, definition in known.items() if definition["headline"]]


def _metric(contenders: Sequence[Contender], id: str, inputs: Sequence[str]) -> dict[str, Any]:
    """Return the estimates, which are those of a summary, and the differences of one metric."""
    definition = next(c.definitions[id] for c in contenders if id in c.definitions)
    values = [dict(sorted(c.values.get(id, {}).items())) for c in contenders]
    pairs = [
        {
            "agents": [contenders[i].label, contenders[j].label],
            **paired_difference(
                values[i],
                values[j],
                bootstrap_generator("".join(sorted((inputs[i], inputs[j]))), id),
            ),
        }
        for i in range(len(values))
        for j in range(i + 1, len(values))
    ]
    estimates = [
        estimate(list(own.values()), bootstrap_generator(of, id, None, None), definition["range"])
        for own, of in zip(values, inputs, strict=True)
    ]
    better = definition["higher_is_better"]
    return {
        "id": id,
        "name": definition["name"],
        "range": definition["range"],
        "unit": definition["unit"],
        "higher_is_better": better,
        "estimates": [asdict(found) for found in estimates],
        "pairs": pairs,
        "ranks": ranks([c.label for c in contenders], pairs, bool(better)) if better is not None
        else None,
    }  # fmt: skip


def paired_difference(
    one: Mapping[int, float], other: Mapping[int, float], rng: np.random.Generator
) -> dict[str, Any]:
    """Return the difference (first minus second) of two agents on one metric.

    With a generator in the same state the other difference has the same interval, mirrored.
    """
    if not one or not other:
        return {"verdict": "undefined", "note": "one of them has no value"}
    x, y = (np.array([side[seed] for seed in sorted(side)]) for side in (one, other))
    wins = np.sign(x[:, None] - y[None, :])
    shared = sorted(one.keys() & other.keys())
    paired = len(shared) == len(one) == len(other)
    result: dict[str, Any] = {
        "paired": paired,
        "difference": float(x.mean() - y.mean()),
        "probability_first_is_larger": float((wins > 0).mean() + (wins == 0).mean() / 2),
        "low": None,
        "high": None,
        "method": None,
        "more_lifetimes": None,
    }
    if min(len(x), len(y)) < MINIMUM_FOR_INTERVAL:
        note = f"insufficient: an interval needs {MINIMUM_FOR_INTERVAL} lifetimes of each"
        return {**result, "verdict": "insufficient", "note": note}
    if paired:
        gaps = np.array([one[seed] - other[seed] for seed in shared])
        spread = float(gaps.std(ddof=1))
    else:
        spread = math.sqrt(x.var(ddof=1) + y.var(ddof=1))
    rounding = 1e-12 * np.max(np.abs([*x, *y]))
    if spread <= rounding:
        same = "identical" if abs(result["difference"]) <= rounding else "apart"
        return {**result, "verdict": same, "note": "every lifetime differs by the same amount"}
    swapped = sorted(other.items()) < sorted(one.items())
    if paired:
        low, high, method = mean_interval(-gaps if swapped else gaps, rng)
    else:
        low, high, method = difference_interval(*((y, x) if swapped else (x, y)), rng)
    low, high = (-high, -low) if swapped else (low, high)
    apart = low > 0 or high < 0
    result |= {"low": low, "high": high, "method": method}
    result["verdict"] = "apart" if apart else "not told apart"
    if not apart and result["difference"]:
        needed = _needed(spread, result["difference"])
        result["more_lifetimes"] = max(1, needed - min(len(x), len(y)))
    return result


def _needed(spread: float, difference: float) -> int:
    """Return about how many lifetimes of each tell this difference from 0 at this spread."""
    count = max(MINIMUM_FOR_INTERVAL, math.ceil((Z * spread / difference) ** 2))
    ratio = abs(difference) / spread
    while count < MINIMUM_FOR_BOOTSTRAP and t_quantile(count - 1) >= ratio * math.sqrt(count):
        count += 1
    return count


def ranks(
    labels: Sequence[str], pairs: Sequence[Mapping[str, Any]], larger_is_better: bool
) -> dict[str, list[int]]:
    """Return each agent's best and worst possible rank; agents not told apart share a range."""
    ahead = dict.fromkeys(labels, 0)
    behind = dict.fromkeys(labels, 0)
    for pair in pairs:
        if pair["verdict"] != "apart":
            continue
        first, second = pair["agents"]
        winner, loser = (
            (first, second) if (pair["difference"] > 0) == larger_is_better else (second, first)
        )
        behind[winner] += 1
        ahead[loser] += 1
    return {label: [1 + ahead[label], len(labels) - behind[label]] for label in labels}
