"""The pages of a board: index, suites and what is excluded; each a function of the entries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader

from l2bench.check.models import BoardFiles
from l2bench.leaderboard.entries import Entry
from l2bench.leaderboard.ranking import Ranking, Standing, SuiteBoard
from l2bench.report import frame
from l2bench.report.charts import strip
from l2bench.report.origin import short_hash
from l2bench.report.sections import direction, interval
from l2bench.report.text import (
    NOTHING,
    count,
    listing,
    number,
    plural,
    sentence_list,
    shorten,
    signed,
)

#: Pairs are laid out, and have pages, for so many of the first entries of a ranking.
MOST_IN_GRID = 12

_ADDRESS = re.compile(r"https?://[^\x00-\x20\x7f-\U0010ffff\"'<>\\^`{|}]{1,1990}")

_VERDICTS = {
    "apart": "told apart",
    "not told apart": "not told apart",
    "insufficient": "too few lifetimes",
    "identical": "identical",
    "not comparable": "not comparable",
    "undefined": "no value",
}


def page(name: str, **context: Any) -> str:
    """Return a page made of one of the board's templates."""
    return frame.page(_templates().get_template(name), more_style=_style(), **context)


@cache
def _templates() -> Environment:
    shared = frame.environment()
    assert shared.loader is not None
    own = PackageLoader("l2bench.leaderboard", "templates")
    templates = shared.overlay(loader=ChoiceLoader([own, shared.loader]))
    templates.filters["http"] = is_web_address
    return templates


@cache
def _style() -> str:
    return _templates().get_template("board.css").render()


def is_web_address(text: str) -> bool:
    """Return whether a text is an address that may become a link: http or https, ASCII alone."""
    return _ADDRESS.fullmatch(text) is not None


def index_page(board: BoardFiles, boards: Sequence[SuiteBoard]) -> str:
    """Return the page of all suites; versions that are no longer the newest come last."""
    rows = [_suite_row(suite) for suite in sorted(boards, key=lambda b: b.newer is not None)]
    accepted, excluded = sum(b.accepted for b in boards), sum(len(b.excluded) for b in boards)
    shown = sum(b.shown for b in boards)
    return page(
        "index.html", board=board, rows=rows, excluded=excluded,
        summary=f"{plural(len(boards), 'suite')} and {plural(accepted, 'accepted submission')}: "
        f"{count(shown)} shown, {count(excluded)} excluded.",
    )  # fmt: skip


def excluded_page(board: BoardFiles, boards: Sequence[SuiteBoard]) -> str:
    """Return the page of what was accepted and does not pass the checks of today."""
    rows = [
        {
            "name": entry.name,
            "suite": suite.suite.id,
            "version": suite.suite.version,
            "reasons": [*entry.reasons[:5], *_more(len(entry.reasons) - 5)],
        }
        for suite in boards
        for entry in suite.excluded
    ]
    accepted, shown = sum(b.accepted for b in boards), sum(b.shown for b in boards)
    text = (
        f"Of {plural(accepted, 'accepted submission')}, {count(shown)} "
        f"{'is' if shown == 1 else 'are'} shown and {count(len(rows))} excluded."
    )
    return page("excluded.html", board=board, rows=rows, summary=text)


def suite_page(board: BoardFiles, suite: SuiteBoard) -> str:
    """Return the page of one version of a suite."""
    headline = suite.metrics.get(suite.suite.headline, _unknown(suite.suite.headline))
    rankings = [_ranking(suite, name, found) for name, found in suite.rankings.items()]
    grids = [_grid(name, found) for name, found in suite.rankings.items()]
    return page(
        "suite.html",
        board=board,
        suite=suite.resolved,
        newer=suite.newer,
        summary=_sentences(suite, headline),
        facts=_facts(suite),
        metric=headline,
        heads=[_head(metric) for metric in suite.metrics.values()],
        rankings=rankings,
        grids=[grid for grid in grids if grid["rows"]],
        others=[_other(suite, entry) for entry in _aside(suite)],
        excluded=len(suite.excluded),
    )


