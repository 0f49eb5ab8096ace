"""What was done against what the suite prescribes: blocks, tasks, episodes, budgets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from l2bench.check.evidence import Evidence
from l2bench.check.findings import Finding, broken, first_few
from l2bench.check.rows import cells
from l2bench.check.tables import file_of
from l2bench.scenario import Block, learning_of

BLOCKS, EPISODES, LEARNING = file_of("blocks"), file_of("episodes"), file_of("learning")


def blocks(evidence: Evidence) -> Iterator[Finding]:
    """S03, S05, C01, C04: every planned block is there, as planned, and no other."""
    planned = {block.index: block for block in evidence.plan}
    for index in sorted(planned.keys() - evidence.blocks.keys()):
        block = planned[index]
        if block.role == "curve":
            task = evidence.suite.tasks[block.tasks[0]].id
            yield broken(
                "C01",
                BLOCKS,
                f"the evaluation of task {task} at checkpoint "
                f"{block.checkpoint} (block {index}) is missing",
                expected=block.checkpoint,
            )
        else:
            yield broken(
                "C04",
                BLOCKS,
                f"block {index} ({block.kind}, {block.role}) is missing",
                expected=index,
            )
    for row, (index, found) in enumerate(sorted(evidence.blocks.items())):
        if index not in planned:
            yield broken(
                "S03",
                BLOCKS,
                f"the suite has no block {index}",
                expected=f"0 to {len(planned) - 1}",
                found=index,
                row=row,
            )
            continue
        yield from _as_planned(planned[index], found, row)
        if found["status"] != "ok":
            yield broken(
                "C04",
                BLOCKS,
                f"block {index} is {found['status']}",
                expected="ok",
                found=found["status"],
                row=row,
            )


def _as_planned(block: Block, found: dict[str, Any], row: int) -> Iterator[Finding]:
    place = {
        "kind": block.kind,
        "role": block.role,
        "learn_task": block.task,
        "exposure": block.exposure,
        "checkpoint": block.stop if block.kind == "learn" else block.checkpoint,
    }
    for code, columns in (
        ("S03", place),
        ("S05", {"policy_ref": block.policy, "episodes_planned": block.planned_episodes}),
    ):
        for column, expected in columns.items():
            if found[column] != expected:
                yield broken(
                    code,
                    BLOCKS,
                    f"block {block.index}: another {column} than the suite prescribes",
                    expected=expected,
                    found=found[column],
                    row=row,
                )
                break


def kept(evidence: Evidence) -> Iterator[Finding]:
    """S05: where the suite keeps the best policy, it is said which one, and only there."""
    best = evidence.suite.scenario.keep == "best"
    for block in evidence.plan:
        row = evidence.blocks.get(block.index)
        if row is None:
            continue
        found = row["selected_checkpoint"]
        if best and block.closes is not None:
            known = [
                b.checkpoint for b in evidence.plan if b.role == "curve" and b.task == block.closes
            ]
            if found not in known:
                yield broken(
                    "S05",
                    BLOCKS,
                    f"block {block.index} does not say which checkpoint goes on",
                    expected=known,
                    found=found,
                    row=block.index,
                )
        elif found is not None:
            yield broken(
                "S05",
                BLOCKS,
                f"block {block.index} goes on with a chosen checkpoint, "
                f"which the suite does not ask for",
                found=found,
                row=block.index,
            )


def episodes(evidence: Evidence) -> Iterator[Finding]:
    """S04, C02: each evaluation has its tasks, and each task its episodes."""
    ids = [task.id for task in evidence.suite.tasks]
    tasks = evidence.episodes["task_index"]
    expected = np.array(ids, dtype=object)[tasks]
    wrong = np.flatnonzero(evidence.episodes["task_id"] != expected)
    yield from first_few(
        broken(
            "S04",
            EPISODES,
            "the task's id is not that of its index in the suite",
            expected=ids[tasks[row]],
            found=evidence.episodes["task_id"][row],
            row=row,
        )
        for row in wrong
    )
    found = cells(evidence)
    planned = {
        (block.index, task): block.episodes for block in evidence.plan for task in block.tasks
    }
    for block, task in sorted(found.keys() - planned.keys()):
        if block in {b.index for b in evidence.plan}:
            yield broken(
                "S04",
                EPISODES,
                f"block {block} does not evaluate task {ids[task]}",
                expected=[ids[t] for b, t in planned if b == block],
                found=ids[task],
                row=found[block, task][0],
            )
    yield from first_few(
        broken(
            "C02",
            EPISODES,
            f"task {ids[task]} in block {block} has another number of "
            f"episodes than the suite prescribes",
            expected=count,
            found=len(found.get((block, task), ())),
        )
        for (block, task), count in sorted(planned.items())
        if len(found.get((block, task), ())) != count and block in evidence.blocks
    )


def budget(evidence: Evidence) -> Iterator[Finding]:
    """C03: each learning block used exactly its share of the budget."""
    learning = evidence.learning
    for block in evidence.plan:
        if block.kind != "learn" or block.index not in evidence.blocks or block.task is None:
            continue
        rows = np.flatnonzero(learning["block_index"] == block.index)
        used = _used(evidence, block, rows)
        if used is not None and used != block.stop - block.start:
            unit = learning_of(evidence.suite, block.task).unit
            yield broken(
                "C03",
                LEARNING,
                f"block {block.index} should learn "
                f"{block.stop - block.start} {unit} of task "
                f"{evidence.suite.tasks[block.task].id}; its rows hold {used}",
                expected=block.stop - block.start,
                found=used,
            )


def _used(evidence: Evidence, block: Block, rows: Any) -> int | None:
    """Return the units that the rows of a learning block hold, None where rows do not tell."""
    assert block.task is not None
    section = learning_of(evidence.suite, block.task)
    if section.unit in ("steps", "samples"):
        return int(evidence.learning["length"][rows].sum())
    if section.unit == "epochs":
        return len(rows)
    return None if section.experience else len(rows)  # windows do not tell episodes apart


def counters(evidence: Evidence) -> Iterator[Finding]:
    """R07: the counters of each block follow from the rows before and in it."""
    learning, found = evidence.learning, cells(evidence)
    done: dict[int, int] = {}
    for (block, _), rows in found.items():
        done[block] = done.get(block, 0) + len(rows)
    lx = steps = 0
    for index, row in sorted(evidence.blocks.items()):
        own = np.flatnonzero(learning["block_index"] == index)
        task = row["learn_task"]
        section = evidence.suite.tasks[task].learning if task is not None else None
        lived = section is not None and section.source == "interaction"
        taken = int(learning["length"][own].clip(min=0).sum()) if lived else 0
        expected = {
            "lx_start": lx,
            "lx_end": lx + len(own),
            "env_steps_start": steps,
            "env_steps_end": steps + taken,
            "episodes_done": done.get(index, 0),
        }
        lx, steps = expected["lx_end"], expected["env_steps_end"]
        for column, value in expected.items():
            if row[column] != value:
                yield broken(
                    "R07",
                    BLOCKS,
                    f"block {index}: {column} does not follow from its rows",
                    expected=value,
                    found=row[column],
                    row=index,
                )
                return


def counts(evidence: Evidence) -> Iterator[Finding]:
    """M06: the counts and the budget of the manifest are those of plan and tables."""
    manifest, rows = evidence.manifest, evidence.blocks.values()
    learning = evidence.tables["learning"].num_rows
    expected: dict[str, Any] = {"budget.lx_done": learning}
    if not evidence.imported:
        expected |= {
            "counts.blocks_planned": len(evidence.plan),
            "counts.blocks_sealed": len(rows),
            "counts.episodes_planned": sum(block.planned_episodes for block in evidence.plan),
            "counts.episodes_done": evidence.tables["episodes"].num_rows,
            "budget.env_steps_total": max((r["env_steps_end"] or 0 for r in rows), default=0),
        }
    for name, value in expected.items():
        part, _, key = name.partition(".")
        found = getattr(getattr(manifest, part), key)
        if found != value:
            yield broken(
                "M06",
                "manifest.json",
                f"{name} is not what the tables hold",
                expected=value,
                found=found,
            )


def discarded(evidence: Evidence) -> Iterator[Finding]:
    """C05: how many attempts were begun and lost."""
    lost = sum(row["discarded_attempts"] for row in evidence.blocks.values())
    number = max(lost, evidence.manifest.counts.discarded_attempts)
    if number:
        yield broken(
            "C05",
            "manifest.json",
            f"{number} attempts at a block were discarded",
            expected=0,
            found=number,
        )
