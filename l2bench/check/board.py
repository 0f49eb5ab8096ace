"""The board that a submission is checked against: its rules, and what it has accepted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path

from l2bench.bundle.files import read_json
from l2bench.check.models import (
    DOCUMENT,
    BoardFiles,
    LockedPlugin,
    RegisteredSuite,
    Submission,
    Waiver,
)
from l2bench.errors import L2benchError, RunFailed, Unsupported, UsageError
from l2bench.suite import Suite, judge


@dataclass(frozen=True)
class Accepted:
    """A submission that lies on the board: ``key`` is ``suite/version/name``."""

    key: str
    folder: Path
    submission: Submission


@dataclass(frozen=True)
class Board:
    """A board on disk: ``board.json``, the resolved suites, and ``submissions/``."""

    folder: Path
    files: BoardFiles

    @classmethod
    def load(cls, folder: Path) -> Board:
        """Read a board.

        Raises:
            UsageError: if there is none at the folder, or it is not valid.
            Unsupported: if one of its files cannot be read.
        """
        if not (folder / "board.json").is_file():
            raise UsageError(f"{folder} is not a board: it has no board.json")
        path = folder / "board.json"
        board = cls(folder, judge(BoardFiles, read_json(path), str(path)))
        for entry in board.files.suites:
            board.suite(entry)
        return board

    def suite(self, entry: RegisteredSuite) -> Suite:
        """Return a registered suite in resolved form.

        Raises:
            Unsupported: if it is not the suite that was registered.
        """
        path = self.folder / entry.file
        suite = judge(Suite, read_json(path), str(path))
        if suite.hash != entry.suite_hash:
            raise Unsupported(
                f"{path} has the hash {suite.hash}, but {entry.id} {entry.version} is registered "
                f"as {entry.suite_hash}"
            )
        return suite

    def registered(self, id: str, version: str) -> RegisteredSuite | None:
        """Return the registered suite of this id and version."""
        found = (s for s in self.files.suites if (s.id, s.version) == (id, version))
        return next(found, None)

    def locked(self, distribution: str, version: str) -> LockedPlugin | None:
        """Return the plugin release that the board accepts."""
        wanted = (distribution, version)
        found = (p for p in self.files.plugins if (p.distribution, p.version) == wanted)
        return next(found, None)

    def knows(self, distribution: str) -> bool:
        """Return whether the board accepts any release of a distribution."""
        return any(plugin.distribution == distribution for plugin in self.files.plugins)

    def waivers(self, key: str, today: date) -> dict[str, Waiver]:
        """Return the waivers of a submission that hold today, by code."""
        return {
            waiver.code: waiver
            for waiver in self.files.waivers
            if waiver.submission == key and (waiver.until is None or today <= waiver.until)
        }

    @property
    def submissions(self) -> Path:
        """The folder of the accepted submissions."""
        return self.folder / "submissions"

    def folders(self) -> Iterator[tuple[str, Path]]:
        """Yield key and folder of every submission, in key order; nothing is read."""
        for path in sorted(self.submissions.glob("*/*/*")):
            if path.is_dir() and not path.name.startswith("."):  # being written
                yield path.relative_to(self.submissions).as_posix(), path

    @cached_property
    def accepted(self) -> tuple[Accepted, ...]:
        """The submissions on the board whose submission.json can be read."""
        found = []
        for key, path in self.folders():
            try:
                found.append(Accepted(key, path, read_submission(path)))
            except L2benchError:
                continue  # checking that submission itself says what is wrong with it
        return tuple(found)

    def key_of(self, folder: Path) -> str | None:
        """Return the key of a folder below ``submissions/``, None for one elsewhere."""
        root = self.submissions.resolve()
        where = folder.resolve()
        if root not in where.parents:
            return None
        return where.relative_to(root).as_posix()


def read_submission(folder: Path) -> Submission:
    """Read a submission's document.

    Raises:
        RunFailed: if there is none.
        Unsupported: if it is not readable JSON.
        UsageError: if it is not of the form.
    """
    path = folder / DOCUMENT
    if not path.is_file():
        raise RunFailed(f"{folder} is not a submission: it has no {DOCUMENT}")
    return judge(Submission, read_json(path), DOCUMENT)
