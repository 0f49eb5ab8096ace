"""What changes a board: registering, accepting, withdrawing; and what is refused."""

from __future__ import annotations

import json
import shutil
from datetime import date

import pytest
from support import probe_suite

from l2bench.check.board import Board
from l2bench.check.paths import check_path
from l2bench.errors import RunFailed, Unsupported, UsageError
from l2bench.leaderboard import changes
from l2bench.leaderboard.reading import read_entries


def tree(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_registering_records_form_hash_seeds_and_releases(made, tmp_path):
    board = Board.load(made.board(tmp_path / "board").folder)
    (suite,) = board.files.suites
    assert (suite.suite_hash, suite.seeds) == (made.suite.hash, made.suite.seeds)
    assert board.suite(suite) == made.suite
    assert [lock.distribution for lock in board.files.plugins] == ["l2bench"]


def test_a_registered_version_never_changes(made, tmp_path):
    board = made.board(tmp_path / "board")
    before = tree(board.folder)
    changed = made.suite.model_copy(update={"seeds": (7, 8, 9)})
    for suite, words in ((made.suite, "registered already;"), (changed, "in another form")):
        with pytest.raises(UsageError, match=words):
            changes.register(board, suite, "libero.AUC", made.registry)
    assert tree(board.folder) == before


@pytest.mark.parametrize("version", ["../1.0", "1.0/2", "", "1 0", "CON:", "1\u202e0"])
def test_a_version_that_cannot_be_a_folder_is_refused(made, tmp_path, version):
    board = made.board(tmp_path / "board")
    with pytest.raises(UsageError, match="cannot be the name of a folder"):
        changes.register(
            board, made.suite.model_copy(update={"version": version}), "libero.AUC", made.registry
        )


@pytest.mark.parametrize(
    "metric", ["libero.NBT", "l2m.performance_maintenance", "l2m.backward_transfer_contrast"]
)
def test_nothing_is_ranked_by_forgetting_alone(made, metric):
    with pytest.raises(UsageError, match="an agent that learns nothing may do well by it"):
        changes.ranking_metric(made.suite, metric, made.registry)


@pytest.mark.parametrize("metric", ["bound.multitask_performance", "bound.multitask_gap"])
def test_nothing_is_ranked_by_the_multitask_bound(made, metric):
    """The bound's level is that of a joint learner; no advice names it either."""
    with pytest.raises(UsageError, match="a joint learner") as caught:
        changes.ranking_metric(probe_suite(3, bound=True), metric, made.registry)
    _, _, advice = str(caught.value).partition("rank probe by ")
    assert "libero.AUC" in advice
    assert "bound." not in advice


def test_no_difference_and_no_ratio_of_any_metric_set_ranks(made):
    """Whatever can rank is a level from 0 to 1, higher is better."""
    for name in made.registry.names("metric_sets"):
        if not name.startswith("l2bench/"):
            continue
        suite = made.suite.model_copy(update={"metrics": (name,)})
        for metric in made.registry.resolve("metric_sets", name).metrics:
            if metric.scope == "lifetime" and not (
                metric.higher_is_better and metric.range == (0.0, 1.0)
            ):
                with pytest.raises(UsageError):
                    changes.ranking_metric(suite, metric.id, made.registry)


def test_a_metric_that_the_suite_cannot_measure_does_not_rank(made):
    suite = probe_suite(2, every=None)
    with pytest.raises(UsageError, match=r"cannot be ranked by libero\.AUC: "):
        changes.ranking_metric(suite, "libero.AUC", made.registry)


def test_an_unknown_metric_and_none_at_all_name_the_choices(made):
    with pytest.raises(UsageError, match=r"did you mean 'libero\.AUC'"):
        changes.ranking_metric(made.suite, "libero.AUK", made.registry)
    with pytest.raises(UsageError, match=r"--rank-by: .*libero\.AUC"):
        changes.ranking_metric(made.suite, None, made.registry)


def test_l06_accepted_entries_never_change(made, board, tmp_path):
    before = tree(board.submissions)
    again = made.submission(tmp_path / "again", "random", submitter="team-perfect",
                            agent={"name": "perfect", "version": "1"})  # fmt: skip
    with pytest.raises(UsageError, match="accepted entries never change"):
        changes.accept(board, again, isolated=False)
    assert tree(board.submissions) == before


def test_a_submission_with_errors_leaves_no_trace(made, board, tmp_path):
    before = tree(board.folder)
    folder = made.submission(tmp_path / "wrong", "random", submitter="team-x")
    data = json.loads((folder / "submission.json").read_text())
    (folder / "submission.json").write_text(json.dumps({**data, "runs": data["runs"][:4]}))
    with pytest.raises(RunFailed, match=r"not accepted: .*N01"):
        changes.accept(board, folder, isolated=False)
    assert tree(board.folder) == before


def test_sub_02_an_empty_folder_is_no_submission(board, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFailed, match=r"it has no submission\.json"):
        changes.accept(board, tmp_path / "empty")


def test_sub_16_one_folder_around_a_submission_is_looked_through(made, board, tmp_path):
    made.submission(tmp_path / "outer" / "inner", "random", submitter="team-w",
                    agent={"name": "other", "version": "1"})  # fmt: skip
    wanted = tree(tmp_path / "outer" / "inner")
    # the rows are those of another entry: Q05 keeps them out, and no trace is left
    with pytest.raises(RunFailed, match="Q05"):
        changes.accept(board, tmp_path / "outer", isolated=False)
    fresh = made.board(tmp_path / "fresh")
    key, _ = changes.accept(fresh, tmp_path / "outer", isolated=False)
    assert tree(fresh.submissions / key) == wanted


def test_sub_01_the_command_and_the_board_find_the_same(made, board, tmp_path):
    folder = made.submission(tmp_path / "odd", "late_bloomer", submitter="team-odd")
    data = json.loads((folder / "submission.json").read_text())
    data["metrics"] = [{"id": "libero.AUC", "value": 0.99, "n_lifetimes": 5}]
    (folder / "submission.json").write_text(json.dumps(data))
    place = board.submissions / "probe/1.0/20260504_team-odd_late_bloomer"
    shutil.copytree(folder, place)
    entries = read_entries(Board.load(board.folder), tmp_path / "work", isolated=False)
    on_board = next(e.findings for e in entries if e.name == place.name)
    by_command = check_path(place, Board.load(board.folder), isolated=False).findings
    assert on_board == by_command
    assert "X02" in {found.code for found in on_board}


def test_a_closed_suite_takes_no_more(made, board, tmp_path):
    document = board.folder / "board.json"
    data = json.loads(document.read_text())
    data["suites"][0]["status"] = "closed"
    document.write_text(json.dumps(data))
    folder = made.submission(tmp_path / "late", "random", submitter="team-late")
    with pytest.raises(UsageError, match="takes no more submissions"):
        changes.accept(Board.load(board.folder), folder)


def test_a_withdrawal_keeps_the_files_and_needs_a_reason(board):
    before = tree(board.submissions)
    day = date(2026, 7, 1)
    name = "20260504_team-random_random"
    with pytest.raises(UsageError, match="say why"):
        changes.withdraw(board, name, "  ", day)
    with pytest.raises(UsageError, match="there is no entry 'nobody'"):
        changes.withdraw(board, "nobody", "x", day)
    found = changes.withdraw(board, name, "a fault", day).files.withdrawals[-1]
    assert (found.submission, found.on) == (f"probe/1.0/{name}", day)
    with pytest.raises(UsageError, match="withdrawn already"):
        changes.withdraw(Board.load(board.folder), name, "again", day)
    assert tree(board.submissions) == before


def test_a_lock_adds_the_installed_releases_and_forgets_none(made, board, monkeypatch):
    from l2bench.bundle.software import Software

    monkeypatch.setattr(changes, "software", lambda *_: Software("a" * 64, 0, False, None))
    changes.lock(board, made.registry)
    monkeypatch.setattr(changes, "software", lambda *_: Software("b" * 64, 0, False, None))
    (lock,) = changes.lock(Board.load(board.folder), made.registry)[0].files.plugins
    assert lock.record_sha256 == ("a" * 64, "b" * 64)
    for odd in (Software("c" * 64, 2, False, None), Software("c" * 64, 0, True, None)):
        monkeypatch.setattr(changes, "software", lambda *_, odd=odd: odd)
        (lock,) = changes.lock(Board.load(board.folder), made.registry)[0].files.plugins
        assert "c" * 64 not in lock.record_sha256


@pytest.mark.parametrize("kind_of_error", [Unsupported, UsageError])
def test_a_lock_leaves_suites_whose_plugins_are_not_installed(
    made, board, monkeypatch, kind_of_error
):
    before = changes.lock(board, made.registry)[0].files.plugins

    def absent(kind, name):
        raise kind_of_error(f"{name} is not installed")

    monkeypatch.setattr(made.registry, "plugin_of", absent)
    after, left = changes.lock(Board.load(board.folder), made.registry)
    assert after.files.plugins == before
    assert left == ("probe 1.0",)


def test_a_board_is_made_once(made, tmp_path):
    made.board(tmp_path / "board")
    with pytest.raises(UsageError, match="a board already"):
        changes.create(tmp_path / "board", "Another")
