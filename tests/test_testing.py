"""The checks for plugin authors: every name of the house passes, and every fault is caught."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import ROOT, probe_suite

from l2bench.builtin.catch import CatchEnvironment
from l2bench.builtin.digits import DigitsEnvironment
from l2bench.builtin.known import Perfect
from l2bench.builtin.probe import Probe, ProbeEnvironment
from l2bench.cli.compose import compose
from l2bench.plugins import make_environment
from l2bench.suite import Learning, Task
from l2bench.testing import check_agent, check_environment, check_metric_set, check_suite

LEARNING = {
    "interaction": Learning(source="interaction", unit="episodes", amount=3),
    "demonstrations": Learning(source="demonstrations", unit="epochs", amount=2),
    "samples": Learning(source="samples", unit="epochs", amount=2),
}


def task(environment: str, name: str, source: str | None = None, **more) -> Task:
    learning = LEARNING[source] if source else None
    if source == "samples":
        more["measure"] = "accuracy"
    return Task(id="t", environment=environment, task=name, learning=learning, **more)


@pytest.mark.parametrize("name", ["catch", "digits", "probe"])
def test_the_built_in_environments_keep_their_contract(registry, name):
    environment = make_environment(registry, f"l2bench/{name}")
    for known in environment.tasks():
        measure = "catch_rate" if name == "catch" else "success"
        check_environment(environment, task(f"l2bench/{name}", known, measure=measure, horizon=9))


def test_gymnasium_environments_keep_the_contract(registry):
    environment = make_environment(registry, "l2bench/gymnasium")
    check_environment(environment, task("l2bench/gymnasium", "CartPole-v1", measure="return"))


@pytest.mark.parametrize("source", LEARNING)
@pytest.mark.parametrize("name", ["random", "perfect", "frozen", "forgetter", "late_bloomer"])
def test_the_agents_of_every_source_keep_their_contract(registry, name, source):
    agent = registry.resolve("agents", f"l2bench/{name}")
    check_agent(agent, ProbeEnvironment(), task("l2bench/probe", "probe_1", source, horizon=1))


def test_the_learners_keep_their_contract(registry):
    tabular, linear = (registry.resolve("agents", f"l2bench/{n}") for n in ("tabular", "linear"))
    check_agent(
        tabular,
        CatchEnvironment(),
        task("l2bench/catch", "catch", "interaction", horizon=50, measure="catch_rate"),
    )
    check_agent(linear, DigitsEnvironment(), task("l2bench/digits", "digits_01", "samples"))


def test_the_suites_and_metric_sets_of_the_house_keep_their_contract(registry):
    for path in sorted((ROOT / "suites").glob("*.yaml")):
        suite = compose(registry, str(path), []).suite
        check_suite(suite)
        for name in suite.metrics:
            scores = check_metric_set(registry.resolve("metric_sets", name)(), suite)
            assert scores.values


def broken_probe(**methods) -> ProbeEnvironment:
    live = type("Broken", (Probe,), methods)
    return type("Env", (ProbeEnvironment,), {"make": lambda self, task: live()})()


def untold(self, *, seed=None, options=None):
    return Probe.reset(self, seed=seed)[0], {}


def telling(*names):
    """Return a step() that tells success under these names alone."""

    def step(self, action):
        *rest, info = Probe.step(self, action)
        return *rest, dict.fromkeys(names, info["success"])

    return step


def test_success_may_be_told_at_the_end_alone():
    fine = broken_probe(reset=untold, step=telling("success"))
    check_environment(fine, task("x", "probe_1", horizon=1))


@pytest.mark.parametrize("told", ["no", 0.7, None])
def test_success_is_true_or_false(told):
    def step(self, action):
        *rest, _ = Probe.step(self, action)
        return *rest, {"success": told}

    with pytest.raises(AssertionError, match="it has to be True or False"):
        check_environment(broken_probe(reset=untold, step=step), task("x", "probe_1", horizon=1))


def test_a_reward_that_is_no_number_is_told():
    def step(self, action):
        observation, _, *rest = Probe.step(self, action)
        return observation, np.nan, *rest

    with pytest.raises(AssertionError, match="a reward is nan; it has to be finite"):
        check_environment(broken_probe(step=step), task("x", "probe_1", horizon=1))


def test_the_last_observation_of_an_episode_belongs_to_its_space():
    def step(self, action):
        _, *rest = Probe.step(self, action)
        return np.zeros(3), *rest

    with pytest.raises(AssertionError, match="not in the observation space"):
        check_environment(broken_probe(step=step), task("x", "probe_1", horizon=1))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda self, observations, acting: 0, "one action for each"),
        (lambda self, observations, acting: [99] * len(observations), "99, which is not in"),
        (lambda self, observations, acting: [0.5] * len(observations), "0.5, which is not in"),
    ],
)
def test_actions_that_a_run_would_refuse_are_told(answer, words):
    agent = type("Odd", (Perfect,), {"act": answer})
    with pytest.raises(AssertionError, match=words):
        check_agent(agent, ProbeEnvironment(), task("x", "probe_1", "interaction", horizon=1))


def test_a_measure_that_is_not_offered_is_told(registry):
    environment = make_environment(registry, "l2bench/gymnasium")
    with pytest.raises(AssertionError, match=r"measured by 'success'; it offers return$"):
        check_environment(environment, task("l2bench/gymnasium", "CartPole-v1"))


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"reset": lambda self, *, seed=None, options=None: np.zeros(4, np.float32)}, "0.26"),
        ({"step": lambda self, action: (np.zeros(4, np.float32), 0.0, True, {})}, "0.26"),
        (
            {"reset": lambda self, *, seed=None, options=None: (np.full(4, 9.0, np.float32), {})},
            "not in the observation space",
        ),
        (
            {"reset": untold, "step": telling("sucess")},
            r"ended without 'success' in its info \(did you mean 'sucess'\?\)",
        ),
        ({"reset": untold, "step": telling()}, "without 'success' .* no score; info has none"),
        (
            {
                "reset": lambda self, *, seed=None, options=None: Probe.reset(self, seed=0),
                "step": lambda self, action: (
                    np.random.default_rng().random(4).astype(np.float32), 0.0, True, False, {},
                ),
            },
            "must decide",
        ),
    ],
)  # fmt: skip
def test_faulty_environments_are_told(methods, words):
    with pytest.raises(AssertionError, match=words):
        check_environment(broken_probe(**methods), task("x", "probe_1", horizon=1))


class Drifting(Perfect):
    def act(self, observations, acting):
        self._latest = str(np.random.default_rng().random())
        return super().act(observations, acting)


class Forgetful(Perfect):
    def save(self, folder):
        pass

    def load(self, folder):
        pass


class Herd(Perfect):
    def act(self, observations, acting):
        return super().act(observations, acting) * 0 + len(observations) % 4


@pytest.mark.parametrize(
    ("agent", "words"),
    [(Drifting, "act\\(\\) changed"), (Forgetful, "load\\(\\)"), (Herd, "rest of its batch")],
)
def test_faulty_agents_are_told(agent, words):
    with pytest.raises(AssertionError, match=words):
        check_agent(agent, ProbeEnvironment(), task("x", "probe_1", "interaction", horizon=1))


def test_a_metric_set_that_invents_ids_is_told(registry):
    metric_set = registry.resolve("metric_sets", "l2bench/libero")()
    metric_set.metrics = metric_set.metrics[:1]
    with pytest.raises(AssertionError, match="does not define"):
        check_metric_set(metric_set, probe_suite(2))


class Amnesiac(Perfect):
    """Knows nothing of fingerprints, and forgets all when loaded."""

    def knows(self, task):
        return bool(self._progress)

    def save(self, folder):
        pass

    def load(self, folder):
        pass

    def fingerprint(self):
        return None


def test_an_agent_without_a_fingerprint_is_judged_by_what_it_does():
    with pytest.raises(AssertionError, match="does not restore"):
        check_agent(Amnesiac, ProbeEnvironment(), task("x", "probe_1", "interaction", horizon=1))


def test_what_the_docs_show_keeps_its_contract():
    import re

    shown: dict = {}
    for name in ("plugins.md", "metrics.md"):
        page = (ROOT / "docs" / name).read_text()
        for block in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S):
            exec(compile(block, name, "exec"), shown)
    shown["test_plugin"](shown["Coins"], shown["Counter"])
    shown["test_metric_set"](shown["Final"])


@pytest.mark.parametrize("given", ["suites/quickstart.yaml", Path("run/0.l2b"), {"id": "x"}])
def test_what_is_no_suite_is_told_with_the_way_to_one(registry, given):
    metric_set = registry.resolve("metric_sets", "l2bench/gem")()
    for check in (lambda: check_metric_set(metric_set, given), lambda: check_suite(given)):
        with pytest.raises(AssertionError, match=r"^the suite is .*; give a l2bench.suite.Suite"):
            check()
    with pytest.raises(AssertionError, match=r"the metric set is the class .*; give an instance"):
        check_metric_set(type(metric_set), probe_suite(2))
