"""What the report page says: the numbers of the tables, and what is missing, in words."""

import re
import shlex

import numpy as np
import pytest

from l2bench.bundle.lifetime import synthetic
from l2bench.metrics import views
from l2bench.metrics.meanings import MEANINGS
from l2bench.report.page import render
from l2bench.report.text import NOTHING


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
    page = make.page(make.suite(4, 5, evaluate=evaluate))
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
    figures = make.parse(make.page(suite)).all("section", id="courses")[0].all("figure")
    bands = [[float(b.get("x")) for b in f.all("rect", class_="band")] for f in figures]
    assert [len(places) for places in bands] == [2, 2]
    (first, third), (second, fourth) = bands
    assert first < second < third < fourth
    width = float(figures[0].all("rect", class_="band")[0].get("width"))
    assert first + width == pytest.approx(second, abs=0.2)
    assert all(len(f.all("rect", class_="bar")) == 2 for f in figures)


def test_unmeasured_cells_are_hatched_and_hold_no_number(make):
    page = make.page(make.suite(3, 5))
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
    page = make.page(make.suite(2, 2, measure="return", score_range=(0, 200)))
    titles = [title for _, _, title in cells_of(heat_map(make, page))]
    assert any("(n = 20)" in title for title in titles)
    assert not any("95 %" in title for title in titles)


def test_many_tasks_get_small_cells_whose_numbers_are_in_titles(make):
    page = make.page(make.suite(30, 1, keep="last", episodes=1))
    cells = cells_of(heat_map(make, page))
    assert len(cells) == 900
    assert all(texts == [] and rect.get("width") == "15" for rect, texts, _ in cells)
    assert sum("mean 0." in title or "mean 1." in title for _, _, title in cells) == 465


def test_what_is_null_never_becomes_a_number(make):
    root = make.parse(make.empty_page())
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
    bundles = make.bundles(make.suite(2, 5), seeds=[0, 1])
    summary = make.summary(bundles)
    root = make.parse(render(bundles, summary))
    row = root.all("section", id="results")[0].all("tr")[1].text
    points = ", ".join(f"{value:.2f}" for value in sorted(summary["metrics"][0]["points"]))
    assert f"points {points}" in row
    assert "n = 2, no interval" in row
    assert root.all("line", class_="interval") == []
    warnings = root.all("div", class_="warnings")[0].text
    assert "missing here: seeds 2, 3, 4" in warnings
    assert "2 lifetimes: below 3 no interval is given" in warnings


def test_a_changed_suite_says_so_wherever_it_is_named(make):
    suite = make.suite(2, 5).model_copy(update={"description": "The whole protocol."})
    changed = {"division": "open", "deviations": ("scenario.episodes", "tasks.*.horizon")}
    root = make.parse(make.page(suite, **changed))
    for tag in ("title", "h1"):
        assert root.all(tag)[0].text.endswith(" (changed: 2 keys)")
    lead, about = (root.all("p", class_=name)[0].text for name in ("lead", "soft"))
    assert "of example-suite 1.2 (changed: 2 keys) in 5 lifetimes" in lead
    assert about == "The suite without these changes: The whole protocol."
    page = make.page(suite)
    assert "changed" not in make.parse(page).all("header")[0].text
    one = make.parse(make.page(suite, **{**changed, "deviations": ("seeds",)}))
    assert one.all("h1")[0].text.endswith(" (changed: 1 key)")


def test_headline_metrics_have_their_meaning_beside_them(make):
    root = make.parse(make.page(make.suite(2, 5)))
    results = root.all("section", id="results")[0]
    meant = results.all("dl", class_="pairs meanings")[0]
    names = [part.text for part in meant.all("dt")]
    sentences = [part.text for part in meant.all("dd")]
    assert sentences[names.index("negative backward transfer (NBT)")] == MEANINGS["libero.NBT"]
    heads = results.all("th", scope="row")
    assert [head.get("title") for head in heads] == sentences
    assert "What was never learned cannot be forgotten: read negative backward" in results.text


