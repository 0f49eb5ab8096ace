"""Worker processes that play episodes; the agent acts in the parent, on whoever waits for it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import wait
from typing import Any

import numpy as np

from l2bench.actions import Check, checker
from l2bench.agent import Acting, TaskContext
from l2bench.cast import Execution
from l2bench.environment import Environment, Observation
from l2bench.errors import RunFailed
from l2bench.evaluation.episodes import Act, Episode, Outcome, asked, batch, chunk_of, rows
from l2bench.evaluation.pools import LiveEnvironments, build_limit, too_slow
from l2bench.evaluation.serving import Post, serve
from l2bench.evaluation.starting import start_method, unsafe
from l2bench.limits import TimeUp, peak_resident, private_memory, time_limit
from l2bench.seeding import generator
from l2bench.suite import Task

#: Workers that are asked to end have so long (s) before they are made to.
GRACE = 5.0


class WorkerPool:
    """Plays episodes in worker processes, ``tasks`` being those of the suite.

    Each worker keeps its simulators for the whole lifetime and takes the next episode as soon as
    it has finished one. Outcomes are keyed by episode, so their number changes nothing. Forked
    workers share the simulators that were built here; they are forked anew when one is added.
    """

    def __init__(
        self, environments: Mapping[str, Environment], execution: Execution, tasks: Sequence[Task]
    ) -> None:
        self._environments = environments
        self._execution = execution
        self._method, self._reason = start_method(execution, environments, tasks)
        self._workers: list[_Worker] = []
        self._live = LiveEnvironments(execution.keep_environments)
        self._most_memory = 0

    def run(
        self,
        task: Task,
        context: TaskContext,
        episodes: Sequence[Episode],
        act: Act,
        chunk: int = 1,
    ) -> Iterator[tuple[Episode, Outcome]]:
        """Yield each episode's outcome, as they come.

        Raises:
            RunFailed: if an environment raises, with its own words, hangs, or a worker dies.
        """
        self._prepare(task)
        check = checker(context.spaces.action, asked(task))
        waiting = deque(episodes)
        busy: dict[Any, _Worker] = {}
        for slot in range(min(len(self._workers), len(waiting))):
            self._begin(slot, task, waiting.popleft(), busy)
        while busy:
            asking: list[tuple[_Worker, Observation]] = []
            for connection in _ready(busy):
                worker = busy[connection]
                kind, content = worker.receive()
                if kind == "built":
                    worker.built()
                elif kind == "observation":
                    asking.append((worker, content))
                else:
                    yield worker.end(), content
                    del busy[connection]
                    if waiting:
                        self._begin(worker.slot, task, waiting.popleft(), busy)
            if asking:
                _answer(asking, context, act, chunk, check)
        self._measure()

    def _prepare(self, task: Task) -> None:
        """Have workers, and where they are forked, have them share this task's simulator."""
        if self._workers and (self._method == "spawn" or task in self._live or unsafe()):
            return
        if self._method == "fork":
            limit = build_limit(self._execution.episode_seconds)
            try:
                with time_limit(limit):
                    self._live.get(self._environments[task.environment], task)
            except TimeUp:
                raise too_slow(task, None, limit) from None
        self._stop()
        for number in range(self._execution.workers):
            self._workers.append(self._hired(number))

    def _hired(self, number: int) -> _Worker:
        inherited = (self._environments, self._live) if self._method == "fork" else None
        siblings = [worker.connection for worker in self._workers]
        context = multiprocessing.get_context(self._method)
        return _Worker(context, self._execution, inherited, siblings, number)

    def _begin(self, slot: int, task: Task, episode: Episode, busy: dict[Any, _Worker]) -> None:
        """Give an episode to a worker, a new one if the old has played as many as it may."""
        worker = self._workers[slot]
        enough = self._execution.recycle is not None and worker.played >= self._execution.recycle
        if enough and (self._method == "spawn" or not unsafe()):
            self._measure()
            worker.dismiss()
            worker.stop(GRACE)
            del self._workers[slot]
            worker = self._hired(slot)
            self._workers.insert(slot, worker)
        worker.begin(slot, task, episode)
        busy[worker.connection] = worker

    def facts(self) -> dict[str, str]:
        """Return how workers were started, for the record."""
        return {"started_by": self._method, "started_because": self._reason}

    def peak_memory(self) -> int:
        """Return the most memory that the workers held together at the end of a task, in bytes.

        Of forked workers, what they do not share with this process counts; 0 where the system
        does not tell.
        """
        return self._most_memory

    def _measure(self) -> None:
        measure = private_memory if self._method == "fork" else peak_resident
        found = [measure(worker.number) for worker in self._workers]
        total = sum(amount for amount in found if amount is not None)
        self._most_memory = max(total, self._most_memory)

    def _stop(self) -> None:
        until = time.monotonic() + GRACE
        for worker in self._workers:
            worker.dismiss()
        for worker in self._workers:
            worker.stop(max(0.1, until - time.monotonic()))
        self._workers.clear()

    def close(self) -> None:
        """Ask the workers to end, then make sure of it."""
        self._stop()
        self._live.close()


