"""The contracts, one function each; every failure is an AssertionError that says what to change."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from l2bench.actions import checker
from l2bench.agent import Acting, Agent, Life, TaskContext
from l2bench.batches import DemonstrationLesson, SampleLesson
from l2bench.bundle.lifetime import synthetic
from l2bench.environment import Environment
from l2bench.errors import ActionRefused, choices, nearest
from l2bench.evaluation import batch
from l2bench.interaction import InteractionLesson
from l2bench.lesson import Lesson
from l2bench.metrics.base import MetricSet
from l2bench.metrics.scores import Scores
from l2bench.scenario import plan
from l2bench.seeding import generator, isolated
from l2bench.suite import Learning, Suite, Task

#: An episode that has not ended after so many random steps is given up.
MOST_STEPS = 2000


def check_environment(environment: Environment, task: Task, *, steps: int = 20) -> None:
    """Check one task: listing, spaces, the Gymnasium interface, its measure, and honoured seeds.

    Raises:
        AssertionError: naming what does not hold.
    """
    infos = environment.tasks()
    assert task.task in infos, f"tasks() does not name '{task.task}'"
    info = infos[task.task]
    assert info.sources, f"'{task.task}' offers no source to learn from"
    environment.check(task)
    info = environment.info(task, info)
    if info.sources == frozenset({"samples"}):
        _check_samples(environment, task)
        return
    offered = {info.measure, *info.measures, "return"}
    assert task.measure in offered, (
        f"tasks() does not say that '{task.task}' can be measured by '{task.measure}'; "
        f"it offers {choices(offered)}"
    )
    first, second = (_trace(environment, task, seed=1, steps=steps) for _ in range(2))
    assert _equal(first, second), "two episodes with one seed differ: reset(seed=...) must decide"
    if task.measure != "return":
        _check_measure(environment, task, task.horizon or info.horizon)


def _trace(environment: Environment, task: Task, seed: int, steps: int) -> list[Any]:
    """Return everything that one random episode shows."""
    env = environment.make(task)
    spaces = environment.spaces(task)
    assert env.observation_space == spaces.observation, "spaces() and make() disagree"
    assert env.action_space == spaces.action, "spaces() and make() disagree"
    options = {"initial_state": 0} if environment.tasks()[task.task].initial_states else None
    seen: list[Any] = []
    try:
        with isolated(seed):
            result = env.reset(seed=seed, options=options)
            assert isinstance(result, tuple), (
                "reset() returned a bare observation, the API of gym before 0.26; "
                "return (observation, info)"
            )
            observation, _ = result
            env.action_space.seed(seed)
            for _ in range(steps):
                _check_observation(observation, env)
                step = env.step(env.action_space.sample())
                assert len(step) == 5, (
                    f"step() returned {len(step)} values, the API of gym before 0.26; return "
                    f"(observation, reward, terminated, truncated, info)"
                )
                observation, reward, terminated, truncated, _ = step
                assert math.isfinite(reward), f"a reward is {reward}; it has to be finite"
                seen.append((observation, float(reward), bool(terminated), bool(truncated)))
                if terminated or truncated:
                    _check_observation(observation, env)
                    break
    finally:
        env.close()
    return seen


def _check_observation(observation: Any, env: Any) -> None:
    assert observation in env.observation_space, (
        f"an observation of {_describe(observation)} is not in the observation space"
    )


def _check_measure(environment: Environment, task: Task, horizon: int | None) -> None:
    """Play one random episode; what is measured has to be in its infos, if it comes to an end."""
    env = environment.make(task)
    options = {"initial_state": 0} if environment.tasks()[task.task].initial_states else None
    seen: set[str] = set()
    last: Mapping[str, Any] = {}
    over, steps = False, 0
    try:
        with isolated(1):
            _, last = env.reset(seed=1, options=options)
            env.action_space.seed(1)
            while not over and steps < min(horizon or MOST_STEPS, MOST_STEPS):
                seen |= set(last)
                if task.measure == "success" and "success" in seen:
                    _check_success(last["success"])
                    return
                *_, terminated, truncated, last = env.step(env.action_space.sample())
                steps += 1
                over = bool(terminated or truncated or steps == horizon)
    finally:
        env.close()
    if task.measure == "success" and "success" in last:
        _check_success(last["success"])
    told = seen | set(last) if task.measure == "success" else set(last)
    assert not over or task.measure in told, (
        f"an episode ended without '{task.measure}' in its info"
        f"{nearest(task.measure, told)}: such an episode has no score; info has {choices(told)}"
    )


def _check_success(told: Any) -> None:
    assert isinstance(told, bool | np.bool_) or told in (0, 1), (
        f"'success' in info is {told!r}; it has to be True or False"
    )


def _check_samples(environment: Environment, task: Task) -> None:
    samples = environment.samples(task, Path(tempfile.gettempdir()))
    spaces = environment.spaces(task)
    for inputs, labels in (
        (samples.train_inputs, samples.train_labels),
        (samples.test_inputs, samples.test_labels),
    ):
        assert len(inputs) == len(labels) > 0, "inputs and labels differ in number, or are none"
        assert inputs[0] in spaces.observation, "an input is not in the observation space"
        assert labels[0] in spaces.action, "a label is not in the action space"


def check_agent(
    agent_class: type[Agent],
    environment: Environment,
    task: Task,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Check an agent on one task: budget, actions, unchanged by acting, exact saving.

    The task's learning section says how it learns; keep its amount small.

    Raises:
        AssertionError: naming what does not hold.
    """
    assert task.learning is not None, "give the task a learning section"
    context = TaskContext(environment.spaces(task), 0, task.id, task.language)
    life = Life((context,), seed=5)
    first, second = (agent_class(agent_class.Settings(**settings or {}), life) for _ in range(2))
    source = task.learning.source
    assert source in agent_class.sources, f"{agent_class.__name__} does not learn from {source}"
    _learn(first, environment, task, context)
    _check_acting(first, environment, task, context)
    with tempfile.TemporaryDirectory() as folder:
        first.save(Path(folder))
        second.load(Path(folder))
    met = _observations(environment, task)
    assert _same_actions(first, second, met, context), "load() does not restore what save() wrote"
    for agent in (first, second):
        _learn(agent, environment, task, context)
    assert _same_actions(first, second, met, context), (
        "after save() and load() learning goes on differently: save generators and memories too"
    )


