"""Fingerprints by which copied lifetimes are found, whoever hands them in.

``timed`` covers the rows with their wall times and without seeds: two runs never share it.
``untimed`` leaves the times out: runs that depend on no seed share it, so it proves a copy only
where the rows vary (``variety``) as chance alone would not repeat. ``seeded`` covers the rows with
their seeds: one agent run twice on one seed gives it twice, another agent does not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from l2bench.bundle.hashing import content_hash
from l2bench.bundle.store import VOLATILE
from l2bench.bundle.tables import KEYS
from l2bench.check.evidence import Evidence
from l2bench.check.findings import Finding, broken
from l2bench.check.results import Facts

SEEDED = frozenset({"env_seed", "init_state", "row_id"})

#: Rows of at least this many kinds do not repeat by chance.
VARIED = 20
#: The share of equal episodes between two seeds, beyond chance, that a person should see.
SHARE = 0.3
#: Episodes kept for the comparison of seeds, spread evenly.
MOST = 20_000


def fingerprints(evidence: Evidence) -> dict[str, Any]:
    """Return the digests of a bundle's rows and a sample of its episodes."""
    episodes, learning = evidence.tables["episodes"], evidence.tables["learning"]
    data = evidence.episodes
    pairs = np.stack([data["return"], data["length"].astype(float), data["score"]], axis=1)
    pairs = np.nan_to_num(pairs, nan=-1.0)
    learned = np.nan_to_num(evidence.learning["score"].astype(float), nan=-1.0)
    places = np.linspace(0, max(len(pairs) - 1, 0), min(MOST, len(pairs)))
    sample = np.unique(places.astype(int)).tolist()
    varied = len(np.unique(pairs, axis=0)) + len(np.unique(learned)) if len(pairs) else 0
    return {
        "timed": _digest(episodes, learning, SEEDED),
        "untimed": _digest(episodes, learning, SEEDED | VOLATILE),
        "seeded": _digest(episodes, learning, VOLATILE),
        "variety": varied,
        "rows": len(pairs) + learning.num_rows,
        "sample": {
            "keys": [[int(data[key][at]) for key in KEYS["episodes"]] for at in sample],
            "values": [[float(v) for v in pairs[at][:2]] for at in sample],
        },
    }


def _digest(episodes: Any, learning: Any, leave_out: frozenset[str]) -> str:
    parts = (content_hash(table, leave_out) for table in (episodes, learning))
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def within(runs: Mapping[str, Facts]) -> Iterator[Finding]:
    """Q03, Q04: the seeds of one agent on one suite gave different lifetimes."""
    pairs = [(name, facts) for name, facts in runs.items() if not facts.imported]
    for at, (name, facts) in enumerate(pairs):
        for other, theirs in pairs[:at]:
            if facts.seed == theirs.seed or facts.suite.hash != theirs.suite.hash:
                continue
            if _copied(facts.fingerprints, theirs.fingerprints):
                yield broken(
                    "Q03",
                    name,
                    f"seed {facts.seed} has the rows of seed {theirs.seed} ({other})",
                    found=facts.fingerprints["untimed"],
                )
                continue
            share = _beyond_chance(facts.fingerprints["sample"], theirs.fingerprints["sample"])
            if share >= SHARE:
                yield broken(
                    "Q04",
                    name,
                    f"{share:.0%} more episodes than by chance end as those "
                    f"of seed {theirs.seed} ({other})",
                    expected=f"below {SHARE:.0%}",
                    found=round(share, 4),
                )


def _copied(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    if not ours["rows"]:
        return False
    if ours["timed"] == theirs["timed"]:
        return True
    return bool(ours["untimed"] == theirs["untimed"] and ours["variety"] >= VARIED)


def _beyond_chance(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> float:
    """Return the share of equal (return, length) at equal places minus what chance gives.

    Chance is the share of equal pairs among all pairs of episodes of the same block and task.
    """
    known = dict(zip(map(tuple, theirs["keys"]), map(tuple, theirs["values"]), strict=True))
    cells: dict[tuple[int, ...], list[tuple[Any, Any]]] = {}
    for key, value in zip(map(tuple, ours["keys"]), map(tuple, ours["values"]), strict=True):
        if key in known:
            cells.setdefault(key[:2], []).append((value, known[key]))
    equal = expected = total = 0.0
    for pairs in cells.values():
        equal += sum(one == other for one, other in pairs)
        counted: dict[Any, int] = {}
        for _, other in pairs:
            counted[other] = counted.get(other, 0) + 1
        expected += sum(counted.get(one, 0) for one, _ in pairs) / len(pairs)
        total += len(pairs)
    return (equal - expected) / total if total else 0.0


def elsewhere(
    name: str, facts: Facts, others: Sequence[tuple[str, Mapping[str, Any], str]]
) -> Iterator[Finding]:
    """Q05: a run is no copy of one that somebody else has submitted.

    ``others`` are (submission, fingerprints, agent hash). The same agent run again on the same
    seed gives the same values, which is no copy; the times of a run come only once.
    """
    ours = facts.fingerprints
    for key, theirs, agent_hash in others:
        if not ours["rows"] or not theirs.get("rows"):
            continue
        same_agent = agent_hash == facts.manifest.agent.agent_hash
        again = ours["seeded"] == theirs["seeded"] or ours["untimed"] == theirs["untimed"]
        varied = ours["variety"] >= VARIED
        if ours["timed"] == theirs["timed"] or (again and varied and not same_agent):
            yield broken("Q05", name, f"its rows are those of a run of {key}", found=key)
