"""Single-task experts: run by themselves, kept by content, reused, and part of the bundle."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support import probe_suite, run_suite, value

from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.errors import Unsupported
from l2bench.experts import expert_suite
from l2bench.suite import Suite, judge


def catch_suite(**more) -> Suite:
    learning = {"source": "interaction", "unit": "episodes", "amount": 12}
    tasks = [
        {"id": name, "environment": "l2bench/catch", "task": name, "horizon": 100,
         "measure": "catch_rate", "learning": learning}
        for name in ("catch", "mirrored_catch")
    ]  # fmt: skip
    data = {"id": "two", "version": "1", "title": "t", "tasks": tasks, "seeds": [0, 1],
            "scenario": {"kind": "interleaved", "episodes": 2},
            "metrics": ["l2bench/l2m"], "experts": True, **more}  # fmt: skip
    return judge(Suite, data, "two")


@pytest.fixture(scope="module")
def run(registry, tmp_path_factory) -> Path:
    base = tmp_path_factory.mktemp("experts")
    run_suite(registry, catch_suite(), "tabular", base / "run")
    return base / "run"


def test_each_lifetime_carries_the_experts_of_its_own_seed(run):
    for path in find_bundles(run):
        bundle = read_bundle(path)
        assert [r.task for r in bundle.manifest.references] == ["catch", "mirrored_catch"]
        for expert in bundle.experts:
            assert expert.manifest.seed == bundle.manifest.seed
            assert expert.manifest.agent == bundle.manifest.agent
            assert expert.lifetime.learning.num_rows == 12


def test_relative_performance_is_the_ratio_to_the_experts_rows(run):
    for path in find_bundles(run):
        bundle = read_bundle(path)
        scores = bundle.scores
        learning = bundle.lifetime.learning.to_pylist()
        ratios = []
        for index, expert in enumerate(bundle.experts):
            ours = sum(row["score"] for row in learning if row["task_index"] == index)
            theirs = sum(row["score"] for row in expert.lifetime.learning.to_pylist())
            ratios.append(ours / theirs)
            task = bundle.suite.tasks[index].id
            assert value(scores, "l2m.relative_performance_k", task) == pytest.approx(ratios[-1])
        assert value(scores, "l2m.relative_performance") == pytest.approx(sum(ratios) / 2)


def test_experts_are_reused_by_content(registry, run):
    kept = run.parent / "data" / "experts"
    assert len(list(kept.iterdir())) == 2
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*.parquet")}
    other = catch_suite(id="other", scenario={"kind": "interleaved", "episodes": 2, "rounds": 2})
    scores = run_suite(registry, other, "tabular", run.parent / "other")
    assert value(scores, "l2m.relative_performance") is not None
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*.parquet")} == before
    settings = {"epsilon": 0.2}
    run_suite(registry, other, "tabular", run.parent / "another", settings=settings)
    assert len(list(kept.iterdir())) == 4


def test_scoring_anew_uses_the_experts_in_the_bundle(cli, run):
    code, output, errors = cli("score", run, "--json")
    assert code == 0, errors
    for scored, path in zip(json.loads(output)["bundles"], find_bundles(run), strict=True):
        assert scored["metrics"] == read_bundle(path).scores["metrics"]


def test_another_expert_than_the_recorded_one_is_refused(run, tmp_path):
    copy = tmp_path / "copy.l2b"
    shutil.copytree(find_bundles(run)[0], copy)
    (first, second) = sorted(copy.glob("experts/*"))
    shutil.rmtree(first)
    shutil.copytree(second, first)
    with pytest.raises(Unsupported, match="not the expert"):
        _ = read_bundle(copy).experts


def test_ready_experts_are_taken(registry, cli, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suite = tmp_path / "two.yaml"
    suite.write_text(json.dumps(catch_suite().resolved()))
    ready = tmp_path / "ready"
    ready.mkdir()
    for path in (run.parent / "data" / "experts").glob("*/*__s0__*.l2b"):
        shutil.copytree(path, ready / path.name)
    code, _, errors = cli(
        "run", suite, "agent=tabular", "execution.seeds=[0]", "--expert", ready, "-o", "out"
    )
    assert code == 0, errors
    assert not (tmp_path / "l2bench-data").exists()
    (bundle,) = find_bundles(tmp_path / "out")
    assert len(read_bundle(bundle).experts) >= 2


def test_the_experts_suite_depends_on_its_task_alone():
    base = probe_suite(3)
    other = probe_suite(2, seeds=[0], metrics=["l2bench/libero"], title="Other")
    assert expert_suite(base, 1).hash == expert_suite(other, 1).hash
    assert expert_suite(base, 1).hash != expert_suite(base, 2).hash
    longer = probe_suite(3, amount=8)
    assert expert_suite(base, 1).hash != expert_suite(longer, 1).hash


def test_kemkers_offline_learner_is_the_expert_of_the_first_task(cli, registry, tmp_path):
    """A suite that asks for experts has the Omegas: at once, in its bundles, and scored anew."""
    suite = probe_suite(
        2, source="samples", unit="epochs", experts=True, metrics=["l2bench/kemker"]
    )
    scores = run_suite(registry, suite, "forgetter", tmp_path / "run")
    assert scores["scorer"]["metric_sets"][0]["settings"] == {"ideal": 1.0}
    assert value(scores, "kemker.omega_base") == 0.0
    assert value(scores, "kemker.omega_all") == 0.5
    code, output, errors = cli("score", tmp_path / "run", "--json")
    assert code == 0, errors
    assert json.loads(output)["bundles"][0]["metrics"] == scores["metrics"]
    setting = ("--setting", "kemker.ideal=0.5")
    anew = json.loads(cli("score", tmp_path / "run", *setting, "--json")[1])["bundles"][0]
    assert value(anew, "kemker.omega_all") == 1.0
    code, _, errors = cli("report", tmp_path / "run", *setting)
    assert code == 2
    assert "--setting goes with another tool's results" in errors


def test_experts_that_learn_from_demonstrations_have_no_learning_score(registry, tmp_path):
    """Nothing to compare learning with: a reason, not a failure after the whole run."""
    suite = probe_suite(
        2, source="demonstrations", unit="epochs", experts=True, metrics=["l2m", "libero"]
    )
    scores = run_suite(registry, suite, "late_bloomer", tmp_path / "run")
    (found,) = [m for m in scores["metrics"] if m["id"] == "l2m.relative_performance"]
    assert found["value"] is None
    assert "not scored" in found["undefined_reason"]
