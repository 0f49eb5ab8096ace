"""What lifetimes cost: time, steps and memory, in all and for each learning block."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from l2bench.bundle.lifetime import Array, Lifetime, columns
from l2bench.bundle.reader import Bundle
from l2bench.report.data import Lives
from l2bench.report.origin import imported
from l2bench.report.text import byte_size, count, duration, ordinal, plural

#: A number as it is sorted by, and as it is read; None where it was not recorded.
Amount = tuple[float, str] | None
#: A row: its name and its amounts.
Named = tuple[str, tuple[Amount, ...]]

_HEADS = (
    "Wall time",
    "of it learning",
    "of it evaluation",
    "CPU time",
    "Learning steps",
    "Evaluation steps",
)


@dataclass(frozen=True)
class CostTable:
    """Rows of amounts under the same heads.

    ``total`` is the sum of ``rows``; what stands ``beside`` them is not in it.
    """

    heads: tuple[str, ...]
    rows: tuple[Named, ...]
    total: Named | None = None
    beside: tuple[Named, ...] = ()


def lifetimes_cost(
    bundles: Sequence[Bundle], experts: Sequence[Bundle] = (), bounds: Sequence[Bundle] = ()
) -> CostTable | None:
    """Return what each lifetime spent, their sum, and what experts and bounds spent beside it.

    None for imports, which do not say.
    """
    if imported(bundles):
        return None
    sizes = _sizes([bundle.lifetime for bundle in bundles])
    heads = (*_HEADS, "Learning experiences", "Evaluation episodes", "Discarded attempts", *sizes)
    spent = [_lifetime(bundle) for bundle in bundles]
    rows = [
        (f"seed {bundle.manifest.seed.lifetime}", _amounts(own) + _memory(bundle.lifetime, sizes))
        for bundle, own in zip(bundles, spent, strict=True)
    ]
    blank: tuple[Amount, ...] = (None,) * len(sizes)

    def added(what: str, each: Sequence[list[float | None]]) -> Named:
        together = " together" if len(each) > 1 else ""
        return f"{plural(len(each), what)}{together}", _amounts(_sum(each)) + blank

    beside = [
        added(what, [_lifetime(bundle) for bundle in others])
        for what, others in (("single-task expert", experts), ("multitask bound", bounds))
        if others
    ]
    total = added("lifetime", spent) if len(rows) > 1 else None
    return CostTable(tuple(heads), tuple(rows), total, tuple(beside))


def blocks_cost(bundles: Sequence[Bundle], lives: Lives) -> CostTable | None:
    """Return what each learning block and the evaluations up to the next one cost.

    Amounts are means over lifetimes, sizes their largest. None for imports and for many blocks.
    """
    places = max(len(visits) for visits in lives.visits)
    if imported(bundles) or not 1 < places <= 200:
        return None
    sizes = _sizes(lives.lifetimes)
    lives_parts = [(life, _Spent.of(life), _by_place(life)) for life in lives.lifetimes]
    rows = []
    for at in range(-1, places):
        there = [(life, spent, part[at]) for life, spent, part in lives_parts if at in part]
        if not there:
            continue
        amounts = [spent.amounts(chosen) for _, spent, chosen in there]
        memory = [_memory(life, sizes, chosen) for life, _, chosen in there]
        largest = [max((a for a in own if a), default=None) for own in zip(*memory, strict=True)]
        rows.append((_label(lives, at), (*_amounts(_mean(amounts)), *largest)))
    return CostTable((*_HEADS, *sizes), tuple(rows))


def _label(lives: Lives, at: int) -> str:
    if at < 0:
        return "before learning"
    if not lives.aligned:
        return f"{ordinal(at + 1)} task"
    return f"{at + 1} {lives.names[lives.visits[0][at][0]]}"


@dataclass(frozen=True)
class _Spent:
    """The columns of one lifetime's blocks, with the evaluation steps of each."""

    blocks: dict[str, Array]
    stepped: Array | None

    @classmethod
    def of(cls, lifetime: Lifetime) -> _Spent:
        """Add up the steps of evaluation episodes by block; samples tasks take none."""
        blocks, rows = columns(lifetime.blocks), columns(lifetime.episodes)
        if not len(rows["length"]):
            return cls(blocks, None)
        accuracy = np.array([task.measure == "accuracy" for task in lifetime.suite.tasks])
        real = ~accuracy[rows["task_index"]] & (rows["length"] >= 0)
        size = int(blocks["block_index"].max()) + 1
        steps = np.bincount(rows["block_index"][real], rows["length"][real], minlength=size)
        return cls(blocks, steps[blocks["block_index"]])

    def amounts(self, chosen: Array) -> list[float | None]:
        """Return the amounts under `_HEADS` of some blocks."""
        blocks = self.blocks
        learning = (blocks["kind"] == "learn")[chosen]
        wall, cpu = blocks["wall_s"][chosen], blocks["cpu_s"][chosen]
        first, last = blocks["env_steps_start"][chosen], blocks["env_steps_end"][chosen]
        steps = (last - first)[learning & (first >= 0) & (last >= 0)]
        return [
            _known(wall),
            _known(wall[learning]),
            _known(wall[~learning]),
            _known(cpu),
            float(steps.sum()) if len(steps) else None,
            None if self.stepped is None else float(self.stepped[chosen].sum()),
        ]


