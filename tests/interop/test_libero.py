"""Results of LIBERO's own code: curves, the lower triangle, and runs that were stopped."""

from __future__ import annotations

import json
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from l2bench.errors import Unsupported
from l2bench.interop import libero
from l2bench.interop.source import Options
from l2bench.metrics.continual_sets import GemMetrics
from l2bench.metrics.sets import L2MMetrics, LiberoMetrics
from l2bench.metrics.views import cells

DATA = Path(__file__).parent / "data" / "libero"
CURVES = ([0.1, 0.6, 0.5], [0, 0.5, 0.8], [0.2, 0.9, 0.9])


def save(path: Path, value) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{path.stem}/data.pkl", pickle.dumps(value, 2))


def held(curve) -> float:
    peak = int(np.argmax(curve))
    return float(np.mean([*curve[:peak], *[curve[peak]] * (len(curve) - peak)]))


def results(folder: Path, curves=CURVES, *, tasks=3, rows=None, losses=True, config=True) -> Path:
    """A run of so many tasks of which those with curves finished and ``rows`` were written."""
    folder.mkdir()
    rows = len(curves) if rows is None else rows
    matrix, loss = np.zeros((tasks, tasks)), np.zeros((tasks, tasks))
    forward, forward_loss = np.zeros(tasks), np.zeros(tasks)
    for task, curve in enumerate(curves):
        save(folder / f"task{task}_auc.log", {"success": np.array(curve), "loss": np.ones(3)})
        if task < rows:
            matrix[task, : task + 1], loss[task, : task + 1] = 0.5, 0.25
            forward[task], forward_loss[task] = held(curve), 0.25
    data = {"S_conf_mat": matrix, "S_fwd": forward}
    if losses:
        data |= {"L_conf_mat": loss, "L_fwd": forward_loss}
    save(folder / "result.pt", data)
    if config:
        shutil.copy(DATA / "config.json", folder)
    return folder


def score(folder: Path, metric_set=LiberoMetrics):
    return metric_set().score(libero.read(folder, Options()).lifetime)


def test_the_worked_example(cli):
    code, output, errors = cli("score", DATA, "--json")
    assert code == 0, errors
    found = {m["id"]: m["mean"] for m in json.loads(output)["summary"]["metrics"] if not m["task"]}
    assert found["libero.FWT"] == pytest.approx(0.511111, abs=1e-6)
    assert found["libero.NBT"] == pytest.approx(0.216667, abs=1e-6)
    assert found["libero.NBT_excluding_last_task"] == pytest.approx(0.325)
    assert found["libero.AUC"] == pytest.approx(0.475926, abs=1e-6)
    again = ((0.55 - 0.2 + 0.55 - 0.1) / 2 + 0.75 - 0.6) / 3
    assert found["libero.NBT_reevaluated"] == pytest.approx(again)
    assert found["gem.ACC"] == pytest.approx((0.1 + 0.6 + 0.85) / 3)
    assert found["gem.FWT"] is None


def test_the_schedule_is_that_of_the_protocol():
    source = libero.read(DATA, Options())
    lifetime = source.lifetime
    assert source.agent == "ER BCRNNPolicy"
    assert (lifetime.suite.id, lifetime.seed) == ("libero_spatial", 100)
    assert lifetime.complete
    assert source.warnings == ()
    assert lifetime.blocks["role"].to_pylist() == [
        "curve", "wake", "curve", "wake", "curve", "post"
    ] * 3  # fmt: skip
    assert lifetime.blocks["checkpoint"].to_pylist()[:6] == [0, 5, 5, 10, 10, 10]
    kept = lifetime.blocks["selected_checkpoint"].to_pylist()
    assert [value for value in kept if value is not None] == [5, 10, 5]
    assert len(cells(lifetime)) == 9 + 6
    assert {cell["n"] for cell in cells(lifetime).values()} == {20}
    assert lifetime.episodes.num_rows == lifetime.learning.num_rows == 0


def test_the_upper_triangle_is_not_a_value(tmp_path):
    folder = results(tmp_path / "run")
    lifetime = libero.read(folder, Options()).lifetime
    after_first = {task for (block, task) in cells(lifetime) if block == 5}
    assert after_first == {0}
    assert score(folder, GemMetrics).get("gem.FWT").value is None


def test_rows_of_a_stopped_run_are_missing_never_zero(cli, tmp_path):
    folder = results(tmp_path / "run", CURVES[:2])
    source = libero.read(folder, Options())
    assert not source.lifetime.complete
    assert "2 of 3 tasks were learned; the others are missing" in source.warnings
    status = source.lifetime.blocks["status"].to_pylist()
    assert status == ["ok"] * 12 + ["missing"] * 6
    scores = score(folder)
    for id in ("libero.FWT", "libero.NBT", "libero.AUC"):
        assert scores.get(id).value is None
    assert scores.get("libero.FWT_k", task="task0").value == pytest.approx(held(CURVES[0]))
    assert scores.get("libero.FWT_k", task="task2").value is None
    code, output, _ = cli("score", folder, "--json")
    assert code == 4
    document = json.loads(output)
    whole = [m for m in document["summary"]["metrics"] if m["scope"] == "lifetime"]
    assert all(metric["mean"] is None for metric in whole)
    view = document["bundles"][0]["matrix"]["rows"]
    assert [cell is None for cell in view[2]["cells"]] == [True, True, True]


