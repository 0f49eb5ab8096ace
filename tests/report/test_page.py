"""The report page: well formed, safe, accessible, the same bytes each time, and true."""

import base64
import hashlib
import itertools
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from report.pages import HOSTILE

from l2bench.errors import UsageError
from l2bench.metrics import statistics
from l2bench.report import frame
from l2bench.report.frame import environment
from l2bench.report.page import render

SORT = environment().get_template("sort.js").render()


@pytest.fixture(
    scope="module",
    params=[
        "usual",
        "one",
        "interleaved",
        "shuffled",
        "three",
        "nothing",
        "wide",
        "never learned",
    ],
)
def page(request, make):
    """Return pages of every kind of suite."""
    return page_of_kind(request.param, make)


@pytest.fixture(scope="module")
def root(page, make):
    """Return the same pages as trees."""
    return make.parse(page)


def page_of_kind(kind, make):
    if kind == "usual":
        return make.page(make.suite(3, 5))
    if kind == "one":
        return make.page(make.suite(1, 1))
    if kind == "interleaved":
        suite = make.suite(
            3,
            5,
            kind="interleaved",
            rounds=3,
            keep="last",
            measure="catch_rate",
            score_range=(-1, 1),
        )
        return make.page(suite)
    if kind == "shuffled":
        return make.page(make.suite(4, 5, order="shuffled"))
    if kind == "three":
        suite = make.suite(2, 5, evaluate="all", pretest=True)
        return make.page(
            suite,
            seeds=[0, 2, 4],
            discarded=1,
            division="open",
            deviations=("scenario.episodes", "tasks.x.horizon"),
        )
    if kind == "wide":
        bundles = make.bundles(make.suite(26, 1, keep="last", episodes=1))
        return render(bundles, make.summary(bundles, pairs=False))
    if kind == "never learned":
        return make.page(make.suite(3, 2, order=("close_the_stove",), evaluate="all"))
    return make.empty_page()


def test_tags_balance_and_ids_are_unique(page, root):
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    ids = [node.get("id") for node in root.all() if node.get("id")]
    assert len(set(ids)) == len(ids)
    for node in root.all():
        for id in (node.get("aria-labelledby") or "").split():
            assert id in ids
        if node.get("href"):
            assert node.get("href").removeprefix("#") in ids
    assert not re.search(r"\{[{%#]|[}%#]\}", page)


def test_nothing_is_loaded_and_nothing_runs_but_the_sorting_of_tables(page, root):
    tags = {node.tag for node in root.all()}
    assert [node.text for node in root.all("script")] == [SORT]
    assert not tags & {"link", "img", "iframe", "object", "embed", "form", "base", "use"}
    for node in root.all():
        assert not {"src", "srcset", "style", "xlink:href", "action"} & node.attributes.keys()
        assert not [name for name in node.attributes if name.startswith("on")]
        assert (node.get("href") or "#").startswith("#")
    assert set(re.findall(r"url\([^)]*\)", page)) <= {"url(#hatch)", "url(#gain)", "url(#loss)"}
    assert "@import" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_the_policy_admits_this_style_and_nothing_else(page, root):
    (policy,) = root.all("meta", http_equiv="Content-Security-Policy")
    style, script = (digest(root.all(tag)[0].text) for tag in ("style", "script"))
    assert policy.get("content").split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{style}'",
        f"script-src 'sha256-{script}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def digest(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_script_is_small(root):
    assert len(root.all("script")[0].text.encode()) <= 5 * 1024


