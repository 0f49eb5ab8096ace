"""The multitask bound: derived from the suite, run once, kept, and part of the bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest
from metrics.builders import lifetime
from stubs import Joint, asking, stubbed
from support import probe_suite, run_suite, value

from l2bench.bundle.lifetime import synthetic
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.calibration import Cost, expected
from l2bench.cast import AgentSpec, Cast, Execution
from l2bench.cli.compose import Composed
from l2bench.cli.plan import describe, estimate, show
from l2bench.errors import Interrupted, Unsupported, UsageError
from l2bench.experts import bound_suite, companion_suites
from l2bench.metrics.bound import BoundMetrics
from l2bench.suite import Suite, judge


def only(folder: Path):
    (path,) = find_bundles(folder)
    return read_bundle(path)


def events(folder: Path) -> list[dict]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == "multitask"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    base = tmp_path_factory.mktemp("bound")
    suite = asking(seeds=[0, 1], experts=True)
    run_suite(stubbed(Joint), suite, "stub", base / "run")
    return base / "run"


def test_the_bound_knows_all_tasks_and_the_forgetter_one(run):
    for path in find_bundles(run):
        scores = read_bundle(path).scores
        assert value(scores, "bound.multitask_performance") == 1.0
        assert value(scores, "bound.multitask_gap") == pytest.approx(-2 / 3)
        gaps = [value(scores, "bound.multitask_gap_k", f"task-{n}") for n in (1, 2, 3)]
        assert gaps == [-1.0, -1.0, 0.0]
        assert not any(metric["headline"] for metric in scores["metrics"])


def test_each_lifetime_carries_the_bound_of_its_own_seed(run):
    for path in find_bundles(run):
        bundle = read_bundle(path)
        assert [(r.role, r.task) for r in bundle.manifest.references] == [
            ("expert", "task-1"), ("expert", "task-2"), ("expert", "task-3"), ("multitask", None),
        ]  # fmt: skip
        assert len(bundle.experts) == 3
        bound = bundle.bound
        assert bound is not None
        assert bound.manifest.seed == bundle.manifest.seed
        assert bound.agent.settings == {"joint": True, "needs": 4}
        assert [b["kind"] for b in bound.lifetime.blocks.to_pylist()] == ["learn"] * 3 + ["eval"]
        assert bound.lifetime.learning.num_rows == 1 + 1 + 4
        assert bound.lifetime.episodes.num_rows == 3 * 5
        beside = [each.manifest.budget.wall_s for each in (*bundle.experts, bound)]
        assert bundle.manifest.budget.experts_wall_s == pytest.approx(sum(beside))


def test_a_bundle_with_a_bound_is_scored_checked_shown_and_published(cli, run, tmp_path):
    code, output, errors = cli("score", run, "--json")
    assert code == 0, errors
    for scored, path in zip(json.loads(output)["bundles"], find_bundles(run), strict=True):
        assert scored["metrics"] == read_bundle(path).scores["metrics"]
    code, output, errors = cli("check", run)
    assert code == 0, output + errors
    assert "0 errors" in output
    page = tmp_path / "page.html"
    code, _, errors = cli("report", run, "-o", page)
    assert code == 0, errors
    text = page.read_text()
    assert "Against learning all tasks together" in text
    assert "2 multitask bounds" in text
    assert "6 single-task experts" in text
    clean = tmp_path / "clean.l2b"
    assert cli("bundle", "scrub", find_bundles(run)[0], "-o", clean)[0] == 0
    assert cli("bundle", "pack", clean, "-o", tmp_path / "clean.l2b.zip")[0] == 0
    assert read_bundle(tmp_path / "clean.l2b.zip").bound is not None


def test_bounds_are_reused_by_content(run):
    kept = run.parent / "data" / "experts"
    assert len(list(kept.glob("multitask-bound__*"))) == 1
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*.parquet")}
    other = asking(seeds=[0, 1], id="other", scenario={"evaluate": "all", "keep": "last"})
    run_suite(stubbed(Joint), other, "stub", run.parent / "other")
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*.parquet")} == before
    first, second = find_bundles(run.parent / "other")
    assert [event["reused"] for event in events(first)] == [True]
    assert events(second) == []  # the first one found them for both
    run_suite(stubbed(Joint), other, "stub", run.parent / "third", settings={"needs": 5})
    assert len(list(kept.glob("multitask-bound__*"))) == 2
    scores = read_bundle(find_bundles(run.parent / "third")[0]).scores
    assert value(scores, "bound.multitask_performance") == 0.0


@pytest.mark.parametrize("file", ["tables/episodes.parquet", "manifest.json", "agent.json"])
def test_a_damaged_kept_bound_is_made_anew_before_the_lifetime(tmp_path, caplog, file):
    suite = asking()
    run_suite(stubbed(Joint), suite, "stub", tmp_path / "run")
    (kept,) = (tmp_path / "data" / "experts").glob("multitask-bound__*/*.l2b")
    (kept / file).write_bytes((kept / file).read_bytes()[:-40])
    scores = run_suite(stubbed(Joint), suite, "stub", tmp_path / "again")
    assert value(scores, "bound.multitask_performance") == 1.0
    (event,) = events(find_bundles(tmp_path / "again")[0])
    assert event["reused"] is False
    (warning,) = [record for record in caplog.records if "made anew" in record.message]
    assert str(kept) in warning.message
    assert not kept.exists()
    run_suite(stubbed(Joint), suite, "stub", tmp_path / "third")
    assert [event["reused"] for event in events(find_bundles(tmp_path / "third")[0])] == [True]


def test_a_task_without_a_gap_is_shown_with_its_reason(cli, tmp_path):
    """The last evaluation leaves out a learned task: its row, and the mean, hold a reason alone."""
    scenario = {"kind": "blocks", "blocks": [
        {"learn": "task-1"}, {"evaluate": "all"}, {"learn": "task-2"}, {"evaluate": ["task-2"]},
    ]}  # fmt: skip
    suite = asking(2, every=None, scenario=scenario)
    run_suite(stubbed(Joint), suite, "stub", tmp_path / "run")
    page = tmp_path / "page.html"
    code, _, errors = cli("report", tmp_path / "run", "-o", page)
    assert code == 0, errors
    assert page.read_text().count("task task-1 was not evaluated after the last learning") >= 2


@pytest.mark.parametrize(
    ("attribute", "stated"),
    [("multitask", ["joint"]), ("multitask", {1: True}), ("devices", "cuda"), ("devices", {"gpu"})],
)
def test_a_class_that_states_its_forms_wrongly_is_refused(tmp_path, attribute, stated):
    wrong = type("Wrong", (Joint,), {attribute: stated})
    with pytest.raises(Unsupported, match=rf"agent 'l2bench/stub' states {attribute} = "):
        Cast.gather(stubbed(wrong), asking(), AgentSpec(name="stub"), Execution(data=tmp_path))


def test_an_interrupt_in_the_bound_is_resumed_there(tmp_path):
    class Stopped(Joint):
        stops: ClassVar = True

        def learn(self, lesson, task):
            if self.stops and self.settings.joint and task.id == "task-3":
                raise KeyboardInterrupt
            super().learn(lesson, task)

    registry, suite = stubbed(Stopped), asking()
    with pytest.raises((KeyboardInterrupt, Interrupted)):
        run_suite(registry, suite, "stub", tmp_path / "run")
    assert only(tmp_path / "run").manifest.status == "interrupted"
    (kept,) = (tmp_path / "data" / "experts").glob("multitask-bound__*")
    assert only(kept).manifest.counts.blocks_sealed == 2
    Stopped.stops = False
    scores = run_suite(registry, suite, "stub", tmp_path / "run", resume=True)
    bundle = only(tmp_path / "run")
    assert bundle.manifest.counts.discarded_attempts == 0  # no block of its own had begun
    assert bundle.bound.manifest.counts.discarded_attempts == 1
    assert value(scores, "bound.multitask_performance") == 1.0


def test_an_agent_without_a_multitask_form_is_refused_before_anything_runs(cli, tmp_path):
    suite = tmp_path / "probe.yaml"
    suite.write_text(json.dumps(probe_suite(2).resolved()))
    out = tmp_path / "run"
    code, _, errors = cli("run", suite, "agent=perfect", "bound=true", "-o", out)
    assert code == 3
    assert "agent 'l2bench/perfect' has no multitask form; run without bound=true, or" in errors
    assert "\n" not in errors.strip()
    assert not out.exists()
    assert cli("run", suite, "agent=perfect", "bound=false", "-o", out)[0] == 0
    with pytest.raises(Unsupported, match=r"declares one: .*l2bench/stub"):
        Cast.gather(stubbed(Joint), asking(), AgentSpec(name="perfect"), Execution())


def test_settings_that_do_not_go_with_the_joint_form_are_refused_early():
    class Wrong(Joint):
        multitask: ClassVar = {"jiont": True}

    with pytest.raises(UsageError, match=r"agent 'l2bench/stub' as a joint learner: .*'jiont'"):
        Cast.gather(stubbed(Wrong), asking(), AgentSpec(name="stub"), Execution())


def test_the_bounds_suite_depends_on_tasks_budgets_episodes_and_seeds():
    base = bound_suite(asking())
    assert base == bound_suite(asking(id="other", scenario={"keep": "last", "pretest": True}))
    assert base.hash != bound_suite(asking(2)).hash
    assert base.hash != bound_suite(asking(amount=8)).hash
    assert base.hash != bound_suite(asking(scenario={"episodes": 6})).hash
    twice = bound_suite(asking(scenario={"rounds": 2}))
    assert twice.scenario.blocks[-2].amount == 8  # as much as both visits


def test_the_task_with_the_largest_budget_comes_last():
    data = asking().resolved()
    data["tasks"][0]["learning"] |= {"amount": 6, "checkpoints": [0, 2, 4, 6]}
    blocks = bound_suite(judge(Suite, data, "x")).scenario.blocks
    assert [(b.learn, b.amount) for b in blocks[:-1]] == [
        ("task-2", 1), ("task-3", 1), ("task-1", 6),
    ]  # fmt: skip
    assert blocks[-1].evaluate == ("task-1", "task-2", "task-3")


def test_a_joint_learner_is_told_where_tasks_end_and_nothing_else_more():
    hidden = bound_suite(asking(scenario={"reveal": ["language"]}))
    assert hidden.scenario.reveal == ("language", "boundaries")
    assert bound_suite(asking()).scenario.reveal == ("task", "language", "boundaries")


def test_the_key_adds_its_metric_set_and_changes_no_suite_without_it():
    plain = probe_suite()
    assert "bound" not in plain.resolved()
    assert probe_suite(bound=False).hash == plain.hash
    assert probe_suite(bound=True).hash != plain.hash
    assert probe_suite(bound=True).metrics == (*plain.metrics, "l2bench/bound")
    assert probe_suite(bound=True, metrics=["bound"]).metrics == ("bound",)
    resolved = probe_suite(bound=True).resolved()
    assert judge(Suite, resolved, "again").resolved() == resolved
    with pytest.raises(UsageError, match="'bound': input should be a valid boolean"):
        probe_suite(bound="yes")
    with pytest.raises(UsageError, match="needs a task that is learned"):
        scenario = {"kind": "blocks", "blocks": [{"evaluate": "all"}]}
        probe_suite(bound=True, every=None, scenario=scenario)


def test_without_a_bound_the_reason_says_how_to_get_one(registry, tmp_path):
    suite = probe_suite(2, metrics=["bound"])
    scores = run_suite(registry, suite, "perfect", tmp_path / "run")
    assert {m["id"]: (m["value"], m["undefined_reason"]) for m in scores["metrics"]} == {
        id: (None, "needs a multitask bound: bound=true")
        for id in ("bound.multitask_performance", "bound.multitask_gap")
    }


def test_the_worked_example():
    """The lifetime ends with 0, 0 and 1, the bound with 1, 1 and 0.5."""
    suite = asking()
    own = lifetime(suite, lambda row, task: float(task == row["learn_task"]))
    bound = lifetime(bound_suite(suite), lambda row, task: (1.0, 1.0, 0.5)[task])
    scores = BoundMetrics(bound).score(own)
    assert scores.get("bound.multitask_performance").value == pytest.approx(2.5 / 3)
    assert scores.get("bound.multitask_gap").value == pytest.approx(-0.5)
    assert [scores.get("bound.multitask_gap_k", f"task-{n}").value for n in (1, 2, 3)] == [
        -1.0, -1.0, 0.5,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("suite", "words"),
    [
        (bound_suite(asking(2)), "the bound knows no task task-3"),
        (bound_suite(asking(amount=8)), "the bound learned another task task-1"),
        (asking(scenario={"evaluate": "seen", "order": ["task-1", "task-2"]}),
         "the bound was not evaluated on task task-3 at its end"),
    ],
)  # fmt: skip
def test_a_bound_that_does_not_fit_blanks_what_needs_it(suite, words):
    scores = BoundMetrics(synthetic(suite, 0)).score(synthetic(asking(), 0))
    for id in ("bound.multitask_performance", "bound.multitask_gap"):
        assert scores.get(id).reason == words


def test_the_end_of_a_lifetime_is_its_last_evaluation():
    """Tasks that are not evaluated there have no gap; the bound is known all the same."""
    scenario = {"kind": "blocks", "blocks": [
        {"learn": "task-1"}, {"evaluate": "all"}, {"learn": "task-2"}, {"evaluate": ["task-2"]},
    ]}  # fmt: skip
    suite = asking(2, every=None, scenario=scenario)
    scores = BoundMetrics(synthetic(bound_suite(suite), 0)).score(synthetic(suite, 0))
    assert scores.get("bound.multitask_performance").value == 0.5
    assert scores.get("bound.multitask_gap_k", "task-2").value == 0.0
    assert scores.get("bound.multitask_gap").reason == (
        "task task-1 was not evaluated after the last learning"
    )


def test_a_plan_counts_experts_and_bound(tmp_path, capsys):
    suite, spec = asking(experts=True), AgentSpec(name="stub")
    registry, execution = stubbed(Joint), Execution(data=tmp_path)
    cast = Cast.gather(registry, suite, spec, execution)
    composed = Composed(suite, spec, execution, ())
    described = describe(registry, composed, cast)
    kinds = [each["kind"] for each in described["companions"]]
    assert kinds == ["single-task-expert"] * 3 + ["multitask-bound"]
    assert [each["evaluation_episodes"] for each in described["companions"]] == [20] * 3 + [15]
    assert described["companions"][-1]["learning_segments"] == 3
    assert all(m["identifiable"] for m in described["metrics"] if m["task"] is None)
    own = {**described, "companions": []}
    before, after = estimate(cast, own)["seconds"], estimate(cast, described)["seconds"]
    own_steps = 2e-5 * (described["evaluation_steps_at_most"] + 3 * 4)
    assert before == pytest.approx(own_steps)
    assert after == pytest.approx(own_steps + 2e-5 * (3 * (20 + 4) + 15 + 6))
    show(described)
    assert "beside it, per seed: 3 single-task experts, 1 multitask bound with 75 evaluation " in (
        capsys.readouterr().out
    )
    assert companion_suites(probe_suite()) == ()


def test_measured_costs_count_the_union_that_a_joint_learner_goes_through(tmp_path):
    """Two tasks of 32 samples, 4 epochs each; the bound has 1 of one task and 4 of both."""
    cost = Cost((0, 1), None, None, None, act=1.0, batch=1, chunk=1, learn=0.5, item="sample")
    learning = {}
    for bound in (False, True):
        suite = probe_suite(2, source="samples", unit="epochs", every=None, bound=bound)
        cast = Cast.gather(stubbed(Joint), suite, AgentSpec(name="stub"), Execution(data=tmp_path))
        found = expected(cast, [cost])
        assert found["lifetimes"] == 1 + bound
        learning[bound] = found["learning"]
    assert learning[False] == 0.5 * 32 * (4 + 4)
    assert learning[True] - learning[False] == 0.5 * 32 * (1 + 4 * 2)
