"""The documents of a bundle: manifest, agent card and provenance, each checked key by key."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from l2bench.suite import Model, Seed

FORMAT_VERSION = "1.0"

#: ``incomplete``: an import whose source lacks a part; it can be scored, without headlines.
Status = Literal["running", "interrupted", "failed", "complete", "incomplete"]

#: What a lifetime inside another's bundle is to it.
Role = Literal["expert", "multitask"]


class GitRef(Model):
    """The commit that code came from; ``dirty`` if its files were changed since."""

    commit: str
    dirty: bool


class SoftwareRef(Model):
    """A release of L2bench.

    ``record_sha256`` identifies the code: a digest of the installed files by name, or of the
    sources where they run in place. ``modified_files`` counts those that are not what was
    installed.
    """

    version: str
    record_sha256: str | None = None
    modified_files: int = 0
    git: GitRef | None = None


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
    """A plugin that took part; its digest and counts are those of `SoftwareRef`."""

    kind: Literal["environment", "agent", "metric_set"]
    name: str
    entry_point: str
    distribution: str
    version: str
    record_sha256: str | None = None
    modified_files: int = 0
    editable: bool = False
    git: GitRef | None = None


class Tuning(Model):
    """How the agent's settings were chosen: not at all, on a part of a lifetime, or on all of it.

    ``fraction`` is that part, in (0, 1]; ``configurations`` how many were tried, on ``seeds``.
    """

    protocol: Literal["none", "fraction", "full"] = "none"
    fraction: Annotated[float, Field(gt=0, le=1)] | None = None
    configurations: Annotated[int, Field(ge=0)] | None = None
    seeds: tuple[Seed, ...] = ()


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
    errors: int = 0


class Budget(Model):
    """What was spent: steps of learning (``env_steps_total``) and of evaluation, and time.

    ``experts_wall_s`` and ``experts_cpu_s`` are what the single-task experts and the multitask
    bound of this lifetime took, whenever they were run.
    """

    lx_done: int = 0
    env_steps_total: int = 0
    env_steps_eval: int | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    experts_wall_s: float | None = None
    experts_cpu_s: float | None = None


class SourceRef(Model):
    """What an import was made from: the kind of source, how it was read, and what was odd."""

    kind: str
    settings: dict[str, Any] = Field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Reference(Model):
    """Another lifetime that this one is compared with, by its place inside the bundle.

    ``expert``: a single-task expert, of ``task``; ``multitask``: the multitask bound, of no one
    task.
    """

    role: Role
    task: str | None = None
    path: str = Field(pattern=r"^experts/[a-z0-9][a-z0-9._-]*$")
    manifest_sha256: str

    @model_validator(mode="after")
    def _of_a_task(self) -> Reference:
        if (self.role == "expert") != (self.task is not None):
            raise ValueError("an expert names its task, and nothing else does")
        return self

    @property
    def name(self) -> str:
        """What it is, to stand in a sentence."""
        return f"expert of task {self.task}" if self.task is not None else "multitask bound"


class Manifest(Model):
    """The root document of a bundle; ``manifest_digest`` covers everything else in it."""

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
    tuning: Tuning = Tuning()
    source: SourceRef | None = None
    references: tuple[Reference, ...] = ()
    journal_head: str
    notes: str = ""
    manifest_digest: str | None = None


class AgentCard(Model):
    """The agent as configured: qualified name, settings with every default filled in."""

    name: str
    version: str
    distribution: str
    distribution_version: str
    sources: tuple[str, ...]
    settings: dict[str, Any] = Field(default_factory=dict)


class Frame(Model):
    """The first image that a task shows from a fixed seed; mean and spread in its own units."""

    shape: tuple[int, ...]
    dtype: str
    mean: float
    std: float
    sha256: str


class TaskProbe(Model):
    """What resetting a task twice with one seed showed, before the run.

    ``seed_honoured`` is whether both gave the same first observation and the same few steps (None:
    it could not be tried, for the ``reason``). ``frames`` are there for tasks that show images, by
    observation key (``""`` where there is but one), with the ``render_backend`` that drew them.
    """

    seed_honoured: bool | None = None
    reason: str | None = None
    render_backend: str | None = None
    frames: dict[str, Frame] = Field(default_factory=dict)


class Segment(Model):
    """The conditions of one start or resumption of a run.

    ``code`` has the digest of each distribution that took part; ``probes`` are by task.
    """

    started_at: str
    python: str
    platform: str
    cpus: int
    packages: dict[str, str]
    code: dict[str, str] = Field(default_factory=dict)
    environments: dict[str, dict[str, str]] = Field(default_factory=dict)
    agent: dict[str, Any] = Field(default_factory=dict)
    execution: dict[str, Any] = Field(default_factory=dict)
    data: dict[str, Any] = Field(default_factory=dict)
    probes: dict[str, TaskProbe] = Field(default_factory=dict)


class Provenance(Model):
    """Everything a rerun needs to know beyond suite and agent, one entry per (re)start."""

    segments: tuple[Segment, ...] = ()
