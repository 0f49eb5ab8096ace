"""Ranks as ranges: entries that cannot be told apart share their places.

Every pair is compared on its own, so that an entry's comparisons do not depend on who else is on
the board, and one entry that ran on another simulator does not end the ranking of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from l2bench.check.models import RegisteredSuite
from l2bench.comparison import Contender, compare, gathered, ranks
from l2bench.leaderboard.entries import Entry, State
from l2bench.suite import Suite


@dataclass(frozen=True)
class Standing:
    """One row of a ranking; ``best`` and ``worst`` are the first and last place it may have."""

    entry: Entry
    best: int
    worst: int

    @property
    def places(self) -> str:
        """The place, or the range of places: ``1`` or ``2-4`` with an en dash."""
        if self.best == self.worst:
            return str(self.best)
        return f"{self.best}\N{EN DASH}{self.worst}"


@dataclass(frozen=True)
class Ranking:
    """The ranked entries of a suite and division, best mean first, and each pair's comparison."""

    metric: str
    standings: tuple[Standing, ...]
    pairs: Mapping[tuple[str, str], Mapping[str, Any]]

    def pair(self, one: str, other: str) -> Mapping[str, Any]:
        """Return how the first differs from the second on the ranking metric."""
        if (one, other) in self.pairs:
            return self.pairs[one, other]
        return _turned(self.pairs[other, one])


def rank(entries: Sequence[Entry], metric: str) -> Ranking:
    """Return the ranking of entries by one metric; all of them have a value of it."""
    ordered = sorted(entries, key=lambda entry: (-_mean(entry, metric), entry.name))
    contenders = [gathered(entry.name, entry.bundles) for entry in ordered]
    pairs: dict[tuple[str, str], Mapping[str, Any]] = {}
    for at, one in enumerate(contenders):
        for other in contenders[at + 1 :]:
            pairs[one.label, other.label] = _compared(one, other, metric)
    labels = [entry.name for entry in ordered]
    found = ranks(labels, list(pairs.values()), True)
    rows = tuple(Standing(entry, *found[entry.name]) for entry in ordered)
    return Ranking(metric, rows, pairs)


def _compared(one: Contender, other: Contender, metric: str) -> Mapping[str, Any]:
    result = compare([one, other], [metric])
    if not result["comparable"]:
        reason = "; ".join(text.split(": ", 1)[-1] for text in result["reasons"])
        return {
            "agents": [one.label, other.label],
            "verdict": "not comparable",
            "difference": None,
            "note": reason,
        }
    pair: Mapping[str, Any] = result["metrics"][0]["pairs"][0]
    return pair


def _turned(pair: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a pair seen from its other side."""
    turned = {**pair, "agents": pair["agents"][::-1]}
    if pair.get("difference") is not None:
        turned["difference"] = -pair["difference"]
    if pair.get("low") is not None:
        turned |= {"low": -pair["high"], "high": -pair["low"]}
    if pair.get("probability_first_is_larger") is not None:
        turned["probability_first_is_larger"] = 1 - pair["probability_first_is_larger"]
    return turned


def _mean(entry: Entry, metric: str) -> float:
    found = entry.metric(metric)
    assert found is not None
    return float(found["mean"])


#: The divisions, in the order in which they are shown.
DIVISIONS = ("closed", "open")


@dataclass(frozen=True)
class SuiteBoard:
    """One version of a suite with its entries; ``newer`` is the version that has taken over.

    ``metrics`` are the headline metrics of its entries, the one that ranks first.
    """

    suite: RegisteredSuite
    resolved: Suite
    entries: tuple[Entry, ...]
    rankings: Mapping[str, Ranking]
    metrics: Mapping[str, Mapping[str, Any]]
    newer: str | None = None

    @classmethod
    def of(
        cls,
        suite: RegisteredSuite,
        resolved: Suite,
        entries: Sequence[Entry],
        newer: str | None = None,
    ) -> SuiteBoard:
        """Rank the entries of a suite, each division on its own."""
        rankings = {}
        for division in DIVISIONS:
            ranked = [e for e in entries if e.state == "ranked" and e.division == division]
            if ranked:
                rankings[division] = rank(ranked, suite.headline)
        placed = [row.entry for ranking in rankings.values() for row in ranking.standings]
        others = sorted((e for e in entries if e.state != "ranked"), key=lambda e: e.key)
        ordered = (*placed, *others)
        return cls(suite, resolved, ordered, rankings, _metrics(entries, suite.headline), newer)

    def of_state(self, *states: State) -> list[Entry]:
        """Return the entries in one of these states."""
        return [entry for entry in self.entries if entry.state in states]

    @property
    def accepted(self) -> int:
        """How many submissions were accepted: those that are shown, and those that are excluded."""
        return len(self.entries)

    @property
    def excluded(self) -> list[Entry]:
        """The entries that do not pass the checks of today."""
        return self.of_state("excluded")

    @property
    def shown(self) -> int:
        """How many entries have a row of their own on the suite's page."""
        return len(self.of_state("ranked", "unranked", "superseded", "withdrawn"))


def _metrics(entries: Sequence[Entry], first: str) -> dict[str, Mapping[str, Any]]:
    """Return the definitions of the headline metrics, the ranking one first."""
    found: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        for metric in entry.summary["metrics"] if entry.summary else ():
            whole = metric["scope"] == "lifetime"
            if whole and (metric["headline"] or metric["id"] == first):
                found.setdefault(metric["id"], metric)
    return {id: found[id] for id in sorted(found, key=lambda id: (id != first,))}
