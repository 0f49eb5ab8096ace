"""LIBERO suites as L2bench environments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from l2bench.environment import Demonstrations, Environment, Progress, Spaces, TaskInfo, silent
from l2bench.errors import Unsupported, UsageError
from l2bench.suite import Task
from l2bench_libero import (
    cache,
    canaries,
    devices,
    engines,
    experts,
    installation,
    layout,
    rendering,
)
from l2bench_libero import tasks as catalogue
from l2bench_libero.demonstrations import Recipe, collect
from l2bench_libero.hdf5 import Request
from l2bench_libero.observation import action_space, observation_space
from l2bench_libero.settings import PROTOCOLS, Settings
from l2bench_libero.simulator import LiberoEnv

#: Measured: 2.4 to 6.8 ms of a core a step; with images rendered on a CPU 160 to 220 ms.
STEP_SECONDS, PIXEL_STEP_SECONDS = 0.005, 0.2
#: Mean length of a demonstration: official (libero_10: 138,090 pairs in 500) and scripted.
OFFICIAL_STEPS: Mapping[str, float] = {"libero_10": 276.18}
SCRIPTED_STEPS: Mapping[str, float] = {
    "libero_object": 100, "libero_spatial": 100, "libero_10": 165,
}  # fmt: skip
#: Where demonstrations are kept below the data folder.
FOLDER = "libero"


class LiberoSuite(Environment):
    """The tasks of one LIBERO suite."""

    suite: ClassVar[str]

    def __init__(self) -> None:
        self._renderer: str | None = None
        self._asked: str | None = None
        self._engine: str | None = None
        self._egl: int | str | None = None
        self._wish = devices.Wish()
        self._place: Mapping[str, str] = {}

    def tasks(self) -> Mapping[str, TaskInfo]:
        """Return the tasks in the order of the upstream benchmark; needs no simulator."""
        return {
            task.name: TaskInfo(
                sources=frozenset({"demonstrations", "interaction"}),
                language=task.instruction,
                horizon=PROTOCOLS["libero"].horizons[task.suite],
                initial_states=catalogue.INITIAL_STATES,
                step_seconds=STEP_SECONDS,
            )
            for task in catalogue.tasks(self.suite)
        }

    def info(self, task: Task, listed: TaskInfo) -> TaskInfo:
        """Return the instruction of the task's variant and the horizon of its protocol."""
        settings, found = self._checked(task)
        horizon = settings.resolved(found.suite).horizons[found.suite]
        return replace(listed, language=found.instruction, horizon=horizon)

    def make(self, task: Task) -> LiberoEnv:
        """Return a live environment; its simulator is built at first use or by ``build``."""
        settings, found = self._checked(task)
        protocol = settings.resolved(found.suite)
        return engines.ENGINES[self._chosen()](
            self.suite,
            found,
            settings.observation,
            settle_steps=protocol.settle_steps,
            settle_action=protocol.settle_action,
            image_size=protocol.image_size,
            orientation=protocol.orientation,
            proprio=protocol.proprio,
            horizon=None if task.horizon else protocol.horizons[found.suite],
            guard=canaries.check if settings.canaries == "check" else None,
        )

    def spaces(self, task: Task) -> Spaces:
        """Return the spaces of the task without a simulator."""
        settings, found = self._checked(task)
        protocol = settings.resolved(found.suite)
        space = observation_space(settings.observation, protocol.image_size, protocol.proprio)
        return Spaces(space, action_space())

    def demonstrations(self, task: Task, data: Path, progress: Progress = silent) -> Demonstrations:
        """Return the demonstrations of the task, as arrays mapped from ``<data>/libero/cache``.

        Official files are read from ``<data>/libero/<suite>/<task>_demo.hdf5``; scripted ones are
        made once and kept below ``<data>/libero/scripted``.
        """
        settings, found = self._checked(task)
        protocol = settings.resolved(found.suite)
        folder = data / FOLDER
        if settings.demonstrations == "official":
            path = self._official(task, found, data)
        else:
            path = collect(self._recipe(settings, found), folder / "scripted", progress)
        request = Request(
            settings.observation,
            pairing=settings.pairing,
            count=settings.count,
            orientation=protocol.orientation,
            stored=settings.stored_orientation,
            proprio=protocol.proprio,
            image_size=protocol.image_size,
            longest=settings.longest,
        )
        return cache.demonstrations(path, request, folder / "cache", found.initial_states())

    def check_data(self, task: Task, data: Path) -> None:
        """Refuse before a run: official demonstrations missing, cut short or wrongly oriented."""
        settings, found = self._checked(task)
        learns = task.learning is not None and task.learning.source == "demonstrations"
        if learns and settings.demonstrations == "official":
            path = self._official(task, found, data)
            problem = layout.manifest_problem(path) or layout.glance(
                path, settings.stored_orientation
            )
            if problem:
                raise Unsupported(f"task '{task.id}': {problem}")

    def _official(self, task: Task, found: catalogue.Task, data: Path) -> Path:
        path = data / FOLDER / found.suite / f"{found.name}_demo.hdf5"
        if not path.is_file():
            raise Unsupported(
                f"task '{task.id}': no official demonstrations at {path}; run: l2bench libero "
                f"fetch {found.suite} -o {data}"
            )
        return path

    def check(self, task: Task) -> None:
        """Refuse early: a missing or other simulator, no working renderer, no expert."""
        settings, found = self._checked(task)
        self.diagnose()
        self._chosen()
        found.definition()
        if settings.observation != "state":
            self._renderer = rendering.backend()
            self._place = rendering.place(self._renderer)
        learns = task.learning is not None and task.learning.source == "demonstrations"
        if learns and settings.demonstrations == "scripted":
            experts.check_supported(found)
        if not (learns and settings.demonstrations == "official"):
            return
        if found.variant not in experts.SAME_WORLD:
            raise UsageError(
                f"task '{task.id}': there are no official demonstrations of the variant "
                f"{found.variant!r}; evaluate it only, or leave out variant"
            )
        if settings.observation != "pixels":
            raise UsageError(
                f"task '{task.id}': official demonstrations hold no compact state; set "
                "observation: pixels, or demonstrations: scripted"
            )

    def step_seconds(self, task: Task) -> float:
        """Return the measured cost of a step on a CPU core, images rendered there included."""
        return STEP_SECONDS if Settings.of(task).observation == "state" else PIXEL_STEP_SECONDS

    def pairs(self, task: Task) -> int | None:
        """Return about how many pairs the task has, from the mean length in its suite."""
        settings, found = self._checked(task)
        official = settings.demonstrations == "official"
        each = (OFFICIAL_STEPS if official else SCRIPTED_STEPS).get(found.suite)
        if each is None:
            return None
        shifted = settings.pairing == "shifted" or (official and settings.pairing is None)
        return round(settings.count * min(each - shifted, settings.longest or math.inf))

    def forks(self, task: Task) -> bool:
        """Return whether nothing is rendered: OpenGL does not survive a fork."""
        return Settings.of(task).observation == "state"

    def configure(self, options: Mapping[str, Any]) -> None:
        """Take over ``engine`` (``lean``, or ``reference``, LIBERO's own) and ``egl_device``."""
        self._asked, self._engine = engines.asked(options), None
        self._egl = devices.asked(options)
        self._wish = replace(self._wish, egl=self._egl)

    def assign(self, device: str, worker: int | None) -> None:
        """Render beside the agent, or where ``egl_device`` says."""
        self._wish = devices.Wish(device, self._egl)
        devices.work(worker)

    def conduct(self) -> Mapping[str, str]:
        """Return the engine that plays the episodes, and the numbers of the GPU that renders."""
        return {"engine": self._chosen(), **self._place}

    def _chosen(self) -> str:
        if self._engine is None:
            self._engine = engines.choose(self._asked)
        return self._engine

    def diagnose(self) -> None:
        """Refuse if LIBERO or MuJoCo is missing or of another version."""
        installation.root()
        installation.check_mujoco()

    def versions(self) -> Mapping[str, str]:
        """Return the versions of LIBERO, MuJoCo, robosuite and numpy, and the files' digest.

        Where a checked task observes images, also the OpenGL backend.
        """
        found = installation.provenance() | {"renderer": self._renderer}
        return {name: version for name, version in found.items() if version}

    def _checked(self, task: Task) -> tuple[Settings, catalogue.Task]:
        settings = Settings.of(task)
        if settings.observation != "state":
            devices.wish(self._wish)
        return settings, catalogue.find(self.suite, task.task, task.variant)

    @staticmethod
    def _recipe(settings: Settings, task: catalogue.Task) -> Recipe:
        return Recipe(
            suite=task.suite,
            task=task.name,
            count=settings.count,
            seed=settings.demonstration_seed,
            pixels=settings.observation != "state",
            image_size=settings.resolved(task.suite).image_size,
            expert=settings.expert,
            noise=settings.noise,
            longest=settings.longest,
        )


class Spatial(LiberoSuite):
    """Ten tasks that differ in where the object stands."""

    suite = "libero_spatial"


class Object(LiberoSuite):
    """Ten tasks that differ in the object."""

    suite = "libero_object"


class Goal(LiberoSuite):
    """Ten tasks that differ in what to do."""

    suite = "libero_goal"


class Long(LiberoSuite):
    """Ten long tasks, of two steps each; also known as LIBERO-Long."""

    suite = "libero_10"


class Ninety(LiberoSuite):
    """Ninety short tasks, for pretraining."""

    suite = "libero_90"
