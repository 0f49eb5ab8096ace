"""Runs of Continual World: progress.tsv of sequences and of single tasks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from interop.builders import progress
from support import ROOT

from l2bench.errors import Unsupported
from l2bench.interop import continual_world
from l2bench.interop.kinds import open_bundles
from l2bench.interop.source import Options
from l2bench.metrics import continual_world as formulas
from l2bench.metrics.continual_sets import ContinualWorldMetrics

NAMES = ("hammer-v1", "push-wall-v1")


def run(folder: Path, names=NAMES, segments=None, config=None, **more) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "progress.tsv").write_text(progress(names, segments or sequence(), **more))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config, indent=4))
    return folder


def sequence(points=6):
    """Success on two tasks at each point of both segments."""
    rng = np.random.default_rng(1)
    return [np.round(rng.random((points, 2)), 2).tolist() for _ in range(2)]


def test_metrics_are_those_of_the_formulas(registry, tmp_path):
    segments = sequence()
    folder = run(tmp_path / "run", config={"cl_method": "ewc", "seed": 4, "tasks": "CW2"})
    paths, baselines = [], []
    for index, name in enumerate(NAMES):
        curve = np.round(np.linspace(0, 0.6 + index / 10, 6), 2)
        baselines.append([curve.tolist()])
        paths.append(run(tmp_path / name, [name], [[[rate] for rate in curve]], active=False))
    (bundle,) = open_bundles(registry, folder, experts=paths)
    success = np.concatenate(segments).T[np.newaxis]
    expected = formulas.score(success, baselines)
    scores = {m["id"]: m["value"] for m in bundle.scores["metrics"] if m["task"] is None}
    for id in ("cw.performance", "cw.forgetting", "cw.forward_transfer"):
        assert scores[id] == pytest.approx(expected[id].value, abs=1e-12), id
        assert scores[id] is not None
    assert bundle.manifest.agent.name == "ewc"
    assert bundle.lifetime.seed == 4
    assert bundle.suite.id == "continual-world-cw2"


def test_the_tables_hold_every_point(tmp_path):
    source = continual_world.read(run(tmp_path / "run"), Options())
    lifetime = source.lifetime
    assert lifetime.blocks.num_rows == 2 * 6 * 2
    assert lifetime.cells.num_rows == 2 * 6 * 2
    assert lifetime.blocks["exposure"].to_pylist()[:4] == [0, 0, 1, 1]
    assert set(lifetime.cells["n"].to_pylist()) == {None}
    learning = lifetime.suite.tasks[0].learning
    assert (learning.unit, learning.amount) == ("steps", 996)
    assert lifetime.complete
    assert source.warnings == ()


def test_tasks_that_come_again_get_the_experts_of_their_first_coming(registry, tmp_path):
    names = ["a-v1", "b-v1", "a-v1", "b-v1"]
    rates = [[[0.5] * 4] * 5 for _ in names]
    folder = run(tmp_path / "run", names, rates)
    curve = [[[rate] for rate in (0, 0.1, 0.2, 0.3, 0.4)]]
    experts = [run(tmp_path / name, [name], curve, active=False) for name in ("a-v1", "b-v1")]
    (bundle,) = open_bundles(registry, folder, experts=experts)
    assert [task.id for task in bundle.suite.tasks] == ["a-v1", "b-v1", "a-v1.2", "b-v1.2"]
    scores = {m["id"]: m["value"] for m in bundle.scores["metrics"] if m["task"] is None}
    assert scores["cw.forward_transfer"] == pytest.approx((0.5 - 0.2) / 0.8)


def test_a_torn_last_line_and_a_run_stopped_early(cli, tmp_path):
    folder = run(tmp_path / "run")
    path = folder / "progress.tsv"
    path.write_text(path.read_text()[:-20])
    source = continual_world.read(folder, Options())
    assert not source.lifetime.complete
    assert "progress.tsv, line 13 does not end and is left out" in source.warnings[0]
    assert "learning of push-wall-v1 was stopped early" in source.warnings
    assert source.lifetime.cells.num_rows == 11 * 2
    code, output, _ = cli("score", folder, "--json")
    assert code == 4
    whole = [m for m in json.loads(output)["summary"]["metrics"] if m["scope"] == "lifetime"]
    assert {metric["mean"] for metric in whole} == {None}


def test_tasks_that_were_never_reached_are_missing(tmp_path):
    source = continual_world.read(run(tmp_path / "run", segments=sequence()[:1]), Options())
    assert not source.lifetime.complete
    assert "1 of 2 tasks were learned" in source.warnings
    assert ContinualWorldMetrics().score(source.lifetime).get("cw.performance").value is None


def test_values_that_are_not_there_are_missing(tmp_path):
    segments = sequence()
    segments[0][0][1] = "nan"
    lifetime = continual_world.read(run(tmp_path / "run", segments=segments), Options()).lifetime
    assert lifetime.cells.num_rows == 23


def test_methods_are_named_as_the_tool_names_them(tmp_path):
    for config, name in (
        ({"cl_method": None}, "finetuning"), ({"cl_method": "packnet"}, "packnet"),
        ({"cl_method": None, "buffer_type": "reservoir"}, "reservoir"), ({}, "unknown agent"),
    ):  # fmt: skip
        assert continual_world.read(run(tmp_path / "run", config=config), Options()).agent == name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.replace("total_env_steps", "steps"), "column total_env_steps is missing"),
        (lambda t: t.replace("test/stochastic/1", "test/stochastic/2"), "those of tasks [0, 2]"),
        (lambda t: t.replace("train/active_env", "other"), "all tasks were learned at once"),
        (lambda t: t.replace("\t498\t", "\t1\t"), "line 4, column total_env_steps: 1 steps"),
        (lambda t: t.replace("\t498\t", "\tx\t"), "line 4, column total_env_steps: 'x' is"),
        (lambda t: t.replace("1.5\t", "", 1), "line 2: 17 cells where the header has 18"),
        (lambda t: t.replace("\t0\t1.25", "\t1\t1.25", 1), "line 3, column train/active_env"),
        (lambda t: t.split("\n")[0] + "\n", "has no evaluation"),
        (lambda t: "", "has no lines"),
        (lambda t: t.replace("\t200.0\t", "\t200.0\t7", 1), "is no success rate"),
    ],
)  # fmt: skip
def test_every_fault_is_named(tmp_path, change, words):
    folder = run(tmp_path / "run")
    path = folder / "progress.tsv"
    path.write_text(change(path.read_text()))
    with pytest.raises(Unsupported) as caught:
        continual_world.read(folder, Options())
    assert words in str(caught.value)
    assert "progress.tsv" in str(caught.value)


def test_the_columns_that_the_page_names_are_all_that_is_needed(tmp_path):
    page = (ROOT / "docs" / "interop.md").read_text()
    part = page[page.index("**continual_world.**") : page.index("**avalanche.**")]
    steps, active, success = re.findall(r"^\| `(.+?)` \|", part, re.M)
    names = [success.replace("I", str(at)).replace("NAME", n) for at, n in enumerate(NAMES)]
    lines = [[steps, active, *names], [100, 0, 0.5, 0], [200, 0, 1, 0], [300, 1, 0.5, 1]]
    text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
    (tmp_path / "progress.tsv").write_text(text)
    source = continual_world.read(tmp_path, Options())
    assert [task.task for task in source.lifetime.suite.tasks] == list(NAMES)
    for left_out in lines[0]:
        (tmp_path / "progress.tsv").write_text(text.replace(left_out, "other", 1))
        with pytest.raises(Unsupported):
            continual_world.read(tmp_path, Options())
