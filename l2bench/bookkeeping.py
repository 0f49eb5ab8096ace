"""What the runner writes down: rows, the cost of a block, and its share in the whole work."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from l2bench.cast import Cast, Execution
from l2bench.evaluation import Episode, Film, Outcome, TraceStep
from l2bench.scenario import Block, learning_of
from l2bench.seeding import chosen, derive

Row = dict[str, Any]


def episode_row(
    row_id: int, block: Block, task_index: int, task_id: str, episode: Episode, outcome: Outcome
) -> Row:
    """Return the row of the episodes table that one evaluation episode has."""
    return {
        "row_id": row_id,
        "block_index": block.index,
        "task_index": task_index,
        "episode_index": episode.index,
        "task_id": task_id,
        "env_seed": episode.env_seed,
        "init_state": episode.initial_state,
        "success": outcome.success,
        "score": outcome.score,
        "return": outcome.reward,
        "length": outcome.length,
        "terminated": outcome.terminated,
        "truncated": outcome.truncated,
        "status": "ok",
        "wall_s": outcome.seconds,
    }


def episodes_of(cast: Cast, seed: int, block: Block, task_index: int) -> list[Episode]:
    """Return the episodes of a task in an evaluation block, with their seeds and initial states.

    Which of them keep a trace follows from suite, lifetime seed and episode alone.
    """
    states = cast.infos[task_index].initial_states
    execution, whole = cast.execution, (cast.suite.hash, seed)
    episodes = []
    for index in range(block.episodes):
        key = (block.index, task_index, index)
        episodes.append(
            Episode(
                index,
                derive(*whole, "evaluation", *key),
                derive(*whole, "acting", *key),
                index % states if states else None,
                chosen(execution.traces, *whole, "traces", *key),
                _film(execution, index),
            )
        )
    return episodes


def _film(execution: Execution, index: int) -> Film:
    if execution.videos == "first":
        return "all" if index == 0 else "none"
    return execution.videos


def trace_rows(
    block: Block, task_index: int, episode: Episode, trace: Sequence[TraceStep]
) -> list[Row]:
    """Return the rows of the traces table that one evaluation episode has."""
    return [
        {
            "block_index": block.index,
            "task_index": task_index,
            "episode_index": episode.index,
            "step": at,
            "action": step.action,
            "reward": step.reward,
            "state_digest": step.digest,
        }
        for at, step in enumerate(trace)
    ]


def weight(cast: Cast, block: Block) -> float:
    """Return a rough share of a block in the whole work, for the time left."""
    if block.kind == "learn":
        assert block.task is not None
        learning = learning_of(cast.suite, block.task)
        scale = {"steps": 1.0, "episodes": 100.0, "epochs": 1000.0, "samples": 0.1}
        return (block.stop - block.start) * scale[learning.unit]
    return float(sum(block.episodes * (cast.suite.tasks[t].horizon or 100) for t in block.tasks))


def peak_memory(pool: object) -> int:
    """Return the most memory that this process and the pool's workers have held, in bytes."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bytes_ = own if sys.platform == "darwin" else own * 1024
    theirs = getattr(pool, "peak_memory", None)
    return bytes_ + int(theirs() if theirs is not None else 0)


def microseconds(moment: str) -> int:
    """Return an RFC 3339 time as microseconds since 1970."""
    return int(datetime.fromisoformat(moment).timestamp() * 1e6)
