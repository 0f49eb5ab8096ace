"""The page that sets two or more agents side by side: what differs, then how they fare."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from l2bench.metrics.meanings import MEANINGS
from l2bench.report import frame
from l2bench.report.colours import looks
from l2bench.report.sections import direction, spread
from l2bench.report.sides import (
    Side,
    difference_strip,
    on_range,
    profile_chart,
    share_row,
    shared_range,
    sides,
    span,
)
from l2bench.report.text import (
    changed,
    count,
    listing,
    number,
    plural,
    rate,
    sentence_list,
    shorten,
    signed,
)

Found = Mapping[str, Any]

#: Pairs of agents whose tasks are shown; the JSON document holds all.
MOST_PAIRS = 10


def render(found: Found) -> str:
    """Return the page of what `l2bench.outcomes.weighed` returns."""
    return frame.page("compare.html", **context(found))


def context(found: Found) -> dict[str, Any]:
    """Return what the sections of a comparison need; `render` puts them on a page of their own.

    The sections are the templates ``compare_settings.html``, ``compare_metrics.html``,
    ``compare_profile.html``, ``compare_tasks.html`` and ``compare_origin.html``.
    """
    agents = sides([shorten(label, 80) for label in found["agents"]])
    outcomes = found["outcomes"]
    return {
        "sides": agents,
        "looks": looks(found["suite"]["tasks"]),
        "suite": found["suite"],
        "changed": changed(found["suite"]["deviations"]),
        "comparable": found["comparable"],
        "reasons": [shorten(reason, 600) for reason in found["reasons"]],
        "warnings": _warnings(found),
        "facts": _facts(found),
        "summary": _summary(found),
        "settings": _table(found["settings"]),
        "metrics": [_metric(metric, agents) for metric in found["metrics"]],
        "origin": _table(found["origin"]),
        "outcomes": outcomes,
        "statistics": _statistics(outcomes, agents) if outcomes else [],
        "chart": profile_chart(outcomes["agents"], agents) if outcomes else None,
        "taus": outcomes["agents"][0]["profile"]["taus"] if outcomes else [],
        "shares": [share_row(agent) for agent in outcomes["agents"]] if outcomes else [],
        "chances": [_chance(pair) for pair in outcomes["pairs"]] if outcomes else [],
        "pairs": [_tasks(pair) for pair in outcomes["pairs"][:MOST_PAIRS]] if outcomes else [],
        "pairs_cut": max(0, len(outcomes["pairs"]) - MOST_PAIRS) if outcomes else 0,
    }


def verdict(pair: Found) -> str:
    """Return in words whether two agents are told apart."""
    if pair["verdict"] == "undefined":
        return str(pair["note"])
    if pair["verdict"] == "insufficient":
        return f"too few lifetimes: {str(pair['note']).removeprefix('insufficient: ')}"
    if pair["verdict"] == "identical":
        return "identical in every lifetime"
    if pair["verdict"] == "apart":
        return "told apart"
    more = pair["more_lifetimes"]
    hint = f"; about {plural(more, 'more lifetime')} would, at this spread" if more else ""
    return f"not told apart{hint}"


def interval(found: Found) -> str | None:
    """Return the two ends of a difference's interval; None where it has none."""
    if found.get("low") is None:
        return None
    return f"{signed(found['low'])} to {signed(found['high'])}"


def suite_name(suite: Found) -> str:
    """Return id and version of a suite, and whether it was changed."""
    return f"{suite['id']} {shorten(suite['version'], 40)}{changed(suite['deviations'])}"


def _facts(found: Found) -> list[tuple[str, str]]:
    suite = found["suite"]
    facts = [("Suite", f"{suite['id']} {shorten(suite['version'], 40)}")]
    if suite["deviations"]:
        facts.append(("Deviations", listing(map(shorten, suite["deviations"]), 20)))
    for at, label in enumerate(found["agents"]):
        runs = f"n_runs = {found['n_lifetimes'][at]} (seeds {listing(found['seeds'][at])})"
        counts = f"n_tasks = {found['n_tasks']}, n_episodes = {count(found['n_episodes'][at])}"
        facts.append((shorten(label, 80), f"{runs}, {counts}"))
    return facts


def _warnings(found: Found) -> list[str]:
    texts = [shorten(text, 400) for text in found.get("warnings", ())]
    seeds = found["seeds"]
    if any(sorted(own) != sorted(seeds[0]) for own in seeds):
        texts.append("The agents did not live the same seeds, so they are not paired by seed.")
    return texts


def _summary(found: Found) -> str:
    """Return two sentences: what is set side by side, and how it comes out."""
    names = sentence_list([shorten(label, 80) for label in found["agents"]])
    runs = sorted(set(found["n_lifetimes"]))
    each = f"{runs[0]} to {runs[-1]} lifetimes"
    if len(runs) == 1:
        each = f"{plural(runs[0], 'lifetime')} each"
    first = f"{names} on {suite_name(found['suite'])}, {each}."
    if not found["comparable"]:
        return f"{first} They cannot be compared; the reasons are below."
    known = [_phrase(metric) for metric in found["metrics"] if _phrase(metric)][:2]
    if not known:
        return f"{first} No metric has a value for the first two."
    one, other = (shorten(label, 80) for label in found["agents"][:2])
    return f"{first} {one} minus {other}: {sentence_list(known)}."


