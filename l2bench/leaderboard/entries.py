"""The entries of a board: every accepted submission, checked again, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from l2bench.bundle.reader import Bundle
from l2bench.check.findings import Finding
from l2bench.check.models import BoardFiles, RegisteredSuite, Submission, Tier, Withdrawal
from l2bench.check.results import Waived

#: ``ranked``: takes part in a ranking. ``unranked``: shown with its numbers, without a place.
#: ``superseded``: a newer entry of the same submitter stands in its place. ``withdrawn``: a name, a
#: date and a reason are left. ``excluded``: it does not pass the checks of today.
State = Literal["ranked", "unranked", "superseded", "withdrawn", "excluded"]

TIERS: tuple[Tier, ...] = ("reported", "consistent", "replayed", "reproduced")


@dataclass(frozen=True)
class Entry:
    """One accepted submission; ``key`` is ``suite/version/name``, its place on the board.

    ``bundles`` stand in the order of their seeds and carry scores made from their raw rows;
    ``reasons`` say why an entry has no place in a ranking.
    """

    key: str
    suite: RegisteredSuite
    submission: Submission | None
    findings: tuple[Finding, ...] = ()
    waived: tuple[Waived, ...] = ()
    bundles: tuple[Bundle, ...] = ()
    summary: Mapping[str, Any] | None = None
    tier: Tier = "consistent"
    state: State = "ranked"
    reasons: tuple[str, ...] = ()
    readme: str = ""
    withdrawal: Withdrawal | None = None
    successor: str | None = None

    @property
    def name(self) -> str:
        """The name of the entry's folder."""
        return self.key.rpartition("/")[2]

    @property
    def division(self) -> str:
        """``closed``, or ``open`` where suite, plugins or rules were changed."""
        return self.submission.division if self.submission else "open"

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What the checker found worth a look, without refusing it."""
        return tuple(found for found in self.findings if found.severity == "warning")

    def metric(self, id: str) -> Mapping[str, Any] | None:
        """Return the estimate of a metric of the whole lifetime, if it has a value."""
        for metric in self.summary["metrics"] if self.summary else ():
            if metric["id"] == id and metric["scope"] == "lifetime" and metric["mean"] is not None:
                return dict(metric)
        return None

    def why_no_value(self, id: str) -> str:
        """Return why a metric has no value here."""
        for metric in self.summary["metrics"] if self.summary else ():
            if metric["id"] == id and metric["scope"] == "lifetime":
                return "; ".join(map(str, metric["undefined_reasons"])) or "no value"
        return "this metric is not among its scores"


def settle(entries: Sequence[Entry], board: BoardFiles) -> list[Entry]:
    """Return the entries with what became of each: withdrawn, excluded, superseded or ranked.

    A withdrawal comes first: what is withdrawn needs no check. An entry stands in the place of an
    older one only where both are of one submitter and it is itself shown with its numbers.
    """
    settled = {entry.key: _settled(entry, board) for entry in entries}
    for entry in list(settled.values()):
        if entry.submission is None or entry.submission.supersedes is None:
            continue
        name = entry.submission.supersedes.rpartition("/")[2]
        key = f"{entry.key.rpartition('/')[0]}/{name}"
        if key in settled and _stands_for(entry, settled[key]):
            reason = f"superseded by {entry.name}"
            settled[key] = replace(
                settled[key], state="superseded", successor=entry.name, reasons=(reason,)
            )
    return list(settled.values())


def _settled(entry: Entry, board: BoardFiles) -> Entry:
    withdrawal = next((w for w in board.withdrawals if w.submission == entry.key), None)
    if withdrawal is not None:
        return replace(entry, state="withdrawn", withdrawal=withdrawal, bundles=(), summary=None)
    errors = [found for found in entry.findings if found.severity == "error"]
    if errors or not entry.bundles or entry.summary is None:
        reasons = tuple(f"{found.code}: {found.message}" for found in errors)
        return replace(entry, state="excluded", reasons=reasons or ("it has no readable runs",))
    entry = replace(entry, tier=_tier(entry, board))
    if entry.tier == "reported":
        reason = "its numbers were imported, not run by L2bench: shown as reported, not ranked"
        return replace(entry, state="unranked", reasons=(reason,))
    if entry.metric(entry.suite.headline) is None:
        reason = f"{entry.suite.headline} has no value: {entry.why_no_value(entry.suite.headline)}"
        return replace(entry, state="unranked", reasons=(reason,))
    return replace(entry, state="ranked")


def _tier(entry: Entry, board: BoardFiles) -> Tier:
    """Return how far an entry was verified: the highest tier that somebody vouches for."""
    if any(b.manifest.source or b.manifest.fidelity == "aggregate" for b in entry.bundles):
        return "reported"
    given = [a.tier for a in board.attestations if a.submission == entry.key]
    return max(("consistent", *given), key=TIERS.index)


def _stands_for(entry: Entry, older: Entry) -> bool:
    """Return whether an entry stands in the place of an older one of the same submitter."""
    new, old = entry.submission, older.submission
    if entry.state not in _NUMBERS or older.state not in _NUMBERS or new is None or old is None:
        return False
    newer = (new.date, entry.key) > (old.date, older.key)
    return newer and new.submitter == old.submitter


_NUMBERS = ("ranked", "unranked")
