"""The pages of a board in a real browser: quiet, accessible, sortable, readable on a phone."""

from __future__ import annotations

import pytest
from browser import PHONE, browser, opened
from leaderboard.test_hostile import HOSTILE, all_pages, hostile_board

PAGES = {
    "index": "index.html",
    "excluded": "excluded.html",
    "suite": "probe/1.0/index.html",
    "entry": "probe/1.0/20260504_team-random_random/index.html",
    "pair": "probe/1.0/compare/20260504_team-perfect_perfect/20260504_team-random_random.html",
}


@pytest.fixture(scope="module")
def chrome():
    with browser() as started:
        yield started


@pytest.fixture(scope="module", params=PAGES.values(), ids=PAGES)
def path(request, site):
    return site / request.param


def test_no_errors_and_no_violations_of_accessibility(chrome, path):
    with opened(chrome, path) as seen:
        seen.open_all()
        assert seen.violations() == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_stand_out(chrome, path, dark):
    with opened(chrome, path, dark=dark) as seen:
        seen.open_all()
        assert seen.faint_texts() == []


def test_a_phone_scrolls_down_only(chrome, path):
    with opened(chrome, path, width=PHONE) as seen:
        seen.open_all()
        assert seen.wider_than_the_window() == 0


@pytest.mark.parametrize("text", [HOSTILE[1], "x" * 200], ids=["tag", "long"])
def test_hostile_names_break_no_page(made, chrome, tmp_path, text):
    for name, page in all_pages(*hostile_board(made, text)).items():
        (tmp_path / f"{name}.html").write_text(page, encoding="utf-8")
        with opened(chrome, tmp_path / f"{name}.html", width=PHONE) as seen:
            assert seen.wider_than_the_window() == 0, name


def test_a_page_reads_without_scripts(chrome, site):
    with opened(chrome, site / PAGES["suite"], scripts=False) as seen:
        assert seen.page.locator("th button").count() == 0
        assert seen.column("#ranking table", 0) == ["1", "2", "3"]


def test_the_ranking_sorts_by_click_and_by_keyboard(chrome, site):
    with opened(chrome, site / PAGES["suite"]) as seen:
        heads = seen.page.locator("#ranking thead th")
        names = [text.strip() for text in heads.all_inner_texts()]
        column = next(at for at, text in enumerate(names) if text.startswith("libero\nNBT"))
        first = seen.column("#ranking table", column)
        button = heads.nth(column).locator("button")
        button.click()
        ascending = seen.column("#ranking table", column)
        assert heads.nth(column).get_attribute("aria-sort") == "ascending"
        assert [float(text.split("\n")[0]) for text in ascending] == [0.0, 0.08, 0.67]
        button.press("Enter")
        assert seen.column("#ranking table", column) == ascending[::-1]
        button.press("Space")
        assert seen.column("#ranking table", column) == first


def test_everything_is_reached_by_keyboard(chrome, site):
    with opened(chrome, site / PAGES["suite"]) as seen:
        reached = seen.reached_by_tab()
        assert reached[0] == "a Skip to the ranking"
        assert "a perfect" in reached
        assert any(name.startswith("button Place") for name in reached)
        assert any("perfect minus random: +0.69, told apart" in name for name in reached)
        assert any(name.startswith("a leaderboard.csv") for name in reached)


def test_it_prints(chrome, site, tmp_path):
    with opened(chrome, site / PAGES["suite"]) as seen:
        assert 1 <= seen.printed_pages(tmp_path / "suite.pdf") <= 4