def _lifetime(bundle: Bundle) -> list[float | None]:
    budget, counts = bundle.manifest.budget, bundle.manifest.counts
    own = _Spent.of(bundle.lifetime).amounts(np.arange(bundle.lifetime.blocks.num_rows))
    own[0], own[3], own[4] = budget.wall_s, budget.cpu_s, float(budget.env_steps_total)
    return [
        *own,
        float(budget.lx_done),
        float(counts.episodes_done),
        float(counts.discarded_attempts),
    ]


def _by_place(lifetime: Lifetime) -> dict[int, Array]:
    """Return the rows of the blocks table by learning block, evaluations with the one before."""
    blocks = columns(lifetime.blocks)
    place, seen = -1, dict[tuple[int, int], int]()
    found: dict[int, list[int]] = {}
    for at in np.argsort(blocks["block_index"]):
        visit = int(blocks["learn_task"][at]), int(blocks["exposure"][at])
        if blocks["kind"][at] == "learn" or blocks["role"][at] == "curve":
            place = seen.setdefault(visit, len(seen))
        found.setdefault(place, []).append(int(at))
    return {at: np.array(rows) for at, rows in found.items()}


def _sizes(lifetimes: Sequence[Lifetime]) -> dict[str, str]:
    """Return the columns of sizes that were recorded, by the words that head them."""
    found = {}
    for lifetime in lifetimes:
        for name in lifetime.blocks.column_names:
            if name.endswith("_bytes") and lifetime.blocks[name].null_count < len(lifetime.blocks):
                words = name.removesuffix("_bytes").replace("_", " ")
                found[f"{words[0].upper()}{words[1:]}, largest"] = name
    return found


def _memory(
    lifetime: Lifetime, sizes: dict[str, str], chosen: Array | None = None
) -> tuple[Amount, ...]:
    found: list[Amount] = []
    for name in sizes.values():
        values = lifetime.blocks[name].to_pylist() if name in lifetime.blocks.column_names else []
        if chosen is not None:
            values = [values[at] for at in chosen] if values else []
        known = [value for value in values if value is not None]
        found.append((float(max(known)), byte_size(max(known))) if known else None)
    return tuple(found)


def _known(values: Array) -> float | None:
    known = values[~np.isnan(values.astype(float))]
    return float(known.sum()) if len(known) else None


def _added(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


def _mean(rows: Sequence[Sequence[float | None]]) -> list[float | None]:
    sums = _sum(rows)
    return [None if value is None else value / len(rows) for value in sums]


def _sum(rows: Sequence[Sequence[float | None]]) -> list[float | None]:
    return [_added(values) for values in zip(*rows, strict=True)]


def _amounts(values: Sequence[float | None]) -> tuple[Amount, ...]:
    shown: list[Callable[[Any], str]] = [duration] * 4 + [lambda v: count(round(v))] * 5
    return tuple(
        None if value is None else (value, form(value))
        for value, form in zip(values, shown, strict=False)
    )
