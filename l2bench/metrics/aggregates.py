"""Statistics over runs and tasks, with intervals from a bootstrap that resamples runs.

Sources: Agarwal et al. 2021, arXiv 2108.13264, and the package rliable 1.2.0. Scores come as a long
table, one row a run and task, so that runs cannot be taken for tasks. Tasks may have different
numbers of runs; all are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from l2bench.errors import Unsupported, UsageError
from l2bench.metrics.libero_parts import FloatArray
from l2bench.metrics.statistics import LEVEL, MINIMUM_RUNS, RESAMPLES, Aggregate

#: How many resamples are held in memory at once.
_CHUNK = 500

#: A statistic of scores by task, each of shape (resamples, runs of the task): (resamples,).
Statistic = Callable[[Sequence[FloatArray]], FloatArray]


@dataclass(frozen=True)
class RunScores:
    """Scores by task and run: one number each, tasks in order of appearance."""

    tasks: Mapping[str, Mapping[Hashable, float]]

    @classmethod
    def of(
        cls, *, run: Sequence[Hashable], task: Sequence[str], score: Sequence[float]
    ) -> RunScores:
        """Return the scores of three columns of one table; NaN is not measured and left out.

        Raises:
            Unsupported: if the columns differ in length, a score is infinite, a run has two scores
                on a task, or a task has none.
        """
        if not len(run) == len(task) == len(score):
            raise Unsupported(
                f"the columns differ in length: {len(run)}, {len(task)}, {len(score)}"
            )
        tasks: dict[str, dict[Hashable, float]] = {}
        for one, name, value in zip(run, task, score, strict=True):
            scores = tasks.setdefault(name, {})
            if math.isinf(value):
                raise Unsupported(f"the score of run {one} on task {name} is infinite")
            if one in scores:
                raise Unsupported(f"run {one} has two scores on task {name}; average repeats first")
            if not math.isnan(value):
                scores[one] = float(value)
        empty = [name for name, scores in tasks.items() if not scores]
        if empty or not tasks:
            raise Unsupported(f"no scores{' of task ' + empty[0] if empty else ''}")
        return cls(tasks)

    @property
    def runs(self) -> dict[str, int]:
        """The number of runs of each task."""
        return {name: len(scores) for name, scores in self.tasks.items()}

    def arrays(self) -> list[FloatArray]:
        """Return the scores of each task, (runs of the task,)."""
        return [np.array(list(scores.values())) for scores in self.tasks.values()]


def _iqm(samples: Sequence[FloatArray]) -> FloatArray:
    pooled = np.sort(np.concatenate(samples, axis=1), axis=1)
    cut = pooled.shape[1] // 4
    result: FloatArray = pooled[:, cut : pooled.shape[1] - cut].mean(axis=1)
    return result


def _mean(samples: Sequence[FloatArray]) -> FloatArray:
    result: FloatArray = _task_means(samples).mean(axis=1)
    return result


def _median(samples: Sequence[FloatArray]) -> FloatArray:
    result: FloatArray = np.median(_task_means(samples), axis=1)
    return result


def _task_means(samples: Sequence[FloatArray]) -> FloatArray:
    return np.stack([scores.mean(axis=1) for scores in samples], axis=1)


def optimality_gap(gamma: float) -> Statistic:
    """Return the statistic gamma - mean over tasks of mean min(score, gamma); lower is better."""

    def gap(samples: Sequence[FloatArray]) -> FloatArray:
        return gamma - _mean([np.minimum(scores, gamma) for scores in samples])

    gap.__name__ = f"optimality_gap_{gamma:g}"
    return gap


def above(tau: float) -> Statistic:
    """Return the statistic mean over tasks of the share of scores above tau, in [0, 1]."""

    def share(samples: Sequence[FloatArray]) -> FloatArray:
        return _mean([(scores > tau).astype(float) for scores in samples])

    share.__name__ = f"share_above_{tau:g}"
    return share


#: The statistics by name. The interquartile mean drops floor(n / 4) of all n scores at either end
#: and averages the rest; mean and median are over tasks, of the means over runs.
STATISTICS: Mapping[str, Statistic] = {
    "iqm": _iqm,
    "mean": _mean,
    "median": _median,
    "optimality_gap": optimality_gap(1.0),
}


def aggregate(
    scores: RunScores,
    statistic: str | Statistic,
    rng: np.random.Generator,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    minimum_runs: int = MINIMUM_RUNS,
) -> Aggregate:
    """Return a statistic with the percentile interval of a bootstrap over runs within tasks.

    There is no interval with fewer than ``minimum_runs`` runs of a task, no resamples, or
    resamples that do not differ. ``n`` is the smallest number of runs of a task; a note lists
    unequal ones.

    Raises:
        UsageError: if the statistic is unknown.
    """
    name, function = _named(statistic)
    how = Bootstrap(rng, resamples, level, minimum_runs)
    return how.aggregate(name, function, scores.arrays(), _notes(scores, name))


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are made: from which generator, of how many resamples, at which level."""

    rng: np.random.Generator
    resamples: int = RESAMPLES
    level: float = LEVEL
    minimum_runs: int = MINIMUM_RUNS

    def aggregate(
        self, name: str, function: Statistic, values: Sequence[FloatArray], notes: Sequence[str]
    ) -> Aggregate:
        """Return a statistic of groups of values, with the interval from redrawing each group."""
        point = float(function([value[np.newaxis] for value in values])[0])
        fewest = min(len(value) for value in values)
        low, high, reason = None, None, self._refusal(fewest)
        if reason is None:
            drawn = self.draw(function, values)
            ends = np.quantile(drawn, [(1 - self.level) / 2, (1 + self.level) / 2])
            if ends[0] < ends[1]:
                low, high = float(ends[0]), float(ends[1])
            else:
                reason = "nearly all resamples give the same value: no interval"
        method = "stratified bootstrap, percentile" if low is not None else None
        note = "; ".join([*notes, *([reason] if reason else [])]) or None
        return Aggregate(name, point, low, high, "run", fewest, method, note=note, level=self.level)

    def _refusal(self, fewest: int) -> str | None:
        if fewest < self.minimum_runs:
            return f"n = {fewest}, no interval below {self.minimum_runs} runs of a task"
        return "no resamples were asked for: no interval" if self.resamples < 1 else None

    def draw(self, function: Statistic, values: Sequence[FloatArray]) -> FloatArray:
        """Return the statistic of resamples, (resamples,), each group redrawn by itself."""
        parts = []
        for start in range(0, self.resamples, _CHUNK):
            size = min(_CHUNK, self.resamples - start)
            picks = [self.rng.integers(len(v), size=(size, len(v))) for v in values]
            parts.append(function([v[pick] for v, pick in zip(values, picks, strict=True)]))
        return np.concatenate(parts) if parts else np.empty(0)


