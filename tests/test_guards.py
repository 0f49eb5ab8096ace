"""The runner's guards: agents and tasks that break the rules, and what is hidden from them."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
from stubs import Stub, catch_suite, failure, stubbed
from support import probe_suite, run_suite, scores_in

from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.cast import AgentSpec, Cast, Execution
from l2bench.errors import Unsupported, UsageError
from l2bench.interaction import InteractionLesson


def test_an_agent_that_learns_during_evaluation_is_caught(tmp_path):
    class Cheat(Stub):
        def act(self, observations, acting):
            self.state += 1
            return super().act(observations, acting)

        def fingerprint(self):
            return str(self.state)

    text = failure(stubbed(Cheat), tmp_path / "run")
    assert "changed during evaluation block 0" in text


def test_an_agent_that_raises_ends_the_run_with_one_line(tmp_path):
    class Faulty(Stub):
        def learn(self, lesson, task):
            raise ValueError("singular matrix")

    text = failure(stubbed(Faulty), tmp_path / "run")
    assert "\n" not in text
    assert "learning task 'task-1' (block 1)" in text
    assert "ValueError: singular matrix" in text
    (bundle,) = find_bundles(tmp_path / "run")
    assert read_bundle(bundle).manifest.status == "failed"
    assert "Traceback" in (bundle / "events.jsonl").read_text()


def test_an_agent_that_goes_past_its_budget_is_stopped(tmp_path):
    class Greedy(Stub):
        def learn(self, lesson, task):
            while True:
                lesson.reset()
                lesson.step(0)

    assert "2 episodes are used up" in failure(stubbed(Greedy), tmp_path / "run")


def test_an_agent_that_leaves_budget_unused_is_told(tmp_path):
    class Lazy(Stub):
        def learn(self, lesson, task):
            lesson.reset()
            lesson.step(0)

    assert "1 of 2 episodes unused" in failure(stubbed(Lazy), tmp_path / "run")


def test_rewards_and_seeds_are_hidden_from_acting(tmp_path):
    seen: list[set[str]] = []

    class Nosy(Stub):
        def act(self, observations, acting):
            seen.append(set(vars(acting)))
            return super().act(observations, acting)

    run_suite(stubbed(Nosy), probe_suite(1), "stub", tmp_path / "run")
    assert set.union(*seen) == {"task", "slots", "first", "generators"}


def test_hidden_task_identities_stay_hidden(tmp_path):
    told, events = [], []

    class Blind(Stub):
        def learn(self, lesson, task):
            told.append((task.index, task.id, task.language))
            super().learn(lesson, task)

        def start_task(self, task):
            events.append("start")

    suite = probe_suite(3, every=None, scenario={"reveal": []})
    run_suite(stubbed(Blind), suite, "stub", tmp_path / "run")
    assert told == [(None, None, None)] * 3
    assert events == []


def test_boundaries_are_told_once_a_task(tmp_path):
    events = []

    class Attentive(Stub):
        def start_task(self, task):
            events.append(("start", task.id))

        def learn(self, lesson, task):
            events.append(("learn", lesson.start))
            super().learn(lesson, task)

        def end_task(self, task):
            events.append(("end", task.id))

    run_suite(stubbed(Attentive), probe_suite(2), "stub", tmp_path / "run")
    assert events == [
        ("start", "task-1"), ("learn", 0), ("learn", 2), ("end", "task-1"),
        ("start", "task-2"), ("learn", 0), ("learn", 2), ("end", "task-2"),
    ]  # fmt: skip


def test_environments_that_draw_from_global_generators_do_not_depend_on_the_agent(tmp_path):
    """An environment that draws from numpy's global generator, an agent that disturbs it."""
    from l2bench.builtin.probe import Probe, ProbeEnvironment

    class Leaky(Probe):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=0)
            self._answer = int(np.random.randint(4))
            return np.eye(4, dtype=np.float32)[self._answer], {"success": False}

    class LeakyEnvironment(ProbeEnvironment):
        def make(self, task):
            return Leaky()

    class Noisy(Stub):
        def learn(self, lesson, task):
            np.random.random(int(self.life.seed % 7))
            super().learn(lesson, task)

    results = []
    for agent in (Stub, Noisy):
        suite = probe_suite(1)
        tasks = [t.model_copy(update={"environment": "l2bench/leaky"}) for t in suite.tasks]
        suite = suite.model_copy(update={"tasks": tuple(tasks)})
        folder = tmp_path / agent.__name__
        run_suite(stubbed(agent, leaky=LeakyEnvironment), suite, "stub", folder)
        lifetime = read_bundle(find_bundles(folder)[0]).lifetime
        results.append((scores_in(folder)["curves"], lifetime.learning["score"].to_pylist()))
    assert results[0] == results[1]


