"""Several logs of one agent as the lifetimes that they are: one suite, a seed each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from l2bench.errors import UsageError
from l2bench.interop.source import Source, slug
from l2bench.suite import Suite, WrittenBlock

#: The warning where logs have to be read again with ranges that hold the scores of all.
ASSUMED = (
    "the logs do not say their smallest and largest score; for each task those of all logs "
    "together are assumed, set them with --range"
)


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
        UsageError: if one log has other tasks or blocks than the first.
    """
    first = sources[0].lifetime.suite
    for source, place in zip(sources, places, strict=True):
        if _shape(source.lifetime.suite) != _shape(first):
            raise UsageError(
                f"{place} and {places[0]} have other tasks or blocks than each other, so they are "
                f"no lifetimes of one suite; give one of them"
            )
    told = tuple(source.lifetime.seed for source in sources)
    seeds = told if len(set(told)) == len(told) else tuple(range(len(told)))
    suite = _common([source.lifetime.suite for source in sources], name, seeds)
    return [
        replace(source, lifetime=replace(source.lifetime, suite=suite, seed=seed))
        for source, seed in zip(sources, seeds, strict=True)
    ]


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
