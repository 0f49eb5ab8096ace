"""What a contribution to a board changes: one new submission, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from l2bench.check.board import Board
from l2bench.check.findings import Finding, broken
from l2bench.errors import UsageError

_PLACE = re.compile(r"^(?:.*/)?submissions/([^/]+/[^/]+/[^/]+)/.+$")


def check_changes(lines: Iterable[str], board: Board) -> list[Finding]:
    """Check the output of ``git diff --name-status`` against the board as it was before.

    Each line is a letter (A, M, D, R100, ...) and one or two paths, set apart by tabs.

    Raises:
        UsageError: if a line is of another form.
    """
    return list(_changes(lines, {key for key, _ in board.folders()}))


def _changes(lines: Iterable[str], accepted: set[str]) -> Iterator[Finding]:
    touched: dict[str, str] = {}
    for line in lines:
        if not line.strip():
            continue
        letter, *paths = line.rstrip("\r\n").split("\t")
        if not paths or not re.fullmatch(r"[ACDMRTUXB]\d*", letter):
            raise UsageError(f"'{line[:80]}' is no line of 'git diff --name-status'")
        for path in paths:
            place = _PLACE.match(path)
            if place is None or ".." in path.split("/"):
                yield broken("L05", path, "this file belongs to no submission", found=letter)
            elif place.group(1) in accepted:
                yield broken("L06", path, f"{place.group(1)} is accepted already", found=letter)
            else:
                touched.setdefault(place.group(1), path)
    for key in sorted(touched)[1:]:
        yield broken(
            "L05",
            touched[key],
            "more than one submission in one contribution",
            expected=sorted(touched)[0],
            found=key,
        )
