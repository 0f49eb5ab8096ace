"""Mistakes of evaluation protocols that users of other benchmarks met."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from stubs import Stub, stubbed
from support import content_hashes, probe_suite, run_suite, scores_in

from l2bench.agent import AgentSettings
from l2bench.builtin.probe import Probe, ProbeEnvironment
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.comparison import compare, contender
from l2bench.environment import TaskInfo
from l2bench.errors import UsageError


def only(folder: Path):
    (path,) = find_bundles(folder)
    return read_bundle(path)


LONG = TaskInfo(frozenset({"interaction"}), horizon=5)


class Patient(Stub):
    """Lives every episode to its end."""

    def learn(self, lesson, task):
        while lesson.remaining:
            lesson.reset()
            over = False
            while not over and lesson.remaining:
                _, _, terminated, truncated, _ = lesson.step(0)
                over = terminated or truncated


def lived(folder: Path, methods: dict, suite=None, info: TaskInfo | None = None, agent=Stub):
    """Live a suite whose tasks step as told, and return its bundle."""
    live = type("Odd", (Probe,), methods)
    told = {"tasks": lambda self: {"probe_1": info}} if info else {}
    odd = type("OddEnvironment", (ProbeEnvironment,), {"make": lambda self, task: live(), **told})
    suite = suite or probe_suite(1)
    tasks = tuple(t.model_copy(update={"environment": "l2bench/odd"}) for t in suite.tasks)
    suite = suite.model_copy(update={"tasks": tasks})
    run_suite(stubbed(agent, odd=odd), suite, "stub", folder)
    return only(folder)


def horizon(suite, steps: int):
    tasks = tuple(t.model_copy(update={"horizon": steps}) for t in suite.tasks)
    return suite.model_copy(update={"tasks": tasks})


def test_eval_01_the_initial_state_is_a_function_of_the_episode(tmp_path):
    """EVAL-01: 10 episodes of 50 states: 0 to 9, stored, none twice."""
    asked = []

    def reset(self, *, seed=None, options=None):
        asked.append((options or {}).get("initial_state"))
        return np.zeros(4, np.float32), {"success": False}

    info = TaskInfo(frozenset({"interaction"}), horizon=1, initial_states=50)
    suite = probe_suite(1, every=None, scenario={"episodes": 10})
    bundle = lived(tmp_path / "run", {"reset": reset}, suite, info)
    used = bundle.lifetime.episodes["init_state"].to_pylist()
    assert used == list(range(10))
    assert [state for state in asked if state is not None][-10:] == list(range(10))


def test_eval_02_another_horizon_is_a_deviation(cli, tmp_path):
    """EVAL-02: scored, marked as a deviation, in the open division."""
    code, _, errors = cli(
        "run", "quickstart", "profile=smoke", "task_defaults.horizon=150",
        f"execution.data={tmp_path}", "-o", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, errors
    suite = only(tmp_path / "run").manifest.suite
    assert suite.division == "open"
    assert any("horizon" in deviation for deviation in suite.deviations)
    assert scores_in(tmp_path / "run")["metrics"]


@pytest.mark.parametrize(
    ("terminated", "truncated", "success", "score"),
    [(False, True, False, 0.0), (True, False, False, 0.0), (False, True, True, 1.0)],
)
def test_eval_03_the_end_of_an_episode_is_not_its_success(
    tmp_path, terminated, truncated, success, score
):
    """EVAL-03: terminated, truncated and success are three fields; only the last one counts."""

    def step(self, action):
        return np.zeros(4, np.float32), 0.0, terminated, truncated, {"success": success}

    (row, *_) = lived(tmp_path / "run", {"step": step}).lifetime.episodes.to_pylist()
    assert (row["terminated"], row["truncated"]) == (terminated, truncated)
    assert (row["success"], row["score"]) == (success, score)


@pytest.mark.parametrize("flags", [(True, True, True), (False, True, False)])
def test_eval_04_success_is_one_however_often_it_is_told(tmp_path, flags):
    """EVAL-04: three steps that say so are one success; one that said so once has succeeded."""

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return np.zeros(4, np.float32), {"success": False}

    def step(self, action):
        self.at += 1
        told = {"success": flags[self.at - 1]}
        return np.zeros(4, np.float32), 0.0, self.at == len(flags), False, told

    methods, suite = {"reset": reset, "step": step}, horizon(probe_suite(1), 5)
    bundle = lived(tmp_path / "run", methods, suite, LONG, agent=Patient)
    assert set(bundle.lifetime.episodes["score"].to_pylist()) == {1.0}
    assert set(bundle.lifetime.episodes["length"].to_pylist()) == {3}


@pytest.mark.parametrize("steps", [5, 6])
def test_eval_05_a_horizon_beyond_the_environments_own_is_refused_at_the_start(tmp_path, steps):
    """EVAL-05: an environment that ends at 5 steps: a horizon of 5 runs, one of 6 is refused."""

    def step(self, action):
        return np.zeros(4, np.float32), 0.0, False, False, {"success": False}

    suite = horizon(probe_suite(1), steps)
    if steps > 5:
        with pytest.raises(UsageError, match=r"horizon of 6 steps.*after 5"):
            lived(tmp_path / "run", {"step": step}, suite, LONG, agent=Patient)
        assert not (tmp_path / "run").exists()
        return
    rows = lived(tmp_path / "run", {"step": step}, suite, LONG, agent=Patient).lifetime.episodes
    assert set(rows["length"].to_pylist()) == {5}
    assert all(rows["truncated"].to_pylist())
    assert not any(rows["terminated"].to_pylist())


def test_eval_06_both_values_right_after_learning_are_kept(registry, tmp_path):
    """EVAL-06: the best point of the curve and the evaluation that follows are two blocks."""
    run_suite(registry, probe_suite(2), "forgetter", tmp_path / "run")
    lifetime = only(tmp_path / "run").lifetime
    own = [b for b in lifetime.blocks.to_pylist() if b["learn_task"] == 0 and b["kind"] == "eval"]
    assert [b["role"] for b in own] == ["curve", "curve", "curve", "post"]
    counts = lifetime.episodes["block_index"].to_pylist()
    assert all(counts.count(b["block_index"]) == 5 for b in own)


def test_eval_07_the_choice_of_the_checkpoint_is_part_of_the_suite(registry, tmp_path):
    """EVAL-07: the rule is in the suite, what was chosen in the blocks, and both are hashed."""
    best, last = (probe_suite(2, scenario={"keep": keep}) for keep in ("best", "last"))
    assert best.hash != last.hash
    run_suite(registry, best, "late_bloomer", tmp_path / "run")
    bundle = only(tmp_path / "run")
    assert bundle.suite.scenario.keep == "best"
    posts = [b for b in bundle.lifetime.blocks.to_pylist() if b["role"] == "post"]
    assert {(b["policy_ref"], b["selected_checkpoint"]) for b in posts} == {("best", 4)}


def test_eval_11_the_dry_run_counts_the_rows_of_the_run(cli, tmp_path):
    """EVAL-11: the plan's total is the number of rows of the bundle."""
    code, output, errors = cli("run", "quickstart", "profile=smoke", "--dry-run", "--json")
    assert code == 0, errors
    cli("run", "quickstart", "profile=smoke", f"execution.data={tmp_path}", "-o", tmp_path / "run")
    counts = only(tmp_path / "run").manifest.counts
    rows = only(tmp_path / "run").lifetime.episodes.num_rows
    assert counts.episodes_planned == counts.episodes_done == rows
    assert str(rows) in output


