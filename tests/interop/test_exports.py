"""Exports: logs that score the same when they come back, tidy CSV, and tables for papers."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from interop.builders import l2logger_folder, log_rows
from support import ROOT, probe_suite, run_suite

from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.errors import UsageError
from l2bench.interop.kinds import open_bundles
from l2bench.interop.tabular import COLUMNS, latex, markdown, tidy
from l2bench.metrics.sets import L2MetricsMetrics, L2MMetrics
from l2bench.scoring import summarise

LAYOUT = ROOT / "tests" / "oracle" / "l2m" / "example" / "l2logger_layout"


@pytest.fixture(scope="module")
def runs(registry, tmp_path_factory) -> Path:
    """Two lifetimes of three interaction tasks, learned twice each."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    scenario = {"kind": "interleaved", "rounds": 2, "episodes": 5}
    suite = probe_suite(3, amount=12, every=None, scenario=scenario, seeds=[0, 1])
    run_suite(registry, suite, "late_bloomer", folder)
    return folder


def tsv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text()), delimiter="\t"))


def same(one, other) -> None:
    found = {(v.id, v.task, v.source): v for v in one.values}
    again = {(v.id, v.task, v.source): v for v in other.values}
    assert found.keys() == again.keys()
    assert any(value.value is not None for value in found.values())
    for key, value in found.items():
        assert (value.n, value.reason) == (again[key].n, again[key].reason)
        if value.value is not None:
            assert value.value == pytest.approx(again[key].value, rel=1e-12, abs=1e-12), key


@pytest.mark.parametrize("metric_set", [L2MMetrics, L2MetricsMetrics])
def test_a_run_comes_back_from_a_log_with_the_same_scores(
    cli, registry, runs, tmp_path, metric_set
):
    first = find_bundles(runs)[0]
    assert cli("export", "l2logger", first, "-o", tmp_path / "log")[0] == 0
    (back,) = open_bundles(registry, tmp_path / "log")
    same(metric_set().score(read_bundle(first).lifetime), metric_set().score(back.lifetime))
    assert cli("import", "l2logger", tmp_path / "log", "-o", tmp_path / "back.l2b")[0] == 0
    again = read_bundle(tmp_path / "back.l2b").lifetime
    same(metric_set().score(back.lifetime), metric_set().score(again))


def test_checkpoints_stay_out_as_they_do_in_the_metrics(cli, registry, tmp_path):
    suite = probe_suite(2, scenario={"pretest": True})
    run_suite(registry, suite, "late_bloomer", tmp_path / "run")
    (first,) = find_bundles(tmp_path / "run")
    assert cli("export", "l2logger", first, "-o", tmp_path / "log")[0] == 0
    (back,) = open_bundles(registry, tmp_path / "log")
    same(L2MMetrics().score(read_bundle(first).lifetime), L2MMetrics().score(back.lifetime))


def test_the_layout_is_that_of_the_logger(cli, runs, tmp_path):
    first = find_bundles(runs)[0]
    cli("export", "l2logger", first, "-o", tmp_path / "log")
    info = json.loads((tmp_path / "log" / "logger_info.json").read_text())
    assert info["metrics_columns"] == ["performance"]
    scenario = json.loads((tmp_path / "log" / "scenario_info.json").read_text())
    assert scenario["scenario_type"] == "custom"
    files = sorted((tmp_path / "log").rglob("data-log.tsv"))
    assert {path.parent.parent.name for path in files} == {"worker-default"}
    for path in files:
        rows = tsv(path)
        assert path.parent.name == f"{rows[0]['block_num']}-{rows[0]['block_type']}"
        assert list(rows[0]) == [
            "block_num", "exp_num", "worker_id", "block_type", "block_subtype", "task_name",
            "task_params", "exp_status", "timestamp", "performance",
        ]  # fmt: skip
        for row in rows:
            assert json.loads(row["task_params"]) == {}
            assert len(row["timestamp"]) == len("20240101T000000.000000")


def test_an_import_goes_out_as_it_came_in(cli, tmp_path):
    source = LAYOUT / "ll_logs" / "multi_task"
    assert cli("export", "l2logger", source, "-o", tmp_path / "log")[0] == 0
    files = sorted(path.relative_to(source) for path in source.rglob("data-log.tsv"))
    assert files == sorted(
        p.relative_to(tmp_path / "log") for p in (tmp_path / "log").rglob("*.tsv")
    )
    kept = ("block_num", "exp_num", "worker_id", "block_type", "task_name", "exp_status")
    for name in files:
        before = tsv(source / name)
        after = tsv(tmp_path / "log" / name)
        assert [[r[c] for c in kept] for r in before] == [[r[c] for c in kept] for r in after]
        assert [float(r["performance"]) for r in before] == [float(r["performance"]) for r in after]


