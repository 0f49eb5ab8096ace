"""Under which conditions lifetimes were lived, and whether two sets of them can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from l2bench.bundle.model import TaskProbe
from l2bench.bundle.reader import Bundle
from l2bench.errors import choices

#: First images whose means differ by more than this share of their range are not of one renderer:
#: other backends differ by a few thousandths, changed lighting by several hundredths.
FRAME_TOLERANCE = 0.02

#: Largest value of an image of bytes.
BRIGHTEST = 255

#: Packages whose releases may give other random numbers, physics or numerics.
TELLING = ("gymnasium", "mujoco", "numpy", "robosuite", "torch")


def differing(one: Sequence[Bundle], other: Sequence[Bundle]) -> list[str]:
    """Return why lifetimes cannot be compared: other simulators, data, or first images."""
    reasons = []
    for what, verb in (("environments", "ran"), ("data", "learned")):
        ours, theirs = _parts(one, what), _parts(other, what)
        for name in sorted(ours.keys() & theirs.keys()):
            if _without_renderer(ours[name]) != _without_renderer(theirs[name]):
                reasons.append(f"{name} {verb} on {ours[name]} and on {theirs[name]}")
    return [*reasons, *_frames(one, other)]


def doubts(one: Sequence[Bundle], other: Sequence[Bundle]) -> list[str]:
    """Return what a reader of a comparison should know: other renderers, packages, code."""
    found = []
    ours, theirs = _backends(one), _backends(other)
    tasks = sorted(t for t in ours.keys() & theirs.keys() if ours[t] != theirs[t])
    if tasks:
        backends = f"{choices(ours[tasks[0]])} and by {choices(theirs[tasks[0]])}"
        found.append(f"the images of {choices(tasks)} were drawn by {backends}")
    here, there = _packages(one), _packages(other)
    for name in TELLING:
        if name in here and name in there and here[name] != there[name]:
            found.append(f"{name} was {choices(here[name])} and {choices(there[name])}")
    return found


def unseeded(bundles: Sequence[Bundle]) -> list[str]:
    """Return the tasks that did not honour their seed."""
    return sorted({task for task, probe in _probes(bundles) if probe.seed_honoured is False})


def origins_that_differ(sides: Sequence[Sequence[Bundle]]) -> dict[str, list[str | None]]:
    """Return what differs in how and on what the agents were run, one value an agent.

    Several values of one agent, from several lifetimes or starts, stand side by side.
    """
    facts = [_origin(bundles) for bundles in sides]
    keys = dict.fromkeys(key for side in facts for key in side)
    rows = {
        key: [", ".join(sorted(side[key])) if key in side else None for side in facts]
        for key in keys
    }
    return {key: row for key, row in rows.items() if any(value != row[0] for value in row)}


def _origin(bundles: Sequence[Bundle]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for bundle in bundles:
        plugins = {
            f"{p.kind.replace('_', ' ')} {p.name}": f"{p.distribution} {p.version}"
            for p in bundle.manifest.plugins
            if p.kind != "agent"
        }
        parts: list[Mapping[str, Any]] = [{"l2bench": bundle.manifest.l2bench.version}, plugins]
        for segment in bundle.provenance.segments:
            parts += [{"Python": segment.python, "platform": segment.platform}, segment.packages]
            parts.append({f"execution {key}": value for key, value in segment.execution.items()})
        for part in parts:
            for key, value in part.items():
                found.setdefault(key, set()).add(str(value))
    return found


def _frames(one: Sequence[Bundle], other: Sequence[Bundle]) -> list[str]:
    theirs = {
        (task, key): frame for task, probe in _probes(other) for key, frame in probe.frames.items()
    }
    dark: dict[str, str] = {}
    for task, probe in _probes(one):
        for key, frame in probe.frames.items():
            twin = theirs.get((task, key))
            if twin is None or abs(frame.mean - twin.mean) <= FRAME_TOLERANCE * BRIGHTEST:
                continue
            view = f" ({key})" if key else ""
            dark[task] = (
                f"the first image of {task}{view} has mean {frame.mean:.1f} and {twin.mean:.1f}: "
                f"they were rendered differently"
            )
    shown = [dark[task] for task in sorted(dark)][:3]
    return shown if len(dark) <= 3 else [*shown, f"so do {len(dark) - 3} more tasks"]


def _probes(bundles: Sequence[Bundle]) -> Iterator[tuple[str, TaskProbe]]:
    for bundle in bundles:
        for segment in bundle.provenance.segments:
            yield from segment.probes.items()


def _backends(bundles: Sequence[Bundle]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for task, probe in _probes(bundles):
        if probe.render_backend is not None:
            found.setdefault(task, set()).add(probe.render_backend)
    return found


def _packages(bundles: Sequence[Bundle]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for bundle in bundles:
        for segment in bundle.provenance.segments:
            for name, version in segment.packages.items():
                found.setdefault(name, set()).add(version)
    return found


def _parts(bundles: Sequence[Bundle], what: str) -> dict[str, Any]:
    """Return the simulators, or the data, of all starts of all lifetimes by name."""
    found: dict[str, Any] = {}
    for bundle in bundles:
        for segment in bundle.provenance.segments:
            found.update(getattr(segment, what))
    return found


def _without_renderer(versions: Any) -> Any:
    """Return versions without the backend of the images, which is a doubt and no refusal."""
    if not isinstance(versions, dict):
        return versions
    return {name: version for name, version in versions.items() if name != "renderer"}
