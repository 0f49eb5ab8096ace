"""The documents of a bundle: manifest, agent card and provenance, each checked key by key."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from l2bench.suite import Model

FORMAT_VERSION = "1.0"

#: ``incomplete``: an import whose source lacks a part; it can be scored, without headlines.
Status = Literal["running", "interrupted", "failed", "complete", "incomplete"]


class SoftwareRef(Model):
    """A release of L2bench."""

    version: str


class SuiteRef(Model):
    """Which suite was run, and whether as registered (closed) or with deviations (open)."""

    id: str
    version: str
    suite_hash: str
    division: Literal["closed", "open"]
    deviations: tuple[str, ...] = ()


class SeedRef(Model):
    """The lifetime's seed and how others are derived from it."""

    lifetime: int
    derivation: str


class AgentRef(Model):
    """Which agent lived this lifetime."""

    name: str
    version: str
    distribution: str
    agent_hash: str


class PluginRef(Model):
    """A plugin that took part."""

    kind: Literal["environment", "agent", "metric_set"]
    name: str
    entry_point: str
    distribution: str
    version: str


class TableRef(Model):
    """A table's size and digests; ``content_sha256`` does not depend on the file's encoding."""

    rows: int
    schema_id: str
    bytes_sha256: str
    content_sha256: str


class FileRef(Model):
    """A file's size and digest."""

    bytes: int
    sha256: str


class Counts(Model):
    """Planned and done, with everything that went wrong on the way."""

    blocks_planned: int
    blocks_sealed: int = 0
    episodes_planned: int
    episodes_done: int = 0
    discarded_attempts: int = 0


class Budget(Model):
    """What was spent."""

    lx_done: int = 0
    env_steps_total: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0


class SourceRef(Model):
    """What an import was made from: the kind of source, how it was read, and what was odd."""

    kind: str
    settings: dict[str, Any] = Field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Reference(Model):
    """Another lifetime that this one is compared with, by its place inside the bundle."""

    role: Literal["expert"]
    task: str
    path: str = Field(pattern=r"^experts/[a-z0-9][a-z0-9._-]*$")
    manifest_sha256: str


class Manifest(Model):
    """The root document of a bundle."""

    format: Literal["l2bench.bundle"] = "l2bench.bundle"
    format_version: str = FORMAT_VERSION
    bundle_id: str
    status: Status
    fidelity: Literal["raw", "aggregate"] = "raw"
    created_at: str
    finished_at: str | None = None
    l2bench: SoftwareRef
    suite: SuiteRef
    seed: SeedRef
    agent: AgentRef
    plugins: tuple[PluginRef, ...] = ()
    tables: dict[str, TableRef] = Field(default_factory=dict)
    files: dict[str, FileRef] = Field(default_factory=dict)
    counts: Counts
    budget: Budget = Budget()
    source: SourceRef | None = None
    references: tuple[Reference, ...] = ()
    journal_head: str
    notes: str = ""


class AgentCard(Model):
    """The agent as configured: qualified name, settings with every default filled in."""

    name: str
    version: str
    distribution: str
    distribution_version: str
    sources: tuple[str, ...]
    settings: dict[str, Any] = Field(default_factory=dict)


class Segment(Model):
    """The conditions of one start or resumption of a run."""

    started_at: str
    python: str
    platform: str
    cpus: int
    packages: dict[str, str]
    environments: dict[str, dict[str, str]] = Field(default_factory=dict)
    agent: dict[str, Any] = Field(default_factory=dict)
    execution: dict[str, Any] = Field(default_factory=dict)
    data: dict[str, Any] = Field(default_factory=dict)


class Provenance(Model):
    """Everything a rerun needs to know beyond suite and agent, one entry per (re)start."""

    segments: tuple[Segment, ...] = ()