def _same_actions(one: Agent, other: Agent, met: list[Any], context: TaskContext) -> bool:
    """Return whether two agents know and do the same on observations that occur in the task."""
    if one.fingerprint() != other.fingerprint():
        return False
    rows = range(len(met))
    ours, theirs = (agent.act(batch(met), _acting(context, rows)) for agent in (one, other))
    return _equal(ours, theirs)


def _observations(environment: Environment, task: Task) -> list[Any]:
    """Return observations that occur in the task, 64 at most."""
    assert task.learning is not None
    with tempfile.TemporaryDirectory() as folder:
        if task.learning.source == "samples":
            return list(environment.samples(task, Path(folder)).test_inputs[:64])
    env = environment.make(task)
    env.action_space.seed(7)
    met: list[Any] = []
    try:
        observation, _ = env.reset(seed=7)
        while len(met) < 64:
            met.append(observation)
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                observation, _ = env.reset(seed=7 + len(met))
    finally:
        env.close()
    return met


def _learn(agent: Agent, environment: Environment, task: Task, context: TaskContext) -> None:
    assert task.learning is not None
    lesson = _lesson(environment, task, task.learning)
    agent.learn(lesson, context)
    lesson.close()


def _lesson(environment: Environment, task: Task, learning: Learning) -> Lesson:
    with tempfile.TemporaryDirectory() as folder:
        if learning.source == "demonstrations":
            data = environment.demonstrations(task, Path(folder))
            return DemonstrationLesson(data, learning, 0, learning.amount)
        if learning.source == "samples":
            samples = environment.samples(task, Path(folder))
            return SampleLesson(samples, learning, 0, learning.amount)
    return InteractionLesson(
        environment.make(task),
        learning,
        0,
        learning.amount,
        horizon=task.horizon,
        measure=task.measure,
        seed_of=lambda episode: episode,
    )


