"""Doing again what a bundle says was done: episodes from their traces, or with a saved agent."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from l2bench.agent import Agent
from l2bench.bookkeeping import episodes_of
from l2bench.bundle.reader import Bundle
from l2bench.bundle.tables import KEYS
from l2bench.cast import AgentSpec, Cast, Execution
from l2bench.errors import RunFailed, UsageError, guarded
from l2bench.evaluation import Episode, LiveEnvironments, LocalPool, Outcome, Rollout, test_samples
from l2bench.plugins import Registry
from l2bench.records import environment_versions
from l2bench.scenario import plan
from l2bench.seeding import isolated, reseed

#: What of an episode's row has to come out again.
COMPARED = ("success", "score", "return", "length", "terminated", "truncated")

Key = tuple[int, int, int]


@dataclass(frozen=True)
class Verified:
    """One episode that was played again.

    ``how`` is ``trace`` (its actions, without the agent) or ``agent`` (the agent as it was saved).
    ``differs`` is empty where everything came out again, else what did not: (recorded, now) by
    column; ``step`` is the first step whose reward or observation differs, where that is known.
    """

    block: int
    task: str
    episode: int
    how: str
    step: int | None
    differs: Mapping[str, tuple[Any, Any]]

    @property
    def equal(self) -> bool:
        """Whether everything came out again."""
        return self.step is None and not self.differs


def cast_of(registry: Registry, bundle: Bundle, execution: Execution) -> Cast:
    """Return those who took part in a bundle's lifetime, as they are installed here.

    Raises:
        L2benchError: if one of them is missing here.
    """
    if bundle.manifest.source is not None:
        raise UsageError(
            f"{bundle.folder} was imported from {bundle.manifest.source.kind}; only lifetimes that "
            f"l2bench ran can be played again"
        )
    spec = AgentSpec(name=bundle.agent.name, settings=bundle.agent.settings)
    return Cast.gather(registry, bundle.suite, spec, execution)


def traced(bundle: Bundle) -> list[Key]:
    """Return the episodes that keep a trace, as (block, task, episode)."""
    if bundle.traces is None:
        return []
    return sorted(set(_keys(bundle.traces)))


def recorded(bundle: Bundle) -> list[Key]:
    """Return every evaluation episode, as (block, task, episode)."""
    return sorted(_keys(bundle.lifetime.episodes))


def _keys(rows: pa.Table) -> Iterator[Key]:
    return zip(*(rows[name].to_pylist() for name in KEYS["episodes"]), strict=True)


def draw(episodes: Sequence[Key], count: int | None, bundle: Bundle) -> list[Key]:
    """Return so many of the episodes (None: all), drawn by the content of the bundle."""
    if count is None or count >= len(episodes):
        return list(episodes)
    inputs = "".join(ref.content_sha256 for ref in bundle.manifest.tables.values())
    return sorted(random.Random(inputs).sample(list(episodes), count))


def replay(cast: Cast, bundle: Bundle, episodes: Sequence[Key]) -> Iterator[Verified]:
    """Feed the recorded actions to the environments, without the agent, and compare.

    Raises:
        RunFailed: if an environment fails.
    """
    steps = _steps(bundle, set(episodes))
    rows = _rows(bundle)
    live = LiveEnvironments(limit=4)
    try:
        for key in sorted(episodes, key=lambda key: (key[1], key)):
            task = cast.suite.tasks[key[1]]
            doing = f"playing episode {key[2]} of task '{task.id}' (block {key[0]}) again"
            with guarded(doing), isolated(0):
                env = live.get(cast.environments[task.environment], task)
                row = rows[key]
                episode = Episode(key[2], row["env_seed"], 0, row["init_state"], traced=True)
                reseed(episode.env_seed)
                rollout = Rollout(env, task, episode)
                rollout.start()
                step = _follow(rollout, steps[key], cast.spaces(key[1]).action)
            found = rollout.outcome
            differs = _differences(row, found) if found else {"length": (row["length"], None)}
            yield Verified(key[0], task.id, key[2], "trace", step, differs)
    finally:
        live.close()


def _follow(rollout: Rollout, steps: Sequence[Mapping[str, Any]], space: Any) -> int | None:
    """Play the steps of a trace; return the first whose reward or observation differs."""
    at = 0
    while at < len(steps) and rollout.outcome is None:
        until = at  # a chunk ends with the step whose observation was seen
        while until < len(steps) - 1 and steps[until]["state_digest"] is None:
            until += 1
        chunk = [_action(step["action"], space) for step in steps[at : until + 1]]
        if len(chunk) == 1:
            rollout.step(chunk[0])
        else:
            rollout.play(chunk)
        at = until + 1
    for at, (step, now) in enumerate(zip(steps, rollout.trace, strict=False)):
        same = np.float32(step["reward"]) == np.float32(now.reward)
        if not same or (step["state_digest"] or now.digest) != now.digest:
            return at
    return None


def _action(numbers: Sequence[float], space: Any) -> Any:
    """Return a recorded action in the form that the environment takes."""
    if getattr(space, "shape", None) == () or type(space).__name__ == "Discrete":
        return int(numbers[0])
    dtype = space.dtype or np.float64
    return np.asarray(numbers, dtype=dtype).reshape(space.shape)


def _steps(bundle: Bundle, wanted: set[Key]) -> dict[Key, list[dict[str, Any]]]:
    assert bundle.traces is not None
    found: dict[Key, list[dict[str, Any]]] = {key: [] for key in wanted}
    for row in bundle.traces.to_pylist():
        key = tuple(row[name] for name in KEYS["episodes"])
        if key in wanted:
            found[key].append(row)
    for rows in found.values():
        rows.sort(key=lambda row: row["step"])
    return found


def _rows(bundle: Bundle) -> dict[Key, dict[str, Any]]:
    episodes = bundle.lifetime.episodes
    return dict(zip(_keys(episodes), episodes.to_pylist(), strict=True))


def _differences(row: Mapping[str, Any], outcome: Outcome) -> dict[str, tuple[Any, Any]]:
    now = {**vars(outcome), "return": outcome.reward}
    return {
        name: (row[name], now[name])
        for name in COMPARED
        if not (row[name] == now[name] or (row[name] != row[name] and now[name] != now[name]))
    }


def again(cast: Cast, bundle: Bundle, agents: Path, episodes: Sequence[Key]) -> Iterator[Verified]:
    """Let the agents that were kept beside a bundle play episodes again, and compare.

    ``agents`` is the folder that ``execution.keep_agents`` left for this bundle.

    Raises:
        UsageError: if it is not.
        RunFailed: if agent or environment fails.
    """
    states = _states(agents)
    rows = _rows(bundle)
    seed = bundle.manifest.seed.lifetime
    blocks = plan(cast.suite, seed)
    pool = LocalPool(cast.environments, cast.execution)
    agent, loaded = None, None
    try:
        for key in sorted(episodes):
            block, task_index, index = key
            if states.get(block) is None:
                raise UsageError(f"{agents} holds no state of the agent for block {block}")
            if agent is None or states[block] != loaded:
                agent, loaded = cast.new_agent(seed), states[block]
                with guarded("loading the agent's state"):
                    agent.load(agents / loaded)
            (episode,) = [
                replace(each, traced=False, film="none")
                for each in episodes_of(cast, seed, blocks[block], task_index)
                if each.index == index
            ]
            with guarded(f"playing episode {index} of block {block} again"):
                outcome = _play(cast, pool, agent, task_index, episode)
            differs = _differences(rows[key], outcome)
            task = cast.suite.tasks[task_index].id
            yield Verified(block, task, index, "agent", None, differs)
    finally:
        pool.close()


def _play(cast: Cast, pool: LocalPool, agent: Agent, task: int, episode: Episode) -> Outcome:
    if cast.tested_on_samples(task):
        return test_samples(cast.samples(task), cast.context(task), agent, episode)
    played = pool.run(cast.suite.tasks[task], cast.context(task), [episode], agent.act, agent.chunk)
    ((_, outcome),) = played
    return outcome


def _states(agents: Path) -> dict[int, str]:
    """Return the folder of the agent's state by block."""
    path = agents / "blocks.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {int(block): str(name) for block, name in found.items()}
    except (OSError, ValueError, AttributeError):
        raise UsageError(
            f"{agents} holds no agents of a lifetime (no readable blocks.json); run with "
            f"execution.keep_agents=true and name the folder agents/BUNDLE beside the bundle"
        ) from None