def _phrase(metric: Found) -> str:
    """Return how the first two agents differ on a metric; nothing where one has no value."""
    pair = metric["pairs"][0]
    if pair["verdict"] == "undefined":
        return ""
    words = f"{shorten(metric['name'], 80)} differs by {signed(pair['difference'])}"
    ends = interval(pair)
    told = verdict(pair).split(";")[0].split(":")[0]
    return f"{words} (95 % interval {ends}; {told})" if ends else f"{words} ({told})"


def _table(rows: Mapping[str, Sequence[Any]]) -> list[tuple[str, list[str | None]]]:
    return [(shorten(key), [_shown(value) for value in values]) for key, values in rows.items()]


def _shown(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else shorten(value, 400)
    return shorten(json.dumps(value, ensure_ascii=False), 400)


def _metric(metric: Found, agents: Sequence[Side]) -> dict[str, Any]:
    """Return a metric's tables: one row an agent, and one row a pair."""
    ranks, ends = metric["ranks"] or {}, shared_range(metric)
    rows = []
    for side, label, found in zip(agents, _labels(metric), metric["estimates"], strict=True):
        low, high = ranks.get(label, (None, None))
        rows.append(
            {
                "side": side,
                "mean": None if found["mean"] is None else number(found["mean"]),
                "spread": spread(found),
                "note": found["note"],
                "strip": on_range(found, ends),
                "n": len(found["points"]),
                "rank": None if low is None else str(low) + (f" to {high}" if high != low else ""),
            }
        )
    symbol, words = direction(metric)
    return {
        "id": shorten(metric["id"]),
        "name": shorten(metric["name"]),
        "unit": shorten(metric["unit"]),
        "meaning": MEANINGS.get(metric["id"]),
        "symbol": symbol,
        "direction": words,
        "rows": rows,
        "ranked": bool(ranks),
        "pairs": [_difference(pair) for pair in metric["pairs"]],
    }


def _labels(metric: Found) -> list[str]:
    """Return the agents in the order of a metric's estimates, from its pairs."""
    pairs = metric["pairs"]
    first = pairs[0]["agents"][0]
    return [first, *(pair["agents"][1] for pair in pairs if pair["agents"][0] == first)]


def _difference(pair: Found) -> dict[str, Any]:
    """Return a pair's difference in words."""
    known = pair["verdict"] != "undefined"
    return {
        "name": " minus ".join(shorten(label, 80) for label in pair["agents"]),
        "difference": signed(pair["difference"]) if known else None,
        "interval": interval(pair),
        "low": pair.get("low"),
        "paired": ("by seed" if pair["paired"] else "no") if known else None,
        "chance": rate(pair["probability_first_is_larger"]) if known else None,
        "verdict": verdict(pair),
    }


def _statistics(outcomes: Found, agents: Sequence[Side]) -> list[dict[str, Any]]:
    """Return IQM and mean of the final performance, one row an agent and statistic."""
    names = {"iqm": "interquartile mean", "mean": "mean"}
    rows = []
    for side, agent, runs in zip(agents, outcomes["agents"], outcomes["n_runs"], strict=True):
        for found in agent["statistics"]:
            points = {
                "mean": found["value"],
                "points": (),
                "low": found["low"],
                "high": found["high"],
            }
            rows.append(
                {
                    "side": side,
                    "name": names[found["statistic"]],
                    "value": rate(found["value"]),
                    "interval": None
                    if found["low"] is None
                    else f"{rate(found['low'])} to {rate(found['high'])}",
                    "note": found["note"],
                    "strip": on_range(points, (0.0, 1.0)),
                    "n": runs,
                }
            )
    return rows


def _chance(pair: Found) -> dict[str, Any]:
    """Return a pair's probability of improvement."""
    found = pair["improvement"]
    ends = None if found["low"] is None else f"{rate(found['low'])} to {rate(found['high'])}"
    points = {"mean": found["value"], "points": (), "low": found["low"], "high": found["high"]}
    return {
        "name": " over ".join(shorten(label, 80) for label in pair["agents"]),
        "value": rate(found["value"]),
        "interval": ends,
        "note": found["note"],
        "strip": on_range(points, (0.0, 1.0)),
    }


def _tasks(pair: Found) -> dict[str, Any]:
    """Return a pair's table of tasks, all on one range."""
    ends = span(pair["tasks"])
    rows = [
        {
            "task": row["task"],
            "means": [rate(mean) for mean in row["means"]],
            **_difference({**row, "agents": pair["agents"]}),
            "strip": difference_strip(row, ends),
        }
        for row in pair["tasks"]
    ]
    return {"agents": [shorten(label, 80) for label in pair["agents"]], "rows": rows}
