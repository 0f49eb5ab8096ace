"""What agents reach on each task at the end of a lifetime, compared: profile, chances, differences.

`weighed` adds this to a comparison. Scores are performances, 0 to 1, in the last evaluation of
several tasks; runs are lifetimes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from l2bench import conditions
from l2bench.bundle.lifetime import Lifetime
from l2bench.bundle.reader import Bundle
from l2bench.comparison import Contender, compare, paired_difference
from l2bench.metrics.aggregates import (
    RunScores,
    aggregate,
    performance_profile,
    probability_of_improvement,
)
from l2bench.metrics.meanings import NEVER_LEARNED, about_keeping
from l2bench.metrics.statistics import LEVEL, MINIMUM_RUNS, RESAMPLES, Aggregate
from l2bench.metrics.views import matrix
from l2bench.scoring import bootstrap_generator

#: The thresholds of the performance profile.
TAUS = tuple(round(0.05 * step, 2) for step in range(21))

#: What is said of the whole suite, over runs and tasks.
STATISTICS = ("iqm", "mean")

#: An agent that ends with at most this share of the best one's performance has learned less.
LESS = 0.8

Scores = dict[str, dict[int, float]]


def weighed(contenders: Sequence[Contender], metrics: Sequence[str] = ()) -> dict[str, Any]:
    """Return `l2bench.comparison.compare` with what the agents reach on each task at the end.

    ``outcomes`` is None where the agents cannot be compared, or nothing was measured at the end.
    ``origin`` holds what differs in software, plugins and execution, by key, a value an agent.

    Raises:
        UsageError: for fewer than two contenders, or an unknown metric.
    """
    found = compare(contenders, metrics)
    first = contenders[0].bundles[0].suite
    more = {
        "suite": {
            "id": first.id,
            "version": first.version,
            "title": first.title,
            "tasks": [task.id for task in first.tasks],
            "deviations": sorted(
                {key for c in contenders for b in c.bundles for key in b.manifest.suite.deviations}
            ),
        },
        "seeds": [[bundle.manifest.seed.lifetime for bundle in c.bundles] for c in contenders],
        "n_tasks": len(first.tasks),
        "n_episodes": [
            sum(bundle.manifest.counts.episodes_done for bundle in c.bundles) for c in contenders
        ],
        "origin": conditions.origins_that_differ([c.bundles for c in contenders]),
    }
    ends = outcomes(contenders) if found["comparable"] else None
    doubts = unlearned(found["metrics"], ends["agents"]) if ends else []
    return {**found, **more, "warnings": [*found["warnings"], *doubts], "outcomes": ends}


def unlearned(
    metrics: Sequence[Mapping[str, Any]], agents: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return a sentence for each agent that may keep more only because it learned less.

    That is: at the end its mean performance is at most `LESS` of the best one's, and a metric of
    keeping (`about_keeping`) is better for it than for that one.
    """
    ends = [
        next(each["value"] for each in agent["statistics"] if each["statistic"] == "mean")
        for agent in agents
    ]
    best = max(range(len(ends)), key=ends.__getitem__)
    found = []
    for at, end in enumerate(ends):
        better = [m["id"] for m in metrics if about_keeping(m["name"]) and _ahead(m, at, best)]
        if better and ends[best] > 0 and end <= LESS * ends[best]:
            found.append(
                f"{agents[at]['agent']} keeps more than {agents[best]['agent']} by "
                f"{', '.join(better)}, but ends with a mean performance of {end:.2f} against "
                f"{ends[best]:.2f}. {NEVER_LEARNED}."
            )
    return found


def _ahead(metric: Mapping[str, Any], one: int, other: int) -> bool:
    """Return whether the mean of one agent is better than that of another."""
    means = [metric["estimates"][at]["mean"] for at in (one, other)]
    if None in means or metric["higher_is_better"] is None:
        return False
    return bool(means[0] > means[1] if metric["higher_is_better"] else means[0] < means[1])


