"""The experts and the bound inside a bundle: there, sound, and of this agent and suite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from l2bench.bundle.hashing import file_hash
from l2bench.bundle.model import Reference
from l2bench.check.evidence import Evidence
from l2bench.check.findings import Finding, broken
from l2bench.experts import bound_suite, expert_suite
from l2bench.scenario import learned_tasks

MANIFEST = "manifest.json"


def present(evidence: Evidence) -> Iterator[Finding]:
    """C06: the experts and the bound that the suite asks for are there, as recorded."""
    references = evidence.manifest.references
    for reference in references:
        yield from _recorded(evidence, reference)
    suite = evidence.suite
    if evidence.imported or evidence.companion_of is not None:
        return
    named = {reference.task for reference in references if reference.role == "expert"}
    for task in learned_tasks(suite) if suite.experts else ():
        id = suite.tasks[task].id
        if id not in named:
            yield broken(
                "C06",
                MANIFEST,
                f"the suite asks for an expert of task {id}, and there is none",
                expected=id,
                found=sorted(name for name in named if name is not None),
            )
    bounds = sum(reference.role == "multitask" for reference in references)
    if bounds != suite.bound:
        yield broken(
            "C06",
            MANIFEST,
            f"the suite asks for {'one' if suite.bound else 'no'} multitask bound",
            expected=int(suite.bound),
            found=bounds,
        )


def _recorded(evidence: Evidence, reference: Reference) -> Iterator[Finding]:
    document = evidence.folder / reference.path / MANIFEST
    if not document.is_file():
        text = f"the {reference.name} is missing"
        yield broken("C06", MANIFEST, text, expected=reference.path)
    elif (digest := file_hash(document)) != reference.manifest_sha256:
        yield broken(
            "C06",
            f"{reference.path}/{MANIFEST}",
            f"not the {reference.name} that the manifest records",
            expected=reference.manifest_sha256,
            found=digest,
        )


def belongs(evidence: Evidence) -> Iterator[Finding]:
    """C06: a companion learned what the suite of its learner says, with the learner's agent."""
    learner = evidence.companion_of
    if learner is None or learner.imported:
        return
    if evidence.manifest.source is not None:
        text = "what a lifetime that was run is compared with is run as well, not imported"
        yield broken("C06", MANIFEST, text, found=evidence.manifest.source.kind)
    elif evidence.role == "multitask":
        yield from _bound(evidence, learner)
    else:
        yield from _expert(evidence, learner)


def _expert(evidence: Evidence, learner: Evidence) -> Iterator[Finding]:
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


def _bound(evidence: Evidence, learner: Evidence) -> Iterator[Finding]:
    """Only the settings of the agent may differ: they make it a joint learner."""
    wanted = bound_suite(learner.suite)
    if evidence.suite.hash != wanted.hash:
        yield broken(
            "C06",
            "suite.json",
            "the multitask bound learned other tasks, budgets or in another scenario",
            expected=wanted.hash,
            found=evidence.suite.hash,
        )
    ours, theirs = _who(learner), _who(evidence)
    if ours != theirs:
        yield broken(
            "C06",
            MANIFEST,
            "the multitask bound is of another seed, another agent or another release of it",
            expected=ours,
            found=theirs,
        )


def _who(evidence: Evidence) -> dict[str, Any]:
    card = evidence.agent.model_dump(mode="json", exclude={"settings"})
    return {**card, "seed": evidence.manifest.seed.lifetime}
