"""What a suite may say in the ``settings`` of a LIBERO task, and the protocols it can name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from l2bench.errors import UsageError, choices, nearest
from l2bench.suite import Task
from l2bench_libero import experts, hdf5
from l2bench_libero.demonstrations import NOISE
from l2bench_libero.observation import ORIENTATIONS, PROPRIOS, check_observation

SOURCES = ("scripted", "official")
CANARIES = ("check", "off")
STILL = (0.0,) * 7
#: Six zeros, and the gripper is told to open.
OPENING = (0.0,) * 6 + (-1.0,)


@dataclass(frozen=True)
class Protocol:
    """How episodes are begun, shown and ended in one line of published work.

    ``settle_steps`` idle steps with ``settle_action`` come first, outside the horizon;
    ``orientation`` is what is done to the images as they are rendered (row 0 at the bottom);
    ``horizons`` are steps by suite.
    """

    settle_steps: int
    settle_action: tuple[float, ...]
    image_size: int
    orientation: str
    proprio: str
    horizons: Mapping[str, int]


def _horizons(spatial: int, obj: int, goal: int, ten: int, ninety: int) -> dict[str, int]:
    names = ("libero_spatial", "libero_object", "libero_goal", "libero_10", "libero_90")
    return dict(zip(names, (spatial, obj, goal, ten, ninety), strict=True))


PROTOCOLS: Mapping[str, Protocol] = {
    "libero": Protocol(5, STILL, 128, "none", "full", _horizons(600, 600, 600, 600, 600)),
    "openvla": Protocol(10, OPENING, 256, "rot180", "hand", _horizons(220, 280, 300, 520, 400)),
    "lerobot": Protocol(10, OPENING, 256, "rot180", "hand", _horizons(280, 280, 300, 520, 400)),
}


@dataclass(frozen=True)
class Settings:
    """What a suite may say in ``settings`` of a LIBERO task.

    ``observation``: ``state``, ``pixels`` or ``both``. ``protocol``: one of :data:`PROTOCOLS`; it
    fills in ``image_size``, ``settle_steps``, ``settle_action``, ``orientation``, ``proprio`` and
    the horizon where they are not set. ``demonstrations``: ``scripted`` (made by the expert) or
    ``official`` (downloaded files); ``count``, ``demonstration_seed``, ``noise`` and ``expert``
    shape the scripted ones, ``count``, ``pairing`` and ``stored_orientation`` the official ones.
    ``longest`` keeps the first so many pairs of each demonstration (None: all).
    ``canaries: off`` runs on a simulator whose physics differ from the recorded ones.
    """

    observation: str = "state"
    protocol: str | None = None
    image_size: int | None = None
    settle_steps: int | None = None
    settle_action: tuple[float, ...] | None = None
    orientation: str | None = None
    proprio: str | None = None
    demonstrations: str = "scripted"
    count: int = 50
    demonstration_seed: int = 0
    noise: float = NOISE
    expert: str = "memoryless"
    pairing: str | None = None
    stored_orientation: str = "none"
    longest: int | None = None
    canaries: str = "check"

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
                    f"it has {choices(known, 20)}"
                )
        given = dict(task.settings)
        if given.get("settle_action") is not None:
            given["settle_action"] = _action(task, given["settle_action"])
        if isinstance(given.get("canaries"), bool):  # YAML reads a bare off as false
            given["canaries"] = "check" if given["canaries"] else "off"
        settings = cls(**given)
        settings._check(task)
        return settings

    def _check(self, task: Task) -> None:
        check_observation(self.observation)
        for value, allowed in (
            (self.demonstrations, SOURCES),
            (self.protocol or "libero", tuple(PROTOCOLS)),
            (self.expert, tuple(experts.EXPERTS)),
            (self.pairing or hdf5.PAIRINGS[0], hdf5.PAIRINGS),
            (self.orientation or "none", ORIENTATIONS),
            (self.stored_orientation, ORIENTATIONS),
            (self.proprio or "full", tuple(PROPRIOS)),
            (self.canaries, CANARIES),
        ):
            if value not in allowed:
                raise UsageError(
                    f"task '{task.id}': {value!r} is none of {', '.join(allowed)}"
                    f"{nearest(str(value), allowed)}"
                )
        for name, least in (("count", 1), ("demonstration_seed", 0)):
            _check_whole(task, name, getattr(self, name), least)
        for name, least in (("image_size", 1), ("settle_steps", 0), ("longest", 1)):
            if getattr(self, name) is not None:
                _check_whole(task, name, getattr(self, name), least)
        if not (isinstance(self.noise, int | float) and self.noise >= 0):
            raise UsageError(
                f"task '{task.id}': noise must be a number from 0 up, not {self.noise!r}"
            )

    def resolved(self, suite: str) -> Protocol:
        """Return the protocol of a suite with these settings in place of its own."""
        base = PROTOCOLS[self.protocol or "libero"]
        settle = base.settle_steps if self.protocol else experts.settle_steps(suite)
        return Protocol(
            settle_steps=settle if self.settle_steps is None else self.settle_steps,
            settle_action=self.settle_action or base.settle_action,
            image_size=self.image_size or base.image_size,
            orientation=self.orientation or base.orientation,
            proprio=self.proprio or base.proprio,
            horizons=base.horizons,
        )


def _check_whole(task: Task, name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(
            f"task '{task.id}': {name} must be a whole number from {least} up, not {value!r}"
        )


def _action(task: Task, value: Any) -> tuple[float, ...]:
    numbers = [v for v in value if isinstance(v, int | float)] if isinstance(value, list) else []
    if len(numbers) != 7 or not all(-1 <= v <= 1 for v in numbers):
        raise UsageError(
            f"task '{task.id}': settle_action must be 7 numbers in [-1, 1], not {value!r:.60}"
        )
    return tuple(float(v) for v in numbers)
