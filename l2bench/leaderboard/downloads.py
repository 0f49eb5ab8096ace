"""What can be downloaded beside the pages: the same numbers as JSON and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import l2bench
from l2bench.interop.tabular import csv_cell
from l2bench.leaderboard.entries import Entry
from l2bench.leaderboard.ranking import Standing, SuiteBoard
from l2bench.report.text import visible

FORMAT_VERSION = "1.0"

_HEADS = (
    "suite", "suite_version", "division", "best_place", "worst_place", "entry", "name", "agent",
    "agent_version", "submitter", "date", "tier", "state", "lifetimes", "reasons",
)  # fmt: skip
_PARTS = ("mean", "low", "high")


def board_document(title: str, rules: str, boards: Sequence[SuiteBoard]) -> dict[str, Any]:
    """Return the whole board as plain data; accepted = shown + excluded, for every suite."""
    return {
        "format": "l2bench.leaderboard",
        "format_version": FORMAT_VERSION,
        "l2bench": l2bench.__version__,
        "title": title,
        "rules_version": rules,
        "accepted": sum(board.accepted for board in boards),
        "shown": sum(board.shown for board in boards),
        "excluded": sum(len(board.excluded) for board in boards),
        "suites": [suite_document(board) for board in boards],
    }


def suite_document(board: SuiteBoard) -> dict[str, Any]:
    """Return one suite's part of the board as plain data."""
    return {
        "id": board.suite.id,
        "version": board.suite.version,
        "suite_hash": board.suite.suite_hash,
        "seeds": list(board.suite.seeds),
        "ranked_by": board.suite.headline,
        "newer_version": board.newer,
        "accepted": board.accepted,
        "shown": board.shown,
        "excluded": len(board.excluded),
        "rankings": [
            {
                "division": division,
                "standings": [
                    {"best_place": row.best, "worst_place": row.worst, "entry": row.entry.name}
                    for row in ranking.standings
                ],
                "pairs": [dict(pair) for pair in ranking.pairs.values()],
            }
            for division, ranking in board.rankings.items()
        ],
        "entries": [entry_document(entry) for entry in board.entries],
    }


def entry_document(entry: Entry) -> dict[str, Any]:
    """Return one entry as plain data: what was submitted, what was found, and the estimates."""
    document = entry.submission
    return {
        "entry": entry.name,
        "suite": entry.suite.id,
        "suite_version": entry.suite.version,
        "state": entry.state,
        "tier": entry.tier,
        "reasons": list(entry.reasons),
        "superseded_by": entry.successor,
        "withdrawal": entry.withdrawal and entry.withdrawal.model_dump(mode="json"),
        "submission": None
        if document is None or entry.state == "withdrawn"
        else document.model_dump(mode="json"),
        "findings": [found.data() for found in entry.findings],
        "waived": [
            {"finding": each.finding.data(), "waiver": each.waiver.model_dump(mode="json")}
            for each in entry.waived
        ],
        "metrics": [
            {key: metric[key] for key in ("id", "unit", "higher_is_better", "n_lifetimes")}
            | {key: metric[key] for key in ("mean", "low", "high", "points", "note")}
            | {"undefined_reasons": metric["undefined_reasons"]}
            for metric in (entry.summary["metrics"] if entry.summary else ())
            if metric["scope"] == "lifetime"
        ],
    }


def table(boards: Sequence[SuiteBoard]) -> str:
    """Return one CSV line per entry; the metrics are the headline ones of the suites."""
    ids = list(dict.fromkeys(id for board in boards for id in board.metrics))
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow([*_HEADS, *(f"{id}.{part}" for id in ids for part in _PARTS)])
    for board in boards:
        places = {
            row.entry.key: row for ranking in board.rankings.values() for row in ranking.standings
        }
        for entry in board.entries:
            known = _facts(entry, places.get(entry.key))
            numbers = [(entry.metric(id) or {}).get(part) for id in ids for part in _PARTS]
            writer.writerow(_cells([*(known[head] for head in _HEADS), *numbers]))
    return sink.getvalue()


def _facts(entry: Entry, place: Standing | None) -> Mapping[str, Any]:
    document = None if entry.state == "withdrawn" else entry.submission
    return {
        "suite": entry.suite.id,
        "suite_version": entry.suite.version,
        "division": document and document.division,
        "best_place": place and place.best,
        "worst_place": place and place.worst,
        "entry": entry.name,
        "name": document and document.name,
        "agent": document and document.agent.name,
        "agent_version": document and document.agent.version,
        "submitter": document and document.submitter,
        "date": document and document.date.isoformat(),
        "tier": entry.tier if entry.bundles else None,
        "state": entry.state,
        "lifetimes": len(entry.bundles) or None,
        "reasons": "; ".join(entry.reasons),
    }


def _cells(values: Iterable[Any]) -> list[str]:
    return [csv_cell(visible(value) if isinstance(value, str) else value) for value in values]