def test_an_environment_that_raises_in_a_worker_is_quoted(tmp_path, registry):
    from l2bench.suite import Suite, judge

    task = {"id": "x", "environment": "l2bench/gymnasium", "task": "CartPole-v1",
            "measure": "return", "score_range": [0, 500], "settings": {"nope": 1},
            "learning": {"source": "interaction", "unit": "steps", "amount": 5}}  # fmt: skip
    data = {"id": "c", "version": "1", "title": "c", "tasks": [task], "seeds": [0],
            "scenario": {"kind": "sequential", "episodes": 2, "pretest": True}}  # fmt: skip
    with pytest.raises(Unsupported, match=r"CartPole-v1.*nope"):
        run_suite(registry, judge(Suite, data, "c"), "random", tmp_path / "run", workers=1)


def gather(registry, agent: str, **settings) -> Cast:
    spec = AgentSpec(name=agent, settings=settings)
    return Cast.gather(registry, probe_suite(2), spec, Execution())


def test_an_agent_that_cannot_learn_from_the_suite_is_refused_before_anything_runs(registry):
    with pytest.raises(UsageError, match=r"learns from samples, but task 'task-1'.*interaction"):
        gather(registry, "linear")


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_device_that_the_agent_does_not_use_is_refused(registry, device):
    spec = AgentSpec(name="random")
    words = f"execution.device={device}: agent 'l2bench/random' computes on cpu only"
    with pytest.raises(Unsupported, match=words) as caught:
        Cast.gather(registry, probe_suite(2), spec, Execution(device=device))
    assert caught.value.exit_code == 3
    for fine in ("auto", "cpu"):
        Cast.gather(registry, probe_suite(2), spec, Execution(device=fine))


def test_a_device_that_the_agent_names_is_its_own(tmp_path):
    class Computing(Stub):
        devices: ClassVar = frozenset({"cpu", "cuda"})

    how = Execution(device="cuda:1")
    cast = Cast.gather(stubbed(Computing), probe_suite(2), AgentSpec(name="stub"), how)
    assert cast.new_agent(0).life.device == "cuda:1"


def test_unknown_agent_settings_name_the_nearest(registry):
    with pytest.raises(UsageError, match="did you mean 'epsilon'"):
        gather(registry, "tabular", epsilom=0.1)


def test_the_lesson_is_of_the_source_the_suite_names(tmp_path):
    kinds = []

    class Curious(Stub):
        def learn(self, lesson, task):
            kinds.append(type(lesson))
            super().learn(lesson, task)

    run_suite(stubbed(Curious), probe_suite(1, every=None), "stub", tmp_path / "run")
    assert kinds == [InteractionLesson]


def test_one_unmeasured_episode_does_not_decide_the_best_checkpoint(tmp_path):
    """At checkpoint 0 one of two episodes has no score and the other fails; later all succeed."""
    from l2bench.builtin.probe import Probe, ProbeEnvironment

    class Partial(Probe):
        resets = 0

        def reset(self, *, seed=None, options=None):
            self.resets += 1
            return super().reset(seed=seed, options=options)

        def step(self, action):
            observation, reward, terminated, truncated, info = super().step(action)
            info = {"rate": float("nan") if self.resets == 1 else reward}
            return observation, reward, terminated, truncated, info

    class PartialEnvironment(ProbeEnvironment):
        def tasks(self):
            return {
                name: dataclasses.replace(info, measures=frozenset({"rate"}))
                for name, info in super().tasks().items()
            }

        def make(self, task):
            return Partial()

    class LateRight(Stub):
        def act(self, observations, acting):
            return (
                np.argmax(observations, axis=1) if self.state else 3 - np.zeros(len(observations))
            )

        def learn(self, lesson, task):
            super().learn(lesson, task)
            self.state = 1

        def save(self, folder):
            (folder / "state").write_text(str(self.state))

        def load(self, folder):
            self.state = int((folder / "state").read_text())

    suite = probe_suite(1, scenario={"episodes": 2})
    task = suite.tasks[0].model_copy(update={"environment": "l2bench/partial", "measure": "rate"})
    suite = suite.model_copy(update={"tasks": (task,)})
    run_suite(stubbed(LateRight, partial=PartialEnvironment), suite, "stub", tmp_path / "run")
    blocks = read_bundle(find_bundles(tmp_path / "run")[0]).lifetime.blocks.to_pylist()
    assert [b["selected_checkpoint"] for b in blocks if b["role"] == "post"] == [2]


