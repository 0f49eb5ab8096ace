"""A look at each task before a run: does it honour its seed, and what does it show?"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from l2bench.bundle.model import Frame, TaskProbe
from l2bench.bundle.privacy import anonymous
from l2bench.environment import Environment, Observation, TaskInfo, close_quietly
from l2bench.errors import FOREIGN
from l2bench.limits import time_limit
from l2bench.seeding import isolated
from l2bench.suite import Task

if TYPE_CHECKING:
    import gymnasium

#: The seed of the look, the same on every machine and for every suite.
SEED = 0

#: A look that takes longer is given up (s).
SECONDS = 600.0

#: Random steps taken after each of the two resets.
STEPS = 3


def probe_key(task: Task) -> str:
    """Return what two tasks share if they are one and the same simulation."""
    return json.dumps([task.environment, task.task, task.variant, task.settings], sort_keys=True)


def probe(environment: Environment, task: Task, info: TaskInfo) -> TaskProbe:
    """Reset a task twice with one seed, take a few random steps each time, and compare.

    What goes wrong here is a reason not to know; the run itself will say more.
    """
    try:
        with time_limit(SECONDS):
            live = environment.make(task)
    except FOREIGN as error:
        return TaskProbe(reason=_reason(error))
    try:
        actions = _actions(live)
        options = {"initial_state": 0} if info.initial_states else None
        with time_limit(SECONDS):
            first, digest = _attempt(live, options, actions)
            _, again = _attempt(live, options, actions)
    except FOREIGN as error:
        return TaskProbe(reason=_reason(error))
    finally:
        close_quietly(live)
    frames = {key: _frame(image) for key, image in _images(first)}
    backend = render_backend(environment) if frames else None
    return TaskProbe(seed_honoured=digest == again, render_backend=backend, frames=frames)


def render_backend(environment: Environment) -> str:
    """Return what draws an environment's images, as it says itself or as the machine is set.

    An environment tells by the entry ``renderer`` of its versions; else ``MUJOCO_GL`` counts;
    ``"unknown"`` where neither does.
    """
    told = environment.versions().get("renderer")
    return str(told or os.environ.get("MUJOCO_GL") or "unknown")


def _reason(error: BaseException) -> str:
    return anonymous(f"{type(error).__name__}: {error}")[:200]


def _actions(env: gymnasium.Env[Any, Any]) -> list[Any]:
    env.action_space.seed(SEED)
    return [env.action_space.sample() for _ in range(STEPS)]


def _attempt(
    env: gymnasium.Env[Any, Any], options: dict[str, Any] | None, actions: list[Any]
) -> tuple[Observation, str]:
    """Return the first observation, and a digest of all that was seen."""
    digest = hashlib.sha256()
    with isolated(SEED):
        observation, _ = env.reset(seed=SEED, options=options)
        first = _copy(observation)
        _add(digest, observation)
        for action in actions:
            observation, reward, terminated, truncated, _ = env.step(action)
            _add(digest, observation)
            digest.update(repr((float(reward), bool(terminated), bool(truncated))).encode())
            if terminated or truncated:
                break
    return first, digest.hexdigest()


def _copy(observation: Observation) -> Observation:
    if isinstance(observation, Mapping):
        return {key: np.array(each) for key, each in observation.items()}
    return np.array(observation)


def _add(digest: Any, observation: Observation) -> None:
    for key, each in _parts(observation):
        array = np.ascontiguousarray(each)
        digest.update(f"{key}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.tobytes())


def _parts(observation: Observation) -> Iterator[tuple[str, Any]]:
    if isinstance(observation, Mapping):
        for key in sorted(observation):
            yield str(key), observation[key]
    else:
        yield "", observation


def _images(observation: Observation) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield the images of an observation: bytes in two or more dimensions."""
    for key, each in _parts(observation):
        array = np.asarray(each)
        if array.dtype == np.uint8 and array.ndim >= 2:
            yield key, array


def _frame(image: np.ndarray[Any, Any]) -> Frame:
    return Frame(
        shape=image.shape,
        dtype=str(image.dtype),
        mean=float(image.mean()),
        std=float(image.std()),
        sha256=hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest(),
    )