def test_workers_incomplete_rows_and_odd_names_survive(cli, registry, tmp_path):
    rows = log_rows(("E", 'a "b"_1', [0.1, 0.2]), ("L", 'a "b"_1', [0.3, "", 0.5]))
    for at, row in enumerate(rows):
        row["worker_id"] = f"w{at % 2}"
    rows[0]["exp_status"] = "incomplete"
    rows[-1]["block_subtype"] = "sleep"
    source = l2logger_folder(tmp_path / "log", rows)
    assert cli("export", "l2logger", source, "-o", tmp_path / "out")[0] == 0
    (before,), (after,) = open_bundles(registry, source), open_bundles(registry, tmp_path / "out")
    assert after.lifetime.learning.equals(before.lifetime.learning)
    assert after.lifetime.episodes.equals(before.lifetime.episodes)


def test_a_worker_name_cannot_leave_the_folder(cli, registry, tmp_path):
    rows = [{**row, "worker_id": ".."} for row in log_rows(("L", "a_1", [1]), ("E", "a_1", [1]))]
    source = l2logger_folder(tmp_path / "in" / "log", [{**r, "worker_id": "w"} for r in rows])
    for path in source.rglob("data-log.tsv"):
        path.write_text(path.read_text().replace("\tw\t", "\t..\t"))
    assert cli("export", "l2logger", source, "-o", tmp_path / "out" / "log")[0] == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["log"]
    assert len(list((tmp_path / "out" / "log").rglob("data-log.tsv"))) == 2


def test_several_bundles_become_several_logs(cli, runs, tmp_path):
    assert cli("export", "l2logger", runs, "-o", tmp_path / "logs")[0] == 0
    logs = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert logs == sorted(path.name.removesuffix(".l2b") for path in find_bundles(runs))
    assert cli("export", "l2logger", runs, "-o", tmp_path / "logs")[0] == 2
    assert cli("export", "l2logger", runs, "-o", tmp_path / "logs", "--force")[0] == 0


def test_learning_without_scores_is_told(cli, registry, tmp_path):
    suite = probe_suite(2, source="demonstrations", unit="epochs", amount=2, every=None)
    run_suite(registry, suite, "perfect", tmp_path / "run")
    code, _, errors = cli("export", "l2logger", tmp_path / "run", "-o", tmp_path / "log")
    assert code == 0
    assert "the learning of task-1, task-2 is not scored" in errors


def test_aggregates_have_no_rows_to_export(cli, tmp_path):
    (tmp_path / "m.csv").write_text("0.5,0.5\n0.5,0.5\n")
    code, _, errors = cli("export", "l2logger", tmp_path / "m.csv", "-o", tmp_path / "log")
    assert code == 3
    assert "aggregate import: it has no rows" in errors
    assert not (tmp_path / "log").exists()


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_csv_has_one_line_per_run_task_block_and_metric(cli, runs, tmp_path):
    assert cli("export", "csv", runs, "-o", tmp_path / "x.csv")[0] == 0
    rows = rows_of((tmp_path / "x.csv").read_text())
    assert tuple(rows[0]) == COLUMNS
    bundles = [read_bundle(folder) for folder in find_bundles(runs)]
    metrics = sum(len(bundle.scores["metrics"]) for bundle in bundles)
    measured = [row for row in rows if row["block"]]
    assert len(measured) == 2 * 3 * 7  # lifetimes, tasks, evaluations
    assert len(rows) == metrics + len(measured)
    keys = [tuple(row[c] for c in ("run", "task", "source", "block", "metric")) for row in rows]
    assert len(set(keys)) == len(keys)


def test_the_csv_gives_every_value_back(runs):
    bundles = [read_bundle(folder) for folder in find_bundles(runs)]
    rows = [r for r in rows_of(tidy(bundles, [b.scores for b in bundles])) if not r["block"]]
    stored = [metric for bundle in bundles for metric in bundle.scores["metrics"]]
    for row, metric in zip(rows, stored, strict=True):
        assert row["metric"] == metric["id"]
        assert (float(row["value"]) if row["value"] else None) == metric["value"]
        assert (row["reason"] or None) == metric["undefined_reason"]
        assert (row["task"] or None, int(row["n"])) == (metric["task"], metric["n"])


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx"])
def test_no_text_in_the_csv_is_a_formula(registry, tmp_path, name):
    from dataclasses import replace

    source = l2logger_folder(tmp_path / "log", log_rows(("L", "a_1", [1]), ("E", "a_1", [1])))
    (bundle,) = open_bundles(registry, source)
    agent = bundle.manifest.agent.model_copy(update={"name": name})
    hostile = replace(bundle, manifest=bundle.manifest.model_copy(update={"agent": agent}))
    for row in csv.reader(io.StringIO(tidy([hostile], [hostile.scores]), newline="")):
        for cell in row:
            assert cell[:1] not in ("=", "+", "@", "\t", "\r"), cell
            if cell.startswith("-"):
                float(cell)


