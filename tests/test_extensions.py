"""What plugins add beside environments and agents: observers and Hydra config groups."""

from __future__ import annotations

import pytest
from support import probe_suite, run_suite

from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.cli.compose import compose
from l2bench.errors import RunFailed
from l2bench.plugins import Registry


def registry_with(kind: str, **names) -> Registry:
    registry = Registry()
    plugin = next(p for p in registry.plugins if p.name == "l2bench")
    plugin.names[kind] = {**plugin.names.get(kind, {}), **names}
    return registry


def test_an_observer_is_handed_every_sealed_block(tmp_path):
    seen = []
    registry = registry_with("observers", watch=lambda row, tables: seen.append((row, tables)))
    run_suite(registry, probe_suite(2), "perfect", tmp_path / "run", observers=["watch"])
    lifetime = read_bundle(find_bundles(tmp_path / "run")[0]).lifetime
    assert [row["block_index"] for row, _ in seen] == lifetime.blocks["block_index"].to_pylist()
    rows = sum(len(tables.get("episodes", ())) for _, tables in seen)
    assert rows == lifetime.episodes.num_rows


def test_an_observer_that_raises_ends_the_run_and_loses_nothing(tmp_path):
    def broken(row, tables):
        raise ConnectionError("no tracker")

    registry = registry_with("observers", broken=broken)
    with pytest.raises(RunFailed, match="no tracker"):
        run_suite(registry, probe_suite(1), "perfect", tmp_path / "run", observers=["broken"])
    (bundle,) = find_bundles(tmp_path / "run")
    assert read_bundle(bundle).manifest.counts.blocks_sealed == 1
    run_suite(registry_with("observers"), probe_suite(1), "perfect", tmp_path / "run", resume=True)


SUITE = """
defaults: [_self_, /agent: careful]
id: grouped
version: "1"
title: A suite whose agent comes from a plugin's config group
tasks:
  - id: catch
    environment: l2bench/catch
    task: catch
    horizon: 20
    measure: catch_rate
    learning: {source: interaction, unit: steps, amount: 10}
scenario: {kind: sequential, episodes: 1}
seeds: [0]
"""


def test_config_groups_of_plugins_are_found(tmp_path):
    (tmp_path / "conf" / "agent").mkdir(parents=True)
    careful = "name: l2bench/tabular\nsettings: {epsilon: 0.01}\n"
    (tmp_path / "conf" / "agent" / "careful.yaml").write_text(careful)
    suite = tmp_path / "grouped.yaml"
    suite.write_text(SUITE)
    registry = registry_with("configs", conf=tmp_path / "conf")
    composed = compose(registry, str(suite), [])
    assert composed.agent.settings == {"epsilon": 0.01}
    changed = compose(registry, str(suite), ["agent.settings.epsilon=0.5"])
    assert changed.agent.settings == {"epsilon": 0.5}


def test_a_config_folder_that_is_not_there_disturbs_nobody(tmp_path):
    registry = registry_with("configs", conf=tmp_path / "nowhere", other="also/nowhere")
    assert compose(registry, "quickstart", []).suite.id == "quickstart"