def test_headings_are_in_order(page, root):
    levels = [int(node.tag[1]) for node in root.all() if re.fullmatch("h[1-6]", node.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_tables_have_captions_scopes_and_even_rows(page, root):
    tables = root.all("table")
    assert tables
    for table in tables:
        assert len(table.all("caption")) == 1
        assert all(head.get("scope") for head in table.all("th"))
        assert all(
            head.get("scope") == "col" for part in table.all("thead") for head in part.all("th")
        )
        open_rows, widths = [], set()
        for row in table.all("tr"):
            cells = [node for node in row.all() if node.tag in ("td", "th")]
            width = sum(int(cell.get("colspan") or 1) for cell in cells) + len(open_rows)
            widths.add(width)
            open_rows = [left - 1 for left in open_rows if left > 1]
            open_rows += [
                int(c.get("rowspan")) - 1 for c in cells if int(c.get("rowspan") or 1) > 1
            ]
        assert len(widths) == 1
        assert open_rows == []


def test_every_chart_is_named_and_has_a_table(page, root):
    for svg in root.all("svg"):
        if svg.get("aria-hidden") == "true":
            continue
        assert svg.get("role") == "img"
        names = [node for node in svg.children if getattr(node, "tag", "") in ("title", "desc")]
        assert [node.get("id") for node in names] == svg.get("aria-labelledby").split()
        assert all(node.text.strip() for node in names)
        assert svg.inside("section").all("table")


def test_scroll_areas_can_be_reached_by_keyboard(page, root):
    areas = root.all("div", class_="scroll")
    assert areas
    for area in areas:
        assert area.get("tabindex") == "0"
        assert area.get("role") == "region"
        assert area.get("aria-label") or area.get("aria-labelledby")


def test_the_first_link_skips_to_the_results(page, root):
    first = root.all("a")[0]
    assert (first.get("class"), first.get("href")) == ("skip", "#results")


def test_no_machine_value_reaches_a_reader(page, root):
    text = root.all("body")[0].text
    assert not re.search(r"\b(None|nan|NaN|inf|Undefined|True|False)\b", text)
    assert "/home/" not in page


def test_hostile_texts_are_shown_and_do_nothing(make):
    for hostile in HOSTILE:
        sendable = hostile.encode("utf-8", "ignore").decode()  # a suite holds nothing else
        suite = make.suite(2, 2, measure=sendable).model_copy(
            update={"title": hostile, "description": hostile, "version": hostile}
        )
        bundles = make.bundles(
            suite,
            suite_hash="sha256:" + "f" * 64,
            agent=hostile,
            warnings=[hostile],
            division="open",
            deviations=(hostile,),
            settings={hostile: hostile, "inner": {hostile: [hostile]}},
        )
        summary = make.summary(bundles)
        texts = {"id": hostile, "name": hostile, "unit": hostile, "undefined_reasons": [hostile]}
        metrics = [{**metric, **texts} for metric in summary["metrics"]]
        metrics += [{**metrics[0], "scope": "pair", "task": hostile, "source": hostile}]
        page = render(bundles, {**summary, "metrics": metrics})
        root = make.parse(page)
        page.encode()
        tags = {node.tag for node in root.all()}
        assert tags >= {"html", "table", "svg"}
        assert [node.text for node in root.all("script")] == [SORT]
        assert "img" not in tags
        for node in root.all():
            assert not [name for name in node.attributes if name.startswith("on")]
            assert (node.get("href") or "#").startswith("#")
        assert "49" not in root.all("h1")[0].text
        assert not set(page) & set("\u202e\u2066\u0000\x1b\ud800")
        assert "x" * 500 not in page
        assert len(page.encode()) < 200_000


def test_control_and_bidi_characters_are_spelled_out(make):
    suite = make.suite(1, 1).model_copy(update={"title": "abc\u202egnp.exe\u0007"})
    title = make.parse(make.page(suite)).all("h1")[0].text
    assert title.endswith("on abc[U+202E]gnp.exe[U+0007]")


def test_sentences_on_intervals_take_their_numbers_from_the_code():
    """No template writes a number out, and the words are those of the constants."""
    folder = Path(frame.__file__).parent
    written = re.compile(r"\b(three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b", re.I)
    for path in [*(folder / "templates").iterdir(), *folder.parent.glob("*/templates/*.html")]:
        assert not written.search(path.read_text()), path
    numbers = environment().globals
    assert numbers["for_interval"] == statistics.MINIMUM_FOR_INTERVAL
    assert numbers["for_bootstrap"] == statistics.MINIMUM_FOR_BOOTSTRAP


def test_the_words_on_intervals_are_those_of_the_statistics(make):
    text = make.parse(make.page(make.suite(2, 2))).all("section", id="results")[0].text
    limit = frame.word(statistics.MINIMUM_FOR_BOOTSTRAP)
    assert f"below {limit} lifetimes, by a percentile bootstrap from {limit} on" in text


def test_same_input_same_bytes(make):
    suite = make.suite(3, 5)
    assert make.page(suite) == make.page(suite)


def test_bytes_do_not_depend_on_the_process():
    code = (
        "import importlib.util as u, hashlib;"
        f"spec = u.spec_from_file_location('c', {str(Path(__file__).with_name('conftest.py'))!r});"
        "c = u.module_from_spec(spec); spec.loader.exec_module(c);"
        "from l2bench.report.page import render;"
        "b = c.Make.bundles(c.make_suite(2, 3), warnings=['a', 'b']);"
        "print(hashlib.sha256(render(b, c.make_summary(b)).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "TZ": zone},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }
    assert len(digests) == 1


def test_a_page_of_ten_tasks_and_five_lifetimes_is_small(make):
    page = make.page(make.suite(10, 5))
    assert len(page.encode()) < 300_000


def test_ninety_tasks_are_still_a_page(make):
    suite = make.suite(90, 1, keep="last", evaluate="seen", episodes=1)
    bundles = make.bundles(suite)
    root = make.parse(render(bundles, make.summary(bundles, pairs=False)))
    assert len(root.all("section", id="courses")[0].all("figure")) == 90


@pytest.mark.parametrize("kind", ["suite", "agent", "seed", "none"])
def test_lifetimes_that_do_not_belong_together_are_refused(make, kind):
    bundles = make.bundles(make.suite(2, 2))
    summary = make.summary(bundles)
    if kind == "suite":
        bundles[1] = make.bundle(make.suite(3, 2), 1)
    elif kind == "agent":
        other = bundles[1].manifest.agent.model_copy(update={"agent_hash": "sha256:" + "e" * 64})
        manifest = bundles[1].manifest.model_copy(update={"agent": other})
        bundles[1] = replace(bundles[1], manifest=manifest)
    elif kind == "seed":
        bundles[1] = bundles[0]
    else:
        bundles = []
    with pytest.raises(UsageError, match={"none": "at least one"}.get(kind, kind)):
        render(bundles, summary)
