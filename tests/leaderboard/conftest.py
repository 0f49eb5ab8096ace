"""A board with real submissions: tiny lifetimes that were run, packed, checked and accepted."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest
from leaderboard.boards import Made
from support import probe_suite, run_suite

from l2bench.check.board import Board
from l2bench.leaderboard import changes

AGENTS = ("perfect", "forgetter", "random", "late_bloomer")


@pytest.fixture(scope="session")
def made(registry, tmp_path_factory) -> Made:
    folder = tmp_path_factory.mktemp("lives")
    suite = probe_suite(3, seeds=[0, 1, 2, 3, 4])
    for agent in AGENTS:
        run_suite(registry, suite, f"l2bench/{agent}", folder / agent)
    return Made(folder, suite, {agent: folder / agent for agent in AGENTS}, registry)


@pytest.fixture(scope="session")
def full(made, tmp_path_factory) -> Path:
    """A board with an entry of every state; tests copy it before they change it."""
    folder = tmp_path_factory.mktemp("full")
    board = made.board(folder / "board")
    keys = {
        agent: made.accepted(
            board, agent, folder / agent, submitter=f"team-{agent}".replace("_", "-")
        )
        for agent in AGENTS
    }
    again = {"submitter": "team-forgetter", "date": "2026-06-01", "supersedes": keys["forgetter"]}
    made.accepted(board, "forgetter", folder / "again", **again)
    changes.withdraw(Board.load(board.folder), keys["late_bloomer"], "a fault in the agent",
                     date(2026, 6, 1))  # fmt: skip
    return folder / "board"


@pytest.fixture
def board(full, tmp_path) -> Board:
    shutil.copytree(full, tmp_path / "board")
    return Board.load(tmp_path / "board")


@pytest.fixture(scope="session")
def site(made, full, tmp_path_factory) -> Path:
    """The site of the full board; not to be changed."""
    folder = tmp_path_factory.mktemp("site")
    made.site(Board.load(full), folder / "site", folder / "work")
    return folder / "site"


def pytest_collection_modifyitems(items):
    """The first test that asks for the board pays for its runs and their checks."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(900))
