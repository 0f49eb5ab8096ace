"""Plans: the exact sequence of learning and evaluation blocks of one lifetime."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from l2bench.seeding import derive, generator
from l2bench.suite import Learning, Suite

Role = Literal["pretest", "curve", "post", "wake"]


@dataclass(frozen=True)
class Block:
    """One block of a lifetime, the unit that is committed as a whole.

    A learning block trains ``task`` from ``start`` to ``stop`` (in the unit of the task's
    learning section); an evaluation block runs ``episodes`` episodes of each of ``tasks``.
    ``task`` of an evaluation block is the task trained most recently (None before the first).
    ``exposure`` counts the visits to the task from 0; ``checkpoint`` is where in the task an
    evaluation takes place. ``amount`` is the budget of the whole visit. ``opens`` and ``closes``
    name the task that begins before, or is finished before, this block.
    """

    index: int
    kind: Literal["learn", "eval"]
    role: Role
    task: int | None
    exposure: int | None
    start: int = 0
    stop: int = 0
    amount: int = 0
    tasks: tuple[int, ...] = ()
    episodes: int = 0
    checkpoint: int | None = None
    policy: Literal["current", "best"] = "current"
    opens: int | None = None
    closes: int | None = None

    @property
    def planned_episodes(self) -> int:
        """The number of evaluation episodes in this block."""
        return self.episodes * len(self.tasks)


def plan(suite: Suite, seed: int) -> tuple[Block, ...]:
    """Return the blocks of one lifetime; a pure function of the suite and the lifetime seed."""
    scenario = suite.scenario
    if scenario.kind == "sequential":
        blocks = _sequential(suite, seed)
    elif scenario.kind == "interleaved":
        blocks = _interleaved(suite, seed)
    else:
        blocks = _written(suite)
    return tuple(replace(block, index=index) for index, block in enumerate(_close(blocks)))


def learned_tasks(suite: Suite) -> tuple[int, ...]:
    """Return the positions of the tasks that a lifetime of the suite learns, in suite order."""
    blocks = plan(suite, suite.seeds[0])
    return tuple(sorted({block.opens for block in blocks if block.opens is not None}))


def task_order(suite: Suite, seed: int) -> tuple[int, ...]:
    """Return the positions of the tasks in the order in which this lifetime learns them."""
    order = suite.scenario.order
    if isinstance(order, tuple):
        return tuple(suite.index(name) for name in order)
    positions = list(range(len(suite.tasks)))
    if order == "shuffled":
        generator(derive(suite.hash, seed, "order")).shuffle(positions)
    return tuple(positions)


def learning_of(suite: Suite, task: int) -> Learning:
    """Return the learning section of a task that is learned."""
    learning = suite.tasks[task].learning
    assert learning is not None, "the suite model refuses learned tasks without a learning section"
    return learning


class _Visits:
    """Counts the visits to each task."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def begin(self, task: int) -> int:
        """Return how often the task was visited before."""
        self._seen[task] = self._seen.get(task, -1) + 1
        return self._seen[task]

    @property
    def tasks(self) -> tuple[int, ...]:
        """The tasks seen, in the order in which they were first visited."""
        return tuple(self._seen)


def _sequential(suite: Suite, seed: int) -> list[Block]:
    scenario = suite.scenario
    everything = tuple(range(len(suite.tasks)))
    policy: Literal["current", "best"] = "best" if scenario.keep == "best" else "current"
    blocks: list[Block] = []
    if scenario.pretest:
        blocks.append(_eval("pretest", None, None, everything, scenario.episodes))
    visits = _Visits()
    for task in task_order(suite, seed) * scenario.rounds:
        exposure = visits.begin(task)
        blocks += _learn_with_curve(suite, task, exposure)
        tasks = everything if scenario.evaluate == "all" else visits.tasks
        post = _eval("post", task, exposure, tasks, scenario.episodes)
        stop = learning_of(suite, task).amount
        blocks.append(replace(post, checkpoint=stop, policy=policy))
    return blocks


def _learn_with_curve(suite: Suite, task: int, exposure: int) -> list[Block]:
    learning = learning_of(suite, task)
    episodes = suite.scenario.checkpoint_episodes or suite.scenario.episodes
    blocks: list[Block] = []
    for start, stop in _segments(learning):
        if start in learning.checkpoints:
            blocks.append(_curve(task, exposure, start, episodes))
        blocks.append(_learn(task, exposure, learning.amount, start, stop))
    if learning.amount in learning.checkpoints:
        blocks.append(_curve(task, exposure, learning.amount, episodes))
    return blocks


def _segments(learning: Learning) -> list[tuple[int, int]]:
    edges = sorted({0, *learning.checkpoints, learning.amount})
    return list(itertools.pairwise(edges))


def _interleaved(suite: Suite, seed: int) -> list[Block]:
    episodes = suite.scenario.episodes
    everything = tuple(range(len(suite.tasks)))
    blocks = [_eval("pretest", None, None, everything, episodes)]
    visits = _Visits()
    for task in task_order(suite, seed) * suite.scenario.rounds:
        exposure, amount = visits.begin(task), learning_of(suite, task).amount
        blocks.append(_learn(task, exposure, amount, 0, amount))
        blocks.append(_eval("post", task, exposure, everything, episodes))
    return blocks


def _written(suite: Suite) -> list[Block]:
    blocks: list[Block] = []
    visits = _Visits()
    task: int | None = None
    exposure: int | None = None
    for written in suite.scenario.blocks:
        if written.learn is not None:
            task = suite.index(written.learn)
            exposure = visits.begin(task)
            amount = written.amount or learning_of(suite, task).amount
            blocks.append(_learn(task, exposure, amount, 0, amount))
            continue
        named = written.evaluate if isinstance(written.evaluate, tuple) else None
        tasks = tuple(suite.index(n) for n in named) if named else tuple(range(len(suite.tasks)))
        role: Role = "pretest" if task is None else "post"
        blocks.append(_eval(role, task, exposure, tasks, suite.scenario.episodes))
    return blocks


def _learn(task: int, exposure: int, amount: int, start: int, stop: int) -> Block:
    opens = task if start == 0 else None
    return Block(
        0, "learn", "wake", task, exposure, start=start, stop=stop, amount=amount, opens=opens
    )


def _curve(task: int, exposure: int, checkpoint: int, episodes: int) -> Block:
    return replace(_eval("curve", task, exposure, (task,), episodes), checkpoint=checkpoint)


def _eval(
    role: Role, task: int | None, exposure: int | None, tasks: tuple[int, ...], episodes: int
) -> Block:
    return Block(0, "eval", role, task, exposure, tasks=tasks, episodes=episodes)


def _close(blocks: Sequence[Block]) -> Iterable[Block]:
    """Mark on each block the task that has to be finished before it."""
    open_task: int | None = None
    for block in blocks:
        over = open_task is not None and (block.opens is not None or block.role == "post")
        yield replace(block, closes=open_task) if over else block
        if over:
            open_task = None
        if block.opens is not None:
            open_task = block.opens
