"""Estimates with intervals from values that are independent of each other, and say of what.

`estimate` is for lifetimes, `rate` and `mean_rate` for counts of successes, `t_mean` and
`clustered` for values and groups of values, `paired` for two agents on the same episodes.
`l2bench.metrics.aggregates` has the statistics over runs and tasks. Fewer values than an interval
needs give none, with a note, never one of width 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from l2bench.errors import Unsupported

#: Fewer lifetimes than this tell nothing of their spread.
MINIMUM_FOR_INTERVAL = 3
#: Whoever shows results of fewer lifetimes than this warns.
FEW = 5
#: Below this the resamples are too few to tell of more than the spread, and Student's interval is
#: given instead of a bootstrap.
MINIMUM_FOR_BOOTSTRAP = 10
#: Fewer runs of a task than this have too few distinct resamples for a stratified bootstrap.
MINIMUM_RUNS = 5
RESAMPLES = 10_000
LEVEL = 0.95

#: The 97.5 % quantile of the normal distribution.
_Z = 1.959963984540054


@dataclass(frozen=True)
class Estimate:
    """A mean over lifetimes with a 95 % interval, or the points alone where they are too few.

    ``low`` and ``high`` are None, and ``note`` says why, with fewer than three points, or where all
    are equal. ``method`` says how the interval was made, ``resampled`` what it takes as
    independent.
    """

    mean: float | None
    low: float | None
    high: float | None
    points: tuple[float, ...]
    note: str | None = None
    method: str | None = None
    resampled: str = "lifetime"


@dataclass(frozen=True)
class Aggregate:
    """A statistic and its interval, made together from the same values.

    ``unit`` is what counts as independent (run, episode, cluster, ...), ``n`` how many there are,
    ``method`` how the interval was made. ``standard_error``, ``low`` and ``high`` are None where
    ``note`` says why; an interval always has a width.
    """

    statistic: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    n: int
    method: str | None = None
    standard_error: float | None = None
    note: str | None = None
    level: float = LEVEL

    def __post_init__(self) -> None:
        """Refuse what a reader could misread.

        Raises:
            ValueError: for half an interval, one without width, a standard error of 0, a number
                that is not finite, an interval without a value, or a gap without a note.
        """
        numbers = [self.value, self.low, self.high, self.standard_error]
        if any(number is not None and not math.isfinite(number) for number in numbers):
            raise ValueError(f"{self.statistic}: {numbers} must be finite or None")
        if (self.low is None) != (self.high is None):
            raise ValueError(f"{self.statistic}: an interval has two ends")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError(f"{self.statistic}: the interval {self.low} to {self.high} is empty")
        if self.standard_error is not None and self.standard_error <= 0:
            raise ValueError(f"{self.statistic}: a standard error is above 0 or None")
        if self.value is None and (self.low is not None or self.standard_error is not None):
            raise ValueError(f"{self.statistic}: an interval without a value")
        if self.low is None and self.note is None:
            raise ValueError(f"{self.statistic}: say why there is no interval")


def estimate(
    points: Sequence[float],
    rng: np.random.Generator | None,
    within: tuple[float | None, float | None] = (None, None),
) -> Estimate:
    """Return the mean and its interval, ``points`` holding one value per lifetime.

    From `MINIMUM_FOR_BOOTSTRAP` lifetimes on the interval is a percentile bootstrap, for which
    ``rng`` is needed; with fewer it is Student's. It is cut to the range ``within`` which values
    belong, an end of None being open, or to the outermost value where one lies beyond.
    """
    values = np.asarray(points, dtype=float)
    count = len(values)
    if count == 0:
        return Estimate(None, None, None, (), "no lifetime has a value")
    mean, kept = math.fsum(values.tolist()) / count, tuple(values.tolist())
    if count < MINIMUM_FOR_INTERVAL:
        note = f"n = {count}, no interval below {MINIMUM_FOR_INTERVAL} lifetimes"
        return Estimate(mean, None, None, kept, note)
    # drawn in any case, so that one agent's values do not move the intervals of the next
    low, high, method = mean_interval(values, rng)
    if _equal(values):
        note = f"n = {count}, all lifetimes have the same value: no interval"
        return Estimate(mean, None, None, kept, note)
    low = low if within[0] is None else max(min(within[0], *kept), low)
    high = high if within[1] is None else min(max(within[1], *kept), high)
    return Estimate(mean, low, high, kept, method=method)


def _equal(values: np.ndarray[Any, Any]) -> bool:
    """Tell whether at least one value are all the same, but for rounding."""
    return bool(np.ptp(values) <= 1e-12 * np.max(np.abs(values)))


def mean_interval(
    values: np.ndarray[Any, Any], rng: np.random.Generator | None
) -> tuple[float, float, str]:
    """Return the ends of the interval of the mean of at least two values, and its method.

    The method is ``t``, or ``bootstrap`` from `MINIMUM_FOR_BOOTSTRAP` values on.

    Raises:
        ValueError: if a bootstrap is due and there is no generator.
    """
    if len(values) >= MINIMUM_FOR_BOOTSTRAP:
        return *_percentiles(_resampled(values, rng), len(values)), "bootstrap"
    reach = t_quantile(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    middle = float(values.mean())
    return middle - reach, middle + reach, "t"


def difference_interval(
    one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], rng: np.random.Generator | None
) -> tuple[float, float, str]:
    """Return the ends of the interval of a difference of means that are not paired, and its method.

    Below `MINIMUM_FOR_BOOTSTRAP` values of either side it is Welch's, with Satterthwaite's degrees
    of freedom rounded down; at least one side has to vary.

    Raises:
        ValueError: if a bootstrap is due and there is no generator.
    """
    if min(len(one), len(other)) >= MINIMUM_FOR_BOOTSTRAP:
        count = min(len(one), len(other))
        return *_percentiles(_resampled(one, rng) - _resampled(other, rng), count), "bootstrap"
    parts = [float(values.var(ddof=1)) / len(values) for values in (one, other)]
    weights = [part**2 / (len(v) - 1) for part, v in zip(parts, (one, other), strict=True)]
    freedom = max(1, math.floor(math.fsum(parts) ** 2 / math.fsum(weights)))
    reach = t_quantile(freedom) * math.sqrt(math.fsum(parts))
    middle = float(one.mean()) - float(other.mean())
    return middle - reach, middle + reach, "t"


def _resampled(
    values: np.ndarray[Any, Any], rng: np.random.Generator | None
) -> np.ndarray[Any, Any]:
    """Return the means of `RESAMPLES` resamples of the values."""
    if rng is None:
        raise ValueError(f"a bootstrap of {len(values)} values needs a generator")
    picks = rng.integers(len(values), size=(RESAMPLES, len(values)))
    means: np.ndarray[Any, Any] = values[picks].mean(axis=1)
    return means


def _percentiles(resamples: np.ndarray[Any, Any], count: int) -> tuple[float, float]:
    """Return the percentile interval of ``count`` values, expanded as far as they are few.

    The percentiles are those of Hesterberg 2015, The American Statistician 69(4): resamples vary
    less than samples do by (n - 1) / n, and their spread is itself an estimate.
    """
    reach = math.sqrt(count / (count - 1)) * t_quantile(count - 1)
    tail = math.erfc(reach / math.sqrt(2)) / 2
    low, high = np.quantile(resamples, [tail, 1 - tail])
    return float(low), float(high)


def wilson(successes: float, trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a success rate, within [0, 1].

    Raises:
        ValueError: for no trials, or successes outside 0..trials.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials is not a rate")
    z = _Z
    rate = successes / trials
    middle = rate + z * z / (2 * trials)
    spread = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    low = 0.0 if successes == 0 else (middle - spread) / scale
    high = 1.0 if successes == trials else (middle + spread) / scale
    return low, high


def rate(successes: float, trials: int) -> Aggregate:
    """Return a success rate with Wilson's interval and its binomial standard error.

    Raises:
        ValueError: for no trials, or successes outside 0..trials.
    """
    return mean_rate([successes], [trials])


def mean_rate(successes: Sequence[float], trials: Sequence[int]) -> Aggregate:
    """Return the mean over groups of their success rates, each group counting the same.

    The standard error is that of this mean, not of the pooled rate. The interval adds the squared
    distances to the ends of the groups' Wilson intervals (Zou and Donner 2008, MOVER); for one
    group it is Wilson's. Trials are taken as independent.

    Raises:
        ValueError: for no groups, unequal lengths, no trials, or successes outside 0..trials.
    """
    if not successes or len(successes) != len(trials):
        raise ValueError(f"{len(successes)} successes and {len(trials)} trials are no rates")
    ends = [wilson(s, n) for s, n in zip(successes, trials, strict=True)]
    rates = [s / n for s, n in zip(successes, trials, strict=True)]
    count = len(rates)
    mean = math.fsum(rates) / count
    down = math.sqrt(math.fsum((p - low) ** 2 for p, (low, _) in zip(rates, ends, strict=True)))
    up = math.sqrt(math.fsum((high - p) ** 2 for p, (_, high) in zip(rates, ends, strict=True)))
    variance = math.fsum(p * (1 - p) / n for p, n in zip(rates, trials, strict=True))
    error = math.sqrt(variance) / count
    note = None if error else "every trial ended alike: the standard error says nothing"
    return Aggregate(
        statistic="mean success rate" if count > 1 else "success rate",
        value=mean,
        low=max(0.0, mean - down / count),
        high=min(1.0, mean + up / count),
        unit="trial",
        n=sum(trials),
        method="wilson" if count == 1 else "wilson, square-and-add over groups",
        standard_error=error or None,
        note=note,
    )


def t_quantile(freedom: int, level: float = LEVEL) -> float:
    """Return t with P(|T| < t) = ``level`` for Student's distribution of whole degrees of freedom.

    The finite sums are those of Abramowitz and Stegun 26.7.3 and 26.7.4, inverted by halving.

    Raises:
        ValueError: if ``freedom`` is below 1 or ``level`` not between 0 and 1.
    """
    if freedom < 1 or not 0 < level < 1:
        raise ValueError(f"no t quantile for {freedom} degrees of freedom at level {level}")
    low, high = 0.0, math.pi / 2
    while (middle := (low + high) / 2) not in (low, high):
        if _t_within(middle, freedom) < level:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan(high)


def _t_within(angle: float, freedom: int) -> float:
    """Return P(|T| < sqrt(freedom) * tan(angle))."""
    square = math.cos(angle) ** 2
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(freedom // 2):
        total += term
        term *= square * (2 * k + 1 + odd) / (2 * k + 2 + odd)
    within = math.sin(angle) * total
    return (angle + within) * 2 / math.pi if odd else within


def t_mean(values: Sequence[float], unit: str, *, level: float = LEVEL) -> Aggregate:
    """Return the mean with its standard error and Student's interval; one value per ``unit``.

    Raises:
        Unsupported: if a value is not finite.
    """
    count = len(values)
    for place, value in enumerate(values):
        if not math.isfinite(value):
            raise Unsupported(f"value {place} is {value}; leave out what was not measured")
    if not count:
        return _bare(None, unit, 0, f"no {unit} has a value", level)
    mean = math.fsum(values) / count
    if count == 1:
        return _bare(mean, unit, 1, f"n = 1 {unit}: no spread to estimate", level)
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (count - 1))
    error = spread / math.sqrt(count)
    reach = t_quantile(count - 1, level) * error
    if mean - reach == mean + reach:
        note = f"n = {count}, each {unit} has the same value: no interval"
        return _bare(mean, unit, count, note, level)
    return Aggregate("mean", mean, mean - reach, mean + reach, unit, count, "t", error, level=level)


def _bare(value: float | None, unit: str, n: int, note: str, level: float) -> Aggregate:
    return Aggregate("mean", value, None, None, unit, n, note=note, level=level)


def clustered(
    *,
    score: Sequence[float],
    cluster: Sequence[Hashable],
    unit: str = "cluster",
    level: float = LEVEL,
) -> Aggregate:
    """Return the mean of the clusters' means, with the standard error between clusters.

    ``score`` and ``cluster`` are two columns of one table. Rows of one cluster (one seed, one task,
    one initial state) need not be independent; clusters count the same whatever their size.

    Raises:
        Unsupported: if the columns differ in length or a score is not finite.
    """
    if len(score) != len(cluster):
        raise Unsupported(f"{len(score)} scores have {len(cluster)} clusters; give one each")
    rows: dict[Hashable, list[float]] = {}
    for value, key in zip(score, cluster, strict=True):
        rows.setdefault(key, []).append(float(value))
    means = [math.fsum(values) / len(values) for values in rows.values()]
    return t_mean(means, unit, level=level)


@dataclass(frozen=True)
class Paired:
    """Successes of two agents from the same initial states, and the exact test of their difference.

    ``p_value`` is McNemar's: how likely discordant pairs as uneven as these are if neither is
    better.
    """

    both: int
    first_only: int
    second_only: int
    neither: int
    p_value: float

    @property
    def n(self) -> int:
        """The number of pairs."""
        return self.both + self.first_only + self.second_only + self.neither


def paired(first: Mapping[Hashable, bool], second: Mapping[Hashable, bool]) -> Paired:
    """Return the table of successes by what identifies an episode (task and initial state).

    Raises:
        Unsupported: if there are none, or the two were not run from the same initial states.
    """
    if first.keys() != second.keys() or not first:
        odd = sorted(map(str, first.keys() ^ second.keys()))
        more = f"only one has {odd[0]}" if odd else "there are none"
        raise Unsupported(f"a paired test needs the same episodes of both; {more}")
    pairs = [(bool(first[key]), bool(second[key])) for key in first]
    wins, losses = pairs.count((True, False)), pairs.count((False, True))
    discordant = wins + losses
    tail = sum(math.comb(discordant, k) for k in range(min(wins, losses) + 1))
    return Paired(
        both=pairs.count((True, True)),
        first_only=wins,
        second_only=losses,
        neither=pairs.count((False, False)),
        p_value=min(1.0, 2 * tail / 2**discordant),
    )
