"""What the results of other tools look like on disk, told without reading them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Form:
    """A kind of source: what it looks like in words, and whether a path looks like it."""

    looks_like: str
    matches: Callable[[Path], bool]


def _l2logger(path: Path) -> bool:
    return path.is_dir() and bool(
        (path / "logger_info.json").is_file() or next(path.rglob("data-log.tsv"), None)
    )


def _libero(path: Path) -> bool:
    return (path / "result.pt").is_file() or (path.is_file() and path.suffix == ".pt")


def _matrix(path: Path) -> bool:
    if not path.is_file() or path.name == "eval_results.csv":
        return False
    if path.suffix == ".json":
        return '"R"' in path.read_text(encoding="utf-8", errors="replace")
    return path.suffix == ".csv"


def _named(name: str) -> Callable[[Path], bool]:
    """Return whether a path is a file of this name or a folder with one."""
    return lambda path: (path / name).is_file() or (path.is_file() and path.name == name)


#: The forms by kind; the module of this name in this package reads it.
FORMS = {
    "l2logger": Form(
        "a folder with logger_info.json and BLOCK-TYPE/data-log.tsv below it", _l2logger
    ),
    "libero": Form("a folder with result.pt and task*_auc.log", _libero),
    "matrix": Form(
        "a .csv or .json file of accuracies R, rows after learning, columns of tasks", _matrix
    ),
    "continual_world": Form("a folder with progress.tsv", _named("progress.tsv")),
    "avalanche": Form("a folder with eval_results.csv", _named("eval_results.csv")),
}
