"""Demonstrations made by the scripted experts, kept in files of the official layout."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from l2bench.environment import Progress, silent
from l2bench.errors import RunFailed, Unsupported
from l2bench_libero import hdf5, installation
from l2bench_libero import observation as obs
from l2bench_libero.experts import VERSION, Expert, make_expert, settle_steps
from l2bench_libero.layout import opened, origin_of
from l2bench_libero.simulator import LiberoEnv
from l2bench_libero.tasks import Task, find

#: Strength of the disturbance (fraction of a full command) and its memory from step to step.
NOISE, NOISE_MEMORY = 0.2, 0.7
#: Steps after which an attempt is given up, for each condition of success.
HORIZON = 200


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what the demonstrations of a task are.

    Of each, the first ``longest`` steps are recorded (None: all).
    """

    suite: str
    task: str
    count: int
    seed: int
    pixels: bool = False
    image_size: int = 128
    expert: str = "memoryless"
    noise: float = NOISE
    longest: int | None = None

    def key(self) -> dict[str, Any]:
        """Return the recipe with the versions it depends on, as plain data."""
        return {
            "maker": "scripted expert",
            "suite": self.suite,
            "task": self.task,
            "count": self.count,
            "seed": self.seed,
            "image_size": self.image_size if self.pixels else None,
            "expert": self.expert,
            "expert_version": VERSION,
            "noise": self.noise,
            "mujoco": installation.check_mujoco(),
            **({"longest": self.longest} if self.longest else {}),
        }

    def file(self, folder: Path) -> Path:
        """Return where the demonstrations of this recipe are kept below a folder."""
        key = self.key()
        seen = f"pixels{self.image_size}" if self.pixels else "state"
        parts = (
            f"{self.count}x",
            f"seed{self.seed}",
            f"{self.expert}{VERSION}",
            f"noise{self.noise:g}",
            f"mujoco{key['mujoco']}",
            *([f"first{self.longest}"] if self.longest else []),
            seen,
        )
        return folder / self.suite / f"{self.task}_demo.{'-'.join(parts)}.hdf5"


@dataclass(frozen=True)
class Episode:
    """One demonstration, T steps: arrays (T, ...) and observations (T, ...) by key."""

    arrays: Mapping[str, NDArray[Any]]
    observations: Mapping[str, NDArray[Any]]
    init_state: NDArray[np.float64]
    success: bool


def collect(recipe: Recipe, folder: Path, progress: Progress = silent) -> Path:
    """Return the file with the demonstrations of a recipe, made now if it is not there intact.

    Episodes start from fresh placements, never from the evaluation states. The expert's action is
    disturbed before it is executed and recorded as it was (DART, Laskey et al. 2017), so that the
    demonstrations also show how to recover. Failed episodes are left out.

    Raises:
        UsageError: there is no expert for the task.
        RunFailed: the expert fails too often, or the file cannot be written.
    """
    task = find(recipe.suite, recipe.task)
    path = recipe.file(folder)
    if _intact(path, recipe):
        return path
    env = LiberoEnv(
        recipe.suite,
        recipe.task,
        "both" if recipe.pixels else "state",
        settle_steps=settle_steps(recipe.suite),
        image_size=recipe.image_size,
    )
    try:
        env.build()
        env.horizon = HORIZON * len(env.goals)
        expert = make_expert(env, recipe.expert)
        with hdf5.Writer(path, _attributes(task, recipe), recipe.key()) as writer:
            _fill(writer, env, expert, recipe, progress)
    finally:
        env.close()
    return path


def _intact(path: Path, recipe: Recipe) -> bool:
    if not path.exists():
        return False
    try:
        if hdf5.problems(path, "both" if recipe.pixels else "state"):
            return False
        with opened(path) as file:
            return origin_of(file["data"]) == json.loads(json.dumps(dict(recipe.key())))
    except Unsupported:
        return False