def test_tables_show_the_headline(cli, runs, tmp_path):
    summary = summarise(find_bundles(runs))
    for kind, name in (("markdown", "x.md"), ("latex", "x.tex")):
        assert cli("export", kind, runs, "-o", tmp_path / name)[0] == 0
    text = (tmp_path / "x.md").read_text()
    known = [m for m in summary["metrics"] if m["headline"] and m["mean"] is not None]
    assert known
    for metric in known:
        assert f"| `{metric['id']}` | {metric['mean']:.3f}" in text
    lines = text.split("\n\n")[0].strip().splitlines()
    assert {line.count("|") for line in lines} == {4}
    tex = (tmp_path / "x.tex").read_text()
    assert tex.count("{") == tex.count("}")
    assert f"${known[0]['mean']:.3f}$" in tex
    assert tex.count("\\\\\n") == 1 + sum(m["headline"] and m["scope"] == "lifetime"
                                          for m in summary["metrics"])  # fmt: skip


def test_agents_side_by_side_on_one_suite_only(cli, registry, tmp_path):
    for agent in ("perfect", "frozen"):
        run_suite(registry, probe_suite(2), agent, tmp_path / agent)
    paths = (tmp_path / "perfect", tmp_path / "frozen")
    assert cli("export", "markdown", *paths, "-o", tmp_path / "x.md")[0] == 0
    head = (tmp_path / "x.md").read_text().splitlines()[0]
    assert "perfect (1 lifetime)" in head
    assert "frozen (1 lifetime)" in head
    run_suite(registry, probe_suite(3), "perfect", tmp_path / "other")
    code, _, errors = cli("export", "latex", *paths, tmp_path / "other", "-o", tmp_path / "x.tex")
    assert (code, "one table is of one suite; these are 2" in errors) == (2, True)
    assert not (tmp_path / "x.tex").exists()


def test_hostile_names_have_no_effect_in_tables(runs):
    summary = summarise(find_bundles(runs))
    name = "a|b<script>$x_1$ \\input{/etc/passwd} 100% & #1\n\n# head"
    hostile = {**summary, "agent": {**summary["agent"], "name": name}}
    text, tex = markdown([hostile]), latex([hostile])
    assert "<script>" not in text
    assert len(text.splitlines()) == len(markdown([summary]).splitlines())
    assert "\\input" not in tex
    assert len(tex.splitlines()) == len(latex([summary]).splitlines())
    assert r"100\% \& \#1" in tex


def test_exports_are_not_overwritten_without_force(cli, runs, tmp_path):
    out = tmp_path / "x.csv"
    out.write_text("mine")
    code, _, errors = cli("export", "csv", runs, "-o", out)
    assert (code, "exists already" in errors) == (2, True)
    assert out.read_text() == "mine"
    assert cli("export", "csv", runs, "-o", out, "--force")[0] == 0
    assert out.read_text() != "mine"
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    for kind in ("l2logger", "csv"):
        code, _, errors = cli("export", kind, runs, "-o", precious, "--force")
        assert (code, "no earlier export" in errors) == (2, True)
    assert (precious / "thesis.txt").exists()


def test_an_unknown_export_is_told_before_anything_is_read(cli, tmp_path):
    code, _, errors = cli("export", "latx", tmp_path / "nowhere", "-o", tmp_path / "x")
    assert (code, "did you mean 'latex'" in errors) == (2, True)


def test_other_metrics_can_be_exported(cli, runs, tmp_path):
    cli("export", "csv", runs, "-o", tmp_path / "x.csv", "--metrics", "gem")
    metrics = {row["metric"] for row in rows_of((tmp_path / "x.csv").read_text())}
    assert metrics
    assert all(name.startswith("gem.") or name == "performance" for name in metrics)


def test_commands_print_one_json_document(cli, runs, tmp_path):
    for arguments in (
        ["export", "csv", runs, "-o", tmp_path / "x.csv"],
        ["export", "l2logger", find_bundles(runs)[0], "-o", tmp_path / "log"],
        ["import", "l2logger", tmp_path / "log", "-o", tmp_path / "x.l2b"],
        ["score", tmp_path / "log"], ["report", tmp_path / "log"],
    ):  # fmt: skip
        code, output, _ = cli(*arguments, "--json")
        assert code == 0
        assert isinstance(json.loads(output), dict)


def test_summaries_of_nothing_are_not_made():
    with pytest.raises((UsageError, IndexError)):
        latex([])
