"""The tables of a bundle: their columns, types and keys. Null means not measured, never zero.

An import leaves null what its source does not say: times, seeds, lengths and how episodes ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

_TEXT = pa.dictionary(pa.int32(), pa.string())
_TIME = pa.timestamp("us", tz="UTC")


def _field(name: str, dtype: pa.DataType, unit: str = "", null: bool = False) -> pa.Field:
    return pa.field(name, dtype, nullable=null, metadata={"unit": unit} if unit else None)


BLOCKS = pa.schema(
    [
        _field("block_index", pa.int32()),
        _field("kind", _TEXT),
        _field("role", _TEXT),
        _field("learn_task", pa.int32(), "index into suite.tasks", null=True),
        _field("exposure", pa.int32(), "visits to the task before this one", null=True),
        _field("checkpoint", pa.int64(), "the task's learning unit", null=True),
        _field("policy_ref", _TEXT),
        _field("selected_checkpoint", pa.int64(), "the task's learning unit", null=True),
        _field("lx_start", pa.int64(), "learning experiences", null=True),
        _field("lx_end", pa.int64(), "learning experiences", null=True),
        _field("env_steps_start", pa.int64(), "steps", null=True),
        _field("env_steps_end", pa.int64(), "steps", null=True),
        _field("episodes_planned", pa.int32()),
        _field("episodes_done", pa.int32()),
        _field("attempt", pa.int16()),
        _field("discarded_attempts", pa.int16()),
        _field("status", _TEXT),
        _field("started_at", _TIME, null=True),
        _field("ended_at", _TIME, null=True),
        _field("wall_s", pa.float64(), "s", null=True),
        _field("cpu_s", pa.float64(), "s", null=True),
        _field("env_steps_eval", pa.int64(), "steps of evaluation in this block", null=True),
        _field("updates", pa.int64(), "updates in this block, as the agent says", null=True),
        _field("peak_memory_bytes", pa.int64(), "bytes, of the run so far", null=True),
        _field("agent_bytes", pa.int64(), "bytes of the saved state", null=True),
        _field("buffer_bytes", pa.int64(), "bytes of memories, as the agent says", null=True),
    ],
    metadata={"schema_id": "l2bench.blocks.v1"},
)

EPISODES = pa.schema(
    [
        _field("row_id", pa.int64()),
        _field("block_index", pa.int32()),
        _field("task_index", pa.int32()),
        _field("episode_index", pa.int32()),
        _field("task_id", _TEXT),
        _field("env_seed", pa.int64(), null=True),
        _field("init_state", pa.int32(), "index into the fixed initial states", null=True),
        _field("success", pa.bool_(), null=True),
        _field("score", pa.float64(), "the task's measure, raw", null=True),
        _field("return", pa.float64(), "undiscounted", null=True),
        _field("length", pa.int32(), "steps, or test items of a samples task", null=True),
        _field("terminated", pa.bool_(), null=True),
        _field("truncated", pa.bool_(), null=True),
        _field("status", _TEXT),
        _field("wall_s", pa.float32(), "s", null=True),
    ],
    metadata={"schema_id": "l2bench.episodes.v1"},
)

LEARNING = pa.schema(
    [
        _field("row_id", pa.int64()),
        _field("block_index", pa.int32()),
        _field("task_index", pa.int32()),
        _field("lx_index", pa.int64()),
        _field("score", pa.float64(), "the task's measure, raw", null=True),
        _field("success", pa.bool_(), null=True),
        _field("return", pa.float64(), "undiscounted", null=True),
        _field("length", pa.int32(), "steps or samples", null=True),
        _field("env_steps_total", pa.int64(), "steps", null=True),
        _field("status", _TEXT),
        _field("wall_s", pa.float32(), "s", null=True),
    ],
    metadata={"schema_id": "l2bench.learning.v1"},
)

SERIES = pa.schema(
    [
        _field("block_index", pa.int32()),
        _field("lx_index", pa.int64()),
        _field("name", _TEXT),
        _field("value", pa.float64(), null=True),
    ],
    metadata={"schema_id": "l2bench.series.v1"},
)

#: Every step of the evaluation episodes that were drawn for it. Actions are float64, so that a
#: replay takes exactly the same ones; `l2bench.evaluation.digest` says what the digest covers.
TRACES = pa.schema(
    [
        _field("block_index", pa.int32()),
        _field("task_index", pa.int32()),
        _field("episode_index", pa.int32()),
        _field("step", pa.int32()),
        _field("action", pa.list_(pa.field("element", pa.float64()))),  # as Parquet names it
        _field("reward", pa.float32()),
        _field("state_digest", pa.binary(16), "of the observation after the step", null=True),
    ],
    metadata={"schema_id": "l2bench.traces.v1"},
)

#: Means without the rows behind them, in aggregate imports only.
CELLS = pa.schema(
    [
        _field("block_index", pa.int32()),
        _field("task_index", pa.int32()),
        _field("checkpoint", pa.int64(), "the task's learning unit", null=True),
        _field("n", pa.int64(), "episodes, or test items of a samples task", null=True),
        _field("mean", pa.float64(), "the task's measure, raw"),
    ],
    metadata={"schema_id": "l2bench.cells.v1"},
)

#: Further columns of episodes and learning where rows were imported: the source's own numbering.
NUMBERING = (
    _field("block_num", pa.int64()),
    _field("exp_num", pa.int64()),
    _field("subtype", _TEXT, "wake or sleep"),
    _field("worker", _TEXT),
)

SCHEMAS: Mapping[str, pa.Schema] = {
    "blocks": BLOCKS,
    "episodes": EPISODES,
    "learning": LEARNING,
    "series": SERIES,
    "traces": TRACES,
    "cells": CELLS,
}

#: Columns that a table need not have; they read as null then.
OPTIONAL = frozenset(
    {"env_steps_eval", "updates", "peak_memory_bytes", "agent_bytes", "buffer_bytes"}
)

#: The tables of a lifetime that was run.
RUN_TABLES = ("blocks", "episodes", "learning", "series")

#: Those that it has where there is anything to put into them.
EXTRA_TABLES = ("traces",)

KEYS: Mapping[str, tuple[str, ...]] = {
    "blocks": ("block_index",),
    "episodes": ("block_index", "task_index", "episode_index"),
    "learning": ("lx_index",),
    "series": ("block_index", "lx_index", "name"),
    "traces": ("block_index", "task_index", "episode_index", "step"),
    "cells": ("block_index", "task_index"),
}


def table(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows as the table of this name, with its exact schema."""
    schema = SCHEMAS[name]
    columns = [pa.array([row.get(f.name) for row in rows], type=f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def concatenate(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Return the parts as one table, in key order, with unified dictionaries."""
    import pyarrow.compute as pc  # takes long to import

    whole = pa.concat_tables(parts) if parts else table(name, [])
    whole = whole.unify_dictionaries().combine_chunks()
    keys = pa.table({key: whole[key].cast(plain(whole[key].type)) for key in KEYS[name]})
    order = pc.sort_indices(keys, sort_keys=[(key, "ascending") for key in KEYS[name]])
    return whole.take(order).combine_chunks()


def plain(dtype: pa.DataType) -> pa.DataType:
    """Return a column's type without its dictionary."""
    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype
