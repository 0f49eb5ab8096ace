"""The registry: names, clashes, broken plugins, and a stranger's plugin from pip to bundle."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

from l2bench.errors import Unsupported, UsageError
from l2bench.plugins import Registry


def entry(name: str, value: str, distribution: str) -> tuple:
    return (
        importlib.metadata.EntryPoint(name, value, "l2bench"),
        distribution,
        "1.0",
    )


BUILTIN = entry("l2bench", "l2bench.builtin", "l2bench")


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Write modules that plugins can be made of."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(module: str, body: str) -> str:
        (tmp_path / f"{module}.py").write_text(
            "from l2bench.hookspecs import hookimpl\n" + body, encoding="utf-8"
        )
        return module

    yield write
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


AGENTS = "@hookimpl\ndef l2bench_agents():\n    return {names}\n"


def test_bare_names_work_where_one_plugin_has_them(registry):
    assert registry.qualify("agents", "tabular") == "l2bench/tabular"
    assert registry.qualify("agents", "l2bench/tabular") == "l2bench/tabular"


def test_a_bare_name_of_two_plugins_is_refused_with_both(toy):
    """PLG-01: both are named, and the full name chooses one of them."""
    module = toy("toy_a", AGENTS.format(names="{'random': 'toy_a:Agent'}"))
    registry = Registry([BUILTIN, entry("toy", module, "toy-dist")])
    with pytest.raises(UsageError, match="l2bench/random, toy/random"):
        registry.resolve("agents", "random")
    assert registry.qualify("agents", "toy/random") == "toy/random"


def test_two_distributions_with_one_plugin_name_are_both_named(toy):
    """PLG-01: two distributions of one plugin name stop nothing but their own use."""
    module = toy("toy_b", AGENTS.format(names="{'mine': 'toy_b:Agent'}"))
    registry = Registry(
        [BUILTIN, entry("toy", module, "first-dist"), entry("toy", module, "second-dist")]
    )
    with pytest.raises(Unsupported, match="claimed by first-dist and second-dist"):
        registry.resolve("agents", "toy/mine")
    assert "l2bench/random" in registry.names("agents")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise ImportError('boom')\n", "ImportError: boom"),
        ("@hookimpl\ndef l2bench_agnets():\n    return {}\n", "unknown hook 'l2bench_agnets'"),
        ("@hookimpl\ndef l2bench_agents():\n    raise ValueError('bad')\n", "ValueError: bad"),
    ],
)
def test_a_broken_plugin_is_listed_and_fatal_only_when_used(toy, body, words):
    """PLG-06: the reason is listed, and told to whoever asks for the plugin."""
    module = toy("toy_c", body)
    registry = Registry([BUILTIN, entry("toy", module, "toy-dist")])
    (broken,) = [plugin for plugin in registry.plugins if plugin.broken]
    assert words in broken.broken
    assert registry.qualify("agents", "random") == "l2bench/random"
    with pytest.raises(Unsupported, match="toy-dist"):
        registry.resolve("agents", "toy/mine")


def test_an_entry_point_to_nowhere_is_listed_as_broken():
    """PLG-05: a module that is not there breaks its own plugin only."""
    registry = Registry([BUILTIN, entry("toy", "no_such_module_here", "toy-dist")])
    assert "No module named" in (registry.plugins[1].broken or "")


def test_a_target_that_cannot_be_imported_names_what_is_missing(toy):
    module = toy("toy_d", AGENTS.format(names="{'mine': 'no_such_module:Agent'}"))
    registry = Registry([BUILTIN, entry("toy", module, "toy-dist")])
    with pytest.raises(Unsupported, match=r"toy-dist 1\.0 cannot be imported.*no_such_module"):
        registry.resolve("agents", "toy/mine")


def test_listing_imports_no_target(toy):
    module = toy("toy_e", AGENTS.format(names="{'mine': 'no_such_module:Agent'}"))
    registry = Registry([entry("toy", module, "toy-dist")])
    assert list(registry.names("agents")) == ["toy/mine"]


def test_unknown_names_get_the_nearest(registry):
    with pytest.raises(UsageError, match="did you mean 'l2bench/tabular'"):
        registry.resolve("agents", "tabluar")


def test_a_missing_plugin_of_the_house_gets_the_command():
    """PLG-07: a known name whose plugin is not installed says what to install."""
    with pytest.raises(Unsupported, match="pip install l2bench-libero"):
        Registry([BUILTIN]).resolve("environments", "libero/libero_object")


PLUGIN = """
from pathlib import Path

import gymnasium
import numpy as np

from l2bench.environment import Environment, TaskInfo
from l2bench.hookspecs import hookimpl


class Coin(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side = int(self.np_random.integers(2))
        return np.array([self.side], np.float32), {"success": False}

    def step(self, action):
        won = action == self.side
        return np.zeros(1, np.float32), float(won), True, False, {"success": won}


class Coins(Environment):
    def tasks(self):
        return {"coin": TaskInfo(frozenset({"interaction"}), horizon=1)}

    def make(self, task):
        return Coin()


@hookimpl
def l2bench_environments():
    return {"coins": "l2bench_coins:Coins"}


@hookimpl
def l2bench_suites():
    return {"coins": Path(__file__).with_name("coins.yaml")}
"""

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "l2bench-coins"
version = "0.3"

[project.entry-points.l2bench]
coins = "l2bench_coins"

[tool.hatch.build.targets.wheel]
only-include = ["l2bench_coins.py", "coins.yaml"]
"""

SUITE = """
id: coins
version: "1"
title: One coin
tasks:
  - id: coin
    environment: coins/coins
    task: coin
    learning: {source: interaction, unit: episodes, amount: 200, every: 100}
scenario: {kind: sequential, episodes: 10}
seeds: [0]
agent: {name: l2bench/tabular}
"""


def test_a_strangers_plugin_is_installed_listed_and_run(tmp_path):
    """One file and one entry point, made outside the repository, installed by pip."""
    project, site = tmp_path / "coins", tmp_path / "site"
    project.mkdir()
    (project / "l2bench_coins.py").write_text(PLUGIN)
    (project / "pyproject.toml").write_text(PYPROJECT)
    (project / "coins.yaml").write_text(SUITE)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(site), str(project)], check=True, cwd=tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "l2bench"]

    def call(*arguments: str) -> dict:
        done = subprocess.run(
            [*command, *arguments, "--json"],
            cwd=tmp_path, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    (coins,) = [p for p in call("plugins")["plugins"] if p["name"] == "coins"]
    assert coins["distribution"] == "l2bench-coins"
    assert coins["environments"] == ["coins"]
    assert "coins/coins" in [suite["name"] for suite in call("suites")["suites"]]
    summary = call("run", "coins/coins", "-o", "run")
    assert summary["suite"]["id"] == "coins"
    (bundle,) = (tmp_path / "run").glob("*.l2b")
    manifest = json.loads((bundle / "manifest.json").read_text())
    (used,) = [each for each in manifest["plugins"] if each["kind"] == "environment"]
    origin = {"name": "coins/coins", "entry_point": "l2bench_coins",
              "distribution": "l2bench-coins", "version": "0.3"}  # fmt: skip
    assert origin.items() <= used.items()
    assert used["record_sha256"]
    curve = json.loads((bundle / "scores.json").read_text())["curves"][0]["points"]
    assert curve[-1]["value"] == 1.0
    assert not (ROOT / "l2bench_coins.py").exists()
    assert Path(site / "l2bench_coins.py").exists()
