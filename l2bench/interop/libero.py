"""Reading what LIBERO's own training code leaves: ``result.pt`` and ``task*_auc.log``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from l2bench.bundle.files import read_json
from l2bench.errors import Unsupported
from l2bench.interop.source import UNKNOWN_AGENT, Options, Source, aggregate, slug
from l2bench.interop.torchfile import load
from l2bench.metrics.l2m_columns import FloatArray
from l2bench.scenario import Block, learning_of, plan
from l2bench.suite import Learning, Scenario, Suite, Task

KIND = "libero"

#: S_fwd and the curve it is the mean of are both double precision.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class _Results:
    """The matrix S_conf_mat (K, K) and the own curve of each task that finished, by task."""

    matrix: FloatArray
    curves: Mapping[int, FloatArray]
    warnings: tuple[str, ...]


def read(path: Path, options: Options) -> Source:
    """Return the lifetime of a folder of LIBERO's results.

    A row of the matrix counts where the curve of its task lies beside it and belongs to it; the
    zeros of later rows, and those above the diagonal, were never measured.

    Raises:
        Unsupported: if a file is missing, damaged, refused or malformed.
    """
    file = path / "result.pt" if path.is_dir() else path
    if not file.is_file():
        raise Unsupported(f"{file} is missing")
    folder = file.parent
    logs = {
        int(found[1]): log
        for log in sorted(folder.glob("task*_auc.log"))
        if (found := re.fullmatch(r"task(\d+)_auc\.log", log.name))
    }
    results = _results(file, logs)
    config_file = folder / "config.json"
    config = read_json(config_file) if config_file.is_file() else {}
    suite, warnings = _suite(folder, results, config)
    seed = options.seed if options.seed is not None else _whole(config.get("seed"), 0)
    episodes = _inside(config, "eval", "n_eval")
    blocks = plan(suite, 0)
    missing = frozenset(b.index for b in blocks if b.task not in results.curves)
    means, kept = _means(blocks, suite, results, episodes)
    lifetime = aggregate(suite, seed, blocks, means, missing=missing, kept=kept)
    if missing:
        done, count = len(results.curves), len(suite.tasks)
        warnings.append(f"{done} of {count} tasks were learned; the others are missing")
    names = [_inside(config, "lifelong", "algo"), _inside(config, "policy", "policy_type")]
    agent = " ".join(name for name in names if isinstance(name, str))
    return Source(
        KIND,
        lifetime,
        (file, *logs.values(), *([config_file] if config else [])),
        agent=options.agent or agent or UNKNOWN_AGENT,
        settings={"tasks_learned": len(results.curves)},
        warnings=(*results.warnings, *warnings),
    )


def _results(file: Path, logs: Mapping[int, Path]) -> _Results:
    data = load(file, file.name)
    if not isinstance(data, dict):
        raise Unsupported(f"{file.name} holds {type(data).__name__}, expected a dictionary")
    matrix, forward = _rates(data, "S_conf_mat", file.name, 2), _rates(data, "S_fwd", file.name, 1)
    if matrix.shape != (len(forward), len(forward)) or not len(forward):
        raise Unsupported(
            f"{file.name}: S_conf_mat {matrix.shape} and S_fwd {forward.shape} do not fit"
        )
    if not logs:
        _refuse_without_curves(file, matrix)
    losses = [_losses(data, row) for row in range(len(forward))]
    curves, warnings = {}, []
    for task, log in logs.items():
        if task >= len(forward):
            raise Unsupported(f"{log.name}: {file.name} has {len(forward)} tasks, from 0")
        curve = _curve(log)
        peak = int(np.argmax(curve))
        held = float(np.append(curve[:peak], np.full(len(curve) - peak, curve[peak])).mean())
        written = forward[task] > 0 or matrix[task].any() or losses[task]
        if written and abs(held - forward[task]) <= _TOLERANCE:
            curves[task] = curve
        elif not written:
            warnings.append(f"{file.name} was last written before task {task} was over")
        else:
            raise Unsupported(
                f"{file.name}: S_fwd[{task}] is {forward[task]:.6g}, but {log.name} gives "
                f"{held:.6g}; they are not of one run"
            )
    return _Results(matrix, curves, tuple(warnings))


def _refuse_without_curves(file: Path, matrix: FloatArray) -> None:
    if matrix[-1].any() and not matrix[:-1].any():
        raise Unsupported(
            f"{file.name} is of a multitask run: all tasks were learned at once, so FWT, NBT and "
            f"AUC are undefined"
        )
    raise Unsupported(
        f"no task*_auc.log beside {file.name}: without them it cannot be told which rows were "
        f"measured; copy them from the folder of the run, or give the matrix as CSV or JSON"
    )


def _losses(data: Mapping[Any, Any], row: int) -> bool:
    """Return whether losses show that a row was written; they are never exactly 0."""
    for key in ("L_fwd", "L_conf_mat"):
        losses = data.get(key)
        if isinstance(losses, np.ndarray) and len(losses) > row and np.any(losses[row] != 0):
            return True
    return False


def _rates(data: Mapping[Any, Any], key: str, name: str, dimensions: int) -> FloatArray:
    found = data.get(key)
    if not isinstance(found, np.ndarray) or (found.dtype.kind, found.ndim) not in (
        ("f", dimensions),
        ("i", dimensions),
    ):
        what = type(found).__name__ if found is not None else "missing"
        raise Unsupported(f"{name}: {key} should be a table of {dimensions} dimensions, is {what}")
    rates = found.astype(np.float64)
    wrong = np.argwhere(~((rates >= 0) & (rates <= 1)))
    if len(wrong):
        place = "".join(f"[{at}]" for at in wrong[0])
        raise Unsupported(f"{name}: {key}{place} is {rates[tuple(wrong[0])]}, no success rate")
    return rates


def _curve(log: Path) -> FloatArray:
    data = load(log, log.name)
    if not isinstance(data, dict):
        raise Unsupported(f"{log.name} holds {type(data).__name__}, expected a dictionary")
    curve = _rates(data, "success", log.name, 1)
    if not len(curve):
        raise Unsupported(f"{log.name}: success is empty")
    return curve


def _suite(folder: Path, results: _Results, config: Mapping[str, Any]) -> tuple[Suite, list[str]]:
    """Return the suite that LIBERO's protocol makes of these results."""
    points = max((len(curve) for curve in results.curves.values()), default=1)
    every, amount = _inside(config, "eval", "eval_every"), _inside(config, "train", "n_epochs")
    warnings = []
    if not (isinstance(every, int) and isinstance(amount, int) and 0 < every <= amount):
        every, amount = 1, max(points - 1, 1)
        warnings.append("config.json does not tell the epochs; checkpoints count from 0")
    tasks = []
    for task in range(len(results.matrix)):
        length = len(results.curves.get(task, np.empty(points)))
        last = (length - 1) * every
        if last > amount:
            raise Unsupported(
                f"task{task}_auc.log has {length} points; config.json has {amount} epochs, "
                f"evaluated every {every}"
            )
        checkpoints = tuple(range(0, last + 1, every))
        learning = Learning(
            source="demonstrations", unit="epochs", amount=amount, checkpoints=checkpoints
        )
        name = f"task{task}"
        tasks.append(Task(id=name, environment="import/libero", task=name, learning=learning))
    benchmark = config.get("benchmark_name")
    name = benchmark if isinstance(benchmark, str) else folder.resolve().name
    suite = Suite(
        id=slug(name),
        version="imported",
        title=f"{name} (imported)",
        tasks=tuple(tasks),
        scenario=Scenario(kind="sequential", keep="best"),
        seeds=(0,),
        metrics=("l2bench/libero", "l2bench/gem"),
    )
    return suite, warnings


def _means(
    blocks: Sequence[Block], suite: Suite, results: _Results, episodes: Any
) -> tuple[dict[tuple[int, int], tuple[float, int | None]], dict[int, int]]:
    """Return the measured cells, and the checkpoint that each evaluation after a task is of."""
    n = episodes if isinstance(episodes, int) and episodes > 0 else None
    means: dict[tuple[int, int], tuple[float, int | None]] = {}
    kept = {}
    for block in blocks:
        own = block.task
        if block.kind == "learn" or own is None or own not in results.curves:
            continue
        curve, checkpoints = results.curves[own], learning_of(suite, own).checkpoints
        if block.role == "curve":
            point = checkpoints.index(block.checkpoint or 0)
            means[block.index, own] = (float(curve[point]), n)
            continue
        kept[block.index] = checkpoints[int(np.argmax(curve))]
        for task in block.tasks:
            means[block.index, task] = (float(results.matrix[own, task]), n)
    return means, kept


def _inside(config: Mapping[str, Any], part: str, key: str) -> Any:
    inner = config.get(part)
    return inner.get(key) if isinstance(inner, dict) else None


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**63 else default