def _named(statistic: str | Statistic) -> tuple[str, Statistic]:
    if not isinstance(statistic, str):
        return getattr(statistic, "__name__", "statistic"), statistic
    if statistic not in STATISTICS:
        raise UsageError(f"statistic {statistic!r} is unknown; choose {', '.join(STATISTICS)}")
    return statistic, STATISTICS[statistic]


def _notes(scores: RunScores, name: str) -> list[str]:
    if len(set(scores.runs.values())) == 1:
        return []
    listed = ", ".join(f"{task} {n}" for task, n in scores.runs.items())
    weight = "; each score counts the same" if name == "iqm" else ""
    return [f"runs per task: {listed}{weight}"]


def performance_profile(scores: RunScores, taus: ArrayLike) -> FloatArray:
    """Return for each tau (T,) the share of scores strictly above it, (T,), in [0, 1].

    Tasks count the same. For an interval at one tau, aggregate the statistic `above`.
    """
    values = [value[np.newaxis] for value in scores.arrays()]
    return np.array([float(above(float(tau))(values)[0]) for tau in np.atleast_1d(taus)])


def probability_of_improvement(
    first: RunScores,
    second: RunScores,
    rng: np.random.Generator,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    minimum_runs: int = MINIMUM_RUNS,
) -> Aggregate:
    """Return how likely a run of ``first`` beats one of ``second`` on a task; mean over tasks.

    That is P(X > Y) + P(X = Y) / 2, in [0, 1]; 0.5 is no difference. The runs of both are
    resampled within tasks; they need be neither paired nor equal in number.

    Raises:
        Unsupported: if the two were not run on the same tasks.
    """
    if first.tasks.keys() != second.tasks.keys():
        odd = sorted(first.tasks.keys() ^ second.tasks.keys())
        raise Unsupported(f"only one of the two has scores on task {odd[0]}; compare equal tasks")
    count = len(first.tasks)
    others = dict(zip(second.tasks, second.arrays(), strict=True))
    values = [*first.arrays(), *(others[task] for task in first.tasks)]

    def improvement(samples: Sequence[FloatArray]) -> FloatArray:
        pairs = zip(samples[:count], samples[count:], strict=True)
        result: FloatArray = np.mean([_wins(x, y) for x, y in pairs], axis=0)
        return result

    how = Bootstrap(rng, resamples, level, minimum_runs)
    return how.aggregate("probability_of_improvement", improvement, values, ())


def _wins(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the share of pairs won, ties counting half, of x (R, n) over y (R, m)."""
    gap = x[:, :, np.newaxis] - y[:, np.newaxis, :]
    result: FloatArray = ((np.sign(gap) + 1) / 2).mean(axis=(1, 2))
    return result
