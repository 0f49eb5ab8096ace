"""What becomes of an entry: ranked, unranked, superseded, withdrawn, excluded; and its tier."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from l2bench.check.findings import broken
from l2bench.check.models import Attestation, BoardFiles, Withdrawal
from l2bench.leaderboard.entries import settle
from l2bench.leaderboard.ranking import SuiteBoard


@pytest.fixture
def files(made):
    return BoardFiles(title="x", suites=(made.entry("perfect").suite,))


def states(entries):
    return {entry.key.rpartition("/")[2]: entry.state for entry in entries}


def test_an_entry_without_errors_is_ranked_as_consistent(made, files):
    (entry,) = settle([made.entry("perfect")], files)
    assert (entry.state, entry.tier, entry.reasons) == ("ranked", "consistent", ())


def test_an_entry_with_errors_is_excluded_with_its_reasons(made, files):
    wrong = made.entry("perfect", findings=(broken("X01", "runs/a", "edited"),))
    (entry,) = settle([wrong], files)
    assert entry.state == "excluded"
    assert entry.reasons == ("X01: edited",)


def test_a_warning_excludes_nobody(made, files):
    warned = made.entry("perfect", findings=(broken("C05", "runs/a", "2 attempts discarded"),))
    (entry,) = settle([warned], files)
    assert entry.state == "ranked"
    assert len(entry.warnings) == 1


def test_what_is_withdrawn_keeps_no_numbers(made, files):
    entry = made.entry("perfect")
    gone = Withdrawal(submission=entry.key, on=date(2026, 7, 1), reason="a fault")
    (found,) = settle([entry], files.model_copy(update={"withdrawals": (gone,)}))
    assert (found.state, found.bundles, found.summary) == ("withdrawn", (), None)
    assert found.withdrawal == gone


def test_attestations_raise_the_tier_to_the_highest(made, files):
    entry = made.entry("perfect")
    given = [
        Attestation(submission=entry.key, tier=tier, on=date(2026, 7, 1), by="keeper", evidence="x")
        for tier in ("reproduced", "replayed")
    ]
    (found,) = settle([entry], files.model_copy(update={"attestations": tuple(given)}))
    assert found.tier == "reproduced"


def test_imported_numbers_are_shown_as_reported_and_not_ranked(made, files):
    entry = made.entry("perfect")
    bundles = tuple(
        replace(b, manifest=b.manifest.model_copy(update={"fidelity": "aggregate"}))
        for b in entry.bundles
    )
    attested = Attestation(
        submission=entry.key, tier="reproduced", on=date(2026, 7, 1), by="keeper", evidence="x"
    )
    board = files.model_copy(update={"attestations": (attested,)})
    (found,) = settle([replace(entry, bundles=bundles)], board)
    assert (found.state, found.tier) == ("unranked", "reported")


def test_sub_14_no_headline_value_is_a_reason_and_no_blank_row(made, files):
    entry = made.entry("perfect")
    metrics = [
        {**m, "mean": None, "undefined_reasons": ["no pretest"]} if m["id"] == "libero.AUC" else m
        for m in entry.summary["metrics"]
    ]
    (found,) = settle([replace(entry, summary={**entry.summary, "metrics": metrics})], files)
    assert found.state == "unranked"
    assert found.reasons == ("libero.AUC has no value: no pretest",)
    renamed = [{**m, "id": m["id"].replace("AUC", "area")} for m in entry.summary["metrics"]]
    (found,) = settle([replace(entry, summary={**entry.summary, "metrics": renamed})], files)
    assert found.reasons == ("libero.AUC has no value: this metric is not among its scores",)


def newer(made, name="20260601_tester_perfect", **about):
    return made.entry("perfect", name, about={"supersedes": "20260504_tester_perfect", **about})


def test_a_newer_entry_of_the_same_submitter_supersedes(made, files):
    found = settle([made.entry("perfect"), newer(made)], files)
    assert states(found) == {
        "20260504_tester_perfect": "superseded",
        "20260601_tester_perfect": "ranked",
    }
    assert found[0].successor == "20260601_tester_perfect"
    assert found[0].bundles  # it stays visible with its numbers


@pytest.mark.parametrize("why", ["another submitter", "excluded", "withdrawn", "older", "missing"])
def test_nobody_else_can_push_an_entry_out(made, files, why):
    entry, other = made.entry("perfect"), newer(made)
    if why == "another submitter":
        other = newer(made, "20260601_rival_perfect", submitter="rival")
    elif why == "excluded":
        other = replace(other, findings=(broken("X01", "", "edited"),))
    elif why == "withdrawn":
        gone = Withdrawal(submission=other.key, on=date(2026, 7, 1), reason="a fault")
        files = files.model_copy(update={"withdrawals": (gone,)})
    elif why == "older":
        other = newer(made, "20260501_tester_perfect")
    else:
        other = newer(made, supersedes="20260101_tester_nothing")
    assert states(settle([entry, other], files))["20260504_tester_perfect"] == "ranked"


def test_two_entries_cannot_push_each_other_out(made, files):
    first = made.entry("perfect", about={"supersedes": "20260601_tester_perfect"})
    found = states(settle([first, newer(made)], files))
    assert sorted(found.values()) == ["ranked", "superseded"]


def test_a_chain_of_versions_leaves_the_last(made, files):
    third = newer(made, "20260701_tester_perfect", supersedes="20260601_tester_perfect")
    found = states(settle([made.entry("perfect"), newer(made), third], files))
    assert list(found.values()) == ["superseded", "superseded", "ranked"]


def test_sub_09_accepted_is_shown_plus_excluded_in_every_mixture(made, files):
    entries = [
        made.entry("perfect"),
        newer(made),
        made.entry("random", findings=(broken("N01", "", "seed 4 is missing"),)),
        made.entry("forgetter", summary=None),
    ]
    board = SuiteBoard.of(files.suites[0], made.suite, settle(entries, files))
    assert board.accepted == 4 == board.shown + len(board.excluded)
    assert {entry.key for entry in board.entries} == {entry.key for entry in entries}
    assert len(board.excluded) == 2
    assert all(entry.reasons for entry in board.excluded)
