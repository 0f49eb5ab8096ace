"""Several logs of one agent as the lifetimes that they are: one suite, a seed each."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from l2bench.errors import Unsupported, UsageError
from l2bench.interop.source import Source, slug
from l2bench.suite import Suite, WrittenBlock

#: The warning where logs have to be read again with ranges that hold the scores of all.
ASSUMED = (
    "the logs do not say their smallest and largest score; for each task those of all logs "
    "together are assumed, set them with --range"
)


def log_folders(path: Path, info: str, log: str) -> list[Path]:
    """Return the folders at or below a path with a file ``info``; the path itself if none has.

    Hidden folders, and those inside a log, do not count.

    Raises:
        Unsupported: if beside logs there are ``log`` files of one without its ``info``.
    """
    if (path / info).is_file():
        return [path]
    folders: list[Path] = []
    for folder in sorted(found.parent for found in _visible(path, info)):
        if not any(outer in folder.parents for outer in folders):
            folders.append(folder)
    for file in _visible(path, log) if folders else ():
        if not any(folder in file.parents for folder in folders):
            above = [p for p in list(file.parents)[:3] if path in p.parents]
            raise Unsupported(
                f"{above[-1] if above else path} has {log} files but no {info}, so it is no whole "
                f"log; restore that file, or take the folder away"
            )
    return folders or [path]


def own_files(folder: Path, info: str, log: str) -> list[Path]:
    """Return the ``log`` files of a log, without those of hidden folders and of logs inside it."""
    inner = {found.parent for found in _visible(folder, info)} - {folder}
    return [file for file in _visible(folder, log) if inner.isdisjoint(file.parents)]


def _visible(path: Path, name: str) -> list[Path]:
    """Return the files of this name below a path that lie in no hidden folder there."""
    found = path.rglob(name)
    return [f for f in found if not any(p.startswith(".") for p in f.relative_to(path).parts)]


def common_ranges(sources: Sequence[Source]) -> dict[str, tuple[float, float]] | None:
    """Return the score range of each task that holds those of all logs; None if they agree."""
    ranges: dict[str, tuple[float, float]] = {}
    agree = True
    for source in sources:
        for task in source.lifetime.suite.tasks:
            low, high = ranges.get(task.task, task.score_range)
            agree &= (low, high) == task.score_range
            ranges[task.task] = min(low, task.score_range[0]), max(high, task.score_range[1])
    return None if agree else ranges


def together(sources: Sequence[Source], places: Sequence[Path], name: str) -> list[Source]:
    """Return the sources as lifetimes of one suite, which is called ``name``.

    Their seeds are those that the logs say, if they differ, else 0, 1 and so on.

    Raises:
        UsageError: if one log has other tasks or blocks than the first, or two are the same.
    """
    _refuse_copies(sources, places)
    first = sources[0].lifetime.suite
    for source, place in zip(sources, places, strict=True):
        if _shape(source.lifetime.suite) != _shape(first):
            raise _unlike((source, sources[0]), (place, places[0]))
    told = tuple(source.lifetime.seed for source in sources)
    seeds = told if len(set(told)) == len(told) else tuple(range(len(told)))
    suite = _common([source.lifetime.suite for source in sources], name, seeds)
    return [
        replace(
            source,
            lifetime=replace(source.lifetime, suite=suite, seed=seed),
            warnings=(*source.warnings, *_numbered(source.lifetime.seed, seed)),
        )
        for source, seed in zip(sources, seeds, strict=True)
    ]


def _numbered(told: int, seed: int) -> list[str]:
    if told == seed:
        return []
    return [f"the logs say no seeds, or equal ones; they are numbered, this one is {seed}"]


def _refuse_copies(sources: Sequence[Source], places: Sequence[Path]) -> None:
    """Refuse two logs whose files are the same: a copy is no lifetime more."""
    sizes = [tuple(file.stat().st_size for file in source.files) for source in sources]
    alike = Counter(sizes)
    known: dict[tuple[str, ...], Path] = {}
    for source, place, size in zip(sources, places, sizes, strict=True):
        if alike[size] == 1:
            continue
        digest = tuple(_digest(file) for file in source.files)
        first = known.setdefault(digest, place)
        if first != place:
            raise UsageError(
                f"{first} and {place} are the same log, row by row, which is one lifetime; take "
                f"one of them away"
            )


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _unlike(sources: tuple[Source, Source], places: tuple[Path, Path]) -> UsageError:
    """Return the error for two logs that do not fit together, which says if one is cut off."""
    for at, (source, place) in enumerate(zip(sources, places, strict=True)):
        other, suite = sources[1 - at].lifetime.suite, source.lifetime.suite
        torn = next((text for text in source.warnings if "was cut off" in text), None)
        if torn or _begins(suite.scenario.blocks, other.scenario.blocks):
            count, whole = len(suite.scenario.blocks), len(other.scenario.blocks)
            why = f"is cut off ({torn})" if torn else "seems cut off"
            return UsageError(
                f"{place} {why}: it has {count} blocks where {places[1 - at]} has {whole}, so they "
                f"are no lifetimes of one suite; leave it out"
            )
    return UsageError(
        f"{places[0]} and {places[1]} have other tasks or blocks than each other, so they are "
        f"no lifetimes of one suite; give one of them"
    )


def _begins(short: Sequence[WrittenBlock], whole: Sequence[WrittenBlock]) -> bool:
    """Return whether blocks are the beginning of others; the last one may miss some tasks."""
    pairs = [
        ((a.learn, a.evaluate), (b.learn, b.evaluate)) for a, b in zip(short, whole, strict=False)
    ]
    if len(short) > len(whole) or any(a != b for a, b in pairs[:-1]):
        return False
    (learn, evaluated), (other, others) = pairs[-1]
    return learn == other and (evaluated or ()) == (others or ())[: len(evaluated or ())]


def _shape(suite: Suite) -> tuple[Any, ...]:
    """Return what lifetimes of one suite share: the tasks, and which block is of which."""
    tasks = tuple((task.id, task.measure, task.score_range) for task in suite.tasks)
    return tasks, tuple((block.learn, block.evaluate) for block in suite.scenario.blocks)


def _common(suites: Sequence[Suite], name: str, seeds: tuple[int, ...]) -> Suite:
    """Return a suite of these seeds whose amounts are the largest of all: logs may differ."""
    first = suites[0]
    tasks = []
    for same in zip(*(suite.tasks for suite in suites), strict=True):
        amount = max(task.learning.amount if task.learning else 0 for task in same)
        learning = same[0].learning and same[0].learning.model_copy(update={"amount": amount})
        tasks.append(same[0].model_copy(update={"learning": learning}))
    blocks: list[WrittenBlock] = []
    for alike in zip(*(suite.scenario.blocks for suite in suites), strict=True):
        amounts = [block.amount for block in alike if block.amount is not None]
        blocks.append(alike[0].model_copy(update={"amount": max(amounts, default=None)}))
    scenario = first.scenario.model_copy(update={"blocks": tuple(blocks)})
    about = {"id": slug(name), "title": f"{name} (imported)", "seeds": seeds}
    return first.model_copy(update={**about, "tasks": tuple(tasks), "scenario": scenario})
