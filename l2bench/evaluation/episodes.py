"""One evaluation episode: what is asked, what came of it, and how it is played step by step."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from l2bench.actions import Check
from l2bench.agent import Acting
from l2bench.environment import Observation, fold
from l2bench.errors import ActionRefused, RunFailed
from l2bench.evaluation.video import Film, encode
from l2bench.lesson import OLD_API, finite, flag, measured
from l2bench.suite import Task

if TYPE_CHECKING:
    import gymnasium

#: Makes a batch of actions: observations (B, ...), context rows -> actions (B, ...).
Act = Callable[[Observation, Acting], Any]


@dataclass(frozen=True)
class Episode:
    """One evaluation episode to run: its index, its seeds, and its fixed initial state if any.

    ``traced`` episodes keep a trace; ``film`` says which are kept as a video.
    """

    index: int
    env_seed: int
    agent_seed: int
    initial_state: int | None
    traced: bool = False
    film: Film = "none"


class TraceStep(NamedTuple):
    """One step of a trace: the action (A,), the reward, and the digest of what was observed then.

    The digest has 16 bytes; it is None for a step inside a chunk, after which nothing is observed.
    """

    action: tuple[float, ...]
    reward: float
    digest: bytes | None


@dataclass(frozen=True)
class Outcome:
    """What came of one evaluation episode; ``score`` is in the task's raw units.

    ``worker_cpu`` is the CPU time spent on it in another process, in seconds; ``video`` is an MP4
    file's content.
    """

    score: float | None
    success: bool | None
    reward: float | None
    length: int
    terminated: bool
    truncated: bool
    seconds: float
    worker_cpu: float = 0.0
    trace: tuple[TraceStep, ...] | None = None
    video: bytes | None = None


class Rollout:
    """One live episode in one environment, advanced action by action or chunk by chunk."""

    def __init__(self, env: gymnasium.Env[Any, Any], task: Task, episode: Episode) -> None:
        self._env = env
        self._quiet = getattr(env, "step_quiet", None)
        self._task = task
        self._episode = episode
        self._length = 0
        self._reward = 0.0
        self._success: bool | None = None
        self._trace: list[TraceStep] | None = [] if episode.traced else None
        filmed = episode.film != "none" and env.render_mode == "rgb_array"
        self._frames: list[Any] | None = [] if filmed else None
        self._began = time.perf_counter()
        self.outcome: Outcome | None = None

    @property
    def trace(self) -> Sequence[TraceStep]:
        """The steps taken so far, where they are kept."""
        return self._trace or ()

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
        if self._frames is not None:
            self._frames.append(self._env.render())
        return observation

    def step(self, action: Any) -> Observation:
        """Take one step; `outcome` is set when the episode is over."""
        self._note(action)
        result = self._env.step(action)
        try:
            observation, reward, terminated, truncated, info = result
        except (TypeError, ValueError):
            found = len(result) if isinstance(result, tuple | list) else "no"
            raise RunFailed(f"step() returned {found} values: {OLD_API}") from None
        self._count(observation, float(reward), terminated, truncated, info)
        return observation

    def play(self, actions: Sequence[Any]) -> Observation:
        """Take the steps of a chunk, up to the episode's end; return the last observation."""
        for action in actions[:-1]:
            if self._quiet is None:
                observation = self.step(action)
            else:
                observation = None
                self._note(action)
                reward, terminated, truncated, info = self._quiet(action)
                self._count(None, float(reward), terminated, truncated, info)
            if self.outcome is not None:
                return observation
        return self.step(actions[-1])

    def _note(self, action: Any) -> None:
        if self._trace is not None:  # before the step, in which the environment may change it
            self._action = tuple(float(number) for number in np.ravel(action))

    def _count(
        self,
        observation: Observation,
        reward: float,
        terminated: Any,
        truncated: Any,
        info: Mapping[str, Any],
    ) -> None:
        self._length += 1
        self._reward += reward
        if info and "success" in info:
            self._success = bool(self._success) or flag(info["success"], "info['success']")
        if self._trace is not None:
            seen = None if observation is None else digest(observation)
            self._trace.append(TraceStep(self._action, reward, seen))
        if self._frames is not None:
            self._frames.append(self._env.render())
        if terminated or truncated or self._length == self._task.horizon:
            self.outcome = self._end(flag(terminated, "terminated"), info)

    def _end(self, terminated: bool, info: Mapping[str, Any]) -> Outcome:
        reward = finite(self._reward)
        keep = self._frames is not None and (self._episode.film == "all" or not self._success)
        return Outcome(
            measured(self._task.measure, info, reward, self._success),
            self._success,
            reward,
            self._length,
            terminated,
            not terminated,
            time.perf_counter() - self._began,
            trace=None if self._trace is None else tuple(self._trace),
            video=encode(self._frames, self._env.metadata) if keep and self._frames else None,
        )


def digest(observation: Observation) -> bytes:
    """Return 16 bytes that identify an observation: BLAKE2b over what `fold` feeds it."""
    found = hashlib.blake2b(digest_size=16)
    fold(found, observation)
    return found.digest()


def asked(task: Task) -> str:
    """Return who gave an action: the policy, asked in this task."""
    return f"task '{task.id}' ({task.environment}): act() returned"


def rows(actions: Any, count: int) -> Any:
    """Return actions that have one row per observation.

    Raises:
        ActionRefused: if they do not.
    """
    try:
        found = len(actions)
    except TypeError:
        found = None
    if found != count:
        raise ActionRefused(
            f"act() returned {'no rows' if found is None else f'{found} rows'} for {count} "
            f"observations; expected one action per row"
        )
    return actions


def chunk_of(row: Any, most: int, check: Check) -> list[Any]:
    """Return the actions of one row that are carried out, at most so many.

    Raises:
        ActionRefused: if the row holds no sequence of actions, or one that the task does not have.
    """
    try:
        planned = [plain(action) for action in row[:most]]
    except (TypeError, IndexError):
        planned = []
    if not planned:
        raise ActionRefused(
            f"act() returned a row of shape {np.shape(row)} for an agent with chunk {most}; "
            f"expected a sequence of actions per row"
        )
    for action in planned:
        check(action)
    return planned


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
