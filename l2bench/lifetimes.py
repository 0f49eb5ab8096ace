"""Runs of a suite: one bundle per seed in one folder, then the summary over them."""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from l2bench.bundle.files import claim, guard_writes, why, write_json
from l2bench.bundle.hashing import file_hash
from l2bench.bundle.locks import alone
from l2bench.bundle.model import AgentCard, Manifest, Role, TaskProbe, Tuning
from l2bench.bundle.reader import SUFFIX, find_bundles, read_bundle
from l2bench.bundle.writer import BundleWriter
from l2bench.cast import AgentSpec, Cast
from l2bench.errors import L2benchError, RunFailed, Unsupported, UsageError, choices, guarded
from l2bench.experts import bound_suite, content_key, expert_suite
from l2bench.plugins import Registry
from l2bench.records import (
    agent_card,
    agent_hash,
    code_of,
    environment_versions,
    facts,
    new_manifest,
    new_segment,
)
from l2bench.runner import LifetimeRunner
from l2bench.scenario import learned_tasks
from l2bench.scoring import companions, metric_sets, score_bundle, summarise
from l2bench.suite import Suite

#: Called with (lifetimes done, lifetimes planned, blocks done, blocks planned, text, fraction);
#: the fraction is None while data is made, and no block advances.
Progress = Callable[[int, int, int, int, str, float | None], None]


#: A companion as it is adopted: what it is, the task it learned, and its bundle.
_Adopted = tuple[Role, str | None, Path]


@dataclass(frozen=True)
class _Companion:
    """Lifetimes to be run for comparison, of which each bundle gets the one of its seed."""

    role: Role
    task: str | None
    suite: Suite
    agent: AgentSpec


@dataclass
class Run:
    """A suite to be run by one agent: who takes part, and how its settings were chosen."""

    registry: Registry
    cast: Cast
    deviations: tuple[str, ...] = ()
    tuning: Tuning = field(default_factory=Tuning)
    probes: dict[str, TaskProbe] = field(default_factory=dict)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The lifetimes to run, by seed."""
        return self.cast.seeds

    def _deviations(self, seed: int) -> tuple[str, ...]:
        extra = () if seed in self.cast.suite.seeds else ("seeds",)
        return (*self.deviations, *extra)

    @property
    def agent_card(self) -> AgentCard:
        """The agent as it will be recorded."""
        return agent_card(self.registry, self.cast)

    @property
    def agent_hash(self) -> str:
        """The digest of the agent as configured."""
        return agent_hash(self.agent_card)

    def execute(
        self, folder: Path, *, resume: bool, progress: Progress, experts: Sequence[Path] = ()
    ) -> dict[str, Any]:
        """Run every seed that is not complete yet and return the summary.

        ``experts`` names ready single-task experts; without it those that the suite asks for are
        run first, or taken from where earlier runs kept them, and so is the multitask bound.

        Raises:
            L2benchError: if the folder exists already (without ``resume``), holds bundles of
                another suite or agent, or a lifetime fails; the others are run all the same.
        """
        if not (resume and folder.is_dir()):
            with guarded(f"setting up agent '{self.cast.agent_name}'"):
                self.cast.new_agent(self.seeds[0])  # what it refuses leaves no folder behind
            claim(folder)
        BundleWriter.clear(folder)
        existing = self._existing(folder)
        seeds = self.seeds
        complete = {seed for seed, at in existing.items() if _complete(at)}
        wanted = () if complete.issuperset(seeds) else self._companions(with_experts=not experts)
        total = len(seeds) * (1 + len(wanted))
        beside = _Beside(self, wanted, _given(experts), progress)
        failures: dict[int, RunFailed] = {}
        for done, seed in enumerate(seeds):
            if seed in complete:
                continue
            report = _of_blocks(progress, len(seeds) * len(wanted) + done, total)
            self.cast.progress = _of_data(report)
            writer = self._writer(folder, seed, existing.get(seed))
            try:
                self._live(writer, seed, report, beside.of)
            except RunFailed as error:
                failures[seed] = error
        _refuse_failures(failures, len(seeds))
        summary = summarise([self._existing(folder)[seed] for seed in seeds])
        write_json(folder / "summary.json", summary)
        return summary

    def _companions(self, *, with_experts: bool) -> tuple[_Companion, ...]:
        """Return the lifetimes that the suite asks for beside each of its own."""
        suite, found = self.cast.suite, []
        if suite.experts and with_experts:
            settings = self.cast.agent_settings.model_dump(mode="json")
            agent = AgentSpec(name=self.cast.agent_name, settings=settings)
            for task in learned_tasks(suite):
                id = suite.tasks[task].id
                found.append(_Companion("expert", id, expert_suite(suite, task), agent))
        if suite.bound:
            joint = self.cast.joint_agent()
            found.append(_Companion("multitask", None, bound_suite(suite), joint))
        return tuple(found)

    def companion_run(
        self, companion: _Companion, progress: Progress
    ) -> tuple[dict[int, Path], bool]:
        """Return the companions by seed, and whether an earlier run had left them all."""
        suite = companion.suite
        execution = self.cast.execution.model_copy(update={"observers": ()})
        cast = Cast.gather(self.registry, suite, companion.agent, execution)
        run = Run(self.registry, cast, probes=self.probes)
        key = content_key(
            suite, run.agent_hash, environment_versions(cast), code_of(self.registry, cast)
        )
        name = f"{companion.task or suite.id}__{slug(self.cast.agent_name)}__{key}"
        folder = execution.data / "experts" / name
        with alone(execution.data / "locks" / name):
            _clear_damaged(folder)
            known = run._existing(folder)
            reused = all(_complete(known.get(seed)) for seed in run.seeds)
            run.execute(folder, resume=True, progress=progress)
            return run._existing(folder), reused

    def _live(
        self,
        writer: BundleWriter,
        seed: int,
        report: Callable[..., None],
        beside: Callable[[int, BundleWriter], Sequence[_Adopted]],
    ) -> None:
        """Run one lifetime into its bundle; whatever stops it leaves a clear status.

        ``beside`` runs what companions of this seed are needed and returns them.
        """
        try:
            adopted = beside(seed, writer)
            runner = LifetimeRunner(self.cast, seed, writer, report)
            self._tell_drift(writer)
            writer.segment(new_segment(self.registry, runner, self.probes))
            runner.run()
            writer.amend_segment(agent=facts(runner))
            writer.adopt(adopted)
            if self.cast.execution.keep_agents:
                writer.keep_agents(writer.folder.parent / "agents" / writer.folder.name)
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
        experts, bound = companions(bundle)
        sets = metric_sets(self.registry, self.cast.suite.metrics, experts, bound=bound)
        return score_bundle(bundle, sets)

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
        before, after = segments[-1].environments, environment_versions(self.cast)
        for name in before:
            if before[name] != after.get(name):
                raise Unsupported(
                    f"{path} was started with {name} on {before[name]}, this machine has "
                    f"{after.get(name)}; resume with the same versions or start anew with -o"
                )

    def _tell_drift(self, writer: BundleWriter) -> None:
        """Say so where a run goes on with other code than it began with."""
        if not (writer.folder / "provenance.json").exists():
            return
        (*_, last) = read_bundle(writer.folder).provenance.segments
        present = code_of(self.registry, self.cast)
        changed = [name for name in present if last.code.get(name, present[name]) != present[name]]
        if changed:
            writer.event("drift", distributions=changed)
            logging.getLogger("l2bench").warning(
                "%s goes on with other code than it began with: %s",
                writer.folder.name,
                choices(changed),
            )

    def _writer(self, folder: Path, seed: int, existing: Path | None) -> BundleWriter:
        if existing is not None:
            return BundleWriter.reopen(existing)
        bundle_id = str(uuid.uuid4())
        name = f"{self.cast.suite.id}__{slug(self.cast.agent_name)}__s{seed}__{bundle_id[:8]}"
        deviations = self._deviations(seed)
        manifest = new_manifest(self.registry, self.cast, seed, bundle_id, deviations, self.tuning)
        return BundleWriter.create(
            folder / f"{name}{SUFFIX}", manifest, self.cast.suite, self.agent_card
        )


@dataclass
class _Beside:
    """The companions of a run's lifetimes: run for all seeds when the first one needs them."""

    run: Run
    wanted: Sequence[_Companion]
    given: Sequence[_Adopted]
    progress: Progress
    ready: dict[int, dict[int, Path]] = field(default_factory=dict)

    def of(self, seed: int, writer: BundleWriter) -> list[_Adopted]:
        """Return what is adopted by the bundle of this seed."""
        seeds = len(self.run.seeds)
        for at, each in enumerate(self.wanted):
            if at not in self.ready:
                shown = _from(self.progress, at * seeds, seeds * (1 + len(self.wanted)))
                self.ready[at], reused = self.run.companion_run(each, shown)
                of = {} if each.task is None else {"task": each.task}
                writer.event(each.role, **of, reused=reused)
        own = [(each.role, each.task, self.ready[at][seed]) for at, each in enumerate(self.wanted)]
        return [*self.given, *own]


