"""The corpus: two lifetimes and a submission of them, made once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from check.corpus import Edit, board_document, tiny_suite, write_board
from support import run_suite

from l2bench.bundle.reader import find_bundles
from l2bench.check.board import Board
from l2bench.check.build import build_submission

ABOUT = {
    "name": "A tabular learner",
    "submitter": "lab",
    "date": "2026-01-31",
    "agent": {"code_url": "https://example.org/code"},
}


@pytest.fixture(scope="session")
def sound(registry, tmp_path_factory) -> Path:
    """A folder of two lifetimes without faults."""
    folder = tmp_path_factory.mktemp("sound") / "runs"
    run_suite(registry, tiny_suite(), "tabular", folder, traces=0.2)
    return folder


@pytest.fixture(scope="session")
def sound_submission(sound, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("submission") / "submission"
    built = build_submission([sound], folder, ABOUT, isolated=False)
    assert built.checked.findings == ()
    return folder


@pytest.fixture
def runs(sound, tmp_path) -> Path:
    """A copy of the two lifetimes to spoil."""
    return Path(shutil.copytree(sound, tmp_path / "runs"))


@pytest.fixture
def bundle(runs) -> Path:
    return find_bundles(runs)[0]


@pytest.fixture
def edit(bundle) -> Edit:
    return Edit(bundle)


@pytest.fixture
def submission(sound_submission, tmp_path) -> Path:
    return Path(shutil.copytree(sound_submission, tmp_path / "submission"))


@pytest.fixture
def board(sound, tmp_path) -> Callable[..., Board]:
    """Make a board that takes the corpus, with changes to its document."""

    def make(**changes: Any) -> Board:
        manifest = Edit(find_bundles(sound)[0]).manifest
        document = board_document(tiny_suite(), manifest, **changes)
        return Board.load(write_board(tmp_path / "board", tiny_suite(), document))

    return make