def outcomes(contenders: Sequence[Contender]) -> dict[str, Any] | None:
    """Return what the agents reach on the tasks that all of them were evaluated on at the end."""
    names = [task.id for task in contenders[0].bundles[0].suite.tasks]
    each = [final(c.bundles) for c in contenders]
    shared = [name for name in names if all(scores.get(name) for scores in each)]
    if not shared:
        return None
    runs = [_run_scores({name: scores[name] for name in shared}) for scores in each]
    labels = [c.label for c in contenders]
    inputs = [repr(sorted((name, *sorted(own.items())) for name, own in s.items())) for s in each]
    return {
        "tasks": shared,
        "n_tasks": len(names),
        "n_runs": [min(len(scores[name]) for name in shared) for scores in each],
        "agents": [
            {
                "agent": label,
                "statistics": [_statistic(own, s, of) for s in STATISTICS],
                "profile": profile(own, bootstrap_generator(of, "profile")),
            }
            for label, own, of in zip(labels, runs, inputs, strict=True)
        ],
        "pairs": [
            _pair(labels, runs, each, shared, (i, j), inputs)
            for i in range(len(runs))
            for j in range(i + 1, len(runs))
        ],
    }


def final(bundles: Sequence[Bundle]) -> Scores:
    """Return the performance in the last evaluation of several tasks, by task and seed."""
    found: Scores = {}
    for bundle in bundles:
        for name, value in _last(bundle.lifetime).items():
            found.setdefault(name, {})[bundle.manifest.seed.lifetime] = value
    return found


def _last(lifetime: Lifetime) -> dict[str, float]:
    view = matrix(lifetime)
    if not view["rows"]:
        return {}
    cells = zip(view["columns"], view["rows"][-1]["cells"], strict=True)
    return {name: cell["value"] for name, cell in cells if cell}


def _run_scores(scores: Scores) -> RunScores:
    rows = [(seed, name, v) for name, own in scores.items() for seed, v in own.items()]
    run, task, score = (list(column) for column in zip(*rows, strict=True))
    return RunScores.of(run=run, task=task, score=score)


def _statistic(own: RunScores, name: str, inputs: str) -> dict[str, Any]:
    return asdict(aggregate(own, name, bootstrap_generator(inputs, name)))


def profile(scores: RunScores, rng: np.random.Generator) -> dict[str, Any]:
    """Return the share of scores above each threshold, with its interval from redrawing runs.

    ``low`` and ``high`` are None where a task has too few runs for an interval.
    """
    shares = performance_profile(scores, TAUS)
    band: list[list[float]] | None = None
    if min(scores.runs.values()) >= MINIMUM_RUNS:
        drawn = np.zeros((RESAMPLES, len(TAUS)))
        for values in scores.arrays():
            above = (values[:, None] > np.array(TAUS)).astype(np.float32)
            picks = rng.integers(len(values), size=(RESAMPLES, len(values)))
            drawn += above[picks].mean(axis=1) / len(scores.tasks)
        ends = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        band = ends.tolist()
    return {
        "taus": list(TAUS),
        "share": shares.tolist(),
        "low": band[0] if band else None,
        "high": band[1] if band else None,
    }


def _pair(
    labels: Sequence[str],
    runs: Sequence[RunScores],
    each: Sequence[Scores],
    shared: Sequence[str],
    at: tuple[int, int],
    inputs: Sequence[str],
) -> dict[str, Any]:
    """Return how likely the first is better than the second, and by how much on each task."""
    i, j = at
    both = "".join(sorted((inputs[i], inputs[j])))  # the same for the pair in either order
    rng = bootstrap_generator(both, "improvement")
    if inputs[i] <= inputs[j]:
        chance = probability_of_improvement(runs[i], runs[j], rng)
    else:
        chance = _mirrored(probability_of_improvement(runs[j], runs[i], rng))
    rows = []
    for name in shared:
        sides = each[i][name], each[j][name]
        means = [math.fsum(side.values()) / len(side) for side in sides]
        difference = paired_difference(*sides, bootstrap_generator(both, "task", name))
        rows.append({"task": name, "means": means, **difference})
    return {"agents": [labels[i], labels[j]], "improvement": asdict(chance), "tasks": rows}


def _mirrored(chance: Aggregate) -> Aggregate:
    """Return the chance of the second of a pair from that of the first."""
    value, low, high = (
        None if p is None else 1 - p for p in (chance.value, chance.high, chance.low)
    )
    return replace(chance, value=value, low=low, high=high)
