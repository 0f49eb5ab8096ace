"""Mistakes of installing and registering that users of other benchmarks met."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from stubs import Stub, stubbed
from support import ROOT, probe_suite, run_suite, scores_in
from test_plugins import AGENTS, BUILTIN, entry

from l2bench.builtin.probe import Probe, ProbeEnvironment
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.errors import Unsupported
from l2bench.plugins import Registry
from l2bench.suite import Task

L2BENCH = [sys.executable, "-m", "l2bench"]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return a function that installs a distribution: its name, its metadata, its modules."""
    folder = tmp_path / "site"
    modules = []

    def install(name: str, metadata: str, entry_points: str = "", **sources: str) -> Path:
        info = folder / f"{name}-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(metadata)
        if entry_points:
            (info / "entry_points.txt").write_text(f"[l2bench]\n{entry_points}\n")
        (info / "top_level.txt").write_text("".join(f"{module}\n" for module in sources))
        for module, source in sources.items():
            (folder / f"{module}.py").write_text(source)
            modules.append(module)
        monkeypatch.syspath_prepend(str(folder))
        return folder

    yield install
    for module in modules:
        sys.modules.pop(module, None)


def found(registry: Registry, name: str):
    (plugin,) = [plugin for plugin in registry.plugins if plugin.name == name]
    return plugin


# -- names ----------------------------------------------------------------------------------------


def test_plg_01_the_plugin_that_was_chosen_is_recorded(site, tmp_path):
    """PLG-01: where two plugins offer a name, the full name chooses, and the bundle says which."""
    source = "from l2bench.builtin.baselines import Random\n" + "from l2bench.hookspecs import "
    source += "hookimpl\n@hookimpl\ndef l2bench_agents():\n    return {'random': Random}\n"
    site("toys", "Name: toys\nVersion: 1\n", "toys = toys_of_mine", toys_of_mine=source)
    registry = Registry()
    run_suite(registry, probe_suite(1), "toys/random", tmp_path / "run")
    agent = read_bundle(find_bundles(tmp_path / "run")[0]).manifest.agent
    assert (agent.name, agent.distribution) == ("toys/random", "toys 1")


@pytest.mark.parametrize("clutter", ["quickstart", "l2bench", "libero_object"])
def test_plg_02_a_folder_of_the_same_name_changes_nothing(cli, tmp_path, monkeypatch, clutter):
    """PLG-02: names are looked up among suites; only what ends in .yaml is a file."""
    (tmp_path / clutter).mkdir()
    (tmp_path / clutter / "quickstart").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("quickstart", "l2bench/quickstart"):
        code, output, errors = cli("plan", name, "--json")
        assert code == 0, errors
        assert json.loads(output)["suite"]["id"] == "quickstart"


class Settled(ProbeEnvironment):
    """Succeeds as often as its setting says."""

    def make(self, task: Task):
        class Sure(Probe):
            def step(self, action):
                observation, _, *rest, _ = super().step(action)
                return observation, float(task.settings["k"]), *rest, {"success": True}

        return Sure()


def test_plg_03_one_task_twice_with_two_settings(tmp_path):
    """PLG-03: rows belong to the suite's tasks, which may share a task of the environment."""
    suite = probe_suite(2, every=None, scenario={"evaluate": "all"})
    tasks = tuple(
        task.model_copy(
            update={
                "environment": "l2bench/odd", "task": "probe_1", "settings": {"k": k},
                "measure": "return", "score_range": (0.0, 10.0),
            }
        )
        for task, k in zip(suite.tasks, (0, 5), strict=True)
    )  # fmt: skip
    for name in ("one", "two"):  # and two suites that share them
        both = suite.model_copy(update={"tasks": tasks, "id": name})
        run_suite(stubbed(Stub, odd=Settled), both, "stub", tmp_path / name)
        rows = read_bundle(find_bundles(tmp_path / name)[0]).lifetime.episodes.to_pylist()
        assert {(row["task_id"], row["score"]) for row in rows} == {
            ("task-1", 0.0),
            ("task-2", 5.0),
        }


