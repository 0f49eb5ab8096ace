"""A look at each task before a run: does it honour its seed, and is what it shows as it says?"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from l2bench.bundle.model import Frame, TaskProbe
from l2bench.bundle.privacy import anonymous
from l2bench.environment import Environment, Observation, TaskInfo, close_quietly, fold, leaves
from l2bench.errors import FOREIGN, RunFailed
from l2bench.limits import time_limit
from l2bench.seeding import isolated
from l2bench.suite import Task

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.spaces import Space

#: The seed of the look, the same on every machine and for every suite.
SEED = 0

#: A look that takes longer is given up (s).
SECONDS = 600.0

#: Random steps taken after each of the two resets.
STEPS = 3


def probe_key(task: Task) -> str:
    """Return what two tasks share if they are one and the same simulation."""
    return json.dumps([task.environment, task.task, task.variant, task.settings], sort_keys=True)


def probe(
    environment: Environment, task: Task, info: TaskInfo, space: Space[Any] | None = None
) -> TaskProbe:
    """Reset a task twice with one seed, take a few random steps each time, and compare.

    What goes wrong here is a reason not to know; the run itself will say more.

    Raises:
        RunFailed: if the first observation is not as ``space``, the task's, says.
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
    if problem := misfit(first, space):
        raise RunFailed(
            f"task '{task.id}' ({task.environment}): the first observation{problem}; the "
            f"environment has to give what its observation space says"
        )
    frames = {key: _frame(image) for key, image in _images(first)}
    backend = render_backend(environment) if frames else None
    return TaskProbe(seed_honoured=digest == again, render_backend=backend, frames=frames)


def misfit(observation: Observation, space: Space[Any] | None, key: str = "") -> str:
    """Return what of an observation is not as its space says, "" if all is.

    Numbers must be of the kind that the space has (whole or not), fit its type without loss, and
    lie within its bounds.
    """
    where = f" ('{key}')" if key else ""
    parts = getattr(space, "spaces", None)
    if isinstance(parts, Mapping):
        if not isinstance(observation, Mapping) or set(parts) != set(observation):
            found = sorted(observation) if isinstance(observation, Mapping) else _kind(observation)
            return f"{where}: expected the keys {sorted(parts)}, got {found}"
        inside = (misfit(observation[k], parts[k], f"{key}/{k}" if key else k) for k in parts)
        return next(filter(None, inside), "")
    low, high = (getattr(space, name, None) for name in ("low", "high"))
    if space is None or low is None or high is None:
        fits = space is None or space.contains(observation)
        return "" if fits else f"{where}: expected {space}, got {_kind(observation)}"
    array = np.asarray(observation)
    wanted = np.dtype(space.dtype)
    same = array.dtype.kind == wanted.kind and np.can_cast(array.dtype, wanted)
    if same and array.shape == space.shape and bool(((array >= low) & (array <= high)).all()):
        return ""
    bounds = f"{np.min(low):g} to {np.max(high):g}"
    return f"{where}: expected {wanted} {space.shape} of {bounds}, got {_kind(array)}"


def _kind(value: Any) -> str:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or not array.size:
        return f"{array.dtype} {array.shape}"
    return f"{array.dtype} {array.shape} of {array.min():g} to {array.max():g}"


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
        fold(digest, observation)
        for action in actions:
            observation, reward, terminated, truncated, _ = env.step(action)
            fold(digest, observation)
            digest.update(repr((float(reward), bool(terminated), bool(truncated))).encode())
            if terminated or truncated:
                break
    return first, digest.hexdigest()


def _copy(observation: Observation) -> Observation:
    if isinstance(observation, Mapping):
        return {key: np.array(each) for key, each in observation.items()}
    return np.array(observation)


def _images(observation: Observation) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield the images of an observation: bytes in two or more dimensions."""
    for key, each in leaves(observation):
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
