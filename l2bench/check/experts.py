"""The single-task experts inside a bundle: there, sound, and of this agent and suite."""

from __future__ import annotations

from collections.abc import Iterator

from l2bench.bundle.hashing import file_hash
from l2bench.check.evidence import Evidence
from l2bench.check.findings import Finding, broken
from l2bench.experts import expert_suite
from l2bench.scenario import learned_tasks

MANIFEST = "manifest.json"


def present(evidence: Evidence) -> Iterator[Finding]:
    """C06: the experts that the suite asks for are there, as recorded."""
    references = evidence.manifest.references
    for reference in references:
        document = evidence.folder / reference.path / MANIFEST
        if not document.is_file():
            yield broken(
                "C06",
                MANIFEST,
                f"the expert of task {reference.task} is missing",
                expected=reference.path,
            )
        elif (digest := file_hash(document)) != reference.manifest_sha256:
            yield broken(
                "C06",
                f"{reference.path}/{MANIFEST}",
                f"not the expert of task {reference.task} that the manifest records",
                expected=reference.manifest_sha256,
                found=digest,
            )
    if not evidence.suite.experts or evidence.imported or evidence.expert_of is not None:
        return
    named = {reference.task for reference in references}
    for task in learned_tasks(evidence.suite):
        id = evidence.suite.tasks[task].id
        if id not in named:
            yield broken(
                "C06",
                MANIFEST,
                f"the suite asks for an expert of task {id}, and there is none",
                expected=id,
                found=sorted(named),
            )


def belongs(evidence: Evidence) -> Iterator[Finding]:
    """C06: an expert learned one task of this suite, with this agent, at the same budget."""
    learner = evidence.expert_of
    if learner is None or learner.imported:
        return
    if evidence.manifest.source is not None:
        text = "an expert of a lifetime that was run is run as well, not imported"
        yield broken("C06", MANIFEST, text, found=evidence.manifest.source.kind)
        return
    learned = [task.id for task in learner.suite.tasks]
    id = evidence.suite.tasks[0].id
    if id not in learned:
        yield broken(
            "C06",
            "suite.json",
            f"the expert learned {id}, which the lifetime has not",
            expected=learned,
            found=id,
        )
        return
    wanted = expert_suite(learner.suite, learned.index(id))
    if evidence.suite.hash != wanted.hash:
        yield broken(
            "C06",
            "suite.json",
            f"the expert of task {id} learned another task, budget or scenario",
            expected=wanted.hash,
            found=evidence.suite.hash,
        )
    ours, theirs = learner.manifest.agent.agent_hash, evidence.manifest.agent.agent_hash
    if ours != theirs:
        yield broken(
            "C06",
            MANIFEST,
            f"the expert of task {id} is of another agent or other settings",
            expected=ours,
            found=theirs,
        )