# -- what is broken -------------------------------------------------------------------------------


@pytest.mark.parametrize("metadata", ["Version: 1\n", "Name: half\n", ""])
def test_plg_05_damaged_metadata_are_listed_and_stop_nothing(site, metadata):
    """PLG-05: a distribution without a name or version is shown as broken, beside the others."""
    folder = site("half", metadata, "half = half_of_mine", half_of_mine="")
    registry = Registry()
    assert "no name or version; reinstall it" in found(registry, "half").broken
    assert str(folder) in found(registry, "half").distribution
    assert found(registry, "l2bench").broken is None
    with pytest.raises(Unsupported, match="reinstall it"):
        registry.resolve("agents", "half/x")


def test_plg_06_broken_plugins_fail_a_strict_listing(cli, site):
    """PLG-06: listing shows why; with --strict it also ends with an exit code for scripts."""
    assert cli("plugins", "--strict")[0] == 0
    site("boom", "Name: boom\nVersion: 1\n", "boom = boom_of_mine",
         boom_of_mine="raise ImportError('boom')\n")  # fmt: skip
    code, output, _ = cli("plugins")
    assert (code, "broken: ImportError: boom" in output) == (0, True)
    code, output, _ = cli("plugins", "--strict", "--json")
    broken = [plugin["name"] for plugin in json.loads(output)["plugins"] if plugin["broken"]]
    assert (code, broken) == (3, ["boom"])


@pytest.mark.parametrize("lazy", [False, True])
def test_ins_01_a_dependency_of_another_release_is_named_with_the_one_needed(site, lazy):
    """INS-01: what cannot be imported, which releases the plugin declares, and which is here."""
    site("fake_sim", "Name: fake.sim\nVersion: 2.0\n", fakesim="")
    old = "from fakesim import old_mod\n"
    body = AGENTS.format(names="{'mine': 'simulated_agent:Agent'}")
    site(
        "toys", "Name: toys\nVersion: 1\nRequires-Dist: other\nRequires-Dist: fake-sim<2,>=1.3\n",
        "toys = toys_of_mine", simulated_agent=old,
        toys_of_mine="from l2bench.hookspecs import hookimpl\n" + ("" if lazy else old) + body,
    )  # fmt: skip
    registry = Registry()
    with pytest.raises(Unsupported, match=r"old_mod.*; toys needs fake-sim<2,>=1\.3, found 2\.0"):
        registry.resolve("agents", "toys/mine")
    assert bool(found(registry, "toys").broken) is not lazy
    assert "l2bench/random" in registry.names("agents")


def test_ins_05_a_suite_of_a_plugin_that_is_missing(cli, monkeypatch):
    """INS-05: one line with the command to install it, and no traceback."""
    monkeypatch.setattr("l2bench.plugins._entry_points", lambda: iter([BUILTIN]))
    code, output, errors = cli("run", "libero_object", "agent=random")
    assert (code, output) == (3, "")
    assert errors.count("\n") == 1
    assert "needs the plugin 'libero', which is not installed" in errors
    assert "pip install l2bench-libero" in errors


