"""The project's own board: every accepted entry still passes every check, and is shown."""

from __future__ import annotations

import pytest
from support import ROOT

from l2bench.check.board import Board
from l2bench.leaderboard.reading import read_entries

BOARD = ROOT / "leaderboards"


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    return read_entries(Board.load(BOARD), tmp_path_factory.mktemp("board"), isolated=False)


def test_each_suite_has_entries_of_several_agents_with_floor_and_learners(entries):
    names: dict[str, set[str]] = {}
    for entry in entries:
        suite, _, folder = entry.key.split("/")
        names.setdefault(suite, set()).add(folder.rsplit("_", 1)[-1])
    assert {"random", "tabular", "tabular-slow"} <= names["quickstart"]
    assert {"bc-sequential", "bc-replay", "scripted", "random"} <= names["libero_object_cpu"]


def test_every_entry_passes_and_is_labelled_for_what_it_is(entries):
    for entry in entries:
        assert not [finding for finding in entry.findings if finding.severity == "error"], entry.key
        assert entry.bundles
        assert entry.tier == "consistent"
        assert entry.submission.submitter == "l2bench"
        assert "by the project itself" in entry.submission.note