def _more(cut: int) -> list[str]:
    return [f"and {cut} more"] if cut > 0 else []


def _unknown(id: str) -> dict[str, Any]:
    return {"id": id, "name": id, "higher_is_better": True}


def _head(metric: Mapping[str, Any]) -> dict[str, str]:
    """Return a column's metric: id, its two parts, name and direction."""
    family, _, short = metric["id"].rpartition(".")
    symbol, words = direction(metric)
    return {
        "id": metric["id"],
        "family": family,
        "short": short,
        "name": metric["name"],
        "symbol": symbol,
        "direction": words,
    }


def _suite_row(suite: SuiteBoard) -> dict[str, Any]:
    first = [
        shorten(agent_name(row.entry), 60)
        for ranking in list(suite.rankings.values())[:1]
        for row in ranking.standings
        if row.best == 1
    ]
    return {
        "title": suite.resolved.title,
        "id": suite.suite.id,
        "version": suite.suite.version,
        "href": f"{suite.suite.id}/{suite.suite.version}/index.html",
        "first": listing(first, 3) if first else NOTHING,
        "metric": suite.suite.headline,
        "tasks": len(suite.resolved.tasks),
        "seeds": len(suite.suite.seeds),
        "accepted": suite.accepted,
        "shown": suite.shown,
        "excluded": len(suite.excluded),
        "newer": suite.newer,
        "closed": suite.suite.status == "closed",
    }


def agent_name(entry: Entry) -> str:
    """Return the agent's name as its authors give it."""
    return entry.submission.agent.name if entry.submission else entry.name


def _facts(suite: SuiteBoard) -> list[tuple[str, str]]:
    registered = suite.suite
    return [
        ("Suite", f"{registered.id} {shorten(registered.version, 40)}"),
        ("Suite hash", short_hash(registered.suite_hash)),
        ("Tasks", count(len(suite.resolved.tasks))),
        ("Seeds", listing(registered.seeds)),
        ("Ranked by", registered.headline),
        ("Submissions", "open" if registered.status == "open" else "no longer taken"),
        (
            "Accepted",
            f"{suite.accepted} = {suite.shown} shown + {len(suite.excluded)} excluded",
        ),
    ]


def _sentences(suite: SuiteBoard, metric: Mapping[str, Any]) -> str:
    """Return the ranking in two sentences with numbers."""
    if not suite.rankings:
        return f"No entry is ranked yet. Entries will be ranked by {shorten(metric['name'], 80)}."
    division, ranking = next(iter(suite.rankings.items()))
    rows = ranking.standings
    entries = "1 entry is" if len(rows) == 1 else f"{count(len(rows))} entries are"
    by = shorten(metric["name"], 80)
    first = f"{entries} ranked by {by} in the {division} division."
    leading = [row.entry for row in rows if row.best == 1]
    values = [
        f"{shorten(agent_name(entry), 80)} ({number(entry_mean(entry, ranking.metric))})"
        for entry in leading
    ]
    if len(rows) == 1:
        return f"{first} It is {values[0]}."
    if len(values) == 1:
        others = "the other one" if len(rows) == 2 else "every other one"
        return f"{first} {values[0]} is told apart from {others}."
    more = [] if len(values) <= 4 else [f"{len(values) - 4} more"]
    return f"{first} {sentence_list([*values[:4], *more])} may each be first."


def entry_mean(entry: Entry, metric: str) -> float | None:
    """Return the mean of a metric over an entry's lifetimes."""
    found = entry.metric(metric)
    return None if found is None else float(found["mean"])


def _ranking(suite: SuiteBoard, division: str, ranking: Ranking) -> dict[str, Any]:
    rows = [_row(suite, at, row) for at, row in enumerate(ranking.standings)]
    return {"division": division, "rows": rows}


