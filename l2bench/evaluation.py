"""Evaluation: a queue of episodes over live environments, in this process or in workers."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

import numpy as np

from l2bench.agent import Acting, Agent, TaskContext
from l2bench.batches import count_right
from l2bench.environment import Environment, Observation, Samples, close_quietly
from l2bench.errors import RunFailed
from l2bench.lesson import finite, flag, measured
from l2bench.plugins import Registry, make_environment
from l2bench.seeding import Generators, generator, isolated, reseed
from l2bench.suite import Task

if TYPE_CHECKING:
    import gymnasium

OLD_API = "the API of gym before 0.26; return what Gymnasium's does"

#: Samples are labelled this many at a time.
TEST_BATCH = 1024


@dataclass(frozen=True)
class Episode:
    """One evaluation episode to run: its index, its seeds, and its fixed initial state if any."""

    index: int
    env_seed: int
    agent_seed: int
    initial_state: int | None


@dataclass(frozen=True)
class Outcome:
    """What came of one evaluation episode; ``score`` is in the task's raw units.

    ``worker_cpu`` is the CPU time spent on it in another process, in seconds.
    """

    score: float | None
    success: bool | None
    reward: float | None
    length: int
    terminated: bool
    truncated: bool
    seconds: float
    worker_cpu: float = 0.0


#: Makes a batch of actions: observations (B, ...), context rows -> actions (B, ...).
Act = Callable[[Observation, Acting], Any]


class Rollout:
    """One live episode in one environment, advanced step by step."""

    def __init__(self, env: gymnasium.Env[Any, Any], task: Task, episode: Episode) -> None:
        self._env = env
        self._task = task
        self._episode = episode
        self._length = 0
        self._reward = 0.0
        self._success: bool | None = None
        self._began = time.perf_counter()
        self.outcome: Outcome | None = None

    def start(self) -> Observation:
        """Reset the environment and return the first observation."""
        options = None
        if self._episode.initial_state is not None:
            options = {"initial_state": self._episode.initial_state}
        result = self._env.reset(seed=self._episode.env_seed, options=options)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise RunFailed(f"reset() returned no (observation, info): {OLD_API}")
        observation, info = result
        self._success = False if "success" in info else None
        return observation

    def step(self, action: Any) -> Observation:
        """Take one step; `outcome` is set when the episode is over."""
        result = self._env.step(action)
        if len(result) != 5:
            raise RunFailed(f"step() returned {len(result)} values: {OLD_API}")
        observation, reward, terminated, truncated, info = result
        self._length += 1
        self._reward += float(reward)
        if info and "success" in info:
            self._success = bool(self._success) or flag(info["success"], "info['success']")
        if terminated or truncated or self._length == self._task.horizon:
            reward, terminated = finite(self._reward), flag(terminated, "terminated")
            score = measured(self._task.measure, info, reward, self._success)
            self.outcome = Outcome(
                score,
                self._success,
                reward,
                self._length,
                terminated,
                not terminated,
                time.perf_counter() - self._began,
            )
        return observation


class LiveEnvironments:
    """Environments kept alive between episodes, at most ``limit`` of them, the oldest closed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._live: OrderedDict[str, gymnasium.Env[Any, Any]] = OrderedDict()

    def get(self, environment: Environment, task: Task) -> gymnasium.Env[Any, Any]:
        """Return the live environment of a task, made if need be."""
        if task.id in self._live:
            self._live.move_to_end(task.id)
            return self._live[task.id]
        while len(self._live) >= self._limit:
            close_quietly(self._live.popitem(last=False)[1])
        self._live[task.id] = environment.make(task)
        return self._live[task.id]

    def close(self) -> None:
        """Close them all."""
        while self._live:
            close_quietly(self._live.popitem()[1])


class LocalPool:
    """Runs the episodes one after the other in this process."""

    def __init__(self, environments: Mapping[str, Environment], keep: int) -> None:
        self._environments = environments
        self._live = LiveEnvironments(keep)

    def run(
        self, task: Task, context: TaskContext, episodes: Sequence[Episode], act: Act
    ) -> Iterator[tuple[Episode, Outcome]]:
        """Yield each episode's outcome, in order."""
        env = self._live.get(self._environments[task.environment], task)
        with isolated(0):
            for episode in episodes:
                reseed(episode.env_seed)
                yield episode, _play(env, task, context, episode, act)

    def close(self) -> None:
        """Close the environments."""
        self._live.close()


def _play(
    env: gymnasium.Env[Any, Any], task: Task, context: TaskContext, episode: Episode, act: Act
) -> Outcome:
    rollout = Rollout(env, task, episode)
    observation = rollout.start()
    slots = np.zeros(1, dtype=np.int64)
    generators = Generators([episode.agent_seed])
    acting = Acting(context, slots, np.ones(1, dtype=bool), generators)
    later = Acting(context, slots, np.zeros(1, dtype=bool), generators)
    while rollout.outcome is None:
        (action,) = rows(act(batch([observation]), acting), 1)
        observation = rollout.step(plain(action))
        acting = later
    return rollout.outcome


def rows(actions: Any, count: int) -> Any:
    """Return actions that have one row per observation.

    Raises:
        RunFailed: if they do not.
    """
    try:
        found = len(actions)
    except TypeError:
        found = None
    if found != count:
        raise RunFailed(
            f"act() returned {'no rows' if found is None else f'{found} rows'} for {count} "
            f"observations; expected one action per row"
        )
    return actions


def plain(action: Any) -> Any:
    """Return a numpy integer as Python's own, which environments check and index faster."""
    return int(action) if isinstance(action, np.integer) else action