class _Worker:
    """The parent's end of one worker process."""

    def __init__(
        self,
        context: Any,
        execution: Execution,
        inherited: Any,
        siblings: Sequence[Any],
        place: int,
    ) -> None:
        self.connection, theirs = context.Pipe()
        others = [*siblings, self.connection] if inherited is not None else []
        post = Post(theirs, os.getpid(), others, place)
        self._process = context.Process(target=serve, args=(post, execution, inherited))
        self._process.daemon = True
        with warnings.catch_warnings():  # of threads, which were looked at before
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        theirs.close()
        self._seconds = execution.episode_seconds
        self._task: Task | None = None
        self.slot = 0
        self.played = 0
        self.episode: Episode | None = None
        self.first = True
        self.generator = generator(0)
        self.deadline = float("inf")
        self._building = False

    @property
    def number(self) -> int:
        return int(self._process.pid or 0)

    def begin(self, slot: int, task: Task, episode: Episode) -> None:
        self.slot, self._task, self.episode, self.first = slot, task, episode, True
        self.generator = generator(episode.agent_seed)
        self._building = True
        self._set_deadline(build_limit(self._seconds))
        try:
            self.connection.send((task, episode))
        except OSError:
            raise self._died() from None

    def built(self) -> None:
        """Note that the simulator is there and the episode begins."""
        self._building = False
        self._set_deadline(self._seconds)

    def answer(self, actions: Any) -> None:
        self.first = False
        try:
            self.connection.send(actions)
        except OSError:
            raise self._died() from None

    def end(self) -> Episode:
        """Return the episode that is over."""
        assert self.episode is not None
        self.played += 1
        episode, self.episode = self.episode, None
        return episode

    def receive(self) -> tuple[str, Any]:
        try:
            kind, content = self.connection.recv()
        except (EOFError, OSError):
            raise self._died() from None
        if kind == "error":
            raise RunFailed(f"{self._where()} failed: {content[0]}") from WorkerError(content[1])
        return kind, content

    def overdue(self) -> RunFailed:
        """Kill the process and return the error that says why."""
        self._kill()
        assert self._task is not None
        if self._building:
            return too_slow(self._task, None, build_limit(self._seconds))
        return too_slow(self._task, self.episode, self._seconds)

    def dismiss(self) -> None:
        """Ask the process to end, in the middle of an episode not politely."""
        if self.episode is not None:
            self._process.terminate()
        with contextlib.suppress(OSError, ValueError):
            self.connection.send(None)

    def stop(self, seconds: float) -> None:
        """See to it that the process and all that it started are gone."""
        self._process.join(seconds)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(0.5)
        self._kill()
        self.connection.close()

    def _kill(self) -> None:
        if self.number:  # the worker leads a group of its own
            with contextlib.suppress(OSError):
                os.killpg(self.number, signal.SIGKILL)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    def _set_deadline(self, seconds: float | None) -> None:
        self.deadline = float("inf") if seconds is None else time.monotonic() + seconds

    def _where(self) -> str:
        if self._task is None or self.episode is None:
            return "an evaluation worker"
        return f"task '{self._task.id}' ({self._task.environment}), episode {self.episode.index}"

    def _died(self) -> RunFailed:
        self._process.join(2)
        code = self._process.exitcode
        how = f"exit code {code}"
        if code is not None and code < 0:
            how = f"killed by {signal.Signals(-code).name}"
        memory = ", most often because memory ran out" if code == -signal.SIGKILL else ""
        return RunFailed(
            f"{self._where()}: the evaluation worker died ({how}{memory}); continue with "
            f"--resume, with fewer execution.workers if memory ran out"
        )


class WorkerError(Exception):
    """The traceback of a worker, as text."""


def _ready(busy: Mapping[Any, _Worker]) -> list[Any]:
    """Return the connections that have something to say.

    Raises:
        RunFailed: if a worker's time is up before any has.
    """
    nearest = min(busy.values(), key=lambda worker: worker.deadline)
    left = nearest.deadline - time.monotonic()
    found = wait(list(busy), None if left == float("inf") else max(0.0, left))
    if nearest.deadline < time.monotonic() and nearest.connection not in found:
        raise nearest.overdue()
    return found


def _answer(
    asking: list[tuple[_Worker, Observation]],
    context: TaskContext,
    act: Act,
    chunk: int,
    check: Check,
) -> None:
    asking.sort(key=lambda pair: pair[0].slot)
    workers = [worker for worker, _ in asking]
    acting = Acting(
        context,
        np.array([worker.slot for worker in workers]),
        np.array([worker.first for worker in workers]),
        [worker.generator for worker in workers],
    )
    found = rows(act(batch([obs for _, obs in asking]), acting), len(asking))
    for worker, row in zip(workers, found, strict=True):
        worker.answer(chunk_of([row] if chunk == 1 else row, chunk, check))
