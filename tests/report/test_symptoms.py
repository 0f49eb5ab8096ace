"""Symptoms that users of other benchmarks reported, each turned into a test of the reports."""

from __future__ import annotations

import re

import numpy as np

from l2bench.bundle.lifetime import synthetic
from l2bench.report.colours import looks
from l2bench.report.page import render


def section(make, page, id):
    (found,) = make.parse(page).all("section", id=id)
    return found


def column(part, head):
    """Return the texts under a head of a section's first table."""
    heads = [node.text.strip() for node in part.all("thead")[0].all("th")]
    at = heads.index(head)
    rows = part.all("tbody")[0].all("tr")
    return [[c for c in row.children if getattr(c, "tag", "")][at].text.strip() for row in rows]


def test_eval_06_the_gap_between_curve_and_reevaluation_is_reported(make):
    """EVAL-06: a curve's maximum of 0.9 and a re-evaluation of 0.7 stand side by side."""
    suite = make.suite(1, 1, measure="return")
    life = synthetic(suite, 0)
    blocks, rows = life.blocks.to_pylist(), life.episodes.to_pylist()
    levels = {"curve": 0.9, "post": 0.7}
    scores = np.array([levels[blocks[row["block_index"]]["role"]] for row in rows])
    bundle = make.bundle(suite, 0, life=make.with_scores(life, rows, scores))
    tasks = section(make, render([bundle], make.summary([bundle])), "tasks")
    assert [column(tasks, head) for head in ("Best", "Gap", "After")] == [
        ["0.90"],
        ["0.20"],
        ["0.70"],
    ]
    assert "the gap is the best minus that: 0.20 at most here" in tasks.text


def test_eval_10_partial_evaluations_are_called_partial(make):
    """EVAL-10: where 1 of 3 tasks is evaluated, the aggregates say so, here and in the chart."""
    page = make.page(make.suite(3, 2, order=("close_the_stove",)))
    assert "n_tasks = 1 of 3 evaluated (partial 1/3)" in section(make, page, "results").text
    suite = make.suite(2, 1, keep="last", measure="return", evaluate="all")
    life = synthetic(suite, 0)
    blocks, rows = life.blocks.to_pylist(), life.episodes.to_pylist()
    missing = [
        np.nan if row["task_index"] == 0 and blocks[row["block_index"]]["learn_task"] == 1 else 0.5
        for row in rows
    ]
    bundle = make.bundle(suite, 0, life=make.with_scores(life, rows, np.array(missing)))
    text = section(make, render([bundle], make.summary([bundle])), "life").text
    assert "partial, 1 of 2" in text
    assert "Where not all of them were evaluated the mean is partial" in text


def test_seed_08_runs_tasks_and_episodes_are_told_apart(make):
    """SEED-08: 2 runs of 3 tasks with 5 episodes are n_runs = 2, not 30."""
    suite = make.suite(3, 2, keep="last", episodes=5, evaluate="all")
    text = section(make, make.page(suite), "results").text
    episodes = sum(bundle.lifetime.episodes.num_rows for bundle in make.bundles(suite))
    assert f"n_runs = 2, n_tasks = 3 of 3 evaluated, n_episodes = {episodes:,}" in text


def test_log_07_a_null_stays_local(make):
    """LOG-07: a task without a value takes nothing from the others, and the coverage is said."""
    bundles = make.bundles(make.suite(3, 5))
    summary = make.summary(bundles)
    gone = bundles[0].suite.tasks[1].id
    for metric in summary["metrics"]:
        if metric["id"] == "libero.FWT_k" and metric["task"] == gone:
            metric.update(mean=None, low=None, high=None, points=[], n_lifetimes=0)
            metric["undefined_reasons"] = ["never saturated"]
    values = column(section(make, render(bundles, summary), "tasks"), "FWT_k \N{UPWARDS ARROW}")
    assert values[1] == "\N{EN DASH}"
    assert all(re.fullmatch(r"\d\.\d\d", value) for value in (values[0], values[2]))


def test_log_11_a_task_looks_the_same_on_every_page(make):
    """LOG-11: two suites with the tasks in different orders give each task one colour and mark."""
    names = ["open", "close", "push", "lift"]
    pages = []
    for order in (names, names[::-1]):
        root = make.parse(make.page(make.suite(names=order, seeds=1)))
        rows = root.all("section", id="tasks")[0].all("tbody")[0].all("th")
        pages.append({th.text.strip(): th.all("svg")[0].get("class") for th in rows})
        figures = root.all("section", id="courses")[0].all("figure")
        drawn = {f.all("b")[0].text: f"swatch {f.get('class')}" for f in figures}
        assert drawn == pages[-1]
    assert pages[0] == pages[1]
    assert pages[0] == {name: f"swatch k{look.colour}" for name, look in looks(names).items()}
    assert len(set(pages[0].values())) == len(names)


def test_sta_09_three_lifetimes_get_a_warning_and_their_points(make):
    """STA-09: below five lifetimes the report warns and shows each value beside the interval."""
    suite = make.suite(2, 3)
    summary = make.summary(make.bundles(suite))
    root = make.parse(make.page(suite))
    assert "3 lifetimes: so few say little" in root.all("div", class_="warnings")[0].text
    row = root.all("section", id="results")[0].all("tr")[1].text
    fwt = summary["metrics"][0]
    points = ", ".join(f"{value:.2f}" for value in sorted(fwt["points"]))
    assert f"{fwt['low']:.2f} to {fwt['high']:.2f}; points {points}" in row
