"""Making boards, submissions and entries of tiny lifetimes that were really run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from l2bench.bundle.copies import pack
from l2bench.bundle.files import write_json
from l2bench.bundle.hashing import file_hash
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.check.board import Board
from l2bench.check.models import RegisteredSuite, Submission
from l2bench.check.results import Rescored
from l2bench.leaderboard import changes
from l2bench.leaderboard.downloads import board_document
from l2bench.leaderboard.entries import Entry
from l2bench.leaderboard.reading import read_entries
from l2bench.leaderboard.site import suite_boards, write_site
from l2bench.scoring import summarise_bundles
from l2bench.suite import Suite, judge

METRIC = "libero.AUC"
README = "# Agent\n\nMade for a test.\n"


def document(
    suite: RegisteredSuite, agent: str, submitter: str, day: str, /, **about: Any
) -> Submission:
    """A submission's document without runs; ``about`` replaces its keys, ``day`` is YYYYMMDD."""
    plain = {
        "name": "A tester", "submitter": submitter, "date": f"{day[:4]}-{day[4:6]}-{day[6:]}",
        "suite_id": suite.id, "suite_version": suite.version, "suite_hash": suite.suite_hash,
        "division": "closed", "agent": {"name": agent, "version": "1"},
        "tuning": {"protocol": "none"}, "runs": [],
    }  # fmt: skip
    return judge(Submission, {**plain, **about}, "submission")


def registered(suite: Suite, metric: str = METRIC) -> RegisteredSuite:
    """A suite as a board has it."""
    return RegisteredSuite(
        id=suite.id, version=suite.version, suite_hash=suite.hash, file="suites/x.json",
        seeds=suite.seeds, headline=metric,
    )  # fmt: skip


@cache
def _read(folder: Path) -> tuple[tuple[Rescored, ...], dict[str, Any]]:
    bundles = tuple(_rescored(path) for path in find_bundles(folder))
    return bundles, summarise_bundles(bundles)


def _rescored(path: Path) -> Rescored:
    bundle = read_bundle(path)
    return Rescored(
        path, bundle.manifest, bundle.suite, bundle.agent, bundle.provenance, fresh=bundle.scores
    )


@dataclass(frozen=True)
class Made:
    """Folders of lifetimes by agent, and ways to make submissions and boards of them."""

    folder: Path
    suite: Suite
    runs: dict[str, Path]
    registry: Any

    def board(self, folder: Path, suite: Suite | None = None) -> Board:
        """A new board on which the suite is registered."""
        board = changes.create(folder, "Boards of a test", accept_editable=True)
        return changes.register(board, suite or self.suite, METRIC, self.registry)

    def submission(self, folder: Path, agent: str, /, readme: str = README, **about: Any) -> Path:
        """A submission of an agent's lifetimes; ``about`` replaces keys of submission.json."""
        (folder / "runs").mkdir(parents=True)
        runs = []
        for path in find_bundles(self.runs[agent]):
            bundle = read_bundle(path)
            target = folder / "runs" / f"{path.name}.zip"
            pack(bundle, target)
            runs.append(
                {
                    "path": f"runs/{target.name}",
                    "seed": bundle.manifest.seed.lifetime,
                    "manifest_sha256": file_hash(path / "manifest.json"),
                }
            )
        suite = registered(read_bundle(path).suite)
        more = {"data_disclosure": "none", "runs": runs, **about}
        judged = document(suite, agent, "tester", "20260504", **more)
        write_json(folder / "submission.json", judged.model_dump(mode="json"))
        (folder / "README.md").write_text(readme)
        return folder

    def entry(self, agent: str, name: str = "", *, submitter: str = "tester", **more: Any) -> Entry:
        """An entry as it is after reading, without packing and checking; ``more`` are its fields.

        ``about`` among them replaces keys of its submission.
        """
        suite = more.pop("suite", registered(self.suite))
        bundles, summary = _read(self.runs[agent])
        name = name or f"20260504_{submitter}_{agent}"
        about = more.pop("about", {})
        fields = {
            "submission": document(suite, agent, submitter, name[:8], **about),
            "bundles": bundles,
            "summary": summary,
        }
        return Entry(f"{suite.id}/{suite.version}/{name}", suite, **{**fields, **more})

    def accepted(self, board: Board, agent: str, folder: Path, /, **about: Any) -> str:
        """Submit an agent's lifetimes to a board and return the entry's key."""
        fresh = Board.load(board.folder)
        return changes.accept(fresh, self.submission(folder, agent, **about), isolated=False)[0]

    def site(self, board: Board, out: Path, workspace: Path, **options: Any) -> dict[str, Any]:
        """Build the site of a board as the command does, and return leaderboard.json."""
        read = Board.load(board.folder)
        boards = suite_boards(read, read_entries(read, workspace, isolated=False))
        write_site(read, boards, out, **options)
        return board_document(read.files.title, read.files.rules_version, boards)
