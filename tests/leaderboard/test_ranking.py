"""Ranks as ranges: what cannot be told apart shares its places, whoever else is on the board."""

from __future__ import annotations

from dataclasses import replace

import pytest

from l2bench.check.results import Rescored
from l2bench.leaderboard.ranking import SuiteBoard, rank

METRIC = "libero.AUC"


def with_values(entry, name, values):
    """The entry under another name whose lifetimes have these values of the ranking metric."""
    bundles = []
    for bundle, value in zip(entry.bundles, values, strict=True):
        metrics = [
            {**m, "value": value} if m["id"] == METRIC else m for m in bundle.scores["metrics"]
        ]
        bundles.append(
            Rescored(
                bundle.folder, bundle.manifest, bundle.suite, bundle.agent, bundle.provenance,
                fresh={**bundle.scores, "metrics": metrics},
            )
        )  # fmt: skip
    metrics = [
        {**m, "mean": sum(values) / len(values), "points": list(values)} if m["id"] == METRIC else m
        for m in entry.summary["metrics"]
    ]
    key = f"{entry.key.rpartition('/')[0]}/{name}"
    summary = {**entry.summary, "metrics": metrics}
    return replace(entry, key=key, bundles=tuple(bundles), summary=summary)


@pytest.fixture
def entry(made):
    return made.entry("perfect")


def places(ranking):
    return {row.entry.name: row.places for row in ranking.standings}


GOOD = (0.90, 0.92, 0.91, 0.93, 0.92)
NEAR = (0.93, 0.89, 0.92, 0.91, 0.94)
BAD = (0.20, 0.23, 0.21, 0.22, 0.24)


def test_entries_that_cannot_be_told_apart_share_their_places(entry):
    three = [with_values(entry, n, v) for n, v in (("bad", BAD), ("near", NEAR), ("good", GOOD))]
    ranking = rank(three, METRIC)
    assert places(ranking) == {"near": "1\N{EN DASH}2", "good": "1\N{EN DASH}2", "bad": "3"}
    assert [row.entry.name for row in ranking.standings] == ["near", "good", "bad"]


def test_a_place_does_not_move_because_others_join(entry):
    alone = rank([with_values(entry, "good", GOOD), with_values(entry, "near", NEAR)], METRIC)
    more = [with_values(entry, f"more{n}", BAD) for n in range(4)]
    joined = rank([row.entry for row in alone.standings] + more, METRIC)
    assert joined.pair("good", "near") == alone.pair("good", "near")
    assert places(joined)["good"] == places(alone)["good"]


def test_a_pair_reads_the_same_from_both_sides(entry):
    ranking = rank([with_values(entry, "good", GOOD), with_values(entry, "bad", BAD)], METRIC)
    one, other = ranking.pair("good", "bad"), ranking.pair("bad", "good")
    assert one["difference"] == pytest.approx(-other["difference"])
    assert (one["low"], one["high"]) == (-other["high"], -other["low"])
    assert one["probability_first_is_larger"] == 1 - other["probability_first_is_larger"]
    assert one["verdict"] == other["verdict"] == "apart"


def test_sta_09_under_three_lifetimes_nothing_is_told_apart(entry):
    few = [
        replace(found, bundles=found.bundles[:2])
        for found in (with_values(entry, "good", GOOD), with_values(entry, "bad", BAD))
    ]
    ranking = rank(few, METRIC)
    assert places(ranking) == {"good": "1\N{EN DASH}2", "bad": "1\N{EN DASH}2"}
    assert ranking.pair("good", "bad")["verdict"] == "insufficient"


def test_one_that_ran_on_another_simulator_does_not_end_the_ranking(entry):
    other = with_values(entry, "other", NEAR)
    changed = []
    for bundle in other.bundles:
        segments = [
            s.model_copy(
                update={"environments": {name: {"simulator": "9"} for name in s.environments}}
            )
            for s in bundle.provenance.segments
        ]
        provenance = bundle.provenance.model_copy(update={"segments": tuple(segments)})
        changed.append(replace(bundle, provenance=provenance))
    entries = [
        with_values(entry, "good", GOOD),
        with_values(entry, "bad", BAD),
        replace(other, bundles=tuple(changed)),
    ]
    ranking = rank(entries, METRIC)
    assert ranking.pair("good", "bad")["verdict"] == "apart"
    assert ranking.pair("good", "other")["verdict"] == "not comparable"
    assert "simulator" in ranking.pair("good", "other")["note"]
    assert places(ranking)["other"] == "1\N{EN DASH}3"


def test_divisions_are_ranked_apart_and_sub_11_so_are_versions(made, entry):
    open_one = made.entry("random", about={"division": "open"})
    board = SuiteBoard.of(entry.suite, made.suite, [entry, open_one])
    assert [list(places(r)) for r in board.rankings.values()] == [[entry.name], [open_one.name]]
    assert list(board.rankings) == ["closed", "open"]
    assert next(iter(board.metrics)) == METRIC