def _given(experts: Sequence[Path]) -> list[_Adopted]:
    """Return the ready single-task experts that are named."""
    found = [path for place in experts for path in find_bundles(place)]
    return [("expert", read_bundle(path).suite.tasks[0].id, path) for path in found]


def _complete(bundle: Path | None) -> bool:
    return bundle is not None and read_bundle(bundle).manifest.status == "complete"


def _clear_damaged(folder: Path) -> None:
    """Remove kept companions that are no longer what was recorded, so that they are made anew."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        damage = _damage(path) if (path / "manifest.json").is_file() else None
        if damage is not None:
            logging.getLogger("l2bench").warning(
                "%s is damaged, so it is removed and made anew: %s", path, damage
            )
            try:
                shutil.rmtree(path)
            except OSError as error:
                raise RunFailed(f"cannot remove {path}: {why(error)}; remove it by hand") from error


def _damage(folder: Path) -> str | None:
    """Return what is wrong with the files of a bundle, None if nothing is."""
    try:
        bundle = read_bundle(folder)
        if bundle.manifest.status != "complete":
            return None  # it goes on from its last intact block
        for name, recorded in bundle.manifest.files.items():
            if file_hash(folder / name) != recorded.sha256:
                return f"{name} is not the file that the manifest records"
        bundle.lifetime  # noqa: B018 (read for what it refuses)
    except (L2benchError, OSError) as error:
        return str(error)
    return None


def _refuse_failures(failures: Mapping[int, RunFailed], lifetimes: int) -> None:
    """Raise what lifetimes failed of, once all have had their turn."""
    if not failures:
        return
    (first, error), *_ = failures.items()
    if lifetimes == 1:
        raise error
    seeds = choices([str(seed) for seed in failures])
    raise RunFailed(
        f"{len(failures)} of {lifetimes} lifetimes failed (seeds {seeds}); seed {first}: {error}"
    ) from error


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


def slug(name: str) -> str:
    """Return a name as it may stand in a file name."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-")[:64] or "agent"