def batch(observations: Sequence[Observation]) -> Observation:
    """Return B observations as one: an array (B, ...), or such arrays by key."""
    first = observations[0]
    if isinstance(first, Mapping):
        return {key: np.stack([each[key] for each in observations]) for key in first}
    if len(observations) == 1:
        return np.array(first)[None]  # a copy: the agent may do with it what it likes
    return np.stack(observations)


class WorkerPool:
    """Runs episodes in worker processes; the agent acts here, on whichever rows are ready.

    Each worker keeps its simulators for the whole lifetime and takes the next episode as soon as
    it has finished one. Outcomes are keyed by episode, so their number changes nothing.
    """

    def __init__(self, workers: int, keep: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._workers = [_Worker(context, keep) for _ in range(workers)]

    def run(
        self, task: Task, context: TaskContext, episodes: Sequence[Episode], act: Act
    ) -> Iterator[tuple[Episode, Outcome]]:
        """Yield each episode's outcome, as they come.

        Raises:
            RunFailed: if an environment raises or a worker dies, with the worker's own words.
        """
        waiting = deque(episodes)
        busy: dict[Any, _Worker] = {}
        for slot, worker in enumerate(self._workers[: len(waiting)]):
            worker.begin(slot, task, waiting.popleft())
            busy[worker.connection] = worker
        while busy:
            asking: list[tuple[_Worker, Observation]] = []
            for connection in wait(list(busy)):
                worker = busy[connection]
                kind, content = worker.receive()
                if kind == "observation":
                    asking.append((worker, content))
                    continue
                assert worker.episode is not None
                episode, worker.episode = worker.episode, None
                yield episode, content
                if waiting:
                    worker.begin(worker.slot, task, waiting.popleft())
                else:
                    del busy[connection]
            if asking:
                _answer(asking, context, act)

    def close(self) -> None:
        """Ask the workers to end, then make sure of it."""
        for worker in self._workers:
            worker.stop()


class _Worker:
    """The parent's end of one worker process."""

    def __init__(self, context: Any, keep: int) -> None:
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, keep), daemon=True)
        self._process.start()
        theirs.close()
        self.slot = 0
        self.episode: Episode | None = None
        self.first = True
        self.generator = generator(0)

    def begin(self, slot: int, task: Task, episode: Episode) -> None:
        self.slot, self.episode, self.first = slot, episode, True
        self.generator = generator(episode.agent_seed)
        self.connection.send((task, episode))

    def receive(self) -> tuple[str, Any]:
        try:
            kind, content = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(1)
            raise RunFailed(
                f"an evaluation worker died (exit code {self._process.exitcode}); "
                f"continue with --resume, with fewer workers if memory ran out"
            ) from None
        if kind == "error":
            raise RunFailed(f"an evaluation worker failed: {content[0]}") from WorkerError(
                content[1]
            )
        return kind, content

    def stop(self) -> None:
        if self.episode is not None:
            self._process.terminate()  # in the middle of an episode, which nobody wants any more
        with contextlib.suppress(OSError):
            self.connection.send(None)
        self._process.join(5)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(2)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self.connection.close()


class WorkerError(Exception):
    """The traceback of a worker, as text."""


def _answer(asking: list[tuple[_Worker, Observation]], context: TaskContext, act: Act) -> None:
    asking.sort(key=lambda pair: pair[0].slot)
    workers = [worker for worker, _ in asking]
    acting = Acting(
        context,
        np.array([worker.slot for worker in workers]),
        np.array([worker.first for worker in workers]),
        [worker.generator for worker in workers],
    )
    actions = rows(act(batch([obs for _, obs in asking]), acting), len(asking))
    for worker, action in zip(workers, actions, strict=True):
        worker.first = False
        worker.connection.send(plain(action))


def _serve(connection: Connection, keep: int) -> None:
    """Run episodes as told until told to stop: the body of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    sys.stdout = sys.stderr  # standard output is the command's alone
    registry = Registry()
    environments: dict[str, Environment] = {}
    live = LiveEnvironments(keep)
    try:
        while (job := connection.recv()) is not None:
            task, episode = job
            if task.environment not in environments:
                environments[task.environment] = make_environment(registry, task.environment)
            env = live.get(environments[task.environment], task)
            began = time.process_time()
            reseed(episode.env_seed)  # this process does nothing else
            rollout = Rollout(env, task, episode)
            observation = rollout.start()
            while rollout.outcome is None:
                connection.send(("observation", observation))
                observation = rollout.step(connection.recv())
            spent = time.process_time() - began
            connection.send(("outcome", replace(rollout.outcome, worker_cpu=spent)))
    except EOFError:
        pass  # the parent is gone
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
        connection.send(("error", (text, traceback.format_exc())))
    finally:
        live.close()


def test_samples(samples: Samples, context: TaskContext, agent: Agent, episode: Episode) -> Outcome:
    """Return the accuracy on the test samples; ``length`` is their number."""
    began = time.perf_counter()
    rng = generator(episode.agent_seed)
    right = 0
    for start in range(0, len(samples.test_inputs), TEST_BATCH):
        inputs = samples.test_inputs[start : start + TEST_BATCH]
        rows = np.arange(len(inputs))
        acting = Acting(context, rows, np.ones(len(rows), dtype=bool), [rng] * len(rows))
        labels = samples.test_labels[start : start + len(inputs)]
        right += count_right(agent.act(inputs, acting), labels)
    total = len(samples.test_labels)
    seconds = time.perf_counter() - began
    return Outcome(right / total, None, None, total, True, False, seconds)