def test_ins_07_the_core_pins_nothing_exactly():
    """INS-07: a library that is installed beside others asks for ranges, not for one release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in project["dependencies"]:
        assert not re.search(r"==|~=|===", requirement), requirement
    heavy = {"torch", "mujoco", "matplotlib", "robosuite"}
    assert not heavy & {re.match(r"[\w.-]+", r)[0].lower() for r in project["dependencies"]}


# -- wheels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [None, "metrics/__init__.py", "schemas", "suites"])
def test_ins_02_a_wheel_that_lacks_something_does_not_pass(tmp_path, lost):
    """INS-02: the check of the wheels finds a module or a data file that is not packed."""
    folder = tmp_path / "site"
    keep = shutil.ignore_patterns("__pycache__", "tests")
    for package in (ROOT / "l2bench", *(ROOT / "plugins").glob("*/l2bench_*")):
        shutil.copytree(package, folder / package.name, ignore=keep)
    shutil.copytree(ROOT / "suites", folder / "l2bench" / "suites")
    if lost:
        victim = next((folder / "l2bench").rglob(lost))
        shutil.rmtree(victim) if victim.is_dir() else victim.unlink()
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "wheel_check.py"), str(ROOT)],
        env={**os.environ, "PYTHONPATH": str(folder)}, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    if lost is None:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode != 0
        assert lost in done.stderr


# -- what is built too early, and closed too late -------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["run", "--help"], ["run", "quickstart", "--nope"], ["suites"], ["plugins"],
     ["plan", "quickstart"], ["run", "quickstart", "--dry-run"]],
)  # fmt: skip
def test_ren_07_nothing_is_built_to_read_a_command_line(cli, monkeypatch, arguments):
    """REN-07: help, lists, plans and refusals make no live environment."""

    def refuse(*_):
        raise AssertionError("an environment was built")

    monkeypatch.setattr("l2bench.builtin.catch.CatchEnvironment.make", refuse)
    monkeypatch.setattr("l2bench.environment.Environment.make", refuse)
    code, _, errors = cli(*arguments)
    assert code == (2 if "--nope" in arguments else 0), errors
    assert "was built" not in errors


DYING = """
from l2bench.builtin.probe import Probe, ProbeEnvironment
from l2bench.hookspecs import hookimpl
class Dying(Probe):
    def close(self):
        raise OSError("GL is gone")
    def __del__(self):
        raise OSError("GL is gone for good")
class Odd(ProbeEnvironment):
    def make(self, task):
        kept.append(Dying())
        return kept[-1]
kept = []
@hookimpl
def l2bench_environments():
    return {"odd": Odd}
"""

SUITE = """
id: odd
version: "1"
title: Odd
tasks:
  - {id: a, environment: dying/odd, task: probe_1, horizon: 1,
     learning: {source: interaction, unit: episodes, amount: 2}}
scenario: {kind: sequential, episodes: 2}
seeds: [0]
agent: {name: random}
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_ren_03_what_dies_at_the_end_is_a_line_and_not_the_result(site, tmp_path, workers):
    """REN-03: close() and finalisers that raise: the bundle is complete, and one line each."""
    folder = site(
        "dying", "Name: dying\nVersion: 1\n", "dying = dying_of_mine", dying_of_mine=DYING
    )
    (tmp_path / "odd.yaml").write_text(SUITE)
    done = subprocess.run(
        [*L2BENCH, "run", "odd.yaml", "-o", "run", f"execution.workers={workers}"],
        env={**os.environ, "PYTHONPATH": str(folder)}, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if "GL is gone for good" in line]
    assert len(lines) == 1, done.stderr
    assert read_bundle(find_bundles(tmp_path / "run")[0]).manifest.status == "complete"
    assert scores_in(tmp_path / "run")["metrics"]


def test_dat_06_scoring_needs_no_environment_and_a_replay_names_the_one_it_lacks(cli, tmp_path):
    """DAT-06: an environment is recorded by name and plain settings, never as an object."""
    odd = type("Odd", (ProbeEnvironment,), {})
    suite = probe_suite(1)
    tasks = tuple(task.model_copy(update={"environment": "l2bench/odd"}) for task in suite.tasks)
    suite = suite.model_copy(update={"tasks": tasks})
    run_suite(stubbed(Stub, odd=odd), suite, "random", tmp_path / "run", traces=1)
    code, _, errors = cli("score", tmp_path / "run")
    assert code == 0, errors
    code, _, errors = cli("verify", tmp_path / "run")
    assert code == 2
    assert "unknown environment 'l2bench/odd'" in errors
    for odd_setting in (odd, odd(), lambda: None):
        with pytest.raises(ValueError, match="not plain data"):
            Task(id="a", environment="x/y", task="z", settings={"wrapper": odd_setting})


def test_plg_06_a_broken_plugin_is_named_to_whoever_asks():
    """PLG-06: the reason is in the answer."""
    registry = Registry([BUILTIN, entry("toy", "no_such_module_here", "toy-dist")])
    with pytest.raises(Unsupported, match="no_such_module_here"):
        registry.resolve("environments", "toy/x")
