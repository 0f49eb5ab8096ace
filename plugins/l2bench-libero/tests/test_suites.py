"""The LIBERO suites: the upstream tasks in the upstream order, and what a run needs said early."""

import json

import h5py
import pytest

from l2bench.cli.compose import compose
from l2bench.cli.main import invoke
from l2bench.plugins import Registry
from l2bench.testing import check_suite
from l2bench_libero import experts, tasks

SUITES = {
    "libero_spatial": "libero_spatial",
    "libero_object": "libero_object",
    "libero_goal": "libero_goal",
    "libero_long": "libero_10",
    "libero_90": "libero_90",
}


@pytest.fixture(scope="module")
def registry():
    """Return the installed plugins."""
    return Registry()


@pytest.mark.parametrize(("name", "upstream"), SUITES.items())
def test_a_suite_has_the_upstream_tasks_and_the_full_protocol(registry, name, upstream):
    suite = compose(registry, name, []).suite
    assert suite.id == name
    assert [task.task for task in suite.tasks] == [task.name for task in tasks.tasks(upstream)]
    assert {task.environment for task in suite.tasks} == {f"libero/{upstream}"}
    for task in suite.tasks:
        assert task.horizon == 600
        assert task.learning.checkpoints == tuple(range(0, 51, 5))
        assert task.settings["protocol"] == "libero"
        assert task.settings["demonstrations"] == "official"
        assert task.settings["pairing"] == "as_stored"
    assert (suite.scenario.kind, suite.scenario.keep) == ("sequential", "best")
    assert suite.scenario.episodes == 20
    assert suite.seeds == (100, 200, 300)
    check_suite(suite)


@pytest.mark.parametrize(("name", "upstream"), SUITES.items())
def test_the_smoke_profile_needs_no_download(registry, name, upstream):
    composed = compose(registry, name, ["profile=smoke"])
    assert composed.deviations
    assert len(composed.suite.tasks) == 2
    for task in composed.suite.tasks:
        assert task.settings["demonstrations"] == "scripted"
        experts.check_supported(tasks.find(upstream, task.task))
    check_suite(composed.suite)


@pytest.mark.parametrize("name", SUITES)
def test_a_dry_run_needs_no_data_and_a_run_says_how_to_get_it(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = ["run", name, "agent=random", f"execution.data={tmp_path}", "-o", "out"]
    assert invoke([*arguments, "--dry-run"]) == 0
    assert "simulation time" in capsys.readouterr().out
    assert invoke(arguments) == 3
    error = capsys.readouterr().err
    assert f"run: l2bench libero fetch {SUITES[name]} -o {tmp_path}" in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def files(tmp_path, write):
    """Return the folder of small official files of libero_goal, with their manifest."""
    folder = tmp_path / "libero" / "libero_goal"
    folder.mkdir(parents=True)
    for task in tasks.tasks("libero_goal"):
        write(folder / f"{task.name}_demo.hdf5", lengths=[2])
    sizes = {path.name: {"size": path.stat().st_size, "sha256": "0"} for path in folder.iterdir()}
    (folder / "manifest.json").write_text(json.dumps({"files": sizes}))
    return folder


def test_files_are_looked_at_before_the_run(files, registry, tmp_path, capsys):
    """DAT-01: a file cut short is found before anything runs."""
    victim = files / f"{tasks.find('libero_goal', 4).name}_demo.hdf5"
    whole = victim.read_bytes()
    arguments = ["run", "libero_goal", "agent=random", f"execution.data={tmp_path}"]

    def refusal():
        assert invoke([*arguments, "-o", str(tmp_path / "out")]) == 3
        assert not (tmp_path / "out").exists()
        return capsys.readouterr().err

    victim.write_bytes(whole[:-1024])
    found = len(whole) - 1024
    assert f"{victim}: size: expected {len(whole)} bytes, found {found}; fetch it" in refusal()
    (files / "manifest.json").unlink()
    assert f"{victim} ({found} bytes) is truncated or no HDF5 file" in refusal()
    victim.write_bytes(whole)
    with h5py.File(victim, "r+") as file:
        file["data"].attrs["macros_image_convention"] = "opencv"
    assert f"{victim}: /data images: expected orientation 'none', found 'flipud'" in refusal()


def test_a_published_order_is_printed_as_an_override(registry, capsys):
    assert invoke(["libero", "order", "libero_goal", "3"]) == 0
    override = capsys.readouterr().out.strip()
    suite = compose(registry, "libero_goal", [override]).suite
    places = [suite.index(id) for id in suite.scenario.order]
    assert tuple(places) == tasks.task_order("libero_goal", 3) == (7, 4, 3, 0, 8, 1, 2, 5, 9, 6)
    assert invoke(["libero", "order", "libero_goal", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["override"] == override
    assert tuple(found["order"]) == suite.scenario.order
    assert invoke(["libero", "order", "libero_goal", "21"]) == 2
    assert "orders 0 to 20, not 21" in capsys.readouterr().err
    assert invoke(["libero", "order", "quickstart", "0"]) == 2


def test_a_variant_of_all_tasks_is_one_override(registry):
    base = compose(registry, "libero_goal", [])
    varied = compose(registry, "libero_goal", ["task_defaults.variant=swap"])
    assert {task.variant for task in varied.suite.tasks} == {"swap"}
    assert varied.suite.hash != base.suite.hash
    assert varied.deviations == ("tasks.*.variant",)


def test_another_agent_takes_its_own_settings_not_those_of_the_file(registry):
    assert compose(registry, "libero_goal", []).agent.settings == {"algorithm": "sequential"}
    assert compose(registry, "libero_goal", ["agent=libero/scripted"]).agent.settings == {}