def test_a_run_stopped_between_the_curve_and_the_matrix(tmp_path):
    source = libero.read(results(tmp_path / "run", CURVES, rows=2), Options())
    assert "result.pt was last written before task 2 was over" in source.warnings
    assert source.settings["tasks_learned"] == 2


def test_a_task_that_never_succeeds_is_a_value_where_losses_show_it(tmp_path):
    curves = (CURVES[0], [0, 0, 0])
    source = libero.read(results(tmp_path / "with", curves, tasks=2), Options())
    assert source.lifetime.complete
    unsure = libero.read(results(tmp_path / "without", curves, tasks=2, losses=False), Options())
    assert unsure.settings["tasks_learned"] == 2  # its row has successes on the first task
    folder = results(tmp_path / "never", (CURVES[0], [0, 0, 0]), tasks=2, rows=1, losses=False)
    assert libero.read(folder, Options()).settings["tasks_learned"] == 1


def test_without_the_configuration_checkpoints_are_counted(tmp_path):
    source = libero.read(results(tmp_path / "run", config=False), Options())
    assert "config.json does not tell the epochs; checkpoints count from 0" in source.warnings
    learning = source.lifetime.suite.tasks[0].learning
    assert (learning.checkpoints, learning.amount) == ((0, 1, 2), 2)
    assert {cell["n"] for cell in cells(source.lifetime).values()} == {None}
    assert source.agent == "unknown agent"


def test_l2m_says_why_it_has_no_values():
    scores = score(DATA, L2MMetrics)
    assert {value.reason for value in scores.values} == {
        "aggregate import: there are no raw rows"
    }  # fmt: skip


def spoiled(tmp_path: Path, name: str, value) -> Path:
    folder = results(tmp_path / "run")
    save(folder / name, value)
    return folder


GOOD = {"S_conf_mat": np.full((3, 3), 0.5), "S_fwd": np.array([held(c) for c in CURVES])}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("result.pt", [1], "result.pt holds list, expected a dictionary"),
        ("result.pt", {"S_fwd": GOOD["S_fwd"]}, "S_conf_mat should be a table of 2 dimensions"),
        ("result.pt", {**GOOD, "S_fwd": np.ones(2)}, "do not fit"),
        ("result.pt", {**GOOD, "S_fwd": GOOD["S_fwd"] * 0.9}, "they are not of one run"),
        ("result.pt", {**GOOD, "S_conf_mat": np.full((3, 3), 1.5)}, r"S_conf_mat\[0\]\[0\] is 1.5"),
        ("result.pt", {**GOOD, "S_conf_mat": np.full((3, 3), np.nan)}, "is nan, no success rate"),
        ("result.pt", {**GOOD, "S_fwd": ["a"]}, "S_fwd should be a table of 1 dimensions, is list"),
        ("task1_auc.log", {"loss": np.ones(3)}, "task1_auc.log: success .* is missing"),
        ("task1_auc.log", {"success": np.array([])}, "task1_auc.log: success is empty"),
        ("task1_auc.log", {"success": np.array([2.0])}, r"task1_auc.log: success\[0\] is 2.0"),
        ("task7_auc.log", {"success": np.ones(3)}, "task7_auc.log: result.pt has 3 tasks"),
        ("task1_auc.log", {"success": np.full(9, 0.5)}, "has 10 epochs|not of one run"),
    ],
)  # fmt: skip
def test_malformed_results_are_refused(tmp_path, name, value, words):
    with pytest.raises(Unsupported, match=words) as caught:
        libero.read(spoiled(tmp_path, name, value), Options())
    assert "\n" not in str(caught.value)


def test_missing_files_are_named(tmp_path):
    folder = results(tmp_path / "run")
    for log in folder.glob("*.log"):
        log.unlink()
    with pytest.raises(Unsupported, match=r"no task\*_auc.log beside result.pt"):
        libero.read(folder, Options())
    (folder / "result.pt").unlink()
    with pytest.raises(Unsupported, match=r"result.pt is missing"):
        libero.read(folder, Options())


def test_a_multitask_run_has_no_sequence(tmp_path):
    folder = results(tmp_path / "run", ())
    matrix, forward = np.zeros((3, 3)), np.zeros(3)
    matrix[-1], forward[-1] = 0.5, 0.4
    save(folder / "result.pt", {"S_conf_mat": matrix, "S_fwd": forward})
    with pytest.raises(Unsupported, match="multitask run"):
        libero.read(folder, Options())


def test_what_torch_itself_writes(tmp_path):
    import torch

    folder = results(tmp_path / "run")
    for path in (folder / "result.pt", *folder.glob("*.log")):
        with zipfile.ZipFile(path) as archive:
            value = pickle.loads(archive.read(f"{path.stem}/data.pkl"))
        torch.save(value, path)
    reference = libero.read(results(tmp_path / "other"), Options()).lifetime
    found = libero.read(folder, Options()).lifetime
    assert found.cells.equals(reference.cells)
    assert found.suite == reference.suite


def test_a_hostile_file_is_refused_by_the_command(cli, tmp_path):
    folder = results(tmp_path / "run")
    mark = tmp_path / "mark"
    (folder / "task0_auc.log").write_bytes(b"cposix\nsystem\n(S'touch %s'\ntR." % bytes(mark))
    code, output, errors = cli("import", "libero", folder, "-o", tmp_path / "x.l2b")
    assert (code, output) == (3, "")
    assert "task0_auc.log is refused: it holds posix.system" in errors
    assert not mark.exists()
    assert not (tmp_path / "x.l2b").exists()
