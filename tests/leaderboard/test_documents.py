"""What can be downloaded says the same as the pages, and the docs say what the commands do."""

from __future__ import annotations

import csv
import io
import json

from leaderboard.boards import document, registered
from report.conftest import Make, make_suite, make_summary
from support import ROOT

from l2bench.check.findings import broken
from l2bench.check.models import BoardFiles, Waiver
from l2bench.check.results import Waived
from l2bench.leaderboard import downloads
from l2bench.leaderboard.entries import TIERS, Entry
from l2bench.leaderboard.entry_page import disclosure, entry_page, readme
from l2bench.leaderboard.ranking import SuiteBoard

FILES = BoardFiles(title="x", suites=())


def test_json_and_csv_hold_the_ranking_in_its_order(site):
    suite = json.loads((site / "probe/1.0/leaderboard.json").read_text())
    (ranking,) = suite["rankings"]
    order = [row["entry"] for row in ranking["standings"]]
    rows = list(csv.DictReader(io.StringIO((site / "probe/1.0/leaderboard.csv").read_text())))
    assert [row["entry"] for row in rows if row["best_place"]] == order
    assert len(rows) == suite["accepted"] == len(suite["entries"])
    assert len(ranking["pairs"]) == 3
    values = [float(row["libero.AUC.mean"]) for row in rows if row["best_place"]]
    assert values == sorted(values, reverse=True)
    assert [row["best_place"] for row in rows[:3]] == ["1", "2", "3"]
    withdrawn = next(row for row in rows if row["state"] == "withdrawn")
    assert withdrawn["libero.AUC.mean"] == withdrawn["name"] == ""


def test_an_entry_can_be_read_on_its_own(site):
    path = site / "probe/1.0/20260504_team-random_random/entry.json"
    entry = json.loads(path.read_text())
    assert (entry["state"], entry["tier"]) == ("ranked", "consistent")
    assert entry["submission"]["submitter"] == "team-random"
    metric = next(m for m in entry["metrics"] if m["id"] == "libero.AUC")
    assert len(metric["points"]) == metric["n_lifetimes"] == 5
    assert metric["low"] < metric["mean"] < metric["high"]
    undefined = [m for m in entry["metrics"] if m["mean"] is None]
    assert undefined
    assert all(m["undefined_reasons"] for m in undefined)


def test_waivers_are_shown_with_who_and_why(made):
    waiver = Waiver(code="P03", submission="x", reason="a trial of the house", by="keeper")
    waived = (Waived(broken("P03", "runs/a", "ran in place"), waiver),)
    entry = made.entry("perfect", waived=waived)
    board = SuiteBoard.of(entry.suite, made.suite, [entry])
    page = entry_page(FILES, board, entry, [])
    assert "waived by keeper: a trial of the house" in page
    assert "no rule broken but P03, which the maintainers waived" in page
    assert downloads.entry_document(entry)["waived"][0]["waiver"]["by"] == "keeper"


def test_sub_12_what_was_declared_and_what_looks_odd_is_shown_without_a_verdict(made):
    odd = broken("Q07", "runs/a", "every episode has the best possible score")
    entry = made.entry(
        "perfect", findings=(odd,), about={"data_disclosure": "pretrained on the test tasks"}
    )
    board = SuiteBoard.of(entry.suite, made.suite, [entry])
    page = entry_page(FILES, board, entry, [])
    assert "pretrained on the test tasks" in page
    assert "every episode has the best possible score" in page
    assert board.rankings["closed"].standings[0].entry == entry
    undeclared = made.entry("perfect").submission
    assert ("Data and pretraining", "not declared", False) in disclosure(undeclared)


def test_a_readme_keeps_its_lines_and_is_text():
    assert readme("# A\n\n<b>\u202eB</b>\n") == "# A\n\n&lt;b&gt;[U+202E]B&lt;/b&gt;"
    assert readme(" \n ") is None
    assert readme("a\r\nb\rc") == "a\nb\nc"


def test_tuning_is_spelled_out(made):
    tuning = {"protocol": "fraction", "fraction": 0.1, "configurations": 12, "seeds": [100, 101]}
    entry = made.entry("perfect", about={"tuning": tuning})
    rows = {name: text for name, text, _ in disclosure(entry.submission)}
    assert rows["Tuning"] == (
        "on a part of a lifetime, 0.1 of it; 12 configurations tried; on seeds 100, 101"
    )


def test_an_entry_of_ten_tasks_and_five_lifetimes_is_small():
    suite = make_suite(10, 5)
    bundles = Make.bundles(suite)
    given = registered(suite)
    entry = Entry(
        f"{given.id}/{given.version}/20260504_tester_x", given,
        document(given, "x", "tester", "20260504"), bundles=tuple(bundles),
        summary=make_summary(bundles), readme="words " * 500,
    )  # fmt: skip
    board = SuiteBoard(given, suite, (entry,), {}, {})
    page = entry_page(FILES, board, entry, [("runs/a.l2b.zip", "a")])
    assert len(page.encode()) < 300_000


def test_f12_the_page_on_submitting_names_every_command():
    text = (ROOT / "docs" / "submitting.md").read_text()
    for command in ("submission build", "submission check", "leaderboard register",
                    "leaderboard accept", "leaderboard build", "leaderboard withdraw"):  # fmt: skip
        assert f"l2bench {command}" in text
    for tier in TIERS:
        assert tier in text.lower()