def test_without_metrics_of_what_is_kept_nothing_is_said_of_them(make):
    bundles = make.bundles(make.suite(2, 5))
    summary = make.summary(bundles)
    foreign = {**summary["metrics"][0], "id": "other.x", "name": "other"}
    page = render(bundles, {**summary, "metrics": [foreign]})
    assert "never learned" not in page
    assert "What they mean" not in page


def test_directions_are_words_and_symbols(make):
    bundles = make.bundles(make.suite(2, 5))
    rows = (
        make.parse(render(bundles, make.summary(bundles))).all("section", id="results")[0].all("tr")
    )
    assert "\N{UPWARDS ARROW} higher is better" in rows[1].text
    assert "\N{DOWNWARDS ARROW} lower is better" in rows[2].text


def test_what_speaks_against_the_numbers_is_said_first(make):
    suite = make.suite(1, 5)
    page = make.page(suite, discarded=1, division="open", deviations=("scenario.episodes",))
    warnings = make.parse(page).all("div", class_="warnings")[0].text
    assert "5 attempts at a block were discarded and repeated" in warnings
    assert "Open division" in warnings
    assert make.parse(make.page(suite)).all("div", class_="warnings") == []


def test_warnings_name_the_lifetimes_they_are_about(make):
    suite = make.suite(2, 5)
    bundles = make.bundles(suite, warnings=["everywhere"])
    bundles[1].scores["warnings"].append("only here")
    items = [n.text for n in make.parse(render(bundles, make.summary(bundles))).all("li")]
    assert "everywhere" in items
    assert "only here (seed 1)" in items


def test_provenance_names_what_differs_between_lifetimes(make):
    text = make.parse(make.page(make.suite(1, 5))).all("section", id="provenance")[0].text
    assert "2.2.0 (seed 0); 2.3.5 (seeds 1, 2, 3, 4)" in text
    assert "1.4.1" in text
    assert "cuda:0" in text
    assert "d" * 64 in text


def test_the_command_runs_the_same_again(make):
    suite = make.suite(1, 5, episodes=7)
    settings = {"learning_rate": 0.0003, "name": "it's; rm -rf", "net": {"sizes": [32, 32]}}
    root = make.parse(
        make.page(
            suite,
            seeds=[3, 1],
            settings=settings,
            division="open",
            deviations=("scenario.episodes", "tasks.open_the_top_drawer.horizon"),
        )
    )
    words = shlex.split(root.all("pre")[0].text)
    assert words[0] == "cp"
    assert words[1].endswith("/suite.json")
    assert words[2:] == [
        "rerun.yaml",
        "l2bench",
        "run",
        "rerun.yaml",
        "agent=example/replay",
        "agent.settings.learning_rate=0.0003",
        'agent.settings.name="it\'s; rm -rf"',
        "agent.settings.net.sizes=[32,32]",
        "execution.seeds=[1,3]",
        "-o",
        "rerun",
    ]


def test_cost_adds_up(make):
    table = make.parse(make.page(make.suite(1, 3))).all("section", id="cost")[0].all("table")[0]
    rows = [[cell.text for cell in row.all("td")] for row in table.all("tr")[1:]]
    assert [row[0] for row in rows] == ["1 h 23 min"] * 3 + ["4 h 11 min"]
    assert [row[4] for row in rows] == ["123,456"] * 3 + ["370,368"]
    assert [row[6] for row in rows] == ["500"] * 3 + ["1,500"]


def test_values_off_the_scale_are_drawn_at_the_edge_and_said(make):
    suite = make.suite(1, 1, measure="return", keep="last")
    life = synthetic(suite, 0)
    rows = life.episodes.to_pylist()
    bundle = make.bundle(suite, 0, life=make.with_scores(life, rows, np.full(len(rows), 7.5)))
    page = render([bundle], make.summary([bundle]))
    root = make.parse(page)
    assert "Values outside 0 to 1" in root.all("section", id="matrix")[0].text
    panels = root.all("section", id="curves") + root.all("section", id="courses")
    paths = [path.get("d") for part in panels for path in part.all("path", class_="mean-line")]
    places = [float(y) for path in paths for y in re.findall(r"[ML]\S+? (-?[\d.]+)", path)]
    assert len(places) == 11 + 1
    assert all(0 <= y <= 20 for y in places)
    assert "7.50" in root.all("section", id="curves")[0].text
