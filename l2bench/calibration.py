"""What things cost on this machine: a step, an answer, an item learned, measured in seconds."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from l2bench.agent import Acting, Agent
from l2bench.batches import DemonstrationLesson, SampleLesson
from l2bench.cast import Cast
from l2bench.environment import Demonstrations, Samples, close_quietly
from l2bench.errors import guarded
from l2bench.evaluation import batch
from l2bench.experts import BOUND, companion_suites
from l2bench.interaction import InteractionLesson
from l2bench.lesson import Lesson
from l2bench.scenario import Block, learning_of, plan
from l2bench.seeding import Generators, isolated
from l2bench.suite import Suite

#: Measured are at most so many steps, and no more once so many seconds are over.
STEPS, SECONDS = 64, 20.0
#: Pairs or samples of the epoch that is timed.
ITEMS = 256


@dataclass(frozen=True)
class Cost:
    """What one kind of task costs, in wall seconds on this machine.

    ``tasks`` are the suite's tasks of this kind, of which the first was measured. ``build`` is the
    construction of a simulator with its first reset, ``reset`` and ``step`` are of one
    environment, ``act`` is one answer of the agent to ``batch`` observations at once, good for
    ``chunk`` steps; ``learn`` is one ``item`` learned: a pair, a sample, or a step, in which the
    environment's own is included. None where it does not apply.
    """

    tasks: tuple[int, ...]
    build: float | None
    reset: float | None
    step: float | None
    act: float
    batch: int
    chunk: int
    learn: float | None
    item: str


def calibrate(cast: Cast) -> list[Cost]:
    """Measure each kind of task: those that share environment, variant, settings and source.

    Raises:
        RunFailed: if an environment or the agent fails.
    """
    kinds: dict[str, list[int]] = {}
    for index, task in enumerate(cast.suite.tasks):
        source = task.learning.source if task.learning else None
        key = json.dumps([task.environment, task.variant, task.settings, source], sort_keys=True)
        kinds.setdefault(key, []).append(index)
    with isolated(0):
        return [_measure(cast, tuple(indices)) for indices in kinds.values()]


def _measure(cast: Cast, indices: tuple[int, ...]) -> Cost:
    index = indices[0]
    task = cast.suite.tasks[index]
    width = max(1, cast.execution.workers)
    build = reset = step = None
    with guarded(f"measuring task '{task.id}' with agent '{cast.agent_name}'"):
        if cast.tested_on_samples(index):
            samples = cast.samples(index)
            seen: list[Any] = list(samples.train_inputs[:ITEMS])
            data: Any = Samples(
                samples.train_inputs[:ITEMS], samples.train_labels[:ITEMS],
                samples.test_inputs[:1], samples.test_labels[:1], {},
            )  # fmt: skip
        else:
            began = time.perf_counter()
            env = cast.environments[task.environment].make(task)
            try:
                observation, _ = env.reset(seed=0)
                build = time.perf_counter() - began
                seen, actions, reset, step = _stroll(env, observation, cast, index)
            finally:
                close_quietly(env)
            data = _as_demonstrations(seen, actions)
        agent = cast.new_agent(cast.suite.seeds[0])
        learn, item = _learning(cast, agent, index, data)
        act = _answering(cast, agent, index, seen, width)
    return Cost(indices, build, reset, step, act, width, agent.chunk, learn, item)


def _stroll(
    env: Any, observation: Any, cast: Cast, index: int
) -> tuple[list[Any], list[Any], float, float]:
    """Take random steps; return what was seen, the actions, and the time of a reset and a step."""
    space = cast.spaces(index).action
    space.seed(0)
    horizon = cast.suite.tasks[index].horizon or STEPS
    seen: list[Any] = []
    actions: list[Any] = []
    resets: list[float] = []
    stepping, length = 0.0, 0
    until = time.perf_counter() + SECONDS
    while len(seen) < STEPS and (time.perf_counter() < until or not resets):
        action = space.sample()
        seen.append(observation)
        actions.append(action)
        began = time.perf_counter()
        observation, _, terminated, truncated, _ = env.step(action)
        stepping += time.perf_counter() - began
        length += 1
        if terminated or truncated or length == min(horizon, STEPS // 2):
            began = time.perf_counter()
            observation, _ = env.reset(seed=len(seen))
            resets.append(time.perf_counter() - began)
            length = 0
    return seen, actions, min(resets, default=0.0), stepping / len(seen)


def _as_demonstrations(seen: Sequence[Any], actions: Sequence[Any]) -> Demonstrations:
    rows = np.arange(ITEMS) % len(seen)
    together = batch(seen)
    keyed = together if isinstance(together, Mapping) else {"observation": together}
    given = np.stack([np.atleast_1d(action) for action in actions])[rows]
    arrays = {key: np.asarray(values)[rows] for key, values in keyed.items()}
    return Demonstrations(arrays, given, np.array([0, ITEMS]), {})


def _learning(cast: Cast, agent: Agent, index: int, data: Any) -> tuple[float | None, str]:
    """Let the agent learn a little twice, and time the second; return seconds and the item."""
    task = cast.suite.tasks[index]
    if task.learning is None:
        return None, "item"
    source = task.learning.source
    seconds = 0.0
    for lesson, items in _lessons(cast, index, source, data):
        began = time.perf_counter()
        agent.learn(lesson, cast.context(index))
        seconds = (time.perf_counter() - began) / items
        lesson.close()
    return seconds, {"interaction": "step", "demonstrations": "pair", "samples": "sample"}[source]


def _lessons(cast: Cast, index: int, source: str, data: Any) -> Iterator[tuple[Lesson, int]]:
    task = cast.suite.tasks[index]
    unit = "steps" if source == "interaction" else "epochs"
    amount = 2 * (ITEMS if unit == "steps" else 1)
    short = {"unit": unit, "amount": amount, "every": None, "checkpoints": (), "experience": None}
    learning = learning_of(cast.suite, index).model_copy(update=short)
    for half in (0, 1):
        start, stop = half * amount // 2, (half + 1) * amount // 2
        if source == "interaction":
            env = cast.environments[task.environment].make(task)
            lesson: Lesson = InteractionLesson(
                env, learning, start, stop, horizon=task.horizon, measure=task.measure,
                seed_of=lambda episode: episode,
            )  # fmt: skip
            yield lesson, stop - start
        elif source == "demonstrations":
            yield DemonstrationLesson(data, learning, start, stop), len(data)
        else:
            predicted = learning.model_copy(update={"test_then_train": False})
            yield SampleLesson(data, predicted, start, stop), len(data.train_labels)


def _answering(cast: Cast, agent: Agent, index: int, seen: Sequence[Any], width: int) -> float:
    """Return the seconds of one answer to so many observations at once."""
    observations = batch([seen[at % len(seen)] for at in range(width)])
    generators = Generators(list(range(width)))
    found = []
    for at in range(6):
        first = np.full(width, at == 0)
        acting = Acting(cast.context(index), np.arange(width), first, generators)
        began = time.perf_counter()
        agent.act(observations, acting)
        found.append(time.perf_counter() - began)
    return float(np.median(found[1:]))


def expected(cast: Cast, costs: Sequence[Cost]) -> dict[str, Any]:
    """Return how long all lifetimes take at most, in seconds, by what they are spent on.

    Experts and bound that the suite asks for are counted as lifetimes. Every episode is counted to
    its horizon; ``simulation`` is spread over the evaluation workers, as far as there are cores.
    ``learning`` is None where it is not known how many pairs an epoch has before the demonstrations
    are there.
    """
    of = {index: cost for cost in costs for index in cost.tasks}
    seeds = cast.seeds
    simulation = acting = 0.0
    learning: float | None = 0.0
    suites = (cast.suite, *companion_suites(cast.suite))
    for suite, block in ((own, block) for own in suites for block in plan(own, seeds[0])):
        if block.kind == "learn":
            spent = _learn_seconds(cast, suite, block, of)
            learning = None if spent is None or learning is None else learning + spent
            continue
        for index in (cast.suite.index(suite.tasks[at].id) for at in block.tasks):
            cost, horizon = of[index], cast.horizon(index) or 1
            simulation += block.episodes * ((cost.reset or 0) + horizon * (cost.step or 0))
            acting += block.episodes * horizon / cost.chunk * cost.act / cost.batch
    lives = len(seeds) * len(suites)
    cores = os.cpu_count() or 1
    spread = max(1, min(cast.execution.workers, cores))
    parts = {
        "simulation": simulation / spread * len(seeds),
        "acting": acting * len(seeds),
        "learning": None if learning is None else learning * len(seeds),
    }
    return {"lifetimes": lives, "workers": cast.execution.workers, "cores": cores, **parts}


def _learn_seconds(cast: Cast, suite: Suite, block: Block, of: Mapping[int, Cost]) -> float | None:
    """Return the time of a learning block; a bound goes through the data of all tasks so far."""
    assert block.task is not None
    learning, amount = learning_of(suite, block.task), block.stop - block.start
    index = cast.suite.index(suite.tasks[block.task].id)
    if learning.unit == "episodes":
        return amount * (cast.horizon(index) or 1) * (of[index].learn or 0.0)
    if learning.unit in ("steps", "samples"):
        return amount * (of[index].learn or 0.0)
    together = [index]
    if suite.id == BOUND:
        blocks = plan(suite, cast.seeds[0])[: block.index + 1]
        together = [cast.suite.index(suite.tasks[b.task].id) for b in blocks if b.task is not None]
    known = [(_items(cast, at), of[at].learn or 0.0) for at in together]
    seconds = [amount * items * each for items, each in known if items is not None]
    return math.fsum(seconds) if len(seconds) == len(known) else None


def _items(cast: Cast, index: int) -> int | None:
    """Return how many pairs or samples an epoch of a task has, if that is known."""
    task = cast.suite.tasks[index]
    if task.learning is not None and task.learning.source == "samples":
        return len(cast.samples(index).train_labels)
    return cast.environments[task.environment].pairs(task)
