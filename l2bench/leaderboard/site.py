"""The static site of a board: read, check, rank, write."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from l2bench.bundle.files import new_folder, read_json, why
from l2bench.check.board import Board
from l2bench.errors import L2benchError, RunFailed, UsageError
from l2bench.leaderboard import downloads, pages
from l2bench.leaderboard.comparison_page import comparison_page
from l2bench.leaderboard.entries import Entry, State, settle
from l2bench.leaderboard.entry_page import entry_page
from l2bench.leaderboard.ranking import SuiteBoard
from l2bench.report.text import byte_size, visible

#: An entry that is shown with its numbers has a page of its own.
WITH_PAGE: tuple[State, ...] = ("ranked", "unranked", "superseded")


def refuse_existing(out: Path, *, force: bool) -> None:
    """Refuse to write where something is; with ``force`` only where it is no earlier site.

    Raises:
        UsageError: with the remedy.
    """
    if not out.exists():
        return
    if not force:
        raise UsageError(f"{out} exists already; replace it with --force, or choose another -o")
    try:
        ours = read_json(out / "leaderboard.json").get("format") == "l2bench.leaderboard"
    except L2benchError:
        ours = False
    if not ours and any(out.iterdir() if out.is_dir() else [out]):
        raise UsageError(f"{out} is no earlier site of a leaderboard; choose another -o")


def suite_boards(board: Board, entries: Sequence[Entry]) -> list[SuiteBoard]:
    """Return the registered suites with their entries, in the board's order.

    A version that was registered later takes over from the earlier ones.
    """
    newest = {suite.id: suite.version for suite in board.files.suites}
    settled = settle(entries, board.files)
    boards = []
    for suite in board.files.suites:
        own = [entry for entry in settled if entry.suite == suite]
        newer = None if newest[suite.id] == suite.version else newest[suite.id]
        boards.append(SuiteBoard.of(suite, board.suite(suite), own, newer))
    return boards


def write_site(
    board: Board, boards: Sequence[SuiteBoard], out: Path, *, bundles: bool = True
) -> None:
    """Write the pages and downloads into a folder, all or nothing.

    ``bundles`` copies the archives of the runs, for readers to score again.

    Raises:
        RunFailed: if it cannot be written.
    """
    out = out.absolute()
    try:
        with new_folder(out) as folder:
            _write(folder / "index.html", pages.index_page(board.files, boards))
            _write(folder / "excluded.html", pages.excluded_page(board.files, boards))
            whole = downloads.board_document(board.files.title, board.files.rules_version, boards)
            _write_json(folder / "leaderboard.json", whole)
            _write(folder / "leaderboard.csv", downloads.table(boards))
            for suite in boards:
                _suite(board, suite, folder, bundles=bundles)
    except OSError as error:
        raise RunFailed(f"cannot write {out}: {why(error)}") from error


def _suite(board: Board, suite: SuiteBoard, root: Path, *, bundles: bool) -> None:
    folder = root / suite.suite.id / suite.suite.version
    folder.mkdir(parents=True)
    _write(folder / "index.html", pages.suite_page(board.files, suite))
    _write_json(folder / "leaderboard.json", downloads.suite_document(suite))
    _write(folder / "leaderboard.csv", downloads.table([suite]))
    _write_json(folder / "suite.json", suite.resolved.resolved())
    for entry in suite.of_state(*WITH_PAGE):
        _entry(board, suite, entry, folder / entry.name, bundles=bundles)
    for ranking in suite.rankings.values():
        rows = [row.entry for row in ranking.standings[: pages.MOST_IN_GRID]]
        for at, one in enumerate(rows):
            for other in rows[at + 1 :]:
                path = folder / pages.pair_path(one, other)
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(path, _made(path, partial(comparison_page, board.files, suite, one, other)))


def _entry(board: Board, suite: SuiteBoard, entry: Entry, folder: Path, *, bundles: bool) -> None:
    assert entry.submission is not None
    folder.mkdir()
    files = [("entry.json", "entry.json: submission, findings and estimates")]
    _write_json(folder / "entry.json", downloads.entry_document(entry))
    for run in entry.submission.runs if bundles else ():
        source = board.submissions / entry.key / run.path
        target = folder / run.path
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, target)
        size = byte_size(source.stat().st_size)
        files.append((run.path, f"{target.name}: the lifetime of seed {run.seed}, {size}"))
    path = folder / "index.html"
    _write(path, _made(path, partial(entry_page, board.files, suite, entry, files)))


def _made(path: Path, make: Callable[[], str]) -> str:
    """Return a page, or a short one in its place: one that fails must not lose the others."""
    try:
        return make()
    except OSError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        name = "/".join(path.parts[-3:])
        logging.getLogger("l2bench").warning("the page %s cannot be made: %s", name, what)
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Not shown</title>'
            f"</head><body><h1>Not shown</h1><p>This page cannot be made: {escape(visible(what))}"
            "</p></body></html>\n"
        )


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "replace"))


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    _write(path, text + "\n")
