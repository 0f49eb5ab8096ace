"""Logs of l2logger: value for value like the package, whatever their structure."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from interop.builders import l2logger_folder, log_rows, stored_rows
from metrics.builders import read_json
from metrics.test_l2m_oracle import compare, settings_of
from support import ROOT

from l2bench.errors import L2benchError, Unsupported, UsageError
from l2bench.interop import l2logger
from l2bench.interop.source import Options
from l2bench.metrics.l2m import score
from l2bench.metrics.l2m_lifetime import log_of
from l2bench.metrics.l2m_log import learning_part
from l2bench.metrics.sets import L2MetricsMetrics, L2MMetrics
from l2bench.metrics.views import cells

ORACLE = ROOT / "tests" / "oracle" / "l2m"
LAYOUT = ORACLE / "example" / "l2logger_layout"
CASES = sorted(path.name for path in (ORACLE / "cases").iterdir())

PUBLISHED = {
    "perf_recovery": "performance_recovery",
    "avg_train_perf": "mean_training_performance",
    "avg_eval_perf": "mean_evaluation_performance",
    "perf_maintenance_mrlep": "performance_maintenance",
    "forward_transfer_ratio": "forward_transfer_ratio",
    "backward_transfer_ratio": "backward_transfer_ratio",
    "ste_rel_perf": "relative_performance",
    "sample_efficiency": "sample_efficiency",
}


def read(folder: Path, **options):
    return l2logger.read(folder, Options(**options))


def experts_of(folder: Path) -> list[str]:
    return [part for path in sorted(folder.iterdir()) for part in ("--expert", str(path))]


@pytest.mark.parametrize("name", ["l2bench/l2metrics", "l2metrics"])
def test_the_published_example_by_one_command(cli, name):
    code, output, errors = cli(
        "score", LAYOUT / "ll_logs" / "multi_task", "--metrics", name, "--json",
        *experts_of(LAYOUT / "ste_logs"),
    )  # fmt: skip
    assert code == 0, errors
    found = {m["id"]: m["mean"] for m in json.loads(output)["summary"]["metrics"] if not m["task"]}
    published = read_json(ORACLE / "example" / "published.json")["lifetime"]
    for stored, id in PUBLISHED.items():
        assert found[f"l2metrics.{id}"] == pytest.approx(published[stored], abs=1e-9), id


def test_the_published_example_to_two_decimals(cli):
    _, output, _ = cli(
        "score", LAYOUT / "ll_logs" / "multi_task", "--metrics", "l2metrics", "--all",
        *experts_of(LAYOUT / "ste_logs"),
    )  # fmt: skip
    shown = {line.split()[0]: line.split()[1] for line in output.splitlines()[2:]}
    for id, value in (
        ("performance_recovery", "-2.00"), ("performance_maintenance", "3.86"),
        ("forward_transfer_ratio", "12.63"), ("backward_transfer_ratio", "1.08"),
        ("relative_performance", "1.11"), ("sample_efficiency", "0.91"),
    ):  # fmt: skip
        assert shown[f"l2metrics.{id}"] == value


@pytest.mark.parametrize("name", CASES)
def test_every_stored_case_as_a_folder(name, tmp_path):
    """Written as folders and read back, each case scores as the package scores it."""
    case = ORACLE / "cases" / name
    about = read_json(case / "case.json")
    measures = about["logger_info"]["metrics_columns"]
    folder = l2logger_folder(tmp_path / "log", stored_rows(case / "log.tsv.gz"), measures=measures)
    experts = [
        l2logger_folder(tmp_path / file, stored_rows(case / "experts" / file))
        for file in about["expert_files"]
    ]
    compared = 0
    for key, stored in read_json(case / "expected.json")["results"].items():
        required = stored.get("recommended", stored)
        if stored["settings"]["variant_mode"] == "agnostic":
            continue  # of the settings on names, not of how rows are read
        if required["outcome"] == "error":
            with pytest.raises(L2benchError):
                read(folder, measure=stored["settings"]["perf_measure"])
        else:
            lives = [read(path).lifetime for path in (folder, *experts)]
            log, *rest = [log_of(lifetime, raw=True) for lifetime in lives]
            scores = score(log, [learning_part(e) for e in rest], settings_of(stored["settings"]))
            compare(scores, required, f"{name}/{key}")
        compared += 1
    assert compared >= 1


def test_the_views_show_the_blocks_of_the_log(tmp_path):
    blocks = (
        ("E", "a_1", [0, 0.5]), ("E", "b_1", [0.25]), ("L", "a_1", [0.5, 1]),
        ("E", "a_1", [1, 1]), ("E", "b_1", [0.5]), ("L", "b_1", [1]), ("E", "a_1", [0.5]),
    )  # fmt: skip
    lifetime = read(l2logger_folder(tmp_path / "log", log_rows(*blocks))).lifetime
    assert [task.id for task in lifetime.suite.tasks] == ["a_1", "b_1"]
    assert lifetime.blocks["kind"].to_pylist() == ["eval", "learn", "eval", "learn", "eval"]
    assert lifetime.blocks["role"].to_pylist() == ["pretest", "wake", "post", "wake", "post"]
    assert lifetime.blocks["learn_task"].to_pylist() == [None, 0, 0, 1, 1]
    assert lifetime.blocks["lx_end"].to_pylist() == [0, 2, 2, 3, 3]
    found = {key: (cell["value"], cell["n"]) for key, cell in cells(lifetime).items()}
    assert found == {
        (0, 0): (0.25, 2), (0, 1): (0.25, 1), (2, 0): (1, 2), (2, 1): (0.5, 1), (4, 0): (0.5, 1),
    }  # fmt: skip
    assert lifetime.episodes["episode_index"].to_pylist() == [0, 1, 0, 0, 1, 0, 0]
    assert lifetime.learning["lx_index"].to_pylist() == [0, 1, 2]
    for name in ("env_seed", "length", "terminated", "wall_s"):
        assert lifetime.episodes[name].null_count == lifetime.episodes.num_rows


WORKERS = (("E", "a_1", [0.1, 0.2]), ("L", "a_1", [0.3, 0.4, 0.5]), ("E", "a_1", [0.6]))


def test_two_workers_interleaved_are_one_log(tmp_path):
    """PAR-09: rows of two workers in one block."""
    rows = log_rows(*WORKERS)
    split = [{**row, "worker_id": f"w{at % 2}"} for at, row in enumerate(rows)]
    whole = read(l2logger_folder(tmp_path / "one", rows))
    parted = read(l2logger_folder(tmp_path / "two", split))
    first, second = log_of(whole.lifetime), log_of(parted.lifetime)
    assert first.value.tolist() == second.value.tolist()
    assert first.start.tolist() == second.start.tolist()
    assert parted.settings["experience_counter"] == "lifetime"
    assert set(parted.lifetime.learning["worker"].to_pylist()) == {"w0", "w1"}


def test_counters_that_begin_anew_in_each_block_are_accepted(tmp_path):
    """PAR-09: experiences counted by block."""
    rows = log_rows(*WORKERS)
    numbers = [0, 1, 0, 1, 2, 0]
    anew = [{**row, "exp_num": str(n)} for row, n in zip(rows, numbers, strict=True)]
    source = read(l2logger_folder(tmp_path / "anew", anew))
    assert source.settings["experience_counter"] == "block"
    reference = log_of(read(l2logger_folder(tmp_path / "plain", rows)).lifetime)
    log = log_of(source.lifetime)
    assert log.value.tolist() == reference.value.tolist()
    assert log.exp_num.tolist() == reference.exp_num.tolist()


def test_workers_at_their_own_pace_are_accepted(tmp_path):
    fast = log_rows(("E", "a_1", [0.1]), ("L", "a_1", [0.2]), ("E", "a_1", [0.3]))
    slow = log_rows(("E", "a_1", [0.4, 0.4, 0.4]), ("L", "a_1", [0.5]), ("E", "a_1", [0.6]))
    rows = [{**row, "worker_id": "fast"} for row in fast]
    rows += [{**row, "worker_id": "slow"} for row in slow]
    source = read(l2logger_folder(tmp_path / "log", rows))
    assert source.settings["experience_counter"] == "worker"
    log = log_of(source.lifetime)
    assert log.block.tolist() == [0, 1, 2]
    assert (np.diff(log.exp_num) >= 0).all()


def test_disorder_inside_a_worker_is_refused_with_its_line(tmp_path):
    """PAR-09: what is out of order within a worker is an error."""
    rows = log_rows(("E", "a_1", [0.1]), ("L", "a_1", [0.2, 0.3, 0.4]))
    rows[3]["exp_num"] = "1"
    with pytest.raises(Unsupported, match=r"1-train/data-log.tsv, line 4, column exp_num"):
        read(l2logger_folder(tmp_path / "log", rows))
    rows = log_rows(("E", "a_1", [0.1, 0.1]), ("L", "a_1", [0.2]), start=5)
    rows[2]["exp_num"] = "3"
    with pytest.raises(Unsupported, match=r"1-train/data-log.tsv, line 2, column exp_num"):
        read(l2logger_folder(tmp_path / "other", rows))


def test_incomplete_rows_do_not_cut_a_regime_and_are_counted(tmp_path):
    rows = log_rows(("L", "a_1", [1, 1, 1, 1]), ("E", "a_1", [1]))
    plain = log_of(read(l2logger_folder(tmp_path / "plain", rows)).lifetime)
    odd = [*rows]
    odd[1:1] = [{**rows[1], "task_name": "b_1", "exp_status": "incomplete"}]
    source = read(l2logger_folder(tmp_path / "odd", odd))
    log = log_of(source.lifetime)
    assert log.start.tolist() == plain.start.tolist()
    assert (log.dropped, source.settings["dropped_rows"]) == (1, 1)
    assert any("1 rows are incomplete" in text for text in source.warnings)


def test_one_of_several_measures_is_chosen(tmp_path):
    rows = [{**row, "reward": "7"} for row in log_rows(("L", "a_1", [1]), ("E", "a_1", [1]))]
    folder = l2logger_folder(tmp_path / "log", rows, measures=("performance", "reward"))
    with pytest.raises(UsageError, match="2 measures; choose one with --measure"):
        read(folder)
    with pytest.raises(UsageError, match="did you mean 'reward'"):
        read(folder, measure="rewards")
    lifetime = read(folder, measure="reward").lifetime
    assert lifetime.episodes["score"].to_pylist() == [7.0]
    assert lifetime.suite.tasks[0].measure == "reward"


def test_a_measure_called_success_need_not_be_a_fraction(cli, tmp_path):
    for name, value, measure in (("rate", 0.5, "success"), ("percent", 50, "success_score")):
        rows = log_rows(("L", "a_1", [value]), ("E", "a_1", [value]))
        for row in rows:
            row["success"] = row.pop("performance")
        folder = l2logger_folder(tmp_path / name, rows, measures=("success",))
        lifetime = read(folder).lifetime
        assert lifetime.suite.tasks[0].measure == measure
        assert cells(lifetime)[1, 0]["value"] == 0.5
        assert cli("export", "l2logger", folder, "-o", tmp_path / f"{name}-out")[0] == 0
        assert read(tmp_path / f"{name}-out").lifetime.learning.equals(lifetime.learning)


def test_one_log_of_several_is_chosen(tmp_path):
    rows = log_rows(("L", "a_1", [1]), ("E", "a_1", [1]))
    for name in ("one", "two"):
        l2logger_folder(tmp_path / name, rows)
    with pytest.raises(UsageError, match="holds 2 logs; give one of them: one, two"):
        read(tmp_path)
    inside = tmp_path / "outer"
    l2logger_folder(inside / "run", rows)
    assert read(inside).lifetime.suite.id == "run"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1], (0, 1)), ([2.5, 99], (0, 100)), ([5, 300], (0, 300)), ([-200, -50], (-200, 0)),
        ([-3, 7], (-3, 7)), ([0, 0], (0, 1)),
    ],
)  # fmt: skip
def test_the_score_range_is_assumed_and_told(tmp_path, values, expected):
    rows = log_rows(("L", "a_1", values), ("E", "a_1", values))
    folder = l2logger_folder(tmp_path / "log", rows)
    source = read(folder)
    assert source.lifetime.suite.tasks[0].score_range == expected
    told = any("is assumed" in text for text in source.warnings)
    assert told == (expected != (0, 1))
    given = read(folder, score_range=(-500.0, 500.0))
    assert given.lifetime.suite.tasks[0].score_range == (-500, 500)
    assert not any("is assumed" in text for text in given.warnings)


def test_the_assumed_range_changes_nothing_in_the_package_profile(tmp_path):
    rows = log_rows(
        ("E", "a_1", [3, 4]), ("L", "a_1", [5, 60, 70]), ("E", "a_1", [71, 70]),
        ("L", "a_1", [70.5, 72, 70]), ("E", "a_1", [70]), ("L", "a_1", [73, 72]),
        ("E", "a_1", [71]),
    )  # fmt: skip
    folder = l2logger_folder(tmp_path / "log", rows)
    first = L2MetricsMetrics().score(read(folder).lifetime)
    second = L2MetricsMetrics().score(read(folder, score_range=(-7.0, 1234.5)).lifetime)
    assert first.values == second.values
    text = L2MMetrics().score(read(folder).lifetime)
    assert text.get("l2m.mean_evaluation_performance").value == pytest.approx(
        np.mean([3, 4, 71, 70, 70, 71]) / 100
    )


def test_experts_are_placed_in_the_range_of_the_learner(registry, tmp_path):
    from l2bench.interop.kinds import open_bundles

    rows = log_rows(("E", "a_1", [0]), ("L", "a_1", [50, 50]), ("E", "a_1", [60]))
    learner = l2logger_folder(tmp_path / "log", rows)
    expert = l2logger_folder(tmp_path / "expert", log_rows(("L", "a_1", [100, 300])))
    (bundle,) = open_bundles(registry, learner, experts=[expert])
    assert bundle.experts[0].suite.tasks[0].score_range == (0, 100)
    values = L2MMetrics([e.lifetime for e in bundle.experts]).score(bundle.lifetime)
    assert values.get("l2m.relative_performance").value == pytest.approx(100 / 400)


def test_odd_names_become_ids_and_are_kept_as_names(tmp_path):
    rows = log_rows(("L", "Nav To/Goal_1", [1]), ("E", "nav to-goal_1", [1]), ("E", "NAV_2", [0]))
    lifetime = read(l2logger_folder(tmp_path / "log", rows)).lifetime
    assert [task.task for task in lifetime.suite.tasks] == [
        "nav to/goal_1",
        "nav to-goal_1",
        "nav_2",
    ]
    ids = [task.id for task in lifetime.suite.tasks]
    assert len(set(ids)) == 3
    assert ids[2] == "nav_2"
    assert [task.variant for task in lifetime.suite.tasks] == ["1", "1", "2"]


def test_column_order_quotes_and_crlf_do_not_matter(tmp_path):
    rows = log_rows(("L", "a_1", [1, 0.5]), ("E", "a_1", [1]))
    reference = read(l2logger_folder(tmp_path / "log", rows)).lifetime
    turned = [{**dict(reversed(row.items())), "task_params": '{"a": "b"}'} for row in rows]
    other = l2logger_folder(tmp_path / "other" / "log", turned)
    path = next(other.rglob("1-test/data-log.tsv"))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    lifetime = read(other).lifetime
    assert lifetime.learning.equals(reference.learning)
    assert lifetime.episodes.equals(reference.episodes)
    assert lifetime.suite == reference.suite


def test_files_may_lack_different_columns(tmp_path):
    rows = log_rows(("E", "a_1", [1]), ("L", "a_1", [0.5]), ("E", "a_1", [1]))
    reference = read(l2logger_folder(tmp_path / "log", rows)).lifetime
    for at, column in enumerate(("worker_id", "block_subtype", "timestamp")):
        del rows[at][column]
    lifetime = read(l2logger_folder(tmp_path / "other" / "log", rows)).lifetime
    assert lifetime.learning.equals(reference.learning)
    assert lifetime.episodes.equals(reference.episodes)
    assert [time is None for time in lifetime.blocks["started_at"].to_pylist()] == [
        False,
        False,
        True,
    ]


def test_sleep_rows_keep_their_mark(tmp_path):
    rows = log_rows(("L", "a_1", [1]), ("E", "a_1", [1]))
    asleep = [{**row, "block_subtype": "sleep"} for row in rows]
    for at, row in enumerate(asleep):
        row["exp_num"], row["block_num"] = str(2 + at), str(2 + at)
    lifetime = read(l2logger_folder(tmp_path / "log", [*rows, *asleep])).lifetime
    assert lifetime.blocks["role"].to_pylist() == ["wake", "post", "sleep", "post"]
    assert log_of(lifetime).sleep.tolist() == [False, False, True, True]
    assert replace(lifetime, complete=False).suite == lifetime.suite
