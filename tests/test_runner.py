"""The runner with agents whose every metric is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from stubs import Stub, catch_suite, stubbed
from support import content_hashes, probe_suite, run_suite, value

from l2bench.bundle.reader import find_bundles, read_bundle

SOURCES = {"interaction": "episodes", "demonstrations": "epochs", "samples": "epochs"}
K, E = 3, 3  # tasks, checkpoints (at 0, 2 and 4)


def known_answers(agent: str) -> tuple[list[float], list[float], list[float]]:
    """FWT_k, NBT_k and AUC_k of a known-answer agent on K tasks with E checkpoints."""
    later = [K - 1 - k for k in range(K)]  # tasks learned after task k
    fwt, after, forgotten = {
        "perfect": (1.0, 1.0, 0.0),
        "frozen": (0.0, 0.0, 0.0),
        "forgetter": ((E - 1) / E, 0.0, 1.0),
        "late_bloomer": (1 / E, 1.0, 0.0),
    }[agent]
    auc = [(fwt + after * n) / (n + 1) for n in later]
    return [fwt] * K, [forgotten if n else 0.0 for n in later], auc


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("agent", ["perfect", "frozen", "forgetter", "late_bloomer"])
def test_known_answer_agents_score_their_closed_forms(registry, tmp_path, agent, source):
    suite = probe_suite(
        K, source=source, unit=SOURCES[source],
        scenario={"pretest": True, "evaluate": "all"},
    )  # fmt: skip
    scores = run_suite(registry, suite, agent, tmp_path / "run")
    fwt, nbt, auc = known_answers(agent)
    for k in range(K):
        task = f"task-{k + 1}"
        assert value(scores, "libero.FWT_k", task) == pytest.approx(fwt[k])
        if k < K - 1:
            assert value(scores, "libero.NBT_k", task) == pytest.approx(nbt[k])
        assert value(scores, "libero.AUC_k", task) == pytest.approx(auc[k])
    assert value(scores, "libero.FWT") == pytest.approx(np.mean(fwt))
    assert value(scores, "libero.NBT") == pytest.approx(np.mean(nbt))
    assert value(scores, "libero.AUC") == pytest.approx(np.mean(auc))
    maintenance = {"perfect": 0.0, "frozen": 0.0, "forgetter": -1.0, "late_bloomer": 0.0}[agent]
    assert value(scores, "l2m.performance_maintenance") == pytest.approx(maintenance)


def test_random_answers_a_quarter_of_the_questions(registry, tmp_path):
    suite = probe_suite(2, scenario={"episodes": 400})
    run_suite(registry, suite, "random", tmp_path / "run")
    episodes = read_bundle(find_bundles(tmp_path / "run")[0]).lifetime.episodes
    rate = np.mean(episodes["success"].to_numpy(zero_copy_only=False).astype(float))
    assert abs(rate - 0.25) < 4 * np.sqrt(0.25 * 0.75 / episodes.num_rows)


def test_best_checkpoint_goes_on(registry, tmp_path):
    """The late bloomer is best at the end; the frozen one is equal everywhere: the earliest."""
    suite = probe_suite(2, scenario={"keep": "best"})
    for agent, kept in (("late_bloomer", 4), ("frozen", 0)):
        run_suite(registry, suite, agent, tmp_path / agent)
        blocks = read_bundle(find_bundles(tmp_path / agent)[0]).lifetime.blocks.to_pylist()
        assert [b["selected_checkpoint"] for b in blocks if b["role"] == "post"] == [kept, kept]
        assert {b["policy_ref"] for b in blocks if b["role"] == "post"} == {"best"}


def test_the_agent_as_born_goes_on_if_learning_only_spoiled_it(tmp_path):
    class Spoiled(Stub):
        learned = 0

        def learn(self, lesson, task):
            super().learn(lesson, task)
            self.learned += 1

        def act(self, observations, acting):
            shown = np.argmax(observations, axis=1)
            return shown if self.learned == 0 else (shown + 1) % 4

        def save(self, folder):
            (folder / "state").write_text(str(self.learned))

        def load(self, folder):
            self.learned = int((folder / "state").read_text())

    suite = probe_suite(2, scenario={"keep": "best"})
    run_suite(stubbed(Spoiled), suite, "stub", tmp_path / "run")
    lifetime = read_bundle(find_bundles(tmp_path / "run")[0]).lifetime
    posts = [b for b in lifetime.blocks.to_pylist() if b["role"] == "post"]
    assert [b["selected_checkpoint"] for b in posts] == [0, 0]
    rows = [r for r in lifetime.episodes.to_pylist() if r["block_index"] == posts[1]["block_index"]]
    assert all(row["success"] for row in rows)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_number_of_workers_changes_nothing(registry, tmp_path, workers):
    suite = probe_suite(2, scenario={"episodes": 7})
    run_suite(registry, suite, "random", tmp_path / "here")
    run_suite(registry, suite, "random", tmp_path / "there", workers=workers)
    assert content_hashes(tmp_path / "here") == content_hashes(tmp_path / "there")


def test_a_budget_that_ends_inside_an_episode_is_in_the_bundle(registry, tmp_path):
    suite = catch_suite(amount=250, horizon=100)
    run_suite(registry, suite, "tabular", tmp_path / "run")
    lifetime = read_bundle(find_bundles(tmp_path / "run")[0]).lifetime
    rows = [(row["length"], row["status"]) for row in lifetime.learning.to_pylist()]
    assert rows == [(100, "ok"), (100, "ok"), (50, "incomplete")]


def test_split_digits_are_learned_and_forgotten(registry, tmp_path):
    from l2bench.suite import Suite, judge

    learning = {"source": "samples", "unit": "epochs", "amount": 4, "every": 2,
                "test_then_train": True}  # fmt: skip
    tasks = [
        {"id": f"d{pair}", "environment": "l2bench/digits", "task": f"digits_{pair}",
         "measure": "accuracy", "learning": learning}
        for pair in ("01", "23", "45")
    ]  # fmt: skip
    data = {"id": "digits", "version": "1", "title": "d", "tasks": tasks, "seeds": [0],
            "scenario": {"kind": "sequential", "episodes": 1, "keep": "best"}}  # fmt: skip
    scores = run_suite(registry, judge(Suite, data, "d"), "linear", tmp_path / "run")
    for curve in scores["curves"]:
        assert curve["points"][0]["value"] < 0.7
        assert curve["points"][-1]["value"] > 0.95
        assert curve["points"][-1]["n"] > 50
    assert value(scores, "libero.NBT") > 0.3
    lifetime = read_bundle(find_bundles(tmp_path / "run")[0]).lifetime
    online = lifetime.learning["score"].to_pylist()
    assert all(0 <= score <= 1 for score in online)
    assert online[1] > online[0]
