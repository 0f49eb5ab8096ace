"""LIBERO suites as L2bench environments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from l2bench.environment import Demonstrations, Environment, Progress, Spaces, TaskInfo, silent
from l2bench.errors import Unsupported, UsageError, choices, nearest
from l2bench.suite import Task
from l2bench_libero import experts, hdf5, installation, rendering
from l2bench_libero import tasks as catalogue
from l2bench_libero.demonstrations import NOISE, Recipe, collect
from l2bench_libero.observation import action_space, check_observation, observation_space
from l2bench_libero.simulator import LiberoEnv

#: LIBERO ends every episode after 600 steps.
HORIZON = 600
SOURCES = ("scripted", "official")
#: Measured: 6 ms a step in libero_object, 13 ms in libero_spatial; with images on a CPU: 300 ms.
STEP_SECONDS, PIXEL_STEP_SECONDS = 0.01, 0.3


@dataclass(frozen=True)
class Settings:
    """What a suite may say in ``settings`` of a LIBERO task.

    ``observation``: ``state``, ``pixels`` or ``both``. ``settle_steps``: idle steps after a reset,
    outside the horizon (None: 10 in libero_10, 5 elsewhere). ``demonstrations``: ``scripted``
    (made by the expert) or ``official`` (downloaded files); ``count``, ``demonstration_seed``,
    ``noise`` and ``expert`` shape the scripted ones, ``count`` and ``pairing`` the official ones.
    """

    observation: str = "state"
    image_size: int = 128
    settle_steps: int | None = None
    demonstrations: str = "scripted"
    count: int = 50
    demonstration_seed: int = 0
    noise: float = NOISE
    expert: str = "memoryless"
    pairing: str | None = None

    @classmethod
    def of(cls, task: Task) -> Settings:
        """Return the settings of a task.

        Raises:
            UsageError: an unknown key or value, with the nearest one.
        """
        known = {field.name for field in fields(cls)}
        for key in task.settings:
            if key not in known:
                raise UsageError(
                    f"task '{task.id}': LIBERO has no setting {key!r}{nearest(key, known)}; "
                    f"it has {choices(known)}"
                )
        settings = cls(**task.settings)
        check_observation(settings.observation)
        for value, allowed in (
            (settings.demonstrations, SOURCES),
            (settings.expert, tuple(experts.EXPERTS)),
            (settings.pairing or hdf5.PAIRINGS[0], hdf5.PAIRINGS),
        ):
            if value not in allowed:
                raise UsageError(
                    f"task '{task.id}': {value!r} is none of {', '.join(allowed)}"
                    f"{nearest(str(value), allowed)}"
                )
        for name, least in (("image_size", 1), ("count", 1), ("demonstration_seed", 0)):
            _check_whole(task, name, getattr(settings, name), least)
        if not (isinstance(settings.noise, int | float) and settings.noise >= 0):
            raise UsageError(
                f"task '{task.id}': noise must be a number from 0 up, not {settings.noise!r}"
            )
        if settings.settle_steps is not None:
            _check_whole(task, "settle_steps", settings.settle_steps, 0)
        return settings


def _check_whole(task: Task, name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(
            f"task '{task.id}': {name} must be a whole number from {least} up, not {value!r}"
        )


class LiberoSuite(Environment):
    """The tasks of one LIBERO suite."""

    suite: ClassVar[str]

    def __init__(self) -> None:
        self._renderer: str | None = None

    def tasks(self) -> Mapping[str, TaskInfo]:
        """Return the tasks in the order of the upstream benchmark; needs no simulator."""
        return {
            task.name: TaskInfo(
                sources=frozenset({"demonstrations", "interaction"}),
                language=task.instruction,
                horizon=HORIZON,
                initial_states=catalogue.INITIAL_STATES,
                step_seconds=STEP_SECONDS,
            )
            for task in catalogue.tasks(self.suite)
        }

    def make(self, task: Task) -> LiberoEnv:
        """Return a live environment; its simulator is built at first use or by ``build``."""
        settings = self._checked(task)
        return LiberoEnv(
            self.suite,
            task.task,
            settings.observation,
            settle_steps=self._settle_steps(settings),
            image_size=settings.image_size,
        )

    def spaces(self, task: Task) -> Spaces:
        """Return the spaces of the task without a simulator."""
        settings = Settings.of(task)
        space = observation_space(settings.observation, settings.image_size)
        return Spaces(space, action_space())

    def demonstrations(self, task: Task, data: Path, progress: Progress = silent) -> Demonstrations:
        """Return the demonstrations of the task.

        Official files are read from ``<data>/libero/<suite>/<task>_demo.hdf5``; scripted ones are
        made once and kept below ``<data>/libero/scripted``.
        """
        settings = self._checked(task)
        found = catalogue.find(self.suite, task.task)
        folder = data / "libero"
        if settings.demonstrations == "official":
            path = folder / found.suite / f"{found.name}_demo.hdf5"
            if not path.is_file():
                raise Unsupported(
                    f"task '{task.id}': no official demonstrations at {path}; download the LIBERO "
                    f"dataset of {found.suite} into {folder}, or set demonstrations: scripted"
                )
        else:
            recipe = self._recipe(settings, found)
            path = collect(recipe, folder / "scripted", progress)
        return hdf5.read(path, settings.observation, pairing=settings.pairing, count=settings.count)

    def check(self, task: Task) -> None:
        """Refuse early: a missing or other simulator, no working renderer, no expert."""
        settings = self._checked(task)
        self.diagnose()
        if settings.observation != "state":
            self._renderer = rendering.backend()
        learns = task.learning is not None and task.learning.source == "demonstrations"
        if learns and settings.demonstrations == "scripted":
            experts.check_supported(catalogue.find(self.suite, task.task))
        if learns and settings.demonstrations == "official" and settings.observation != "pixels":
            raise UsageError(
                f"task '{task.id}': official demonstrations hold no compact state; set "
                "observation: pixels, or demonstrations: scripted"
            )

    def step_seconds(self, task: Task) -> float:
        """Return the measured cost of a step on a CPU core, images rendered there included."""
        return STEP_SECONDS if Settings.of(task).observation == "state" else PIXEL_STEP_SECONDS

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

    def _checked(self, task: Task) -> Settings:
        catalogue.find(self.suite, task.task)
        return Settings.of(task)

    def _settle_steps(self, settings: Settings) -> int:
        if settings.settle_steps is not None:
            return settings.settle_steps
        return experts.settle_steps(catalogue.suite_name(self.suite))

    @staticmethod
    def _recipe(settings: Settings, task: catalogue.Task) -> Recipe:
        return Recipe(
            suite=task.suite,
            task=task.name,
            count=settings.count,
            seed=settings.demonstration_seed,
            pixels=settings.observation != "state",
            image_size=settings.image_size,
            expert=settings.expert,
            noise=settings.noise,
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
