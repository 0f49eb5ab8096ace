"""Writing a lifetime as a folder of the logger l2logger, which the package l2metrics reads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

import l2bench
from l2bench.bundle.files import write_json
from l2bench.bundle.lifetime import Lifetime
from l2bench.bundle.reader import Bundle
from l2bench.errors import Unsupported
from l2bench.interop.source import slug, words
from l2bench.metrics.l2m_lifetime import log_of

WORKER = "worker-default"
FORMAT_VERSION = "1.1"
#: Stands where a time is not known.
UNKNOWN_TIME = "19700101T000000.000000"
_TYPES, _SUBTYPES = ["test", "train"], ["wake", "sleep"]

Array = NDArray[Any]


@dataclass(frozen=True)
class _Experiences:
    """The rows of a log in order, (N,) each; texts are Arrow arrays of words."""

    measure: str
    block: Array
    exp_num: Array
    learning: Array
    sleep: Array
    task: pa.Array
    worker: pa.Array
    status: pa.Array
    timestamp: pa.Array
    value: Array


def export(bundle: Bundle, folder: Path) -> list[str]:
    """Write one lifetime into an empty folder and return what a reader of it should know.

    Imported rows are written as they were numbered, with their raw scores. Of a run the rows are
    those that the L2M metrics use, valued by performance in the score range.

    Raises:
        Unsupported: if there are no rows to write.
    """
    lifetime = bundle.lifetime
    warnings: list[str] = []
    if lifetime.cells is not None:
        raise Unsupported(f"{bundle.folder.name} is an aggregate import: it has no rows to export")
    if "exp_num" in lifetime.learning.column_names:
        source = bundle.manifest.source
        named = source.settings.get("measure") if source else None
        rows = _of_import(lifetime, str(named or lifetime.suite.tasks[0].measure))
    else:
        rows = _of_run(lifetime, warnings)
    learned = {task for task in lifetime.blocks["learn_task"].to_pylist() if task is not None}
    info = {"metrics_columns": [rows.measure], "log_format_version": FORMAT_VERSION}
    scenario = {
        "scenario_type": "ste" if len(learned) == 1 else "custom",
        "source": f"exported by L2bench {l2bench.__version__}",
        "suite": f"{bundle.manifest.suite.id} {bundle.manifest.suite.version}",
        "suite_hash": bundle.manifest.suite.suite_hash,
        "seed": lifetime.seed,
    }
    write_json(folder / "logger_info.json", info)
    write_json(folder / "scenario_info.json", scenario)
    _write_rows(rows, folder)
    return warnings


def _of_import(lifetime: Lifetime, measure: str) -> _Experiences:
    """Return imported rows in the order of their source."""
    names = ["row_id", "block_index", "block_num", "exp_num", "task_index", "score"]
    texts = ["subtype", "worker", "status"]
    parts = lifetime.learning, lifetime.episodes
    whole = pa.concat_tables([part.select([*names, *texts]) for part in parts])
    train = np.arange(whole.num_rows) < lifetime.learning.num_rows
    order = np.argsort(whole["row_id"].to_numpy(), kind="stable")
    ordered = whole.take(pa.array(order)).unify_dictionaries().combine_chunks()
    subtype = ordered["subtype"].combine_chunks()
    sleep = np.array([word == "sleep" for word in subtype.dictionary.to_pylist()] or [False])
    return _Experiences(
        measure=measure,
        block=ordered["block_num"].to_numpy(),
        exp_num=ordered["exp_num"].to_numpy(),
        learning=train[order],
        sleep=sleep[subtype.indices.to_numpy()],
        task=words(ordered["task_index"].to_numpy(), [t.task for t in lifetime.suite.tasks]),
        worker=ordered["worker"].combine_chunks(),
        status=ordered["status"].combine_chunks(),
        timestamp=_stamps(lifetime, ordered["block_index"].to_numpy()),
        value=ordered["score"].to_numpy(),
    )


def _of_run(lifetime: Lifetime, warnings: list[str]) -> _Experiences:
    """Return the rows of a run that the L2M metrics use."""
    log = log_of(lifetime)
    if log is None:
        raise Unsupported("nothing has been recorded, so there is nothing to export")
    lengths = log.stop - log.start
    kept = ~np.isnan(log.value)
    unscored = np.isnan(log.value[log.start]) & log.learning
    if unscored.any():
        names = ", ".join(sorted({log.tasks[t] for t in log.task[unscored]}))
        warnings.append(
            f"the learning of {names} is not scored and has no rows; l2metrics will not see that "
            f"these tasks were learned"
        )
    block = np.repeat(log.block, lengths)[kept]
    count = len(block)
    return _Experiences(
        measure="performance",
        block=block,
        exp_num=log.exp_num[kept],
        learning=np.repeat(log.learning, lengths)[kept],
        sleep=np.repeat(log.sleep, lengths)[kept],
        task=words(log.row_task[kept], log.tasks),
        worker=words(np.zeros(count), [WORKER]),
        status=words(np.zeros(count), ["complete"]),
        timestamp=_stamps(lifetime, block),
        value=log.value[kept],
    )


def _stamps(lifetime: Lifetime, block: Array) -> pa.Array:
    """Return for each row when its block began; l2metrics cannot do without a time."""
    indices = lifetime.blocks["block_index"].to_numpy()
    times = lifetime.blocks["started_at"].to_pylist()
    stamps = [time.strftime("%Y%m%dT%H%M%S.%f") if time else UNKNOWN_TIME for time in times]
    place = np.zeros(int(indices.max()) + 1, dtype=np.int64)
    place[indices] = np.arange(len(stamps))
    return words(place[block], stamps)


def _write_rows(rows: _Experiences, folder: Path) -> None:
    """Write one file for each worker and block."""
    table = pa.table(
        {
            "block_num": rows.block,
            "exp_num": rows.exp_num,
            "worker_id": rows.worker,
            "block_type": words(rows.learning, _TYPES),
            "block_subtype": words(rows.sleep, _SUBTYPES),
            "task_name": rows.task,
            "task_params": words(np.zeros(len(rows.block)), ["{}"]),
            "exp_status": rows.status,
            "timestamp": rows.timestamp,
            rows.measure: pa.array(rows.value, from_pandas=True),
        }
    )
    worker = rows.worker.indices.to_numpy()
    folders = [_folder_name(name) for name in rows.worker.dictionary.to_pylist()]
    order = np.lexsort((rows.learning, rows.block, worker))
    keys = np.stack((worker, rows.block, rows.learning))[:, order]
    starts = np.flatnonzero(np.concatenate(([True], (np.diff(keys) != 0).any(axis=0))))
    ordered = _plain(table.take(pa.array(order)))
    header = "\t".join(_quoted(name) for name in ordered.column_names).encode() + b"\n"
    texts = [*rows.task.dictionary.to_pylist(), *rows.worker.dictionary.to_pylist()]
    style = "needed" if any(_quoted(text) != text for text in texts) else "none"
    options = arrow_csv.WriteOptions(include_header=False, delimiter="\t", quoting_style=style)
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        at, block, learning = keys[:, start]
        inside = folder / folders[at] / f"{block}-{_TYPES[int(learning)]}"
        inside.mkdir(parents=True, exist_ok=True)
        with (inside / "data-log.tsv").open("wb") as file:
            file.write(header)
            arrow_csv.write_csv(ordered.slice(start, stop - start), file, options)


def _folder_name(worker: str) -> str:
    """Return a worker's name as that of a folder, whatever characters it has."""
    return worker if re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", worker) else slug(worker)


def _quoted(text: str) -> str:
    """Return a text as a cell."""
    if not any(character in text for character in '\t"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _plain(table: pa.Table) -> pa.Table:
    """Return a table with texts instead of coded words."""
    types = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, types, strict=True))))