def _fill(
    writer: hdf5.Writer, env: LiberoEnv, expert: Expert, recipe: Recipe, progress: Progress
) -> None:
    limit = 10 + 3 * recipe.count
    for attempt in range(limit):
        if writer.count == recipe.count:
            return
        words = [recipe.seed, *recipe.suite.encode(), env.task.index, attempt]
        seed = np.random.SeedSequence(words)
        episode = demonstrate(env, expert, seed, recipe.noise, recipe.longest)
        if episode.success:
            writer.add(episode.arrays, episode.observations, episode.init_state)
            progress(writer.count, recipe.count, env.task.id)
    raise RunFailed(
        f"the scripted expert solved {env.task.id} {writer.count} times in {limit} attempts, "
        f"{recipe.count} were asked for; lower the noise ({recipe.noise:g})"
    )


def demonstrate(
    env: LiberoEnv,
    expert: Expert,
    seed: np.random.SeedSequence,
    noise: float = NOISE,
    longest: int | None = None,
) -> Episode:
    """Run the expert for one episode from a fresh placement and record its first steps, or all.

    The episode goes on to its end, which says whether it succeeds; what is not recorded is not
    rendered.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    env.reset(seed=int(generator.integers(2**63)))
    expert.restart()
    disturbance = np.zeros(3)
    rows: list[dict[str, NDArray[Any]]] = []
    success = over = False
    start, wanted = env.state(), longest or math.inf
    while not over:
        decision = expert.act(env.snapshot)
        row = _row(env) if env.steps < wanted else None
        fresh = generator.standard_normal(3)
        disturbance = NOISE_MEMORY * disturbance + noise * np.sqrt(1.0 - NOISE_MEMORY**2) * fresh
        executed = np.array(decision.action)
        if decision.free:
            executed[:3] = np.clip(executed[:3] + disturbance, -1.0, 1.0)
        seen = env.steps + 1 < wanted
        _, success, late, _ = env.step(executed)[1:] if seen else env.step_blind(executed)
        over = success or late
        if row is not None:
            rows.append(row | {"actions": decision.action, "executed_actions": executed})
    return _episode(rows, start, success, whole=len(rows) == env.steps)


def _row(env: LiberoEnv) -> dict[str, NDArray[Any]]:
    snapshot = env.snapshot
    parts = obs.proprio_parts(snapshot)
    hand = snapshot.hand_quaternion
    row: dict[str, NDArray[Any]] = {
        "states": env.state(),
        "robot_states": np.concatenate([snapshot.fingers, snapshot.eef, hand]),
        "obs/state": obs.compact_state(snapshot, env.goals),
        "obs/ee_pos": parts["ee_states"][:3],
        "obs/ee_ori": parts["ee_states"][3:],
    }
    row |= {f"obs/{name}": values for name, values in parts.items()}
    row |= {f"obs/{name}": image for name, image in env.images.items()}
    return row


def _episode(
    rows: list[dict[str, NDArray[Any]]], start: NDArray[np.float64], success: bool, whole: bool
) -> Episode:
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    last = np.zeros(len(rows), dtype=np.uint8)
    last[-1] = success and whole
    arrays = {name: a for name, a in stacked.items() if not name.startswith("obs/")}
    seen = {name[4:]: a for name, a in stacked.items() if name.startswith("obs/")}
    return Episode(arrays | {"rewards": last, "dones": last}, seen, start, success)


def _attributes(task: Task, recipe: Recipe) -> dict[str, Any]:
    """Return the attributes of ``/data`` that official files have."""
    text = task.definition().read_text(encoding="utf-8")
    problem = text.split("(problem", 1)[1].split(")", 1)[0].strip()
    name = f"bddl_files/{task.suite}/{task.name}.bddl"
    info = {
        "problem_name": problem.lower(),
        "domain_name": "robosuite",
        "language_instruction": task.instruction,
    }
    size = recipe.image_size
    settings = {
        "robots": ["Panda"],
        "control_freq": 20,
        "camera_names": list(obs.CAMERAS.values()),
        "camera_heights": size,
        "camera_widths": size,
        "use_camera_obs": recipe.pixels,
    }
    args = {
        "type": 1,
        "env_name": problem,
        "problem_name": problem.lower(),
        "bddl_file": name,
        "env_kwargs": settings,
    }
    return {
        "env_name": problem,
        "problem_info": json.dumps(info),
        "bddl_file_name": name,
        "bddl_file_content": text,
        "env_args": json.dumps(args),
    }