def test_eval_12_settings_of_the_agent_are_recorded_and_compared(tmp_path):
    """EVAL-12: two bundles that differ in one setting: the comparison names it."""

    class Chunked(AgentSettings):
        n_action_steps: int = 8

    class Keeper(Stub):
        Settings: ClassVar = Chunked

    for name, steps in (("one", 8), ("two", 4)):
        settings = {} if steps == 8 else {"n_action_steps": steps}
        run_suite(stubbed(Keeper), probe_suite(1), "stub", tmp_path / name, settings=settings)
    one, two = (only(tmp_path / name) for name in ("one", "two"))
    assert one.agent.settings == {"n_action_steps": 8}  # a default is recorded as well
    assert one.manifest.agent.agent_hash != two.manifest.agent.agent_hash
    result = compare([contender(tmp_path / "one"), contender(tmp_path / "two")])
    assert result["settings"] == {"settings.n_action_steps": [8, 4]}


def test_eval_15_the_same_policy_evaluated_again_gives_the_same_episodes(registry, tmp_path):
    """EVAL-15: one way to evaluate: again, and in other processes, episode by episode."""
    suite = probe_suite(2, scenario={"episodes": 6})
    for name, workers in (("a", 0), ("b", 0), ("c", 2)):
        run_suite(registry, suite, "random", tmp_path / name, workers=workers)
    hashes = [content_hashes(tmp_path / name)[0]["episodes"] for name in "abc"]
    assert len(set(hashes)) == 1