def changed_versions(cast: Cast, bundle: Bundle) -> list[str]:
    """Return what is installed here in another version than the bundle was made with."""
    segments = bundle.provenance.segments
    before = segments[-1].environments if segments else {}
    changed = []
    for name, here in environment_versions(cast).items():
        for key, value in before.get(name, {}).items():
            if here.get(key) != value:
                changed.append(f"{name}: {key} was {value}, here {here.get(key, 'missing')}")
    return changed


def untraced(bundle: Bundle) -> str:
    """Return why a bundle keeps no trace, as the end of a sentence about it."""
    acted = _acted(bundle)
    if not acted:
        return "keeps no traces, as no evaluation in it is acted"
    segments = bundle.provenance.segments
    share = segments[-1].execution.get("traces") if segments else None
    if not share:
        return "keeps no traces" if share is None else "ran with execution.traces=0"
    return (
        f"keeps no traces: chance drew none of its evaluation episodes ({acted}) at "
        f"execution.traces={share}"
    )


def _acted(bundle: Bundle) -> int:
    """Return how many evaluation episodes have steps; test samples have none."""
    acted = [task.measure != "accuracy" for task in bundle.suite.tasks]
    return sum(acted[at] for at in bundle.lifetime.episodes["task_index"].to_pylist())


def nothing(path: Path, bundles: Sequence[Bundle]) -> RunFailed:
    """Return the error of bundles in none of which there is anything to play again."""
    first = untraced(bundles[0])
    whose = f"none of {len(bundles)} bundles keeps traces; the first " if len(bundles) > 1 else ""
    more = "run with execution.traces=1, or " if any(map(_acted, bundles)) else ""
    return RunFailed(
        f"{path}: {whose}{first}; {more}verify with the agents kept by execution.keep_agents=true "
        f"(--kept-agents DIR), or run it all again (--rerun)"
    )
