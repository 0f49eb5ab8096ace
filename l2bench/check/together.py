"""What the runs of a submission are together: every seed once, one agent, one suite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from l2bench.check import fingerprints
from l2bench.check.board import Board
from l2bench.check.findings import Finding, broken
from l2bench.check.models import DOCUMENT, Submission
from l2bench.check.results import Facts
from l2bench.suite import IMPORTED


def rules(
    submission: Submission, runs: Mapping[str, Facts], board: Board | None
) -> Iterator[Finding]:
    """Yield what is wrong with the runs as a whole."""
    if not submission.runs:
        return
    yield from _as_listed(submission, runs)
    yield from one_kind(runs)
    yield from twice(runs)
    yield from _seeds(submission, runs, board)
    yield from fingerprints.within(runs)


def _as_listed(submission: Submission, runs: Mapping[str, Facts]) -> Iterator[Finding]:
    """H06, L01: each run is the one that the document names, of the suite it names."""
    for run in submission.runs:
        facts = runs.get(run.path)
        if facts is None:
            continue
        if facts.manifest_sha256 != run.manifest_sha256:
            yield broken(
                "H06",
                run.path,
                "not the bundle that submission.json names",
                expected=run.manifest_sha256,
                found=facts.manifest_sha256,
            )
        suite = facts.manifest.suite
        extra = suite.deviations == ("seeds",) and run.seed in submission.extra_seeds
        for what, expected, found in (
            ("seed", run.seed, facts.seed),
            (
                "suite",
                f"{submission.suite_id} {submission.suite_version}",
                f"{suite.id} {suite.version}",
            ),
            ("suite_hash", submission.suite_hash, suite.suite_hash),
            ("division", submission.division, submission.division if extra else suite.division),
        ):
            if expected != found:
                yield broken(
                    "L01",
                    run.path,
                    f"another {what} than in submission.json",
                    expected=expected,
                    found=found,
                )


def one_kind(runs: Mapping[str, Facts]) -> Iterator[Finding]:
    """N05: one suite, one agent, one major release."""
    items = list(runs.items())
    for name, facts in items[1:]:
        first = items[0][1]
        for what, expected, found in (
            ("suite", first.manifest.suite.suite_hash, facts.manifest.suite.suite_hash),
            ("agent", first.manifest.agent.agent_hash, facts.manifest.agent.agent_hash),
            ("release of l2bench", _major(first), _major(facts)),
        ):
            if expected != found:
                yield broken(
                    "N05",
                    name,
                    f"another {what} than {items[0][0]}",
                    expected=expected,
                    found=found,
                )


def _major(facts: Facts) -> str:
    return facts.manifest.l2bench.version.split(".")[0]


def twice(runs: Mapping[str, Facts]) -> Iterator[Finding]:
    """M05, N02: no bundle and no seed comes twice."""
    ids: dict[str, str] = {}
    seeds: dict[tuple[Any, ...], str] = {}
    for name, facts in runs.items():
        manifest = facts.manifest
        before = ids.setdefault(manifest.bundle_id, name)
        if before != name:
            yield broken("M05", name, f"the same bundle as {before}", found=manifest.bundle_id)
            continue
        key = (manifest.suite.suite_hash, manifest.agent.agent_hash, facts.seed)
        before = seeds.setdefault(key, name)
        if before != name:
            yield broken("N02", name, f"seed {facts.seed} again, as in {before}", found=facts.seed)


def _foreign(facts: Facts) -> bool:
    """Return whether a run was imported, and is of no environment that can be run here."""
    return facts.imported and all(t.environment.startswith(IMPORTED) for t in facts.suite.tasks)


def _seeds(
    submission: Submission, runs: Mapping[str, Facts], board: Board | None
) -> Iterator[Finding]:
    """N01, N03, N04: every prescribed seed, extras declared, none that was tuned on.

    Of lifetimes that were imported no seed is prescribed: their source knew of no suite.
    """
    entry = board.registered(submission.suite_id, submission.suite_version) if board else None
    suites = [facts.suite for facts in runs.values()]
    prescribed: Sequence[int] = entry.seeds if entry else suites[0].seeds if suites else ()
    foreign = bool(runs) and all(_foreign(facts) for facts in runs.values())
    prescribed = () if foreign else prescribed
    given = {run.seed for run in submission.runs}
    missing = sorted(set(prescribed) - given)
    if missing:
        yield broken(
            "N01",
            DOCUMENT,
            f"no run of seed {', '.join(map(str, missing))}",
            expected=list(prescribed),
            found=sorted(given),
        )
    extra = given - set(prescribed) if prescribed else set()
    declared = set(submission.extra_seeds)
    if not declared <= given if foreign else extra != declared:
        yield broken(
            "N03",
            DOCUMENT,
            "extra_seeds are not the seeds beyond the prescribed ones",
            expected=sorted(extra),
            found=sorted(declared),
        )
    tuned = {*submission.tuning.seeds}
    tuned |= {seed for facts in runs.values() for seed in facts.manifest.tuning.seeds}
    overlap = sorted(tuned & given)
    if overlap:
        yield broken(
            "N04",
            DOCUMENT,
            f"settings were tuned on seed {', '.join(map(str, overlap))}, which is evaluated",
            expected=[],
            found=overlap,
        )
