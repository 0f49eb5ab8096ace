"""A lifetime in memory: what metric sets and reports work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from l2bench.bundle.tables import table
from l2bench.scenario import Block, learning_of, plan
from l2bench.suite import Suite

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Lifetime:
    """The suite, the seed and the raw tables of one lifetime.

    ``complete`` is false while blocks of the plan are missing. ``cells`` are there for an
    aggregate import only: means of evaluations, while ``episodes`` and ``learning`` are empty.
    """

    suite: Suite
    seed: int
    blocks: pa.Table
    episodes: pa.Table
    learning: pa.Table
    complete: bool = True
    cells: pa.Table | None = None

    def performance(self) -> Array:
        """Return each evaluation episode's performance in [0, 1], shape (rows,)."""
        return self.placed(self.episodes)

    def placed(self, rows: pa.Table) -> Array:
        """Return the raw scores of a table's rows, placed in their tasks' score ranges.

        For success and accuracy that is the score itself; NaN where nothing was measured. Values
        outside the range are kept as they are.
        """
        return self.place(rows["score"].to_numpy(), rows["task_index"].to_numpy())

    def place(self, scores: Array, tasks: Array) -> Array:
        """Return raw scores (rows,), each placed in the range of its task (rows,)."""
        ranges = np.array([task.score_range for task in self.suite.tasks], dtype=float)
        low, high = ranges[tasks, 0], ranges[tasks, 1]
        result: Array = (np.asarray(scores, dtype=float) - low) / (high - low)
        return result


def columns(data: pa.Table) -> dict[str, Array]:
    """Return a table's columns as numpy arrays: nulls as NaN in floats, -1 in integers."""
    result = {}
    for name in data.column_names:
        column = data[name].combine_chunks()
        if pa.types.is_dictionary(column.type):
            words = np.array([*column.dictionary.to_pylist(), None], dtype=object)
            result[name] = words[_filled(column.indices)]
        elif pa.types.is_integer(column.type):
            result[name] = _filled(column)
        else:
            result[name] = column.to_numpy(zero_copy_only=False)
    return result


def _filled(numbers: pa.Array) -> Array:
    """Return integers with -1 for null."""
    if numbers.null_count == len(numbers):
        return np.full(len(numbers), -1)
    if not numbers.null_count:
        known: Array = numbers.to_numpy()
        return known
    bits, content = numbers.buffers()
    rows = slice(numbers.offset, numbers.offset + len(numbers))
    valid = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little")[rows]
    whole = np.frombuffer(content, dtype=numbers.type.to_pandas_dtype())[rows]
    return np.where(valid, whole, np.array(-1, dtype=whole.dtype))


def synthetic(suite: Suite, seed: int, most: int | None = None) -> Lifetime:
    """Return the lifetime that the plan describes, with a middling score everywhere.

    Scored by a metric set it shows which metrics the scenario can identify at all; ``most`` limits
    the episodes of a block and task, which play no part in that.
    """
    blocks = plan(suite, seed)
    episodes: list[Mapping[str, Any]] = []
    learning: list[Mapping[str, Any]] = []
    for block in blocks:
        for task in block.tasks:
            episodes += [
                {"row_id": 0, **_middling(suite, task), **_episode_key(suite, block, task, index)}
                for index in range(min(block.episodes, most or block.episodes))
            ]
        if block.kind == "learn":
            learning += _learning_rows(suite, block, len(learning))
    rows = [block_row(block) for block in blocks]
    return Lifetime(
        suite, seed, table("blocks", rows), table("episodes", episodes), table("learning", learning)
    )


def block_row(block: Block) -> dict[str, Any]:
    """Return the row of the blocks table that a planned block will have, times unknown."""
    return {
        "block_index": block.index,
        "kind": block.kind,
        "role": block.role,
        "learn_task": block.task,
        "exposure": block.exposure,
        "checkpoint": block.stop if block.kind == "learn" else block.checkpoint,
        "policy_ref": block.policy,
        "episodes_planned": block.planned_episodes,
        "episodes_done": block.planned_episodes,
        "attempt": 1,
        "discarded_attempts": 0,
        "status": "ok",
        "started_at": 0,
        "ended_at": 0,
        "wall_s": 0.0,
        "cpu_s": 0.0,
    }


def _middling(suite: Suite, task: int) -> dict[str, Any]:
    low, high = suite.tasks[task].score_range
    success = True if suite.tasks[task].measure == "success" else None
    return {"score": (low + high) / 2, "success": success, "return": 0.0}


def _episode_key(suite: Suite, block: Block, task: int, index: int) -> dict[str, Any]:
    return {
        "block_index": block.index,
        "task_index": task,
        "episode_index": index,
        "task_id": suite.tasks[task].id,
        "env_seed": 0,
        "length": 1,
        "terminated": False,
        "truncated": True,
        "status": "ok",
        "wall_s": 0.0,
    }


def _learning_rows(suite: Suite, block: Block, first: int) -> list[Mapping[str, Any]]:
    """Return two rows per learning block: enough for every metric that can be defined at all."""
    assert block.task is not None
    scored = learning_of(suite, block.task).source == "interaction" or (
        learning_of(suite, block.task).test_then_train
    )
    score = _middling(suite, block.task)["score"] if scored else None
    row = {
        "row_id": 0,
        "block_index": block.index,
        "task_index": block.task,
        "score": score,
        "status": "ok",
        "wall_s": 0.0,
    }
    return [{**row, "lx_index": first + offset} for offset in range(2)]
