"""Strangers' faults and odd surroundings: one line, the right exit code, nothing wrong scored."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from stubs import Stub, stubbed
from support import ROOT, content_hashes, probe_suite, run_suite

from l2bench.builtin.probe import Probe, ProbeEnvironment
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.cast import AgentSpec, Cast, Execution
from l2bench.errors import L2benchError, RunFailed, Unsupported, UsageError
from l2bench.metrics.base import MetricSet

L2BENCH = [sys.executable, "-m", "l2bench"]
SMOKE = ["run", str(ROOT / "suites" / "quickstart.yaml"), "profile=smoke"]


def environment(**methods) -> type[ProbeEnvironment]:
    live = type("Odd", (Probe,), methods)
    return type("OddEnvironment", (ProbeEnvironment,), {"make": lambda self, task: live()})


def refusal(tmp_path: Path, agent=Stub, suite=None, **environments) -> str:
    suite = suite or probe_suite(1)
    if environments:
        (name,) = environments
        task = suite.tasks[0].model_copy(update={"environment": f"l2bench/{name}"})
        suite = suite.model_copy(update={"tasks": (task,)})
    with pytest.raises(L2benchError) as caught:
        run_suite(stubbed(agent, **environments), suite, "stub", tmp_path / "run")
    bundles = list((tmp_path / "run").glob("*.l2b"))
    for bundle in bundles:
        assert read_bundle(bundle).manifest.status == "failed"
    return str(caught.value)


def stepping(reward=0.0, terminated=True, info=None):
    observation = np.zeros(4, np.float32)
    return lambda self, action: (observation, reward, terminated, False, info or {"success": True})


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"step": stepping(reward=float("nan"))}, "rewards add up to nan"),
        ({"step": stepping(reward=float("inf"))}, "rewards add up to inf"),
        ({"step": stepping(info={"success": "False"})}, "info['success'] is 'False'"),
        ({"step": stepping(info={"success": float("nan")})}, "info['success'] is nan"),
        ({"step": stepping(terminated="no")}, "terminated is 'no'"),
        ({"step": lambda self, action: (np.zeros(4), 0.0, True, {})}, "gym before 0.26"),
        ({"reset": lambda self, *, seed=None, options=None: np.zeros(4)}, "gym before 0.26"),
        ({"step": lambda self, action: sys.exit(0)}, "SystemExit"),
        ({"step": lambda self, action: 1 / 0}, "ZeroDivisionError"),
    ],
)
def test_environments_that_return_nonsense_are_refused(tmp_path, methods, words):
    """INS-08: both signs of the old API are told apart from faults, and named."""
    assert words in refusal(tmp_path, odd=environment(**methods))


def test_a_close_that_raises_is_a_warning(tmp_path, caplog):
    def close(self):
        raise OSError("GL is gone")

    suite = probe_suite(1, every=None)
    task = suite.tasks[0].model_copy(update={"environment": "l2bench/odd"})
    suite = suite.model_copy(update={"tasks": (task,)})
    registry = stubbed(Stub, odd=environment(close=close))
    run_suite(registry, suite, "stub", tmp_path / "run")
    assert read_bundle(find_bundles(tmp_path / "run")[0]).manifest.status == "complete"
    assert "GL is gone" in caplog.text


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda observations: None, "returned no rows"),
        (lambda observations: np.zeros(2 * len(observations), dtype=int), "returned 2 rows"),
        (lambda observations: 3, "returned no rows"),
    ],
)
def test_actions_without_one_row_per_observation_are_refused(tmp_path, answer, words):
    class Odd(Stub):
        def act(self, observations, acting):
            return answer(observations)

    assert words in refusal(tmp_path, Odd)


def test_an_agent_cannot_change_the_test_set(tmp_path):
    class Vandal(Stub):
        sources: ClassVar = frozenset({"samples"})

        def learn(self, lesson, task):
            for _ in lesson.batches(8, np.random.default_rng(0)):
                pass

        def act(self, observations, acting):
            observations[...] = 0
            return np.zeros(len(observations), dtype=int)

    suite = probe_suite(1, source="samples", unit="epochs")
    assert "read-only" in refusal(tmp_path, Vandal, suite)


def test_an_agent_that_exits_ends_as_a_failure(tmp_path):
    class Quitter(Stub):
        def learn(self, lesson, task):
            sys.exit(0)

    assert "SystemExit" in refusal(tmp_path, Quitter)


def test_an_agent_cannot_shorten_its_lesson(tmp_path):
    class Lazy(Stub):
        def learn(self, lesson, task):
            lesson.stop = lesson.start

    assert "limits were changed" in refusal(tmp_path, Lazy)


@pytest.mark.parametrize("registered", [None, 5, object, "builtins:dict"])
def test_what_is_no_agent_is_refused(registered):
    with pytest.raises((Unsupported, UsageError)):
        Cast.gather(stubbed(registered), probe_suite(1), AgentSpec(name="stub"), Execution())


def test_a_metric_set_that_raises_loses_nothing(tmp_path):
    class Broken(MetricSet):
        name, version, metrics = "broken", "1", ()

        def score(self, lifetime):
            raise KeyError("x")

    registry = stubbed(Stub)
    plugin = next(p for p in registry.plugins if p.name == "l2bench")
    plugin.names["metric_sets"]["broken"] = Broken
    suite = probe_suite(1, metrics=["l2bench/broken"])
    with pytest.raises(RunFailed, match="metric set 'broken' failed: KeyError"):
        run_suite(registry, suite, "stub", tmp_path / "run")
    plugin.names["metric_sets"]["broken"] = type(
        "Mended", (Broken,), {"score": lambda self, lifetime: __import__(
            "l2bench.metrics.scores", fromlist=["Scores"]).Scores("broken", "1", ())},
    )  # fmt: skip
    run_suite(registry, suite, "stub", tmp_path / "run", resume=True)
    assert read_bundle(find_bundles(tmp_path / "run")[0]).manifest.status == "complete"


def test_scores_that_are_missing_or_out_of_range_are_told(registry, tmp_path):
    from stubs import catch_suite

    suite = catch_suite(amount=20, horizon=4)  # the first ball needs nine steps to land
    scores = run_suite(registry, suite, "random", tmp_path / "run")
    assert scores["warnings"][0] == "task catch: 2 of 2 episodes have no score"


def test_a_seed_twice_is_refused():
    with pytest.raises(ValueError, match="seeds must be unique"):
        Execution(seeds=(0, 0))


@pytest.mark.parametrize(
    "override",
    [
        "tasks=5", "tasks=true", "select=5", "select=[[a]]", "task_defaults.learning.every=0.5",
        "task_defaults.learning.every=[1]", "task_defaults.learning.amount=null",
        "task_defaults.learning.amount=inf", "task_defaults.learning.every=true",
        "seeds=[9007199254740993]", "scenario.episodes=9007199254740993", "+=+", "profile=",
        "agent=", "execution.seeds=[0,0]", "execution.seeds=[]", "execution.device=gpu",
        "scenario.episodes=1000000000", "title=???", "task_defaults.settings={a: .inf}",
    ],
)  # fmt: skip
def test_odd_overrides_are_usage_errors(cli, override):
    code, output, errors = cli("run", "quickstart", override, "--dry-run")
    assert code == 2, errors
    assert output == ""
    assert errors.count("\n") == 1


BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(20)
)


@pytest.mark.parametrize(
    "text",
    ["x: &a [*a]\n", "[" * 3000, "profiles: [a]\n", "profiles: abc\n", "defaults: [odd]\n",
     'title: "\\ud800"\n', "title: ${oc.env:HOME}\n", BOMB],
)  # fmt: skip
def test_odd_files_are_refused_in_one_line(cli, tmp_path, text):
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    code, _, errors = cli("plan", path)
    assert code in (2, 3), errors
    assert errors.count("\n") == 1
    assert os.environ.get("HOME", "/root") not in errors.replace(str(tmp_path), "")


@pytest.mark.parametrize("name", ["suite.yml", "folder.yaml"])
def test_what_is_no_suite_file_is_told_apart(cli, tmp_path, name):
    path = tmp_path / name
    path.mkdir() if name.startswith("folder") else path.write_text("id: x\n")
    code, _, errors = cli("plan", path)
    assert code == 2
    assert "ends in .yaml" in errors


def test_places_that_cannot_be_written_are_failures_not_internal_errors(cli, tmp_path):
    code, _, errors = cli(*SMOKE, "-o", tmp_path / "run")
    assert code == 0, errors
    for target in (tmp_path / "no" / "such" / "x.html", "/proc/x.html"):
        code, _, errors = cli("report", tmp_path / "run", "-o", target)
        assert code == 1, errors
        assert errors.count("\n") == 1
    code, _, errors = cli("collect", "libero_object_cpu", "execution.data=/dev/null")
    assert code in (1, 3), errors  # 3 where LIBERO is not installed


def test_a_full_disk_is_one_line_and_can_be_resumed(tmp_path):
    """Files that may not grow beyond 1.5 kB stand for a disk that is full."""
    folder = tmp_path / "run"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (7_000, 7_000))

    command = [*L2BENCH, *SMOKE, "-o", str(folder), f"execution.data={tmp_path / 'data'}"]
    full = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True)
    assert full.returncode == 1, full.stderr
    assert full.stderr.count("\n") == 1
    assert "--resume" in full.stderr
    room = subprocess.run([*command, "--resume"], capture_output=True, text=True)
    assert room.returncode == 0, room.stderr
    other = tmp_path / "other"
    command[command.index(str(folder))] = str(other)
    subprocess.run(command, check=True, capture_output=True)
    assert content_hashes(folder) == content_hashes(other)


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    command = " ".join([*L2BENCH, "plan", "quickstart", "--blocks", "|", "head", "-1"])
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.stdout.startswith("quickstart 1.0")
    assert done.stderr == ""


@pytest.mark.parametrize("closing", [">&-", ">&- 2>&- <&-", ">/dev/full"])
def test_closed_and_full_outputs(tmp_path, closing):
    command = " ".join([*L2BENCH, "suites", closing])
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True)
    assert done.returncode in (0, 1)
    assert "Traceback" not in (done.stderr or "")
    assert "internal error" not in (done.stderr or "")


def test_what_plugins_print_does_not_break_json(tmp_path):
    site = tmp_path / "site"
    (site / "chatty-1.dist-info").mkdir(parents=True)
    (site / "chatty-1.dist-info" / "METADATA").write_text("Name: chatty\nVersion: 1\n")
    (site / "chatty-1.dist-info" / "entry_points.txt").write_text("[l2bench]\nchatty = chatty\n")
    (site / "chatty.py").write_text(
        "from l2bench.builtin.baselines import Random\n"
        "from l2bench.hookspecs import hookimpl\n"
        "class Chatty(Random):\n"
        "    def learn(self, lesson, task):\n"
        "        print('learning!')\n"
        "        super().learn(lesson, task)\n"
        "@hookimpl\n"
        "def l2bench_agents():\n"
        "    return {'chatty': Chatty}\n"
    )
    done = subprocess.run(
        [*L2BENCH, *SMOKE, "agent=chatty", "-o", str(tmp_path / "run"), "--json"],
        env={**os.environ, "PYTHONPATH": str(site)}, cwd=tmp_path,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["agent"]["name"] == "chatty/chatty"
    assert "learning!" in done.stderr


def test_an_edited_suite_is_refused(registry, tmp_path):
    run_suite(registry, probe_suite(1), "perfect", tmp_path / "run")
    (bundle,) = find_bundles(tmp_path / "run")
    suite = json.loads((bundle / "suite.json").read_text())
    suite["tasks"][0]["horizon"] = 9
    (bundle / "suite.json").write_text(json.dumps(suite))
    with pytest.raises(Unsupported, match="not the suite that the manifest records"):
        read_bundle(bundle)
