"""Reading folders of the logger l2logger: rows of learning and evaluation experiences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from l2bench.bundle.files import read_json
from l2bench.bundle.lifetime import Lifetime
from l2bench.errors import Unsupported, UsageError, choices, nearest
from l2bench.interop.experiences import lifetime_of
from l2bench.interop.l2logger_file import STANDARD
from l2bench.interop.l2logger_rows import read_files
from l2bench.interop.several import log_folders, own_files
from l2bench.interop.source import UNKNOWN_AGENT, Options, Source
from l2bench.interop.text import cells, whole_lines
from l2bench.metrics.l2m_columns import read_rows

KIND = "l2logger"
INFO, LOG = "logger_info.json", "data-log.tsv"


def read(path: Path, options: Options) -> Source:
    """Return the lifetime of the one log at or below a path.

    Raises:
        Unsupported: if a file is damaged or malformed, naming it with line and column.
        UsageError: if there are several logs, or a measure must be chosen.
    """
    folder = _only_log(path)
    files = sorted(own_files(folder, INFO, LOG), key=_place)
    if not files:
        raise Unsupported(f"{folder} has no data-log.tsv below it")
    if options.seed is None:
        options = replace(options, seed=_seed_of(folder))
    declared = _declared(folder)
    measure = _measure(folder, files, declared, options)
    log = read_files(folder, files, measure)
    rows = read_rows(log.columns, measure=measure, name=folder.name, where=log.where)
    dropped = len(rows.value) - np.count_nonzero(rows.counted(folder.name, measure))
    lifetime = lifetime_of(rows, log, folder.name, measure, options)
    warnings = [*log.torn, *rows.warnings, *_assumed(lifetime, options)]
    settings: dict[str, Any] = {"measure": measure, "experience_counter": log.counter}
    if dropped:
        settings["dropped_rows"] = dropped
        warnings.append(f"{dropped} rows are incomplete or have no value; they do not count")
    if declared is None:
        warnings.append("logger_info.json is missing")
    agent = options.agent or UNKNOWN_AGENT
    return Source(KIND, lifetime, tuple(files), agent, settings, tuple(warnings))


def _assumed(lifetime: Lifetime, options: Options) -> list[str]:
    """Return what was assumed about score ranges."""
    ranges = {task.score_range for task in lifetime.suite.tasks if task.task not in options.ranges}
    if options.score_range or not ranges or ranges == {(0.0, 1.0)}:
        return []
    ends = " and ".join(f"{low:g} to {high:g}" for low, high in sorted(ranges)[:3])
    more = ", ..." if len(ranges) > 3 else ""
    return [
        f"the log does not say its smallest and largest score; {ends}{more} is assumed, set it "
        f"with --range"
    ]


def places(path: Path) -> list[Path]:
    """Return the folders of the logs at or below a path; the path itself if none is known.

    Hidden folders, and those inside a log, do not count.

    Raises:
        Unsupported: if beside logs there are files of one without its logger_info.json.
    """
    return log_folders(path, INFO, LOG)


def _seed_of(folder: Path) -> int | None:
    """Return the seed that a log says in its scenario_info.json, as L2bench's own exports do."""
    path = folder / "scenario_info.json"
    seed = read_json(path).get("seed") if path.is_file() else None
    return seed if type(seed) is int and 0 <= seed < 2**53 else None


def _only_log(path: Path) -> Path:
    logs = places(path)
    if len(logs) > 1:
        names = choices(str(log.relative_to(path)) for log in logs)
        raise UsageError(
            f"{path} holds {len(logs)} logs; give one of them: {names} "
            f"(score and report take all of them together)"
        )
    return logs[0]


def _place(file: Path) -> tuple[str, int, str]:
    """Return the sort key of a log file: worker, then block."""
    block = file.parent.name.partition("-")[0]
    number = int(block) if block.isdecimal() else -1
    return str(file.parent.parent), number, file.parent.name


def _declared(folder: Path) -> list[str] | None:
    """Return the measures that logger_info.json declares; None without the file."""
    path = folder / "logger_info.json"
    if not path.is_file():
        return None
    names = read_json(path).get("metrics_columns")
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise Unsupported(f"{path}: metrics_columns should be a list of names, found {names!r:.80}")
    if taken := sorted({*names} & {*STANDARD}):
        raise Unsupported(
            f"{path}: metrics_columns names {taken[0]}, which is a column of the format, no measure"
        )
    return names


def _measure(
    folder: Path, files: Sequence[Path], declared: Sequence[str] | None, options: Options
) -> str:
    known = declared
    if known is None:
        raw, _ = whole_lines(files[0], str(files[0]))
        _, header = next(cells(raw, str(files[0]), "\t"), (1, []))
        known = [column for column in header if column not in STANDARD]
    if options.measure is not None:
        if options.measure not in known:
            hint = nearest(options.measure, known)
            raise UsageError(
                f"{folder} has no measure '{options.measure}'{hint}; it has {choices(known)}"
            )
        return options.measure
    if len(known) != 1:
        raise UsageError(
            f"{folder} has {len(known)} measures; choose one with --measure: {choices(known)}"
        )
    return known[0]
