"""Whatever a submission says is text: on pages, in links, in CSV and on the terminal."""

from __future__ import annotations

import csv
import io
import json
import unicodedata

import html5lib
import pytest

from l2bench.check.findings import broken
from l2bench.check.models import BoardFiles, Waiver, Withdrawal
from l2bench.check.results import Waived
from l2bench.leaderboard import downloads
from l2bench.leaderboard.comparison_page import comparison_page
from l2bench.leaderboard.entries import settle
from l2bench.leaderboard.entry_page import entry_page
from l2bench.leaderboard.pages import excluded_page, index_page, is_web_address, suite_page
from l2bench.leaderboard.ranking import SuiteBoard

SPACE = "{http://www.w3.org/1999/xhtml}"
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "</style></title></pre></textarea><b>",
    "{{ 7 * 7 }}{% raw %}{# x",
    "safe\u202egnp.exe\u2066\u200b",
    '=HYPERLINK("http://evil.example","x")',
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "x" * 200,
)


def hostile_board(made, text):
    """A board where every text that a stranger can choose is this one."""
    about = {
        "name": text, "data_disclosure": text, "compute": text, "note": text,
        "agent": {"name": text, "version": text, "code_url": text, "commit": text,
                  "paper_url": text, "licence": text},
        "metrics": [{"id": text, "value": 1.0, "n_lifetimes": 5}],
        "tuning": {"protocol": "fraction", "fraction": 0.5, "configurations": 3, "seeds": [9]},
    }  # fmt: skip
    warning, error = broken("C05", text, text, found=text), broken("X01", text, text)
    waiver = Waiver(code="P03", submission="x", reason=text, by=text)
    waived = (Waived(broken("P03", text, text), waiver),)
    entries = [
        made.entry("perfect", about=about, readme=text * 3, findings=(warning,), waived=waived),
        made.entry("random", about=about, readme=text),
        made.entry("forgetter", about=about, findings=(error,)),
        made.entry("late_bloomer", about=about),
    ]
    from datetime import date

    suite = entries[0].suite
    gone = Withdrawal(submission=entries[3].key, on=date(2026, 7, 1), reason=text)
    files = BoardFiles(title=text, suites=(suite,), withdrawals=(gone,))
    shown = made.suite.model_copy(update={"title": text, "description": text})
    return files, SuiteBoard.of(suite, shown, settle(entries, files), newer=text)


def all_pages(files, board):
    one, other = (row.entry for row in board.rankings["closed"].standings)
    return {
        "index": index_page(files, [board]),
        "excluded": excluded_page(files, [board]),
        "suite": suite_page(files, board),
        "entry": entry_page(files, board, one, [("entry.json", "entry.json")]),
        "pair": comparison_page(files, board, one, other),
    }


@pytest.fixture(scope="module")
def bold(made):
    """How often each page emphasises something of its own."""
    pages = all_pages(*hostile_board(made, "plain"))
    return {name: len(list(html5lib.parse(page).iter(f"{SPACE}b"))) for name, page in pages.items()}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_are_shown_and_do_nothing(made, bold, text):
    for name, page in all_pages(*hostile_board(made, text)).items():
        root = html5lib.HTMLParser(strict=True).parse(page)
        assert not list(root.iter(f"{SPACE}img")), name
        assert len(list(root.iter(f"{SPACE}b"))) == bold[name]
        assert len(list(root.iter(f"{SPACE}script"))) == 1
        for node in root.iter():
            assert not [key for key in node.attrib if str(key).lower().startswith("on")], name
            address = (node.get("href") or "#").strip().lower()
            assert not address.startswith(("javascript:", "data:", "vbscript:")), name
        body = "".join(next(iter(root.iter(f"{SPACE}body"))).itertext())
        assert "49" not in "".join("".join(n.itertext()) for n in root.iter(f"{SPACE}h1"))
        hidden = {c for c in body if unicodedata.category(c) in ("Cf", "Cc")} - set("\n\t\u00ad")
        assert not hidden, f"{name}: {hidden}"
        assert len(page.encode()) < 300_000


def test_a_name_of_ten_thousand_characters_does_not_carry_a_page_away(made):
    board = hostile_board(made, "x" * 200)[1]
    document = board.entries[0].submission.model_copy(update={"name": "x" * 10_000})
    files = BoardFiles(title="y" * 200, suites=())
    from dataclasses import replace

    entry = replace(board.entries[0], submission=document, readme="z" * 100_000)
    page = entry_page(files, board, entry, [])
    assert "x" * 500 not in page
    assert page.count("z") < 30_000
    assert "[cut here]" in page


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_csv_cells_are_never_formulas(made, text):
    _, board = hostile_board(made, text)
    rows = list(csv.reader(io.StringIO(downloads.table([board]))))
    assert len(rows) == 1 + len(board.entries)
    assert {len(row) for row in rows} == {len(rows[0])}
    for row in rows:
        for cell in row:
            try:
                float(cell)  # numbers of ours may be negative
            except ValueError:
                assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")), cell
        assert not any(unicodedata.category(c) in ("Cf", "Cc") for cell in row for c in cell)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_log_03_json_is_strict_and_keeps_the_text(made, text):
    files, board = hostile_board(made, text)
    document = downloads.board_document(files.title, "1", [board])
    read = json.loads(json.dumps(document, allow_nan=False))
    assert read["title"] == text
    assert read["accepted"] == read["shown"] + read["excluded"] == 4


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("https://example.org/code?x=1#top", True),
        ("http://example.org", True),
        ("javascript:alert(1)", False),
        ("JAVASCRIPT:alert(1)", False),
        (" https://example.org", False),
        ("https://example.org/\u202egnp", False),
        ('https://example.org/"onclick=x', False),
        ("https://example.org/a b", False),
        ("https://example.org\n", False),
        ("data:text/html,x", False),
        ("//example.org", False),
        ("ftp://example.org", False),
        ("https://" + "x" * 3000, False),
    ],
)
def test_only_web_addresses_become_links(made, text, good):
    assert is_web_address(text) is good


def test_links_that_strangers_chose_say_so(made):
    entry = made.entry(
        "perfect", about={"agent": {"name": "x", "version": "1", "code_url": "https://a.example/"}}
    )
    board = SuiteBoard.of(entry.suite, made.suite, [entry])
    root = html5lib.parse(entry_page(BoardFiles(title="x", suites=()), board, entry, []))
    links = [n for n in root.iter(f"{SPACE}a") if n.get("href").startswith("http")]
    assert [(n.get("href"), n.get("rel")) for n in links] == [
        ("https://a.example/", "nofollow noopener noreferrer ugc")
    ]
