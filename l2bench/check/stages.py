"""The rules of a bundle in stages: each builds on what the ones before have accepted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from l2bench.check import (
    companions,
    documents,
    files,
    plausibility,
    plugin_rules,
    rows,
    schedule,
    scores,
    suite_rules,
    tables,
    traces,
)
from l2bench.check.evidence import Check, Evidence
from l2bench.check.findings import Finding, broken, errors


def _companions(evidence: Evidence) -> Iterator[Finding]:
    """Check experts and bound as bundles of their own; their findings carry their path."""
    for reference in evidence.manifest.references:
        inner = Evidence(
            evidence.folder / reference.path,
            board=evidence.board,
            plugins=evidence.plugins,
            companion_of=evidence,
            role=reference.role,
        )
        for finding in examine(inner):
            yield finding.below(reference.path)
        evidence.companions[reference.path] = inner


#: Rules in order. A stage with an error is the last one: what follows would judge sand.
STAGES: tuple[tuple[Check, ...], ...] = (
    (documents.load_manifest,),
    (files.status,),
    (files.listed,),
    (files.unchanged, files.checksums),
    (documents.load_documents,),
    (suite_rules.recorded, files.agent),
    (suite_rules.registered, suite_rules.division, suite_rules.prescribed),
    (companions.present,),
    (_companions,),
    (companions.belongs, plugin_rules.locked, plugin_rules.rendered),
    (tables.read,),
    (rows.unique, plausibility.finite),
    (rows.references,),
    (schedule.counts,),
)

#: What follows for a lifetime that was run: every rule looks, whatever the others find.
RUN: tuple[Check, ...] = (
    rows.numbered,
    rows.seeds,
    rows.starts,
    traces.drawn,
    schedule.blocks,
    schedule.kept,
    schedule.episodes,
    schedule.budget,
    schedule.counters,
    schedule.discarded,
    plausibility.impossible,
    plausibility.times,
    plausibility.fast,
    plausibility.best,
    plausibility.perfect,
    plausibility.unmeasured,
    plausibility.early,
    plausibility.surroundings,
    scores.recompute,
)

#: And for one that was imported: its source prescribed nothing.
IMPORTED: tuple[Check, ...] = (plausibility.impossible, scores.recompute)


def examine(evidence: Evidence, stages: Sequence[tuple[Check, ...]] | None = None) -> list[Finding]:
    """Return everything that is wrong with a bundle and the companions in it.

    ``stages`` limits the examination to these; without it the rows are judged and scored too.
    """
    findings: list[Finding] = []
    for stage in STAGES if stages is None else stages:
        findings += _all(stage, evidence)
        if errors(findings):
            return findings
    if stages is None:
        findings += _all(IMPORTED if evidence.imported else RUN, evidence)
    return findings


def _all(stage: Iterable[Check], evidence: Evidence) -> Iterator[Finding]:
    for rule in stage:
        try:
            yield from rule(evidence)
        except Exception as error:  # a fault of ours or of the content; never a crash
            name = f"{rule.__module__.rpartition('.')[2]}.{rule.__name__}"
            text = f"the rule {name} could not be applied: {type(error).__name__}: {error}"
            yield broken("I01", "", text)


def rules() -> Mapping[str, Check]:
    """Return every rule of a bundle by name."""
    every = [rule for stage in STAGES for rule in stage] + [*RUN, *IMPORTED]
    return {f"{Path(rule.__module__).suffix}.{rule.__name__}": rule for rule in every}