def test_hidden_boundaries_are_hidden_in_the_lessons_too(tmp_path):
    seen = []

    class Watchful(Stub):
        def learn(self, lesson, task):
            seen.append((lesson.start, lesson.stop, lesson.learning.amount, lesson.progress))
            super().learn(lesson, task)

    suite = probe_suite(2, scenario={"reveal": []})
    run_suite(stubbed(Watchful), suite, "stub", tmp_path / "run")
    assert seen == [(0, 2, 2, 0.0)] * 4


def test_a_written_blocks_own_amount_is_the_lessons(tmp_path):
    ends = []

    class Watchful(Stub):
        def learn(self, lesson, task):
            super().learn(lesson, task)
            ends.append((lesson.stop, lesson.learning.amount, lesson.progress))

    blocks = [{"learn": "task-1", "amount": 8}, {"evaluate": "all"}]
    suite = probe_suite(1, every=None, scenario={"kind": "blocks", "blocks": blocks})
    run_suite(stubbed(Watchful), suite, "stub", tmp_path / "run")
    assert ends == [(8, 8, 1.0)]


def test_labels_of_the_wrong_shape_are_refused(tmp_path):
    class Tall(Stub):
        sources: ClassVar = frozenset({"samples"})

        def act(self, observations, acting):
            return np.zeros((len(observations), 1), dtype=int)

    suite = probe_suite(1, source="samples", unit="epochs")
    assert "shape (20, 1) for 20 inputs" in failure(stubbed(Tall), tmp_path / "run", suite)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"measure": "catch_rat"}, "did you mean 'catch_rate'"),
        ({"measure": "success"}, "cannot be measured by 'success'"),
        ({"horizon": None}, "give it a horizon"),
    ],
)
def test_tasks_that_could_never_be_scored_are_refused(registry, change, words):
    suite = catch_suite(amount=10, horizon=5)
    task = suite.tasks[0].model_copy(update=change)
    suite = suite.model_copy(update={"tasks": (task,)})
    with pytest.raises(UsageError, match=words):
        Cast.gather(registry, suite, AgentSpec(name="random"), Execution())


def gym_suite():
    from l2bench.suite import Suite, judge

    task = {"id": "pole", "environment": "l2bench/gymnasium", "task": "CartPole-v1",
            "measure": "return", "score_range": [0, 500],
            "learning": {"source": "interaction", "unit": "steps", "amount": 5}}  # fmt: skip
    data = {"id": "pole", "version": "1", "title": "p", "tasks": [task], "seeds": [0],
            "scenario": {"kind": "sequential", "episodes": 2}}  # fmt: skip
    return judge(Suite, data, "pole")


def test_a_table_is_not_for_continuous_observations(registry, tmp_path):
    with pytest.raises(UsageError, match="needs observations that recur"):
        run_suite(registry, gym_suite(), "tabular", tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run_suite(registry, gym_suite(), "random", tmp_path / "other")


def test_a_missing_extra_is_named_with_its_command(registry, monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "sklearn" else found(name, *a)
    )
    suite = probe_suite(1, source="samples", unit="epochs")
    change = {"environment": "l2bench/digits", "task": "digits_01"}
    suite = suite.model_copy(update={"tasks": (suite.tasks[0].model_copy(update=change),)})
    with pytest.raises(Unsupported, match=r"pip install 'l2bench\[digits\]'"):
        Cast.gather(registry, suite, AgentSpec(name="linear"), Execution())
