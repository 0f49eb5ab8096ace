"""Values that cannot be, and values that a person should look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from l2bench.bundle.lifetime import Array, columns
from l2bench.check.documents import moment
from l2bench.check.evidence import Evidence
from l2bench.check.findings import Finding, broken, first_few
from l2bench.check.rows import cells
from l2bench.check.tables import file_of

BLOCKS, EPISODES, LEARNING = file_of("blocks"), file_of("episodes"), file_of("learning")

#: Clocks may be set back by this much while a run goes on (s).
CLOCK = 1.0
#: No environment takes a step in less (s).
FLOOR = 1e-7


def impossible(evidence: Evidence) -> Iterator[Finding]:
    """Q01: values of episodes and experiences."""
    for name in ("episodes", "learning"):
        data = evidence.episodes if name == "episodes" else evidence.learning
        faults = dict(_values(evidence, data, evidence.lifetime.placed(evidence.tables[name])))
        if name == "episodes" and not evidence.imported:
            faults |= _episodes(evidence, data)
        for text, wrong in faults.items():
            yield from first_few(
                (
                    broken("Q01", file_of(name), text, found=_shown(data, row), row=row)
                    for row in np.flatnonzero(wrong)
                ),
                3,
            )
    yield from _cells(evidence)


def _values(evidence: Evidence, data: Any, placed: Array) -> Iterator[tuple[str, Array]]:
    score, reward = data["score"], data["return"]
    null = np.isnan(placed)
    yield "the score is outside the task's range", ~null & ((placed < 0) | (placed > 1))
    by_success = _measured(evidence, data, "success")
    success = _floats(data["success"])
    known = by_success & ~np.isnan(score) & ~np.isnan(success)
    yield "the score is not the success", known & (score != success)
    by_return = _measured(evidence, data, "return") & ~np.isnan(score) & ~np.isnan(reward)
    yield "the score is not the return", by_return & (score != reward)
    if not evidence.imported:
        yield "the length is less than 1", data["length"] < 1


def _episodes(evidence: Evidence, data: Any) -> dict[str, Array]:
    ok = data["status"] == "ok"
    horizons = [task.horizon or 0 for task in evidence.suite.tasks]
    horizon = np.array(horizons)[data["task_index"]]
    measured = _measured(evidence, data, "accuracy")
    ended, cut = _floats(data["terminated"]), _floats(data["truncated"])
    by_success = _measured(evidence, data, "success")
    right = data["score"] * data["length"]
    return {
        "the length is beyond the horizon": ~measured & (horizon > 0) & (data["length"] > horizon),
        "an episode neither ended nor was cut short, or both": ok & (ended + cut != 1),
        "a task that is measured by success has none": (
            ok & by_success & (np.isnan(_floats(data["success"])) | np.isnan(data["score"]))
        ),
        "the accuracy is no share of its test items": (
            measured & (np.abs(right - np.round(right)) > 1e-6)
        ),
    }


def _cells(evidence: Evidence) -> Iterator[Finding]:
    if "cells" not in evidence.tables:
        return
    data = columns(evidence.tables["cells"])
    ranges = np.array([task.score_range for task in evidence.suite.tasks], dtype=float)
    low, high = ranges[data["task_index"]].T
    wrong = ~((data["mean"] >= low) & (data["mean"] <= high))
    for row in np.flatnonzero(wrong):
        yield broken(
            "Q01",
            file_of("cells"),
            "the mean is outside the task's range",
            expected=[low[row], high[row]],
            found=data["mean"][row],
            row=row,
        )


def finite(evidence: Evidence) -> Iterator[Finding]:
    """Q01: every value is a finite number; what was not measured is null."""
    for name, table in evidence.tables.items():
        for field in table.schema:
            if str(field.type) not in ("double", "float"):
                continue
            values = table[field.name].combine_chunks()
            known = values.drop_null().to_numpy(zero_copy_only=False)
            wrong = known[~np.isfinite(known)]
            if len(wrong):
                text = f"column '{field.name}' holds what is not a number"
                nothing = "null where nothing was measured"
                yield broken("Q01", file_of(name), text, expected=nothing, found=wrong[0])


def _measured(evidence: Evidence, data: Any, measure: str) -> Array:
    by = np.array([task.measure == measure for task in evidence.suite.tasks])
    result: Array = by[data["task_index"]]
    return result


def _floats(values: Array) -> Array:
    """Return yes, no and null as 1, 0 and NaN."""
    if values.dtype == bool:
        return values.astype(float)
    return np.array([np.nan if value is None else float(value) for value in values])


def _shown(data: Any, row: int) -> str:
    shown = ("score", "success", "return", "length", "terminated", "truncated")
    return ", ".join(f"{key} {data[key][row]}" for key in shown if key in data)


def times(evidence: Evidence) -> Iterator[Finding]:
    """Q02: blocks end after they start, follow each other, and last longer than their parts."""
    manifest = evidence.manifest
    created, finished = (moment(text or "") for text in (manifest.created_at, manifest.finished_at))
    if created and finished and (finished - created).total_seconds() < -CLOCK:
        yield broken(
            "Q02",
            "manifest.json",
            "the lifetime finished before it was begun",
            expected=f"after {manifest.created_at}",
            found=manifest.finished_at,
        )
    before = None
    for index, row in sorted(evidence.blocks.items()):
        began, ended = row["started_at"], row["ended_at"]
        if began is None or ended is None or row["wall_s"] is None or row["wall_s"] < 0:
            yield broken("Q02", BLOCKS, f"block {index} has no times", row=index)
            return
        if (ended - began).total_seconds() < -CLOCK:
            yield broken(
                "Q02",
                BLOCKS,
                f"block {index} ended before it started",
                expected=f"after {began}",
                found=ended,
                row=index,
            )
        elif before is not None and (began - before).total_seconds() < -CLOCK:
            yield broken(
                "Q02",
                BLOCKS,
                f"block {index} started before the one before it ended",
                expected=f"after {before}",
                found=began,
                row=index,
            )
        before = ended
    yield from _longest(evidence)


def _longest(evidence: Evidence) -> Iterator[Finding]:
    """Q02: no episode takes longer than its block."""
    wall = evidence.episodes["wall_s"].astype(float)
    for (block, _), rows in cells(evidence).items():
        whole = evidence.blocks[block]["wall_s"]
        longest = rows[int(np.argmax(wall[rows]))]
        if wall[longest] > whole * 1.001 + 0.001:
            yield broken(
                "Q02",
                EPISODES,
                f"an episode took longer than the whole of block {block}",
                expected=f"at most {whole:.6g} s",
                found=float(wall[longest]),
                row=longest,
            )
        if (wall[rows] < 0).any():
            yield broken(
                "Q02",
                EPISODES,
                f"an episode of block {block} took less than no time",
                row=rows[int(np.argmin(wall[rows]))],
            )


def fast(evidence: Evidence) -> Iterator[Finding]:
    """Q09: steps take time."""
    for name in ("episodes", "learning"):
        data = evidence.episodes if name == "episodes" else evidence.learning
        lived = ~_measured(evidence, data, "accuracy")
        wall, length = data["wall_s"].astype(float)[lived], data["length"][lived]
        if length.sum() >= 100 and wall.sum() < FLOOR * length.sum():
            yield broken(
                "Q09",
                file_of(name),
                f"{length.sum()} steps in {wall.sum():.3g} s",
                expected=f"more than {FLOOR} s a step",
                found=float(wall.sum() / length.sum()),
            )


def best(evidence: Evidence) -> Iterator[Finding]:
    """Q06: the checkpoint that goes on is the earliest best of the latest visit's curve."""
    if evidence.suite.scenario.keep != "best":
        return
    score, block_of = evidence.episodes["score"], evidence.episodes["block_index"]
    curves: dict[tuple[int, int], list[tuple[float, int]]] = {}
    for block in evidence.plan:
        row = evidence.blocks.get(block.index)
        if block.closes is not None and row is not None:
            visits = [visit for task, visit in curves if task == block.closes]
            curve = curves.get((block.closes, max(visits, default=0)), [])
            top = max((mean for mean, _ in curve), default=None)
            earliest = next((at for mean, at in curve if mean == top), None)
            chosen = row["selected_checkpoint"]
            if chosen in [at for _, at in curve] and chosen != earliest:
                yield broken(
                    "Q06",
                    BLOCKS,
                    f"block {block.index} goes on with checkpoint "
                    f"{row['selected_checkpoint']}, but the earliest best is {earliest}",
                    expected=earliest,
                    found=row["selected_checkpoint"],
                    row=block.index,
                )
        if block.role == "curve" and block.task is not None and block.exposure is not None:
            found = score[block_of == block.index]
            found = found[~np.isnan(found)]
            if len(found) and block.checkpoint is not None:
                key = (block.task, block.exposure)
                curves.setdefault(key, []).append((float(np.mean(found)), block.checkpoint))


