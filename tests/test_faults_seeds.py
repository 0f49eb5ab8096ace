"""Faults of seeds and of runs side by side that users of other benchmarks met."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path

import numpy as np
from stubs import Stub, stubbed
from support import ROOT, content_hashes, probe_suite, run_suite

from l2bench.agent import TaskContext
from l2bench.builtin.probe import Probe, ProbeEnvironment
from l2bench.bundle.files import claim, read_json
from l2bench.bundle.locks import alone
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.cast import AgentSpec, Cast, Execution
from l2bench.cli.run import _default_folder
from l2bench.errors import UsageError
from l2bench.evaluation import Episode, LocalPool
from l2bench.scenario import plan

SMOKE = ["run", str(ROOT / "suites" / "quickstart.yaml"), "profile=smoke"]


def only(folder: Path):
    (path,) = find_bundles(folder)
    return read_bundle(path)


def of(environment: type, suite=None, agent: type = Stub):
    """A registry with this environment, and a suite of tasks in it."""
    suite = suite or probe_suite(1)
    tasks = tuple(t.model_copy(update={"environment": "l2bench/odd"}) for t in suite.tasks)
    return stubbed(agent, odd=environment), suite.model_copy(update={"tasks": tasks})


def environment(live: type) -> type:
    return type("OddEnvironment", (ProbeEnvironment,), {"make": lambda self, task: live()})


# -- seeds and determinism


def test_seed_01_an_environment_that_ignores_its_seed_is_told(tmp_path, caplog):
    """SEED-01: the bundle says seed_honoured: false, and a warning is shown."""

    class Ignores(Probe):
        def reset(self, *, seed=None, options=None):
            return np.random.default_rng().random(4).astype(np.float32), {"success": False}

    registry, suite = of(environment(Ignores))
    run_suite(registry, suite, "stub", tmp_path / "run")
    (segment,) = only(tmp_path / "run").provenance.segments
    assert segment.probes["task-1"].seed_honoured is False
    assert caplog.text.count("task 'task-1' (l2bench/odd) does not honour its seed") == 1


def test_seed_02_global_generators_are_isolated_per_episode(registry, tmp_path):
    """SEED-02: episodes in order and reversed give the same values one by one."""

    class Global(Probe):
        def step(self, action):
            return np.zeros(4, np.float32), float(np.random.random()), True, False, {}

    _, suite = of(environment(Global))
    task = suite.tasks[0].model_copy(update={"measure": "return"})
    live = environment(Global)()
    episodes = [Episode(i, 1000 + i, 2000 + i, None) for i in range(6)]

    def values(order) -> dict[int, float]:
        np.random.random(len(order))  # somebody else draws as well
        pool = LocalPool({"l2bench/odd": live}, Execution())
        context = TaskContext(live.spaces(task))
        played = pool.run(task, context, order, lambda seen, acting: np.zeros(len(seen), int))
        return {episode.index: outcome.reward for episode, outcome in played}

    forward, backward = values(episodes), values(episodes[::-1])
    assert forward == backward
    assert len(set(forward.values())) == 6


def test_seed_03_a_seed_covers_everything(registry, tmp_path):
    """SEED-03: seed 7 twice gives equal bundles but for times; seed 8 differs."""
    suite = probe_suite(2, scenario={"order": "shuffled", "episodes": 8})
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        run_suite(registry, suite, "random", tmp_path / name, seeds=(seed,))
    assert content_hashes(tmp_path / "a") == content_hashes(tmp_path / "b")
    assert without_times(tmp_path / "a") == without_times(tmp_path / "b")
    (a,), (c,) = (content_hashes(tmp_path / name).values() for name in "ac")
    assert a["episodes"] != c["episodes"]


def without_times(folder: Path) -> list[dict]:
    documents = []
    for name in ("suite.json", "agent.json", "scores.json", "manifest.json", "provenance.json"):
        data = read_json(find_bundles(folder)[0] / name)
        for key in ("bundle_id", "created_at", "finished_at", "budget", "files", "journal_head",
                    "manifest_digest", "tables"):  # fmt: skip
            data.pop(key, None)
        for segment in data.get("segments", ()):
            del segment["started_at"]
        documents.append(data)
    return documents


def test_seed_05_what_numbers_may_depend_on_is_recorded(registry, tmp_path):
    """SEED-05: workers, device, threads and library versions; results do not depend on workers."""
    run_suite(registry, probe_suite(1, scenario={"episodes": 7}), "random", tmp_path / "run",
              workers=2, threads=1)  # fmt: skip
    (segment,) = only(tmp_path / "run").provenance.segments
    assert segment.execution["workers"] == 2
    assert segment.execution["threads"] == 1
    assert segment.execution["device"] == "auto"
    assert {"numpy", "gymnasium", "pyarrow"} <= set(segment.packages)
    run_suite(registry, probe_suite(1, scenario={"episodes": 7}), "random", tmp_path / "other")
    assert content_hashes(tmp_path / "run") == content_hashes(tmp_path / "other")


def test_seed_06_the_suite_names_its_seeds_and_others_are_labelled(cli, tmp_path):
    """SEED-06: another seed than the suite prescribes is a deviation."""
    for name, more, deviates in (("a", [], False), ("b", ["execution.seeds=[66]"], True)):
        code, _, errors = cli(*SMOKE, *more, "-o", tmp_path / name, f"execution.data={tmp_path}")
        assert code == 0, errors
        suite = only(tmp_path / name).manifest.suite
        assert ("seeds" in suite.deviations) is deviates
        assert only(tmp_path / name).manifest.seed.lifetime in (
            [66] if deviates else only(tmp_path / name).suite.seeds
        )


def test_seed_08_lifetimes_tasks_and_episodes_are_counted_apart(registry, tmp_path):
    """SEED-08: 2 lifetimes of 3 tasks with 5 episodes are two lifetimes, not thirty."""
    suite = probe_suite(3, seeds=[0, 1], every=None, scenario={"episodes": 5})
    run_suite(registry, suite, "perfect", tmp_path / "run")
    summary = read_json(tmp_path / "run" / "summary.json")
    assert (summary["n_lifetimes"], summary["n_tasks"]) == (2, 3)
    for metric in summary["metrics"]:
        assert metric["n_lifetimes"] <= 2
    for path in find_bundles(tmp_path / "run"):
        rows = read_bundle(path).lifetime.episodes
        assert {row["task_id"] for row in rows.to_pylist()} == {"task-1", "task-2", "task-3"}
        assert max(rows["episode_index"].to_pylist()) == 4


def test_seed_09_the_order_of_tasks_is_ours_and_does_not_move():
    """SEED-09: a shuffled scenario is the same in every release and with every library."""
    suite = probe_suite(5, every=None, scenario={"order": "shuffled"})
    orders = [[b.task for b in plan(suite, seed) if b.kind == "learn"] for seed in range(3)]
    from hashlib import sha256

    pinned = suite.model_copy(update={"seeds": (0,)})
    assert pinned.hash == suite.hash
    digest = sha256(json.dumps(orders).encode()).hexdigest()
    assert digest[:16] == GOLDEN_ORDER, orders


GOLDEN_ORDER = "08f75501fa358cad"


# -- several processes


def _claim(folder: str) -> bool:
    try:
        claim(Path(folder))
    except UsageError:
        return False
    return True


def test_par_08_folders_are_claimed_by_one(registry, tmp_path):
    """PAR-08: eight processes at one place: one has it; by default each has its own."""
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        claimed = pool.map(_claim, [str(tmp_path / "run")] * 8)
    assert sorted(claimed) == [False] * 7 + [True]
    cast = Cast.gather(registry, probe_suite(1), AgentSpec(name="perfect"), Execution())
    assert len({_default_folder(cast) for _ in range(8)}) == 8


def test_par_10_runs_that_need_the_same_experts_wait_for_each_other(tmp_path):
    """PAR-10: parallel cold starts with one fresh folder of data all succeed."""
    suite = tmp_path / "two.yaml"
    suite.write_text(json.dumps(probe_suite(2, experts=True).resolved()))
    command = [sys.executable, "-m", "l2bench", "run", str(suite), "agent=perfect",
               f"execution.data={tmp_path / 'data'}", "-o"]  # fmt: skip
    runs = [
        subprocess.Popen([*command, str(tmp_path / f"run-{i}")], stderr=subprocess.PIPE, text=True,
                         stdout=subprocess.DEVNULL)
        for i in range(3)
    ]  # fmt: skip
    for process in runs:
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
    ids = {tuple(e.manifest.bundle_id for e in only(tmp_path / f"run-{i}").experts)
           for i in range(3)}  # fmt: skip
    assert len(ids) == 1


def test_a_lock_lets_the_next_one_in(tmp_path):
    for _ in range(2):
        with alone(tmp_path / "locks" / "x"):
            assert (tmp_path / "locks" / "x").exists()
