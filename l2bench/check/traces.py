"""Traces: kept by the episodes that the lot fell on, whole, and agreeing with their episode."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from l2bench.bundle.lifetime import columns
from l2bench.bundle.tables import KEYS
from l2bench.check.evidence import Evidence
from l2bench.check.findings import Finding, broken, first_few
from l2bench.check.tables import file_of
from l2bench.seeding import chosen

PATH = file_of("traces")
KEY = KEYS["episodes"]


def drawn(evidence: Evidence) -> Iterator[Finding]:
    """R08: the episodes with a trace are those drawn, and each trace is the whole episode.

    The fraction may differ between the segments of a resumed run; the smallest has to be there.
    """
    kept = _kept(evidence)
    given = [segment.execution.get("traces", 0.0) for segment in evidence.provenance.segments]
    fractions = [float(part) for part in given if isinstance(part, int | float)] or [0.0]
    episodes, faults = evidence.episodes, []
    whole = (evidence.suite.hash, evidence.manifest.seed.lifetime, "traces")
    for row, key in enumerate(zip(*(episodes[name].tolist() for name in KEY), strict=True)):
        if episodes["status"][row] != "ok" or _on_samples(evidence, key[1]):
            continue
        found = kept.pop(key, None)
        if found is None:
            if chosen(min(fractions), *whole, *key):
                text = f"episode {key[2]} of task {key[1]} in block {key[0]} should have a trace"
                faults.append(broken("R08", PATH, text, expected=list(key)))
            continue
        steps, reward, size = found
        length, total = int(episodes["length"][row]), float(episodes["return"][row])
        if not chosen(max(fractions), *whole, *key):
            text = f"episode {key[2]} of task {key[1]} in block {key[0]} has a trace by no lot"
            faults.append(broken("R08", PATH, text, found=list(key)))
        elif steps != list(range(length)):
            text = f"the trace of episode {list(key)} has other steps than the episode"
            faults.append(broken("R08", PATH, text, expected=length, found=len(steps)))
        elif not abs(reward - total) <= 1e-5 * size + 1e-6:  # rewards are kept in single precision
            text = f"the rewards of episode {list(key)} do not add up to its return"
            faults.append(broken("R08", PATH, text, expected=total, found=reward))
    faults += [
        broken("R08", PATH, "a trace of no episode that can have one", found=list(key))
        for key in kept
    ]
    yield from first_few(faults)


def _on_samples(evidence: Evidence, task: int) -> bool:
    return evidence.suite.tasks[task].measure == "accuracy"


def _kept(evidence: Evidence) -> dict[tuple[int, ...], tuple[list[int], float, float]]:
    """Return steps, sum of rewards and sum of their sizes of each traced episode."""
    table = evidence.tables.get("traces")
    if table is None or not table.num_rows:
        return {}
    data = columns(table.select([*KEY, "step", "reward"]))
    keys = np.stack([data[name] for name in KEY], axis=1)
    edges = np.flatnonzero(np.any(keys[1:] != keys[:-1], axis=1)) + 1
    found = {}
    for rows in np.split(np.arange(len(keys)), edges):
        rewards = data["reward"][rows].astype(float)
        key = tuple(int(part) for part in keys[rows[0]])
        found[key] = (data["step"][rows].tolist(), float(rewards.sum()),
                      float(np.abs(rewards).sum()))  # fmt: skip
    return found