def _check_acting(agent: Agent, environment: Environment, task: Task, context: TaskContext) -> None:
    observations = _observations(environment, task)[:3]
    before = agent.fingerprint()
    together = agent.act(batch(observations), _acting(context, range(3)))
    assert np.ndim(together) > 0 or isinstance(together, Sequence), (
        f"act() returned {together!r} for 3 observations; it returns one action for each"
    )
    assert len(together) == 3, f"act() returned {len(together)} actions for 3 observations"
    for row, observation in enumerate(observations):
        alone = agent.act(batch([observation]), _acting(context, [row]))[0]
        assert _equal(alone, together[row]), (
            "an action depends on the rest of its batch: draw from acting.generators, row by row"
        )
        action = together[row]
        assert np.asarray(action).shape == (context.spaces.action.shape or ()), (
            f"an action of {_describe(action)} does not fit {context.spaces.action}"
        )
        try:
            checker(context.spaces.action, "act() returned")(action)
        except ActionRefused as error:
            raise AssertionError(str(error)) from None
    again = agent.act(batch(observations), _acting(context, range(3)))
    assert agent.fingerprint() == before, "act() changed the agent"
    assert _equal(again, together), "act() changed the agent: the same batch got other actions"


def _acting(context: TaskContext, rows: Sequence[int]) -> Acting:
    first = np.ones(len(rows), dtype=bool)
    return Acting(context, np.array(rows), first, [generator(row) for row in rows])


def check_metric_set(metric_set: MetricSet, suite: Suite) -> Scores:
    """Check a metric set on a suite's synthetic lifetime and return its scores.

    Raises:
        AssertionError: naming what does not hold.
    """
    assert isinstance(metric_set, MetricSet), (
        f"the metric set is {_named(metric_set)}; give an instance of a subclass of MetricSet"
    )
    _check_is_suite(suite)
    ids = [metric.id for metric in metric_set.metrics]
    assert len(set(ids)) == len(ids), "metric ids must be unique"
    lifetime = synthetic(suite, suite.seeds[0])
    scores = metric_set.score(lifetime)
    unknown = {value.id for value in scores.values} - set(ids)
    assert not unknown, f"score() returns ids that metrics does not define: {sorted(unknown)}"
    keys = [(value.id, value.task, value.source) for value in scores.values]
    assert len(set(keys)) == len(keys), "a value is given twice"
    assert metric_set.score(lifetime) == scores, "scoring twice gives different values"
    json.dumps(dict(scores.settings), allow_nan=False)
    return scores


def _check_is_suite(suite: object) -> None:
    assert isinstance(suite, Suite), (
        f"the suite is {_named(suite)}; give a l2bench.suite.Suite, made of its fields or read "
        f"from a bundle: l2bench.bundle.reader.read_bundle(PATH).suite"
    )


def _named(given: object) -> str:
    """Return what was given in place of what a check takes."""
    if isinstance(given, type):
        return f"the class {given.__name__}"
    return f"{str(given)!r:.80}, a {type(given).__name__}"


def check_suite(suite: Suite) -> None:
    """Check that a suite plans, and that its resolved form means the same.

    Raises:
        AssertionError: naming what does not hold.
    """
    _check_is_suite(suite)
    again = Suite.model_validate(suite.resolved())
    assert again.hash == suite.hash, "the resolved form has another hash"
    for seed in suite.seeds[:3]:
        blocks = plan(suite, seed)
        assert blocks, "the plan is empty"
        assert plan(again, seed) == blocks, "planning twice gives different blocks"


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(np.array_equal(one, other))


def _describe(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a mapping of {', '.join(value)}"
    array = np.asarray(value)
    return f"shape {array.shape} and type {array.dtype}"
