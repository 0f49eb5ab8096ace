"""An agent that knows the way: the memoryless scripted expert, acting from the compact state."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from l2bench.agent import Acting, Agent, AgentSettings, Life, TaskContext
from l2bench.batches import DemonstrationLesson
from l2bench.environment import Observation
from l2bench.errors import UsageError
from l2bench.interaction import InteractionLesson
from l2bench.lesson import Lesson
from l2bench.seeding import generator
from l2bench.suite import Source
from l2bench_libero import experts, tasks
from l2bench_libero.observation import STATE, STATE_SIZE, Goal, Snapshot

_FILE = "jobs.json"
_ITEM, _PLACE = "item", "place"


class Plan:
    """One task as the agent sees it: what to do, and where its container is from its goal."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._offset = np.array(record["container_minus_goal"])
        self._job = experts.Job(
            Goal(record["predicate"], _ITEM, _PLACE),
            _PLACE,
            experts.Grasp(**record["grasp"]),
            *(record[key] for key in ("low", "high", "rim")),
        )

    def act(self, state: NDArray[Any]) -> NDArray[np.float32]:
        """Return the action (7,) for a compact state (17,)."""
        ends = np.cumsum([size for _, size in STATE])[:-1]
        names = [name for name, _ in STATE]
        part = dict(zip(names, np.split(np.asarray(state, np.float64), ends), strict=True))
        eef = part["eef_pos"]
        snapshot = Snapshot(
            eef=eef,
            hand_quaternion=np.zeros(4),
            joints=np.zeros(7),
            fingers=part["finger_positions_x10"] / 10,
            finger_velocities=part["finger_velocities"],
            positions={
                _ITEM: eef + part["object_minus_eef"],
                _PLACE: eef + part["goal_minus_eef"] + self._offset,
            },
            satisfied=(False,),
        )
        action = experts.MemorylessExpert.decide(self._job, snapshot).action
        return np.asarray(action, dtype=np.float32)


@functools.cache
def _plans() -> Mapping[str, tuple[str, ...]]:
    """Return the tasks that can be acted in by every sentence they are known by."""
    found: dict[str, list[str]] = {}
    for id in _records():
        suite, name = id.split("/")
        task = tasks.find(suite, name)
        sentences = {task.instruction, task.prompt}
        if "lan" in tasks.variants(suite):
            sentences.add(tasks.find(suite, name, "lan").instruction)
        for sentence in sentences:
            found.setdefault(sentence, []).append(id)
    return {sentence: tuple(ids) for sentence, ids in found.items()}


@functools.cache
def _records() -> dict[str, Any]:
    text = files("l2bench_libero").joinpath(_FILE).read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def plan(task: TaskContext) -> Plan:
    """Return how to do a task, found by its instruction.

    Raises:
        UsageError: there is no compact state, no instruction, or no script for it.
    """
    name = f"task '{task.id}'" if task.id else "a task"
    space = task.spaces.observation
    state = space.spaces.get("state") if isinstance(space, spaces.Dict) else None
    if state is None or state.shape != (STATE_SIZE,):
        raise UsageError(
            f"agent 'libero/scripted' acts from LIBERO's compact state, which {name} does not "
            "show; set observation: state (or both), or choose another agent"
        )
    if task.language is None:
        raise UsageError(
            f"agent 'libero/scripted' knows tasks by their instruction, which {name} does not "
            "reveal; add language to scenario.reveal, or choose another agent"
        )
    records = [_records()[id] for id in _plans().get(task.language.lower(), ())]
    if not records:
        raise UsageError(
            f"agent 'libero/scripted' has no script for {name} ({task.language!r:.100}); it has "
            f"{len(_records())} tasks with one condition of success, those with a scripted expert"
        )
    return Plan(records[0])


class Scripted(Agent):
    """Does LIBERO's tasks by script, from the first step on, and learns nothing: the ceiling."""

    sources: ClassVar[frozenset[Source]] = frozenset({"interaction", "demonstrations", "samples"})

    def __init__(self, settings: AgentSettings, life: Life) -> None:
        super().__init__(settings, life)
        for task in life.tasks:
            plan(task)

    def learn(self, lesson: Lesson, task: TaskContext) -> None:
        """Use up the lesson."""
        if isinstance(lesson, InteractionLesson):
            doing = plan(task)
            while lesson.remaining:
                observation, over = lesson.reset(), False
                while not over and lesson.remaining:
                    observation, _, terminated, truncated, _ = lesson.step(
                        doing.act(observation["state"])
                    )
                    over = terminated or truncated
        elif isinstance(lesson, DemonstrationLesson):
            lesson.skip()
        else:
            for _ in lesson.batches(256, generator(0)):  # type: ignore[attr-defined]
                pass

    def act(self, observations: Observation, acting: Acting) -> NDArray[np.float32]:
        """Return the scripted action for each row."""
        doing = plan(acting.task)
        return np.stack([doing.act(state) for state in observations["state"]])

    def save(self, folder: Path) -> None:
        """Write that there is nothing to remember."""
        (folder / "scripted.json").write_text("{}", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """There is nothing to restore."""

    def fingerprint(self) -> str:
        """Return the version of the script, all there is to know."""
        return str(experts.VERSION)


def main() -> None:
    """Measure all tasks with one condition of success: ``python -m l2bench_libero.agent``."""
    from l2bench_libero.simulator import LiberoEnv

    lines = []
    for suite in tasks.SUITES:
        for index in experts.supported(suite):
            env = LiberoEnv(suite, index, settle_steps=10)
            try:
                env.reset(seed=0, options={"initial_state": 0})
                expert = experts.make_expert(env)
                expert.restart()
                record = _measured(expert.jobs, env.snapshot)
            finally:
                env.close()
            if record:
                lines.append(f"{json.dumps(env.task.id)}: {json.dumps(record)}")
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    Path(__file__).with_name(_FILE).write_text(text, encoding="utf-8")


def _measured(jobs: tuple[experts.Job, ...], snapshot: Snapshot) -> dict[str, Any] | None:
    if len(jobs) != 1:
        return None  # the state does not tell which condition it is about
    job = jobs[0]
    places = snapshot.positions
    offset = places[job.container] - places[job.goal.target]
    return {
        "predicate": job.goal.predicate,
        "grasp": {name: round(value, 5) for name, value in asdict(job.grasp).items()},
        **{name: round(getattr(job, name), 5) for name in ("low", "high", "rim")},
        "container_minus_goal": [round(float(x), 5) for x in offset],
    }


if __name__ == "__main__":
    main()
