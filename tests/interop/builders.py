"""Folders and files as other tools write them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

COLUMNS = (
    "block_num", "exp_num", "worker_id", "block_type", "block_subtype", "task_name",
    "task_params", "exp_status", "timestamp", "performance",
)  # fmt: skip


def l2logger_folder(folder: Path, rows, *, measures=("performance",), info=True) -> Path:
    """A log folder of rows (dictionaries of texts), spread over workers and blocks as they say."""
    files: dict[Path, list[dict[str, str]]] = {}
    for row in rows:
        worker = row.get("worker_id", "worker-default")
        block = f"{row['block_num']}-{row['block_type']}"
        files.setdefault(folder / worker / block / "data-log.tsv", []).append(row)
    for path, members in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(members[0]), delimiter="\t", lineterminator="\n")
            writer.writeheader()
            writer.writerows(members)
    if info:
        known = {"metrics_columns": list(measures), "log_format_version": "1.1"}
        (folder / "logger_info.json").write_text(json.dumps(known))
        (folder / "scenario_info.json").write_text(json.dumps({"scenario_type": "custom"}))
    return folder


def log_rows(*blocks, start=0, **extra):
    """Rows of blocks ("L" or "E", task, values); consecutive evaluations share a block."""
    rows, number, before = [], -1, None
    for kind, task, values in blocks:
        number += not (kind == before == "E")
        before = kind
        for value in values:
            rows.append(
                {
                    "block_num": str(number),
                    "exp_num": str(start + len(rows)),
                    "worker_id": "worker-default",
                    "block_type": "train" if kind == "L" else "test",
                    "block_subtype": "wake",
                    "task_name": task,
                    "task_params": "{}",
                    "exp_status": "complete",
                    "timestamp": "20240101T000000.000000",
                    "performance": str(value),
                    **extra,
                }
            )
    return rows


def stored_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a stored case, as texts."""
    text = gzip.decompress(path.read_bytes()).decode()
    return list(csv.DictReader(io.StringIO(text), delimiter="\t"))


def progress(names, segments, *, steps=1000, active=True, extra=("train/loss_pi",)) -> str:
    """A progress.tsv of Continual World: ``segments`` hold lists of success rates by task."""
    columns = []
    for index, name in enumerate(names):
        for mode in ("stochastic", "deterministic"):
            stem = f"test/{mode}/{index}/{name}"
            columns += [f"{stem}/return/avg", f"{stem}/ep_length", f"{stem}/success"]
    heads = [*columns, "epoch", "total_env_steps", "current_task_steps", *extra]
    heads += ["train/active_env"] if active else []
    lines = ["\t".join([*heads, "walltime"])]
    total = 0
    for task, points in enumerate(segments):
        for rates in points:
            total += steps // len(segments[0])
            cells = []
            for rate in rates:
                cells += ["1.5", "200.0", str(rate), "2.5", "200.0", "0.5"]
            cells += [str(len(lines)), str(total), "0", "0.25"]
            cells += [str(task)] if active else []
            lines.append("\t".join([*cells, "1.25"]))
    return "\n".join(lines) + "\n"
