"""What the charts show, against lifetimes whose every score is known."""

import numpy as np
import pytest

from l2bench.bundle.lifetime import synthetic
from l2bench.report.data import Lives


def scored(make, suite, seed, score_of):
    """Return a lifetime with the scores of ``score_of(block row, task index)``."""
    life = synthetic(suite, seed)
    blocks = life.blocks.to_pylist()
    rows = life.episodes.to_pylist()
    scores = np.array([score_of(blocks[r["block_index"]], r["task_index"]) for r in rows], float)
    return make.with_scores(life, rows, scores)


def test_cells_are_means_over_lifetimes_each_counting_once(make):
    suite = make.suite(2, 2, keep="last", measure="return")
    lives = Lives.of([scored(make, suite, s, lambda b, t, s=s: 0.25 + 0.5 * s) for s in (0, 1)])
    cell = lives.matrix.rows[0].cells[0]
    assert cell.mean == pytest.approx(0.5)
    assert cell.span == (0.25, 0.75)
    assert [(p.seed, p.n, p.interval) for p in cell.points] == [(0, 20, None), (1, 20, None)]


def test_what_was_not_measured_has_no_points(make):
    lives = Lives.of([make.lived(make.suite(3, 1), 0)])
    above = [lives.matrix.rows[i].cells[j] for i in range(3) for j in range(3) if j > i]
    assert [cell.mean for cell in above] == [None] * 3
    assert [cell.span for cell in above] == [None] * 3
    assert all(lives.matrix.rows[i].cells[j].points for i in range(3) for j in range(i + 1))


def test_scores_that_are_null_are_not_measured(make):
    suite = make.suite(2, 1, keep="last")
    lives = Lives.of([scored(make, suite, 0, lambda b, t: np.nan)])
    assert not lives.matrix.measured
    assert lives.curves == []
    assert [course.mean for course in lives.courses] == [(), ()]


def test_columns_are_in_the_order_of_learning(make):
    suite = make.suite(names=["a", "b", "c"], seeds=1, order=("c", "a"), evaluate="all")
    lives = Lives.of([make.lived(suite, 0)])
    assert lives.matrix.columns == ("c", "a", "b")
    assert [row.label for row in lives.matrix.rows] == ["after c", "after a"]
    assert [course.task for course in lives.courses] == ["c", "a", "b"]
    assert [course.own[0] for course in lives.courses] == [(0,), (1,), ()]


def test_lifetimes_in_different_orders_are_aligned_by_place(make):
    suite = make.suite(3, 6, order="shuffled", keep="last", measure="return")
    place = {}

    def by_place(block, task):
        return 0.1 * (1 + place[task])

    lifetimes = []
    for seed in suite.seeds:
        order = Lives.of([synthetic(suite, seed)]).order(0)
        place.update({task: at for at, task in enumerate(order)})
        lifetimes.append(scored(make, suite, seed, by_place))
    lives = Lives.of(lifetimes)
    assert not lives.aligned
    assert lives.matrix.columns == ("1st task", "2nd task", "3rd task")
    last = lives.matrix.rows[-1]
    assert [cell.mean for cell in last.cells] == pytest.approx([0.1, 0.2, 0.3])
    for course in lives.courses:
        assert course.mean == ()
        for seed in suite.seeds:
            (learned,) = course.own[seed]
            expected = pytest.approx(0.1 * (1 + learned))
            assert course.of(seed, 3) == expected
            assert course.of(seed, learned) is None


def test_curves_hold_the_kept_checkpoint(make):
    suite = make.suite(2, 1)

    def peak_at_20(block, task):
        return block["checkpoint"] in (20, 30)

    (first, second) = Lives.of([scored(make, suite, 0, peak_at_20)]).curves
    assert (first.unit, first.checkpoints) == ("epochs", tuple(range(0, 51, 5)))
    assert (first.kept, second.kept) == ({0: 20}, {0: 20})
    assert first.cells[4].of(0) == 1.0
    assert first.cells[5].of(0) == 0.0
    assert first.cells[5].of(1) is None


def test_repeated_visits_are_told_apart(make):
    suite = make.suite(names=["a", "b"], seeds=1, kind="interleaved", rounds=2, keep="last")
    lives = Lives.of([make.lived(suite, 0)])
    assert [(row.label, row.visits) for row in lives.matrix.rows] == [
        ("before learning", 0),
        ("after a", 1),
        ("after b", 2),
        ("after a (visit 2)", 3),
        ("after b (visit 2)", 4),
    ]
    assert lives.courses[0].own[0] == (0, 2)
    assert lives.curves == []


def test_after_learning_is_the_first_time(make):
    suite = make.suite(names=["a"], seeds=1, kind="interleaved", rounds=2, keep="last")
    lives = Lives.of([scored(make, suite, 0, lambda b, t: b["block_index"] == 2)])
    assert lives.matrix.after_learning(0).mean == 1.0
    assert lives.matrix.rows[-1].cells[0].mean == 0.0


def test_courses_place_checkpoints_inside_the_learning_block(make):
    lives = Lives.of([make.lived(make.suite(2, 1, keep="last"), 0)])
    (within,) = lives.courses[1].within
    assert [x for x, _ in within] == pytest.approx([1 + c / 50 for c in range(0, 51, 5)])
    assert [x for x, _ in lives.courses[0].mean] == [1, 2]


def test_scores_are_placed_on_their_range(make):
    suite = make.suite(1, 1, keep="last", measure="catch_rate", score_range=(-1, 3))
    lives = Lives.of([scored(make, suite, 0, lambda b, t: 0.25)])
    assert lives.matrix.rows[0].cells[0].mean == pytest.approx(0.25)
