"""The pages of a board: sound HTML, self-contained, linked, small, and the same each time."""

from __future__ import annotations

import base64
import filecmp
import hashlib
import itertools
import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import html5lib
import pytest

from l2bench.check.board import Board
from l2bench.check.findings import broken
from l2bench.check.models import BoardFiles
from l2bench.errors import UsageError
from l2bench.leaderboard import site as site_module
from l2bench.leaderboard.entries import settle
from l2bench.leaderboard.entry_page import entry_page
from l2bench.leaderboard.pages import excluded_page, index_page, suite_page
from l2bench.leaderboard.ranking import SuiteBoard
from l2bench.leaderboard.site import refuse_existing, suite_boards

SPACE = "{http://www.w3.org/1999/xhtml}"
ADDRESSES = (
    "href",
    "src",
    "srcset",
    "action",
    "data",
    "poster",
    "{http://www.w3.org/1999/xlink}href",
)


def parsed(path: Path):
    return html5lib.HTMLParser(strict=True).parse(path.read_bytes())


def pages(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.html"))
    assert found
    return found


def text_of(node) -> str:
    return " ".join("".join(node.itertext()).split())


def table_rows(root, id: str) -> list[list[str]]:
    (section,) = (n for n in root.iter(f"{SPACE}section") if n.get("id") == id)
    return [
        [text_of(cell) for cell in row]
        for body in section.iter(f"{SPACE}tbody")
        for row in body.iter(f"{SPACE}tr")
    ]


def test_every_page_is_sound_html(site):
    for path in pages(site):
        parsed(path)


def test_every_link_leads_to_a_file_of_the_site_and_every_anchor_to_an_id(site):
    ids = {path: {n.get("id") for n in parsed(path).iter() if n.get("id")} for path in pages(site)}
    seen = 0
    for path in pages(site):
        for node in parsed(path).iter(f"{SPACE}a"):
            address = urlsplit(node.get("href"))
            if address.scheme:
                assert address.scheme in ("http", "https")
                assert node.get("rel") == "nofollow noopener noreferrer ugc"
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            assert target.is_file(), f"{path} links to {address.path}"
            assert target.is_relative_to(site.resolve())
            if address.fragment:
                assert address.fragment in ids[target], f"{path} links to {address.geturl()}"
            seen += 1
    assert seen > 50


def test_nothing_is_loaded_from_anywhere(site):
    for path in pages(site):
        for node in parsed(path).iter():
            if node.tag == f"{SPACE}a" or not isinstance(node.tag, str):
                continue
            found = {name: node.get(name) for name in ADDRESSES if node.get(name)}
            assert all(value.startswith("#") for value in found.values()), f"{path}: {found}"
            assert not [name for name in node.attrib if str(name).lower().startswith("on")]
        assert "@import" not in path.read_text()


def test_the_policy_admits_the_style_and_the_script_of_the_page_alone(site):
    for path in pages(site):
        root = parsed(path)
        (policy,) = (n.get("content") for n in root.iter(f"{SPACE}meta") if n.get("http-equiv"))
        admitted = re.findall(r"'sha256-([^']+)'", policy)
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        inline = [*root.iter(f"{SPACE}style"), *root.iter(f"{SPACE}script")]
        digests = [hashlib.sha256((n.text or "").encode()).digest() for n in inline]
        assert sorted(base64.b64encode(d).decode() for d in digests) == sorted(admitted)
        assert sum(len(n.text or "") for n in root.iter(f"{SPACE}script")) <= 5_000


def test_headings_captions_scopes_and_ids(site):
    for path in pages(site):
        root = parsed(path)
        levels = [int(n.tag[-1]) for n in root.iter() if re.fullmatch(f"{SPACE}h[1-6]", str(n.tag))]
        assert levels.count(1) == 1 and levels[0] == 1, path
        assert all(b <= a + 1 for a, b in itertools.pairwise(levels)), path
        ids = [n.get("id") for n in root.iter() if n.get("id")]
        assert len(set(ids)) == len(ids), path
        for table in root.iter(f"{SPACE}table"):
            assert len(list(table.iter(f"{SPACE}caption"))) == 1
            assert all(head.get("scope") for head in table.iter(f"{SPACE}th"))
        for node in root.iter():
            for id in (node.get("aria-labelledby") or "").split():
                assert id in ids, f"{path}: {id}"
            if node.get("class") in ("scroll", "readme"):
                assert (node.get("tabindex"), node.get("role")) == ("0", "region"), path


def test_the_same_board_gives_the_same_bytes(made, full, site, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    made.site(Board.load(full), tmp_path / "elsewhere" / "again", tmp_path / "work")
    again = tmp_path / "elsewhere" / "again"
    names = sorted(p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file())
    assert names == sorted(p.relative_to(again).as_posix() for p in again.rglob("*") if p.is_file())
    _, different, odd = filecmp.cmpfiles(site, again, names, shallow=False)
    assert (different, odd) == ([], [])


def test_sub_09_accepted_is_shown_plus_excluded(site):
    whole = json.loads((site / "leaderboard.json").read_text())
    assert (whole["accepted"], whole["shown"], whole["excluded"]) == (5, 5, 0)
    assert whole["accepted"] == sum(len(suite["entries"]) for suite in whole["suites"])
    index = text_of(parsed(site / "index.html"))
    assert "5 accepted submissions: 5 shown, 0 excluded" in index


def test_the_ranking_shows_places_values_and_tiers(site):
    root = parsed(site / "probe/1.0/index.html")
    rows = table_rows(root, "ranking")
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert [row[1].split()[0] for row in rows] == ["perfect", "forgetter", "random"]
    assert all("consistent" in row[1] for row in rows)
    assert [row[2][:4] for row in rows] == ["1.00", "0.41", "0.31"]
    assert "0.23 to 0.39" in rows[2][2]  # the interval, beside the mean
    assert "all the same" in rows[0][2]  # no interval of width 0


def test_forgetting_stands_beside_and_ranks_nothing(site):
    root = parsed(site / "probe/1.0/index.html")
    assert "liberoNBT \N{DOWNWARDS ARROW}" in [text_of(n) for n in root.iter(f"{SPACE}th")]
    assert "Ranked by area under the curve" in text_of(root)


def test_what_is_not_ranked_is_visible_with_its_reason(site):
    rows = {row[0]: row[1:] for row in table_rows(parsed(site / "probe/1.0/index.html"), "others")}
    assert rows["20260504_team-forgetter_forgetter"][0] == "superseded"
    assert rows["20260504_team-forgetter_forgetter"][1] == "0.41"
    withdrawn = rows["20260504_team-late-bloomer_late_bloomer"]
    assert withdrawn[0] == "withdrawn"
    assert withdrawn[2] == "withdrawn on 2026-06-01: a fault in the agent"
    assert not (site / "probe/1.0/20260504_team-late-bloomer_late_bloomer").exists()
    assert (site / "probe/1.0/20260504_team-forgetter_forgetter/index.html").is_file()


def test_sub_15_an_entry_shows_what_was_stated_beside_what_is_recomputed(made):
    claim = {"id": "libero.AUC", "value": 0.5, "n_lifetimes": 5}
    entry = made.entry("forgetter", about={"metrics": [claim]})
    board = SuiteBoard.of(entry.suite, made.suite, [entry])
    page = entry_page(BoardFiles(title="x", suites=()), board, entry, [])
    rows = table_rows(html5lib.parse(page), "stated")
    assert rows == [["libero.AUC", "0.50", "0.41", "\N{MINUS SIGN}0.09"]]


def test_f6_the_runs_can_be_downloaded_and_are_what_was_accepted(site, full):
    runs = sorted(site.rglob("*.l2b.zip"))
    assert len(runs) == 4 * 5
    for path in runs:
        place = path.relative_to(site)
        assert filecmp.cmp(path, full / "submissions" / place, shallow=False)


def test_excluded_entries_are_listed_with_reasons_and_have_no_page(made, board, tmp_path):
    document = next(board.submissions.glob("probe/1.0/*perfect*/submission.json"))
    data = json.loads(document.read_text())
    document.write_text(json.dumps({**data, "runs": data["runs"][:4]}))
    whole = made.site(board, tmp_path / "site", tmp_path / "work", bundles=False)
    assert (whole["accepted"], whole["shown"], whole["excluded"]) == (5, 4, 1)
    rows = table_rows(parsed(tmp_path / "site/excluded.html"), "excluded")
    assert rows[0][0] == "20260504_team-perfect_perfect"
    assert "N01" in rows[0][2]
    assert not (tmp_path / "site/probe/1.0/20260504_team-perfect_perfect").exists()
    assert not list((tmp_path / "site").rglob("*.zip"))


def test_sub_11_an_older_version_is_shown_apart_with_a_hint(made):
    entry = made.entry("perfect")
    old = SuiteBoard.of(entry.suite, made.suite, [entry], newer="1.1")
    new = SuiteBoard.of(
        entry.suite.model_copy(update={"version": "1.1"}),
        made.suite.model_copy(update={"version": "1.1"}),
        [],
    )
    files = BoardFiles(title="x", suites=())
    rows = table_rows(html5lib.parse(index_page(files, [old, new])), "suites")
    assert [row[1] for row in rows] == ["1.1", "1.0"]
    assert "version 1.1 has taken over" in rows[1][0]
    assert "run the agent on probe 1.1 again" in " ".join(suite_page(files, old).split())


def test_a_later_version_takes_over(made, tmp_path):
    board = made.board(tmp_path / "board")
    later = made.suite.model_copy(update={"version": "1.1"})
    from l2bench.leaderboard.changes import register

    boards = suite_boards(register(board, later, "libero.AUC", made.registry), [])
    assert [(b.suite.version, b.newer) for b in boards] == [("1.0", "1.1"), ("1.1", None)]


def test_an_empty_board_is_a_site_too(made, tmp_path):
    made.site(made.board(tmp_path / "board"), tmp_path / "site", tmp_path / "work")
    assert "No entry is ranked yet" in (tmp_path / "site/probe/1.0/index.html").read_text()
    assert "None." in (tmp_path / "site/excluded.html").read_text()


def test_a_page_of_thirty_entries_is_small(made):
    entries = [
        made.entry(
            agent, f"202605{day + 1:02d}_tester_{agent}", findings=(broken("C05", "x", "y"),)
        )
        for agent in ("perfect", "random", "forgetter")
        for day in range(10)
    ]
    files = BoardFiles(title="x", suites=())
    board = SuiteBoard.of(entries[0].suite, made.suite, settle(entries, files))
    page = suite_page(files, board)
    assert len(page.encode()) < 300_000
    root = html5lib.HTMLParser(strict=True).parse(page)
    assert len(table_rows(root, "ranking")) == 30
    assert len(table_rows(root, "pairs")) == 12
    assert "all pairs are in leaderboard.json" in page
    assert excluded_page(files, [board])


def test_a_site_replaces_nothing_but_an_earlier_site(site, tmp_path):
    refuse_existing(tmp_path / "new", force=False)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="exists already; replace it with --force"):
        refuse_existing(tmp_path / "mine", force=False)
    with pytest.raises(UsageError, match="no earlier site"):
        refuse_existing(tmp_path / "mine", force=True)
    refuse_existing(site, force=True)


def test_a_folder_of_an_unregistered_suite_is_not_dropped_silently(made, board, tmp_path):
    (board.submissions / "probe").rename(board.submissions / "prove")
    with pytest.raises(UsageError, match="suite that the board has not registered"):
        made.site(board, tmp_path / "site", tmp_path / "work")
    assert not (tmp_path / "site").exists()


def test_a_page_that_cannot_be_made_loses_no_other(made, board, tmp_path, monkeypatch, caplog):
    real = site_module.entry_page

    def faulty(files, suite, entry, downloads):
        if "perfect" in entry.name:
            raise ValueError("<b>no such value</b>")
        return real(files, suite, entry, downloads)

    monkeypatch.setattr(site_module, "entry_page", faulty)
    out = tmp_path / "site"
    made.site(board, out, tmp_path / "work")
    (broken_page,) = [path for path in pages(out) if "cannot be made" in path.read_text()]
    assert "perfect" in broken_page.parent.name
    assert "ValueError: <b>no such value</b>" in text_of(parsed(broken_page))
    (warning,) = [r.message for r in caplog.records if "cannot be made" in r.message]
    assert f"{broken_page.parent.name}/index.html" in warning
    assert len(list(out.rglob("index.html"))) > 3
