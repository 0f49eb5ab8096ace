"""The page that sets two entries side by side."""

from __future__ import annotations

from l2bench.check.models import BoardFiles
from l2bench.comparison import gathered
from l2bench.leaderboard.entries import Entry
from l2bench.leaderboard.pages import labels, page
from l2bench.leaderboard.ranking import SuiteBoard
from l2bench.outcomes import weighed
from l2bench.report import versus


def comparison_page(board: BoardFiles, suite: SuiteBoard, one: Entry, other: Entry) -> str:
    """Return the comparison of two entries of a suite; it lies two folders below the suite's."""
    names = labels([one, other])
    sides = [gathered(name, entry.bundles) for name, entry in zip(names, (one, other), strict=True)]
    trail = [
        (board.title, "../../../../index.html"),
        (f"{suite.suite.id} {suite.suite.version}", "../../index.html"),
        (" and ".join(names), ""),
    ]
    entries = [
        (name, f"../../{entry.name}/index.html")
        for name, entry in zip(names, (one, other), strict=True)
    ]
    return page("pair.html", trail=trail, entries=entries, **versus.context(weighed(sides)))
