"""The documents of submissions and of the board that takes them, each checked key by key."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Field

from l2bench.bundle.model import Tuning
from l2bench.suite import Model, Seed, Slug

SUBMISSION_VERSION = "1.0"

#: The root document of a submission.
DOCUMENT = "submission.json"

Text = Annotated[str, Field(max_length=2000)]
Name = Annotated[str, Field(max_length=200, pattern=r"\S")]  # not blank
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

#: How far a result was verified, from the weakest: imported means without rows; all checks passed;
#: episodes replayed from their traces; a lifetime run again by the maintainers.
Tier = Literal["reported", "consistent", "replayed", "reproduced"]


class SubmittedAgent(Model):
    """The agent as its authors name it."""

    name: Name
    version: Name
    code_url: Text | None = None
    commit: Name | None = None
    paper_url: Text | None = None
    licence: Name | None = None


class SubmittedRun(Model):
    """One lifetime of a submission: its archive, relative to the submission."""

    path: Annotated[str, Field(pattern=r"^runs/[A-Za-z0-9._-]+\.l2b\.zip$")]
    seed: Seed
    manifest_sha256: Digest


class ClaimedMetric(Model):
    """A number that a submission states; it is computed again."""

    id: Name
    value: float | None
    low: float | None = None
    high: float | None = None
    n_lifetimes: int


class Submission(Model):
    """The root document of a submission, ``submission.json``."""

    format: Literal["l2bench.submission"] = "l2bench.submission"
    format_version: str = SUBMISSION_VERSION
    name: Name
    submitter: Slug
    date: date
    suite_id: Slug
    suite_version: Name
    suite_hash: str
    division: Literal["closed", "open"]
    agent: SubmittedAgent
    tuning: Tuning
    data_disclosure: Text = ""
    compute: Text = ""
    note: Text = ""
    runs: tuple[SubmittedRun, ...]
    extra_seeds: tuple[Seed, ...] = ()
    metrics: tuple[ClaimedMetric, ...] = ()
    supersedes: Name | None = None

    @property
    def folder_name(self) -> str:
        """The name of the submission's folder: day, submitter and agent."""
        agent = re.sub(r"[^a-z0-9._-]+", "-", self.agent.name.lower()).strip("-._")[:64]
        return f"{self.date:%Y%m%d}_{self.submitter}_{agent or 'agent'}"

    @property
    def key(self) -> str:
        """The submission's place on a board: ``suite/version/name``."""
        return f"{self.suite_id}/{self.suite_version}/{self.folder_name}"


class RegisteredSuite(Model):
    """A suite that the board ranks: ``file`` is its resolved form, relative to the board."""

    id: Slug
    version: Name
    suite_hash: str
    file: str
    seeds: tuple[Seed, ...]
    headline: Name
    status: Literal["open", "closed"] = "open"


class LockedPlugin(Model):
    """A release of an environment, agent or metric plugin that the board accepts."""

    distribution: Name
    version: Name
    record_sha256: tuple[Digest, ...] = ()


class Waiver(Model):
    """A rule that one submission need not meet; only the board's maintainers give them."""

    code: Annotated[str, Field(pattern=r"^[A-Z][0-9]{2}$")]
    submission: Name
    reason: Text
    by: Name
    until: date | None = None


class Withdrawal(Model):
    """An entry that is no longer ranked; it stays visible, with the reason."""

    submission: Name
    on: date
    reason: Text


class Attestation(Model):
    """A tier above ``consistent`` that the maintainers vouch for."""

    submission: Name
    tier: Literal["replayed", "reproduced"]
    on: date
    by: Name
    evidence: Text


class BoardFiles(Model):
    """The documents at the root of a board, in ``board.json``.

    ``accept_editable`` admits runs of environments that are installed in place, for trials.
    """

    format: Literal["l2bench.board"] = "l2bench.board"
    rules_version: str = "1"
    title: Name
    suites: tuple[RegisteredSuite, ...]
    plugins: tuple[LockedPlugin, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    withdrawals: tuple[Withdrawal, ...] = ()
    attestations: tuple[Attestation, ...] = ()
    accept_editable: bool = False
    settings: dict[str, Any] = Field(default_factory=dict)
