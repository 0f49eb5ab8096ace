"""What a check returns: findings, what was waived, and what was learned on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from l2bench.bundle.model import AgentCard, Manifest, Provenance
from l2bench.bundle.reader import Bundle
from l2bench.check.findings import Finding
from l2bench.check.models import Submission, Tier, Waiver
from l2bench.suite import Suite


@dataclass(frozen=True)
class Rescored(Bundle):
    """A checked bundle whose scores are the recomputed ones; its tables are not kept."""

    fresh: Mapping[str, Any] | None = None

    @property
    def scores(self) -> dict[str, Any]:
        """The scores that the check made from the rows."""
        return dict(self.fresh or {})


@dataclass(frozen=True)
class Facts:
    """What is known of a bundle that was read: its documents, scores and fingerprints.

    ``fingerprints`` are digests by which copies are found; see `l2bench.check.fingerprints`.
    """

    manifest: Manifest
    suite: Suite
    agent: AgentCard
    provenance: Provenance
    manifest_sha256: str
    scores: Mapping[str, Any]
    fingerprints: Mapping[str, Any]

    @property
    def seed(self) -> int:
        """The lifetime's seed."""
        return self.manifest.seed.lifetime

    @property
    def imported(self) -> bool:
        """Whether the numbers come from another tool."""
        return self.manifest.source is not None

    def bundle(self, folder: Path) -> Rescored:
        """Return the bundle under a name, with the recomputed scores."""
        return Rescored(
            folder, self.manifest, self.suite, self.agent, self.provenance, fresh=self.scores
        )

    def data(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return {
            "manifest": self.manifest.model_dump(mode="json"),
            "suite": self.suite.resolved(),
            "agent": self.agent.model_dump(mode="json"),
            "provenance": self.provenance.model_dump(mode="json"),
            "manifest_sha256": self.manifest_sha256,
            "scores": dict(self.scores),
            "fingerprints": dict(self.fingerprints),
        }


def facts_from(data: Mapping[str, Any]) -> Facts:
    """Return facts from what `Facts.data` gave."""
    return Facts(
        Manifest.model_validate(data["manifest"]),
        Suite.model_validate(data["suite"]),
        AgentCard.model_validate(data["agent"]),
        Provenance.model_validate(data["provenance"]),
        data["manifest_sha256"],
        data["scores"],
        data["fingerprints"],
    )


@dataclass(frozen=True)
class Waived:
    """A finding that the board's maintainers have let pass, and why."""

    finding: Finding
    waiver: Waiver


@dataclass(frozen=True)
class Checked:
    """The outcome of a check of one bundle, run folder or submission.

    ``runs`` holds the facts of each bundle that could be read, by its path. ``summary`` is over
    all runs, where they go together. ``tier`` is how far this check can vouch for the result, None
    where it found errors.
    """

    path: Path
    kind: str
    findings: tuple[Finding, ...] = ()
    waived: tuple[Waived, ...] = ()
    runs: Mapping[str, Facts] = field(default_factory=dict)
    submission: Submission | None = None
    key: str | None = None
    summary: Mapping[str, Any] | None = None

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that are errors."""
        return tuple(found for found in self.findings if found.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that are warnings."""
        return tuple(found for found in self.findings if found.severity == "warning")

    @property
    def exit_code(self) -> int:
        """0 without errors, 3 if a version cannot be read, else 1."""
        codes = {found.code for found in self.errors}
        return 0 if not codes else 3 if codes == {"M02"} else 1

    @property
    def tier(self) -> Tier | None:
        """How far the numbers are verified by this check alone."""
        if self.errors or not self.runs:
            return None
        return "reported" if any(run.imported for run in self.runs.values()) else "consistent"

    @property
    def bundles(self) -> tuple[Rescored, ...]:
        """The runs in the order of their seeds, with recomputed scores, without tables."""
        pairs = sorted(self.runs.items(), key=lambda pair: pair[1].seed)
        return tuple(facts.bundle(Path(name)) for name, facts in pairs)

    def without(self, waivers: Mapping[str, Waiver]) -> Checked:
        """Return the outcome with what these waivers cover set apart."""
        held = [found for found in self.findings if found.code in waivers]
        kept = tuple(found for found in self.findings if found.code not in waivers)
        waived = tuple(Waived(found, waivers[found.code]) for found in held)
        return replace(self, findings=kept, waived=(*self.waived, *waived))

    def data(self) -> dict[str, Any]:
        """Return the outcome as plain data."""
        return {
            "path": str(self.path),
            "kind": self.kind,
            "key": self.key,
            "ok": not self.errors,
            "exit_code": self.exit_code,
            "tier": self.tier,
            "errors": len(self.errors),
            "warnings": len(self.warnings),
            "findings": [found.data() for found in self.findings],
            "waived": [
                {"finding": each.finding.data(), "waiver": each.waiver.model_dump(mode="json")}
                for each in self.waived
            ],
            "runs": [_run(name, facts) for name, facts in self.runs.items()],
        }


def _run(name: str, facts: Facts) -> dict[str, Any]:
    manifest = facts.manifest
    return {
        "path": name,
        "bundle_id": manifest.bundle_id,
        "suite": manifest.suite.model_dump(mode="json"),
        "agent": manifest.agent.model_dump(mode="json"),
        "seed": facts.seed,
        "manifest_sha256": facts.manifest_sha256,
        "discarded_attempts": manifest.counts.discarded_attempts,
        "imported": facts.imported,
    }


def distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings without repetitions, in order."""
    seen: dict[str, Finding] = {}
    for finding in findings:
        seen.setdefault(repr(finding), finding)
    return tuple(seen.values())