def perfect(evidence: Evidence) -> Iterator[Finding]:
    """Q07: some episode has less than the best score."""
    placed = evidence.lifetime.placed(evidence.tables["episodes"])
    if len(placed) and np.all(placed == 1.0):
        yield broken("Q07", EPISODES, f"all {len(placed)} episodes have the best possible score")


def unmeasured(evidence: Evidence) -> Iterator[Finding]:
    """Q12: episodes without a score, where the measure is not success."""
    missing = np.isnan(evidence.episodes["score"]) & ~_measured(
        evidence, evidence.episodes, "success"
    )
    if missing.any():
        yield broken(
            "Q12",
            EPISODES,
            f"{int(missing.sum())} of {len(missing)} episodes have no score",
            expected=0,
            found=int(missing.sum()),
            row=np.flatnonzero(missing)[0],
        )


def early(evidence: Evidence) -> Iterator[Finding]:
    """Q11: episodes that something other than the suite's horizon cut short."""
    data = evidence.episodes
    horizon = np.array([task.horizon or 0 for task in evidence.suite.tasks])[data["task_index"]]
    cut = _floats(data["truncated"]) == 1
    wrong = cut & (horizon > 0) & (data["length"] < horizon) & (data["status"] == "ok")
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        yield broken(
            "Q11",
            EPISODES,
            f"{int(wrong.sum())} episodes were cut short before the horizon",
            expected=int(horizon[row]),
            found=int(data["length"][row]),
            row=row,
        )


def surroundings(evidence: Evidence) -> Iterator[Finding]:
    """Q08, Q13: the software of all segments is the same, and environments honour seeds."""
    segments = evidence.provenance.segments
    for at, segment in enumerate(segments[1:], 1):
        for what in ("environments", "packages", "python"):
            if getattr(segment, what) != getattr(segments[0], what):
                yield broken(
                    "Q08", "provenance.json", f"segment {at} had other {what} than the first"
                )
    last = segments[-1].probes if segments else {}
    for task, probe in sorted(last.items()):
        if probe.seed_honoured is False:
            yield broken(
                "Q13",
                "provenance.json",
                f"task {task} does not start alike from one seed",
                expected=True,
                found=False,
            )
