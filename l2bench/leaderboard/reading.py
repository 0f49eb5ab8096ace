"""From a board on disk to its entries: every submission checked and scored again from its rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from l2bench.bundle.archive import extract_archive
from l2bench.bundle.reader import Bundle
from l2bench.check.board import Board, read_submission
from l2bench.check.findings import broken
from l2bench.check.models import RegisteredSuite, Submission
from l2bench.check.results import Checked, Rescored
from l2bench.check.submission import check_submission
from l2bench.errors import L2benchError, RunFailed, UsageError
from l2bench.leaderboard.entries import Entry

#: Told the key of each entry before it is checked.
Progress = Callable[[str], None]

#: A longer README is not read to its end, in bytes.
MOST_OF_README = 100_000


def read_entries(
    board: Board,
    workspace: Path,
    *,
    plugins: bool = False,
    isolated: bool = True,
    progress: Progress = lambda _: None,
) -> list[Entry]:
    """Return every entry of the board, with what the checker finds today.

    Archives are unpacked below ``workspace``, which must outlive the entries. Withdrawn entries
    are not checked. ``plugins`` and ``isolated`` are those of `check_submission`.

    Raises:
        UsageError: if a submission lies under a suite that is not registered.
    """
    gone = {withdrawal.submission for withdrawal in board.files.withdrawals}
    entries = []
    for at, (key, folder) in enumerate(board.folders()):
        id, version, _ = key.split("/")
        suite = board.registered(id, version)
        if suite is None:
            raise UsageError(
                f"submissions/{key} is of a suite that the board has not registered; register it "
                f"with: l2bench leaderboard register, or remove the folder"
            )
        if key in gone:
            entries.append(Entry(key, suite, _document(folder)))
            continue
        progress(key)
        checked = check_submission(folder, board, plugins=plugins, isolated=isolated)
        entries.append(_entry(suite, key, folder, checked, workspace / str(at)))
    return entries


def _document(folder: Path) -> Submission | None:
    try:
        return read_submission(folder)
    except L2benchError:
        return None


def _entry(
    suite: RegisteredSuite, key: str, folder: Path, checked: Checked, workspace: Path
) -> Entry:
    """Return an entry; where it breaks a rule its runs are not even unpacked."""
    entry = Entry(key, suite, checked.submission, checked.findings, checked.waived)
    if checked.errors or checked.submission is None or checked.summary is None:
        return entry
    try:
        bundles = _bundles(folder, checked, workspace)
    except RunFailed:
        raise  # this machine has no space; the entry is not to blame
    except L2benchError as error:
        odd = broken("I01", "", f"the runs cannot be read: {error}")
        return Entry(key, suite, checked.submission, (*checked.findings, odd), checked.waived)
    return Entry(
        key, suite, checked.submission, checked.findings, checked.waived, bundles,
        checked.summary, readme=_readme(folder),
    )  # fmt: skip


def _bundles(folder: Path, checked: Checked, workspace: Path) -> tuple[Bundle, ...]:
    """Return the runs with their tables and the recomputed scores, in the order of their seeds."""
    found = []
    for path, facts in sorted(checked.runs.items(), key=lambda run: run[1].seed):
        place = workspace / path.rpartition("/")[2].removesuffix(".zip")
        extract_archive(folder / path, place)
        found.append(
            Rescored(
                place, facts.manifest, facts.suite, facts.agent, facts.provenance,
                fresh=facts.scores,
            )
        )  # fmt: skip
    return tuple(found)


def _readme(folder: Path) -> str:
    path = folder / "README.md"
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(MOST_OF_README).decode("utf-8", "replace")
