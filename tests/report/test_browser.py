"""Reports in a real browser: quiet, accessible, sortable, readable on a phone and on paper."""

from __future__ import annotations

import pytest
from browser import DESKTOP, PAPER, PHONE, browser, opened
from report.pages import KINDS, write

pytestmark = pytest.mark.timeout(300)  # a browser starts slowly on a busy machine


@pytest.fixture(scope="module")
def chrome():
    with browser() as started:
        yield started


@pytest.fixture(scope="module", params=KINDS)
def path(request, make, tmp_path_factory):
    """The page of each kind of report, on disk."""
    return write(request.param, make, tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def usual(make, tmp_path_factory):
    return write("ten tasks", make, tmp_path_factory.mktemp("usual"))


def test_no_errors_and_no_violations_of_accessibility(chrome, path):
    with opened(chrome, path) as seen:
        if path.stat().st_size < 1_000_000:  # what is folded away is alike for many tasks
            seen.open_all()
        assert seen.violations() == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", ["three lifetimes", "nothing measured"])
def test_texts_stand_out(chrome, make, tmp_path, kind, dark):
    with opened(chrome, write(kind, make, tmp_path), dark=dark) as seen:
        seen.open_all()
        assert seen.faint_texts() == []


def test_a_phone_scrolls_down_only(chrome, path):
    with opened(chrome, path, width=PHONE) as seen:
        seen.open_all()
        assert seen.wider_than_the_window() == 0


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_heads_of_the_cost_tables_break_between_words_only(chrome, usual, width):
    with opened(chrome, usual, width=width) as seen:
        seen.open_all()
        lines = seen.page.evaluate(
            """() => [...document.querySelectorAll("#cost thead th button")].flatMap(head =>
              [...head.firstChild.data.matchAll(/\\S+/g)].map(word => {
                const range = document.createRange();
                range.setStart(head.firstChild, word.index);
                range.setEnd(head.firstChild, word.index + word[0].length);
                return [word[0], range.getClientRects().length];
              }))"""
        )
    assert "experiences" in [word for word, _ in lines]
    assert [word for word, count in lines if count > 1] == []


def test_it_prints(chrome, usual, tmp_path):
    with opened(chrome, usual) as seen:
        assert 3 <= seen.printed_pages(tmp_path / "report.pdf") <= 20


def test_paper_holds_the_whole_width(chrome, path):
    with opened(chrome, path, width=PAPER) as seen:
        seen.page.emulate_media(media="print")
        assert seen.wider_than_the_window() == 0


def test_a_page_reads_without_scripts(chrome, usual):
    with opened(chrome, usual, scripts=False) as seen:
        assert seen.page.locator("th button").count() == 0
        assert seen.page.locator("#tasks tbody tr").count() == 10


def test_buttons_sort_a_table_and_say_so(chrome, usual):
    with opened(chrome, usual) as seen:
        given = seen.column("#tasks table", 4)
        heads = seen.page.locator("#tasks thead th")
        names = [text.strip() for text in heads.all_inner_texts()]
        column = names.index("After")
        given = seen.column("#tasks table", column)
        ascending = sorted(given, key=float)
        assert ascending != given
        button, head = heads.nth(column).locator("button"), heads.nth(column)
        states = []
        for _ in range(3):
            button.click()
            states.append((head.get_attribute("aria-sort"), seen.column("#tasks table", column)))
        assert states == [
            ("ascending", ascending),
            ("descending", ascending[::-1]),
            (None, given),
        ]
        heads.nth(0).locator("button").press("Enter")
        assert [head.get_attribute("aria-sort") for head in heads.all()].count("ascending") == 1


def test_what_was_not_measured_sorts_last_and_durations_by_length(chrome, tmp_path):
    from l2bench.report.frame import environment, page

    rows = "".join(
        f'<tr><th scope="row">{text}</th><td data-sort="{value}">{text}</td></tr>'
        for text, value in (("1 h", 3600), ("\u2013", ""), ("\u22125", -5), ("59 s", 59))
    )
    text = (
        '{% extends "base.html" %}{% block title %}t{% endblock %}{% block body %}'
        '<table class="sortable"><caption>c</caption><thead><tr><th scope="col">a</th>'
        f'<th scope="col">b</th></tr></thead><tbody>{rows}</tbody></table>'
        "{% endblock %}{% block made %}{% endblock %}"
    )
    (tmp_path / "t.html").write_text(page(environment().from_string(text)), encoding="utf-8")
    with opened(chrome, tmp_path / "t.html") as seen:
        button = seen.page.locator("thead button").nth(1)
        button.click()
        assert seen.column("table", 1) == ["\u22125", "59 s", "1 h", "\u2013"]
        button.click()
        assert seen.column("table", 1) == ["1 h", "59 s", "\u22125", "\u2013"]


def test_everything_is_reached_by_keyboard(chrome, usual):
    with opened(chrome, usual) as seen:
        reached = seen.reached_by_tab()
        assert reached[0] == "a Skip to the results"
        assert "div Heat map" in reached
        assert "div Lifetime curve" in reached
        assert sum(name.startswith("summary") for name in reached) >= 5
        assert "button After" in [name.split("\n")[0] for name in reached]


def test_dark_and_light_differ_and_paper_is_white(chrome, usual):
    colours = []
    for dark in (False, True):
        with opened(chrome, usual, dark=dark) as seen:
            seen.page.emulate_media(media="screen")
            colours.append(seen.page.evaluate(_BACKGROUND))
            seen.page.emulate_media(media="print")
            assert seen.page.evaluate(_BACKGROUND) == "rgb(255, 255, 255)"
    assert len(set(colours)) == 2


_BACKGROUND = "getComputedStyle(document.body).backgroundColor"


def test_a_script_that_was_slipped_in_does_not_run(chrome, usual, tmp_path):
    evil = usual.read_text(encoding="utf-8").replace(
        "</body>", "<script>document.title = 'broken'</script></body>"
    )
    (tmp_path / "evil.html").write_text(evil, encoding="utf-8")
    evil_page = tmp_path / "evil.html"
    with (
        pytest.raises(AssertionError, match="Content Security Policy"),
        opened(chrome, evil_page) as seen,
    ):
        assert seen.page.title() != "broken"


def test_faults_of_accessibility_would_be_found(chrome, make, tmp_path):
    page = write("one task", make, tmp_path)
    faulty = page.read_text(encoding="utf-8").replace('<html lang="en">', "<html>")
    page.write_text(faulty, encoding="utf-8")
    with opened(chrome, page) as seen:
        assert [text.split(":")[0] for text in seen.violations()] == ["html-has-lang"]
        seen.page.evaluate("document.querySelector('.lead').style.color = '#ddd'")
        assert [text.split(":")[0] for text in seen.faint_texts()] == ["color-contrast"]
