"""Small logs and lifetimes, written out block by block, and readers of stored cases."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa

from l2bench.bundle.lifetime import columns, synthetic
from l2bench.metrics.l2m_log import read_expert, read_log


def table(*blocks, **extra):
    """Columns of a log; a block is ("L" or "E", task, values), a task several times over is fine.

    Consecutive evaluations share a block, as in the L2Logger layout.
    """
    rows = {"block_num": [], "block_type": [], "task_name": [], "performance": []}
    number, before = -1, None
    for kind, task, values in blocks:
        number += not (kind == before == "E")
        before = kind
        for value in values:
            rows["block_num"].append(number)
            rows["block_type"].append("train" if kind == "L" else "test")
            rows["task_name"].append(f"{task}_1")
            rows["performance"].append(float(value))
    result = {name: np.array(values) for name, values in rows.items()}
    return {**result, "exp_num": np.arange(len(result["block_num"])), **extra}


def log(*blocks):
    return read_log(table(*blocks))


def expert(task, values):
    return read_expert(table(("L", task, values)))


def lifetime(suite, score, learning=None, seed=0):
    """The planned lifetime with score(block row, task) in evaluations and learning(block row)."""
    planned = synthetic(suite, seed)
    blocks = columns(planned.blocks)
    rows = [
        {name: values[i] for name, values in blocks.items()} for i in range(planned.blocks.num_rows)
    ]

    def scored(data, of):
        keys = columns(data)
        values = [
            of(rows[block], int(task))
            for block, task in zip(keys["block_index"], keys["task_index"], strict=True)
        ]
        position = data.column_names.index("score")
        return data.set_column(position, data.schema.field("score"), pa.array(values, pa.float64()))

    learned = planned.learning
    if learning is not None:
        learned = scored(learned, lambda row, task: learning(row))
    return replace(planned, episodes=scored(planned.episodes, score), learning=learned)


def read_json(path):
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def read_table(path):
    """The columns of a table, numbers parsed and empty measures missing."""
    text = gzip.decompress(path.read_bytes()).decode()
    rows = list(csv.reader(io.StringIO(text), delimiter="\t"))
    columns = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    strings = {"worker_id", "block_type", "block_subtype", "task_name", "task_params"}
    strings |= {"exp_status", "timestamp"}
    parsed = {}
    for name, values in columns.items():
        if name in strings:
            parsed[name] = np.array(values)
        elif name in ("block_num", "exp_num"):
            parsed[name] = np.array([int(value) for value in values])
        else:
            parsed[name] = np.array([float(value) if value else math.nan for value in values])
    return parsed