def _row(suite: SuiteBoard, at: int, row: Standing) -> dict[str, Any]:
    entry = row.entry
    document, headline = entry.submission, entry.metric(suite.suite.headline)
    assert document is not None
    assert headline is not None
    return {
        "number": at,
        "sort": f"{row.best + row.worst / 10_000:.4f}",
        "places": row.places,
        "href": f"{entry.name}/index.html",
        "agent": document.agent.name,
        "version": document.agent.version,
        "submitter": document.submitter,
        "date": document.date.isoformat(),
        "cells": [_cell(entry, id) for id in suite.metrics],
        "strip": strip(headline),
        "tier": entry.tier,
        "remarks": plural(len(entry.warnings), "remark") if entry.warnings else "",
    }


def _cell(entry: Entry, id: str) -> dict[str, Any]:
    metric = entry.metric(id)
    if metric is None:
        return {"mean": None, "spread": "", "sort": ""}
    return {
        "mean": number(metric["mean"]),
        "spread": interval(metric) if metric["low"] is not None else _points(metric),
        "sort": f"{metric['mean']:.6f}",
    }


def _points(metric: Mapping[str, Any]) -> str:
    """Return why there is no interval, in two or three words."""
    points = metric["points"]
    if len(set(points)) == 1 and len(points) > 1:
        return "all the same"
    return f"n = {len(points)}, no interval"


def _grid(division: str, ranking: Ranking) -> dict[str, Any]:
    rows = ranking.standings[:MOST_IN_GRID] if len(ranking.standings) > 1 else ()
    names = labels([row.entry for row in rows])
    cut = len(ranking.standings) - len(rows)
    caption = "Told apart: the 95 % interval of the difference leaves out 0."
    if cut > 0 and rows:
        caption += f" The first {MOST_IN_GRID} entries; all pairs are in leaderboard.json."
    cells = [
        {
            "name": names[i],
            "cells": [
                None if i == j else _pair(ranking, rows[i].entry, rows[j].entry)
                for j in range(len(rows))
            ],
        }
        for i in range(len(rows))
    ]
    return {"division": division, "caption": caption, "heads": names, "rows": cells}


def labels(entries: Sequence[Entry]) -> list[str]:
    """Return a short name for each entry, all of them different."""
    names = [shorten(agent_name(entry), 40) for entry in entries]
    return [
        f"{name} ({shorten(entry.name, 60)})" if names.count(name) > 1 else name
        for name, entry in zip(names, entries, strict=True)
    ]


def pair_path(one: Entry, other: Entry) -> str:
    """Return where the comparison of two entries lies, relative to their suite's page."""
    first, second = sorted([one.name, other.name])
    return f"compare/{first}/{second}.html"


def _pair(ranking: Ranking, one: Entry, other: Entry) -> dict[str, Any]:
    pair = ranking.pair(one.name, other.name)
    verdict, difference = _VERDICTS[pair["verdict"]], pair.get("difference")
    text = NOTHING if difference is None else signed(difference)
    return {
        "href": pair_path(one, other),
        "label": f"{shorten(agent_name(one), 60)} minus {shorten(agent_name(other), 60)}: "
        f"{text}, {verdict}",
        "text": text,
        "apart": pair["verdict"] == "apart",
        "verdict": verdict,
    }


def _aside(suite: SuiteBoard) -> list[Entry]:
    return suite.of_state("unranked", "superseded", "withdrawn")


def _other(suite: SuiteBoard, entry: Entry) -> dict[str, Any]:
    reason = "; ".join(entry.reasons)
    if entry.withdrawal is not None:
        reason = f"withdrawn on {entry.withdrawal.on.isoformat()}: {entry.withdrawal.reason}"
    mean = entry_mean(entry, suite.suite.headline)
    return {
        "name": entry.name,
        "href": None if entry.state == "withdrawn" else f"{entry.name}/index.html",
        "state": entry.tier if entry.tier == "reported" else entry.state,
        "mean": None if mean is None else number(mean),
        "reason": reason,
    }
