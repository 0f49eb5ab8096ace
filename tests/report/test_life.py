"""The lifetime curve, the comparison with experts and the cost, against numbers known by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from report.pages import LAYOUT

from l2bench.bundle.lifetime import synthetic
from l2bench.experts import expert_suite
from l2bench.report.cost import blocks_cost, lifetimes_cost
from l2bench.report.data import Lives
from l2bench.report.life import BINS, binned, life
from l2bench.report.page import render
from l2bench.report.transfer import Versus, between, transfer
from l2bench.report.wide import life_chart


def scored(make, suite, seed, score_of):
    """Return a lifetime with the scores of ``score_of(block row, task index)``."""
    made = synthetic(suite, seed)
    blocks, rows = made.blocks.to_pylist(), made.episodes.to_pylist()
    scores = [score_of(blocks[r["block_index"]], r["task_index"]) for r in rows]
    return make.with_scores(made, rows, np.array(scores, float))


def charted(lifetimes):
    lives = Lives.of(lifetimes)
    return life_chart(life(lives), lives.looks)


def test_a_learning_block_spans_what_is_learned_in_it(make):
    lives = Lives.of([make.lived(make.suite(3, 1), 0)])
    found = life(lives)
    assert found.unit == "epochs"
    assert [(s.start, s.end) for s in found.stages] == [(0, 50), (50, 100), (100, 150)]
    assert [s.task for s in found.stages] == list(lives.names)
    assert [place for place, _ in found.stages[0].steps] == [at / 10 for at in range(11)]


def test_what_is_kept_is_the_mean_over_the_tasks_learned_so_far(make):
    suite = make.suite(3, 5, keep="last", measure="return", evaluate="all")
    level = {0: 0.9, 1: 0.5, 2: 0.1}
    lives = Lives.of(
        [scored(make, suite, s, lambda b, t, s=s: level[t] + s / 100) for s in range(5)]
    )
    kept = [stage.kept for stage in life(lives).stages]
    assert [k.over.mean for k in kept] == pytest.approx([0.92, 0.72, 0.52])
    assert [(k.tasks, k.learned, k.partial) for k in kept] == [
        (1, 1, False),
        (2, 2, False),
        (3, 3, False),
    ]
    assert all(k.over.low < k.over.mean < k.over.high for k in kept)


def test_with_few_lifetimes_there_are_points_and_no_interval(make):
    bundles = make.bundles(make.suite(2, 5), seeds=[0, 1])
    chart = charted([bundle.lifetime for bundle in bundles])
    assert all(w.low is None and len(w.points) == 2 for w in chart.whiskers)
    section = make.parse(render(bundles, make.summary(bundles))).all("section", id="life")[0]
    assert "the dots are the 2 lifetimes, too few for an interval" in section.text


def test_learning_blocks_are_shaded_and_named(make):
    page = make.page(make.suite(3, 5))
    section = make.parse(page).all("section", id="life")[0]
    bands = section.all("rect", class_="band")
    assert [float(b.get("x")) for b in bands] == sorted(float(b.get("x")) for b in bands)
    titles = [group.all("title")[0].text for group in section.all("g") if group.all("rect")]
    assert [title.split(":")[0] for title in titles] == [
        "block 1, open_the_top_drawer",
        "block 2, close_the_stove",
        "block 3, push_the_alphabet_soup_and_put_it_in_the_basket",
    ]


def test_experiences_are_shown_as_means_and_the_window_is_stated():
    steps = binned({0: np.arange(100.0), 1: np.arange(100.0) + 2})
    assert len(steps) == BINS
    assert steps[0][0] == pytest.approx(0.5 / BINS)
    assert steps[0][1].mean == pytest.approx(2.0 + 1.0)
    assert [point.n for point in steps[0][1].points] == [5, 5]
    assert binned({}) == ()
    assert len(binned({0: np.arange(3.0)})) == 3


def test_ninety_blocks_have_no_room_for_names(make):
    suite = make.suite(90, 1, keep="last", episodes=1)
    chart = charted([make.lived(suite, 0)])
    assert [band.name for band in chart.bands] == [None] * 90
    few = charted([make.lived(make.suite(3, 1), 0)])
    assert [band.name.text[0] for band in few.bands] == ["1", "2", "3"]


def with_experts(make, gain):
    """Return a bundle whose learner is ahead of its experts by ``gain`` at every checkpoint."""
    suite = make.suite(2, 1, keep="last", measure="return")
    learner = scored(make, suite, 0, lambda b, t: 0.5 + gain)
    bundle = make.bundle(suite, 0, life=learner)
    experts = []
    for task in range(2):
        own = expert_suite(suite, task)
        experts.append(make.bundle(own, 0, life=scored(make, own, 0, lambda b, t: 0.5)))
    bundle.__dict__["experts"] = tuple(experts)
    return bundle


@pytest.mark.parametrize(("gain", "pattern"), [(0.2, "gain"), (-0.3, "loss")])
def test_gain_and_loss_against_experts_are_shaded_and_numbered(make, gain, pattern):
    bundle = with_experts(make, gain)
    found = transfer([bundle], Lives.of([bundle.lifetime]))
    assert [v.gain for v in found.tasks] == pytest.approx([gain, gain])
    section = make.parse(render([bundle], make.summary([bundle]))).all("section", id="transfer")[0]
    for figure in section.all("figure"):
        fills = {path.get("fill") for path in figure.all("path")} - {None}
        assert fills == {f"url(#{pattern})"}
    text = section.all("tbody")[0].text
    assert f"{'+' if gain > 0 else chr(0x2212)}{abs(gain):.2f}" in text


def test_curves_that_cross_have_both_areas():
    versus = Versus("t", "epochs", 1, (0.0, 1.0), (0.0, 1.0), (0.5, 0.5), 1, 1)
    assert list(between(versus)) == [
        (False, ((0.0, 0.0), (0.5, 0.5), (0.0, 0.5))),
        (True, ((0.5, 0.5), (1.0, 1.0), (1.0, 0.5))),
    ]
    assert versus.gain == 0


def test_without_experts_there_is_no_section_and_missing_ones_are_named(make):
    bundle = with_experts(make, 0.1)
    bundle.__dict__["experts"] = bundle.experts[:1]
    page = render([bundle], make.summary([bundle]))
    section = make.parse(page).all("section", id="transfer")[0]
    assert "Not comparable, for want of an expert" in section.text
    assert bundle.suite.tasks[1].id in section.text
    assert make.parse(make.page(make.suite(2, 1))).all("section", id="transfer") == []


def test_logs_are_compared_over_as_many_experiences_as_the_shorter_has(cli, make, tmp_path):
    experts = [part for p in sorted((LAYOUT / "ste_logs").iterdir()) for part in ("--expert", p)]
    page = tmp_path / "log.html"
    code, _, errors = cli("report", LAYOUT / "ll_logs" / "multi_task", *experts, "-o", page)
    assert code == 0, errors
    root = make.parse(page.read_text())
    section = root.all("section", id="transfer")[0]
    assert len(section.all("figure")) >= 1
    assert "over as many experiences as the shorter has" in section.text
    assert "each point the mean of at most" in root.all("section", id="life")[0].text


def test_costs_of_blocks_add_up_to_those_of_the_lifetime(make):
    suite = make.suite(3, 2, evaluate="all", pretest=True)
    bundles = []
    for seed in suite.seeds:
        own = make.lived(suite, seed)
        at = own.blocks.schema.get_field_index("wall_s")
        walls = pa.array([float(n + 1) for n in range(own.blocks.num_rows)])
        blocks = own.blocks.set_column(at, own.blocks.schema.field(at), walls)
        bundles.append(make.bundle(suite, seed, life=replace(own, blocks=blocks)))
    table = blocks_cost(bundles, Lives.of([bundle.lifetime for bundle in bundles]))
    count = bundles[0].lifetime.blocks.num_rows
    assert table.rows[0][0] == "before learning"
    assert len(table.rows) == 4
    assert sum(values[0][0] for _, values in table.rows) == pytest.approx(count * (count + 1) / 2)
    assert all(
        values[0][0] == pytest.approx(values[1][0] + values[2][0]) for _, values in table.rows[1:]
    )


def test_the_sum_of_the_lifetimes_leaves_out_what_stands_beside_them(make):
    bundle = with_experts(make, 0.1)
    second = make.bundle(bundle.suite, 1)
    bounds = [make.bundle(bundle.suite, 0)]
    table = lifetimes_cost([bundle, second], bundle.experts, bounds)
    walls = [5025.5, 5026.5]
    assert [values[0][0] for _, values in table.rows] == walls
    assert (table.total[0], table.total[1][0][0]) == ("2 lifetimes together", sum(walls))
    assert [(name, values[0][0]) for name, values in table.beside] == [
        ("2 single-task experts together", 2 * 5025.5),
        ("1 multitask bound", 5025.5),
    ]
    page = render([bundle, second], make.summary([bundle, second]))
    cost = make.parse(page).all("section", id="cost")[0]
    names = [row.all("th")[0].text for row in cost.all("table")[0].all("tr")[1:]]
    assert names == ["seed 0", "seed 1", table.total[0], table.beside[0][0]]
    assert len(cost.all("tbody")[0].all("tr")) == 2
    assert "in no sum of lifetimes" in cost.text

    alone = lifetimes_cost([bundle], bundle.experts)
    assert (len(alone.rows), alone.total, len(alone.beside)) == (1, None, 1)


def test_memory_is_shown_where_it_was_recorded(make):
    suite = make.suite(2, 1)
    own = make.lived(suite, 0)
    rows = own.blocks.num_rows
    names = [name for name in own.blocks.column_names if name != "peak_memory_bytes"]
    blocks = own.blocks.select(names).append_column(
        pa.field("peak_memory_bytes", pa.int64()), pa.array([None, *range(10**9, 10**9 + rows - 1)])
    )
    bundle = make.bundle(suite, 0, life=replace(own, blocks=blocks))
    table = lifetimes_cost([bundle])
    assert "Peak memory, largest" in table.heads
    assert table.rows[0][1][-1][1] == "1 GB"
    bare = make.bundle(suite, 0, life=replace(own, blocks=own.blocks.select(names)))
    assert "Peak memory, largest" not in lifetimes_cost([bare]).heads


def test_videos_beside_the_bundles_are_linked(make, tmp_path):
    bundle = make.bundle(make.suite(1, 1), 0)
    folder = tmp_path / "runs" / "a b.l2b"
    (folder / "videos").mkdir(parents=True)
    (folder / "videos" / 'x"><b>.mp4').write_bytes(b"")
    bundle = replace(bundle, folder=folder)
    bundle.__dict__.update(lifetime=make.lived(bundle.suite, 0), scores={"warnings": []})
    page = render([bundle], make.summary([bundle]), folder=tmp_path)
    links = [a for a in make.parse(page).all("a") if not a.get("href").startswith("#")]
    assert [a.get("href") for a in links] == ["runs/a%20b.l2b/videos/x%22%3E%3Cb%3E.mp4"]
    assert links[0].text == 'seed 0: x"><b>.mp4'
