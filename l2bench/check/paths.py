"""Checking whatever lies at a path: a bundle, an archive, a folder of runs, or a submission."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from l2bench.bundle.files import read_json
from l2bench.bundle.reader import SUFFIX
from l2bench.check import fingerprints, together
from l2bench.check.board import Board
from l2bench.check.bundle import ARCHIVE, check_bundle
from l2bench.check.findings import Finding, broken
from l2bench.check.models import DOCUMENT
from l2bench.check.results import Checked, Facts, distinct
from l2bench.check.scores import unequal
from l2bench.check.submission import check_submission, unwrapped
from l2bench.errors import L2benchError, RunFailed, UsageError
from l2bench.scoring import summarise_bundles

SUMMARY = "summary.json"


def check_path(
    path: Path, board: Board | None = None, *, plugins: bool = False, isolated: bool = True
) -> Checked:
    """Check what lies at a path.

    Raises:
        UsageError: if the path does not exist.
        RunFailed: if there is nothing to check.
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist")
    options: dict[str, Any] = {"plugins": plugins, "isolated": isolated}
    if path.is_file() or (path / "manifest.json").exists():
        return check_bundle(path, board, **options)
    if (unwrapped(path) / DOCUMENT).exists():
        return check_submission(path, board, **options)
    return check_runs(path, board, **options)


def check_runs(
    folder: Path, board: Board | None = None, *, plugins: bool = False, isolated: bool = True
) -> Checked:
    """Check every bundle in a folder, what they are together, and the folder's summary.

    Raises:
        RunFailed: if there are none.
    """
    found = sorted(
        path
        for path in folder.iterdir()
        if path.name.endswith((SUFFIX, SUFFIX + ARCHIVE)) and not path.name.startswith(".")
    )
    if not found:
        raise RunFailed(
            f"0 bundles found at {folder}; expected a folder NAME{SUFFIX}, an archive "
            f"NAME{SUFFIX}{ARCHIVE}, a folder of them, or a submission with its submission.json"
        )
    findings: list[Finding] = []
    runs: dict[str, Facts] = {}
    for path in found:
        checked = check_bundle(path, board, plugins=plugins, isolated=isolated)
        findings += [each.below(path.name) for each in checked.findings]
        runs |= checked.runs
    findings += [*together.twice(runs), *fingerprints.within(runs)]
    if (folder / SUMMARY).is_file() and len(runs) == len(found):
        findings += _summary(folder, runs)
    return Checked(folder, "runs", distinct(findings), runs=runs)


def _summary(folder: Path, runs: dict[str, Facts]) -> Iterator[Finding]:
    """X02: summary.json is what the bundles give."""
    bundles = [facts.bundle(Path(name.removesuffix(ARCHIVE))) for name, facts in runs.items()]
    try:
        stored = read_json(folder / SUMMARY)
        fresh = summarise_bundles(bundles)
    except L2benchError as error:
        yield broken("X02", SUMMARY, f"cannot be compared with the bundles: {error}")
        return
    for where, expected, found in list(unequal(fresh, stored))[:5]:
        yield broken(
            "X02", SUMMARY, f"{where} is not what the bundles give", expected=expected, found=found
        )
