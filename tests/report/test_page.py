"""The report page: well formed, safe, accessible, the same bytes each time, and true."""

import base64
import hashlib
import itertools
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from l2bench.bundle.lifetime import synthetic
from l2bench.errors import UsageError
from l2bench.metrics import views
from l2bench.report.page import render
from l2bench.report.text import NOTHING

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "' onmouseover='alert(1)",
    "</style></title></pre><b>",
    "{{ 7 * 7 }}{% raw %}",
    "abc\u202egnp.\u2066exe\u0000\x1b[31m\ud800",
    "x" * 10_000,
)


def page_of(make, suite, **more):
    bundles = make.bundles(suite, **more)
    return render(bundles, make.summary(bundles))


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
        return page_of(make, make.suite(3, 5))
    if kind == "one":
        return page_of(make, make.suite(1, 1))
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
        return page_of(make, suite)
    if kind == "shuffled":
        return page_of(make, make.suite(4, 5, order="shuffled"))
    if kind == "three":
        suite = make.suite(2, 5, evaluate="all", pretest=True)
        return page_of(
            make,
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
        return page_of(make, make.suite(3, 2, order=("close_the_stove",), evaluate="all"))
    return nothing_measured(make)


def nothing_measured(make):
    suite = make.suite(2, 2)
    bundles = []
    for seed in suite.seeds:
        life = synthetic(suite, seed)
        rows = life.episodes.to_pylist()
        nothing = make.with_scores(life, rows, np.full(len(rows), np.nan))
        bundles.append(make.bundle(suite, seed, life=nothing))
    return render(bundles, make.summary(bundles, defined=False))


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


def test_nothing_is_loaded_and_nothing_runs(page, root):
    tags = {node.tag for node in root.all()}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base", "use"}
    for node in root.all():
        assert not {"src", "srcset", "style", "xlink:href", "action"} & node.attributes.keys()
        assert not [name for name in node.attributes if name.startswith("on")]
        assert (node.get("href") or "#").startswith("#")
    assert set(re.findall(r"url\([^)]*\)", page)) <= {"url(#hatch)"}
    assert "@import" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_the_policy_admits_this_style_and_nothing_else(page, root):
    (policy,) = root.all("meta", http_equiv="Content-Security-Policy")
    (style,) = root.all("style")
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    assert policy.get("content").split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


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


def cells_of(map):
    """Return the heat map's cells as (class, text of the cell, title)."""
    found = []
    for group in map.all("g"):
        rects = [node for node in group.children if getattr(node, "tag", "") == "rect"]
        if rects:
            texts = [node.text for node in group.children if node.tag == "text"]
            found.append((rects[0], texts, group.all("title")[0].text))
    return found


def heat_map(make, page):
    return next(
        svg
        for svg in make.parse(page).all("svg")
        if (svg.get("aria-labelledby") or "").startswith("heat")
    )


@pytest.mark.parametrize(("evaluate", "gaps"), [("all", 0), ("seen", 6)])
def test_the_heat_map_and_both_tables_hold_the_same_numbers(make, evaluate, gaps):
    page = page_of(make, make.suite(4, 5, evaluate=evaluate))
    root = make.parse(page)
    rows = [
        [cell.text for cell in row.all("td")]
        for row in root.all("section", id="matrix")[0].all("table")[0].all("tr")[1:]
    ]
    flat = [text for row in rows for text in row]
    assert [texts[0] for _, texts, _ in cells_of(heat_map(make, page))] == flat
    assert flat.count(NOTHING) == gaps
    courses = root.all("section", id="courses")[0].all("table")[0].all("tr")[1:]
    shown = [[re.match(r"\d\.\d\d|.", c.text).group() for c in row.all("td")] for row in courses]
    assert shown == [list(column) for column in zip(*rows, strict=True)]


def test_curves_and_their_table_show_each_lifetime_and_what_was_kept(make):
    suite = make.suite(2, 3)
    bundles = make.bundles(suite)
    section = make.parse(render(bundles, make.summary(bundles))).all("section", id="curves")[0]
    rows = [[cell.text for cell in row.all("td")] for row in section.all("table")[0].all("tr")[1:]]
    curves = [curve for bundle in bundles for curve in views.curves(bundle.lifetime)]
    for task in range(2):
        part = rows[11 * task : 11 * task + 11]
        for seed in range(3):
            values = [point["value"] for point in curves[2 * seed + task]["points"]]
            assert [row[1 + seed].rstrip("*") for row in part] == [f"{v:.2f}" for v in values]
            kept = [at for at, row in enumerate(part) if row[1 + seed].endswith("*")]
            assert kept == [values.index(max(values))]
        for row in part:
            mean = sum(float(text.rstrip("*")) for text in row[1:4]) / 3
            assert float(row[0]) == pytest.approx(mean, abs=0.006)
            assert row[4] == "20"
    for figure in section.all("figure"):
        (rings,) = figure.all("path", class_="kept")
        assert rings.get("d").count("M") == 3
        assert len(figure.all("path", class_="thin faint")) == 3


def test_courses_mark_where_the_task_is_learned(make):
    suite = make.suite(2, 2, kind="interleaved", rounds=2, keep="last")
    figures = make.parse(page_of(make, suite)).all("section", id="courses")[0].all("figure")
    bands = [[float(b.get("x")) for b in f.all("rect", class_="band")] for f in figures]
    assert [len(places) for places in bands] == [2, 2]
    (first, third), (second, fourth) = bands
    assert first < second < third < fourth
    assert all(len(f.all("rect", class_="bar")) == 2 for f in figures)


def test_unmeasured_cells_are_hatched_and_hold_no_number(make):
    page = page_of(make, make.suite(3, 5))
    cells = cells_of(heat_map(make, page))
    assert len(cells) == 9
    hatched = [cell for cell in cells if cell[0].get("fill") == "url(#hatch)"]
    assert len(hatched) == 3
    for _, texts, title in hatched:
        assert texts == [NOTHING]
        assert title.endswith("not measured")
    for rect, texts, title in (cell for cell in cells if cell not in hatched):
        assert re.fullmatch(r"cell q\d+", rect.get("class"))
        assert rect.get("fill") is None
        assert re.fullmatch(r"\d\.\d\d", texts[0])
        assert title.count("n = 20, 95 % ") == 5


def test_cells_of_other_measures_claim_no_wilson_interval(make):
    page = page_of(make, make.suite(2, 2, measure="return", score_range=(0, 200)))
    titles = [title for _, _, title in cells_of(heat_map(make, page))]
    assert any("(n = 20)" in title for title in titles)
    assert not any("95 %" in title for title in titles)


def test_many_tasks_get_small_cells_whose_numbers_are_in_titles(make):
    page = page_of(make, make.suite(30, 1, keep="last", episodes=1))
    cells = cells_of(heat_map(make, page))
    assert len(cells) == 900
    assert all(texts == [] and rect.get("width") == "15" for rect, texts, _ in cells)
    assert sum("mean 0." in title or "mean 1." in title for _, _, title in cells) == 465


def test_what_is_null_never_becomes_a_number(make):
    root = make.parse(nothing_measured(make))
    results = root.all("section", id="results")[0]
    assert len(results.all("td", class_="mean gap")) == 5
    assert results.all("td", class_="mean") == []
    assert results.all("svg") == []
    assert root.all("section", id="matrix")[0].all("svg", role="img") == []
    tasks = root.all("section", id="tasks")[0].all("table")[0].all("td")
    assert {cell.text for cell in tasks} == {NOTHING}
    courses = root.all("section", id="courses")[0]
    assert courses.all("path", class_="mean-line") == []
    assert {cell.text for cell in courses.all("td")} == {NOTHING}
    assert "no pretest of the task" in root.all("section", id="metrics")[0].text


def test_hostile_texts_are_shown_and_do_nothing(make):
    for hostile in HOSTILE:
        suite = make.suite(2, 2, measure=hostile).model_copy(
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
        assert not {"script", "img"} & tags
        for node in root.all():
            assert not [name for name in node.attributes if name.startswith("on")]
            assert (node.get("href") or "#").startswith("#")
        assert "49" not in root.all("h1")[0].text
        assert not set(page) & set("\u202e\u2066\u0000\x1b\ud800")
        assert "x" * 500 not in page
        assert len(page.encode()) < 200_000


def test_control_and_bidi_characters_are_spelled_out(make):
    suite = make.suite(1, 1).model_copy(update={"title": "abc\u202egnp.exe\u0007"})
    title = make.parse(page_of(make, suite)).all("h1")[0].text
    assert title.endswith("on abc[U+202E]gnp.exe[U+0007]")


def test_same_input_same_bytes(make):
    suite = make.suite(3, 5)
    assert page_of(make, suite) == page_of(make, suite)


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
    page = page_of(make, make.suite(10, 5))
    assert len(page.encode()) < 300_000


def test_ninety_tasks_are_still_a_page(make):
    suite = make.suite(90, 1, keep="last", evaluate="seen", episodes=1)
    bundles = make.bundles(suite)
    root = make.parse(render(bundles, make.summary(bundles, pairs=False)))
    assert len(root.all("section", id="courses")[0].all("figure")) == 90


def test_long_tables_of_metrics_are_cut_and_say_so(make):
    bundles = make.bundles(make.suite(1, 1))
    summary = make.summary(bundles)
    (first,) = (m for m in summary["metrics"] if m["id"] == "libero.FWT_k")
    many = [{**first, "task": f"task-{n}"} for n in range(1200)]
    root = make.parse(render(bundles, {**summary, "metrics": many}))
    section = root.all("section", id="metrics")[0]
    tasks = [head.text for head in section.all("th", scope="row")]
    assert tasks == [f"task-{n}" for n in range(1000)]
    assert "200 more rows are left out here" in section.text


def test_the_summary_is_two_sentences_with_numbers(make):
    bundles = make.bundles(make.suite(3, 5))
    summary = make.summary(bundles)
    text = make.parse(render(bundles, summary)).all("p", class_="lead")[0].text
    first, second = re.split(r"(?<=[a-z)0-9])\. (?=[A-Z])", text)
    lifetimes = "5 lifetimes (seeds 0, 1, 2, 3, 4)"
    assert first == f"example/replay learned 3 tasks of example-suite 1.2 in {lifetimes}"
    assert second.startswith("The mean success rate is 0.")
    fwt = summary["metrics"][0]
    assert (
        f"forward transfer (FWT) is {fwt['mean']:.2f} "
        f"(95 % interval {fwt['low']:.2f} to {fwt['high']:.2f})"
    ) in second


def test_few_lifetimes_show_points_and_no_interval(make):
    bundles = make.bundles(make.suite(2, 5), seeds=[0, 1, 2])
    summary = make.summary(bundles)
    root = make.parse(render(bundles, summary))
    row = root.all("section", id="results")[0].all("tr")[1].text
    points = ", ".join(f"{value:.2f}" for value in sorted(summary["metrics"][0]["points"]))
    assert f"points {points}" in row
    assert "n = 3, no interval" in row
    assert root.all("line", class_="interval") == []
    warnings = root.all("div", class_="warnings")[0].text
    assert "missing here: seeds 3, 4" in warnings
    assert "3 lifetimes: below 5 no interval is given" in warnings


def test_directions_are_words_and_symbols(make):
    bundles = make.bundles(make.suite(2, 5))
    rows = (
        make.parse(render(bundles, make.summary(bundles))).all("section", id="results")[0].all("tr")
    )
    assert "\N{UPWARDS ARROW} higher is better" in rows[1].text
    assert "\N{DOWNWARDS ARROW} lower is better" in rows[2].text


def test_what_speaks_against_the_numbers_is_said_first(make):
    suite = make.suite(1, 5)
    page = page_of(make, suite, discarded=1, division="open", deviations=("scenario.episodes",))
    warnings = make.parse(page).all("div", class_="warnings")[0].text
    assert "5 attempts at a block were discarded and repeated" in warnings
    assert "Open division" in warnings
    assert make.parse(page_of(make, suite)).all("div", class_="warnings") == []


def test_warnings_name_the_lifetimes_they_are_about(make):
    suite = make.suite(2, 5)
    bundles = make.bundles(suite, warnings=["everywhere"])
    bundles[1].scores["warnings"].append("only here")
    items = [n.text for n in make.parse(render(bundles, make.summary(bundles))).all("li")]
    assert "everywhere" in items
    assert "only here (seed 1)" in items


def test_provenance_names_what_differs_between_lifetimes(make):
    text = make.parse(page_of(make, make.suite(1, 5))).all("section", id="provenance")[0].text
    assert "2.2.0 (seed 0); 2.3.5 (seeds 1, 2, 3, 4)" in text
    assert "1.4.1" in text
    assert "cuda:0" in text
    assert "d" * 64 in text


def test_the_command_runs_the_same_again(make):
    suite = make.suite(1, 5, episodes=7)
    settings = {"learning_rate": 0.0003, "name": "it's; rm -rf", "net": {"sizes": [32, 32]}}
    root = make.parse(
        page_of(
            make,
            suite,
            seeds=[3, 1],
            settings=settings,
            division="open",
            deviations=("scenario.episodes", "tasks.open_the_top_drawer.horizon"),
        )
    )
    assert shlex.split(root.all("pre")[0].text) == [
        "l2bench",
        "run",
        "example-suite",
        "agent=example/replay",
        "agent.settings.learning_rate=0.0003",
        'agent.settings.name="it\'s; rm -rf"',
        "agent.settings.net.sizes=[32,32]",
        "scenario.episodes=7",
        "execution.seeds=[1,3]",
        "-o",
        "rerun",
    ]


def test_cost_adds_up(make):
    table = make.parse(page_of(make, make.suite(1, 3))).all("section", id="cost")[0].all("table")[0]
    rows = [[cell.text for cell in row.all("td")] for row in table.all("tr")[1:]]
    assert [row[0] for row in rows] == ["1 h 23 min"] * 3 + ["4 h 11 min"]
    assert [row[4:6] for row in rows] == [["123,456", "500"]] * 3 + [["370,368", "1,500"]]


def test_values_off_the_scale_are_drawn_at_the_edge_and_said(make):
    suite = make.suite(1, 1, measure="return", keep="last")
    life = synthetic(suite, 0)
    rows = life.episodes.to_pylist()
    bundle = make.bundle(suite, 0, life=make.with_scores(life, rows, np.full(len(rows), 7.5)))
    page = render([bundle], make.summary([bundle]))
    root = make.parse(page)
    assert "Values outside 0 to 1" in root.all("section", id="matrix")[0].text
    paths = [path.get("d") for path in root.all("path", class_="mean-line")]
    places = [float(y) for path in paths for y in re.findall(r"[ML]\S+? (-?[\d.]+)", path)]
    assert len(places) == 11 + 1
    assert all(0 <= y <= 20 for y in places)
    assert "7.50" in root.all("section", id="curves")[0].text


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
