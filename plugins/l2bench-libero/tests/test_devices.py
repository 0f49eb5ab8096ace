"""Which EGL device renders beside which CUDA device; the devices of other machines are made up."""

import json
import os
import subprocess
import sys
import types

import pytest

from l2bench.builtin.baselines import Random
from l2bench.cast import AgentSpec, Cast, Execution
from l2bench.errors import Unsupported, UsageError
from l2bench.plugins import Registry
from l2bench.suite import Suite, judge
from l2bench_libero import devices, rendering
from l2bench_libero.devices import Device, Wish, choices
from l2bench_libero.environment import Object

#: EGL numbers four GPUs in another order than CUDA, and has the CPU as a fifth device.
FOUR = (Device(0, 2), Device(1, 3), Device(2, 0), Device(3, 1), Device(4, None))
CPU = (Device(0, None),)


@pytest.fixture
def machine(monkeypatch):
    """Return a function that makes up EGL's devices and CUDA_VISIBLE_DEVICES."""
    monkeypatch.setattr(devices, "_here", devices._Here())
    monkeypatch.setattr(Random, "devices", {"cpu", "cuda"})  # it stands for one that uses GPUs
    monkeypatch.setattr(devices, "_numbers", lambda: {"GPU-aaa1": 0, "GPU-bbb2": 3})
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setenv(devices.VARIABLE, "")  # so that what take() sets is undone
    monkeypatch.delenv(devices.VARIABLE)

    def pretend(found, visible=None, broken=()):
        monkeypatch.setattr(devices, "query", lambda: tuple(found))
        monkeypatch.setattr(
            rendering, "probe", lambda name, device=None: "no context" if device in broken else ""
        )
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return pretend


def chosen(device="auto", egl=None):
    """Return EGL's numbers of the devices that workers take in turn."""
    return [d.egl for d in choices(devices.query(), Wish(device, egl), devices.visible())]


@pytest.mark.parametrize(
    ("visible", "device", "egl"),
    [
        (None, "auto", 2), (None, "cpu", 2), (None, "cuda", 2), (None, "cuda:1", 3),
        (None, "cuda:3", 1), ("3", "auto", 1), ("3", "cuda:0", 1), ("3,0", "cuda:1", 2),
        ("3, 0", "cuda:1", 2), ("GPU-bbb", "cuda", 1), ("1,x,2", "cuda:0", 3),
        ("", "auto", 4), ("-1", "cpu", 4),
    ],
)  # fmt: skip
def test_images_are_rendered_beside_the_agent(machine, visible, device, egl):
    machine(FOUR, visible)
    assert chosen(device) == [egl]


@pytest.mark.parametrize("found", [Device(0, 3), Device(0, 0), Device(0, None)])
def test_one_egl_device_is_number_0_whichever_gpu_is_visible(machine, found):
    """REN-05: CUDA_VISIBLE_DEVICES=3, and EGL has one device."""
    machine([found], "3")
    assert chosen() == [0]


def test_a_gpu_without_egl_is_refused_with_both_numberings(machine):
    machine([Device(0, 0)], "3")
    words = (
        r"device cuda:0, egl_device not set, CUDA_VISIBLE_DEVICES 3\): cuda:0 is CUDA 3 of the "
        r"machine, and no EGL device belongs to it; there is EGL 0 = CUDA 0\. Set execution"
    )
    with pytest.raises(UsageError, match=words) as caught:
        chosen("cuda:0")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("found", "visible", "device", "words"),
    [
        (FOUR, "3", "cuda:1", r"cuda:1 is not visible.*EGL 0 = CUDA 2, EGL 1 = CUDA 3, "),
        (FOUR, None, "cuda:7", r"cuda:7 is CUDA 7 of .*EGL 4 = no CUDA"),
        (FOUR, "MIG-x", "cuda:0", r"VISIBLE_DEVICES MIG-x\): cuda:0 is not visible"),
        (FOUR, "1,x,2", "cuda:1", "cuda:1 is not visible"),
    ],
)
def test_only_auto_and_cpu_may_be_rendered_elsewhere(machine, found, visible, device, words):
    machine(found, visible)
    with pytest.raises(UsageError, match=words):
        chosen(device)
    assert chosen("auto")


@pytest.mark.parametrize(
    ("driver", "kind", "words"),
    [
        (True, UsageError, r"cuda is CUDA 0 of .*; there is EGL 0 = no CUDA\."),
        (False, Unsupported, "device is cuda, and no NVIDIA GPU is seen here"),
    ],
)
def test_a_gpu_that_egl_lacks_is_told_from_one_that_is_not_there(
    machine, monkeypatch, tmp_path, driver, kind, words
):
    machine(CPU)
    monkeypatch.setattr(devices, "_DRIVER", tmp_path if driver else tmp_path / "none")
    with pytest.raises(kind, match=words):
        chosen("cuda")
    assert chosen("auto")


def test_a_device_asked_for_by_egls_number(machine):
    machine(FOUR, "3")
    assert chosen("cuda:0", 0) == [0]
    with pytest.raises(UsageError, match=r"egl_device 5.*no EGL device 5; there is EGL 0 = CUDA 2"):
        chosen("cuda:0", 5)


def test_all_spreads_workers_over_the_visible_gpus(machine):
    machine(FOUR)
    assert chosen("cuda:1", "all") == [3, 0, 1, 2]
    machine(FOUR, "3,0")
    assert chosen("auto", "all") == [1, 2]
    machine(CPU)
    with pytest.raises(UsageError, match="no EGL device belongs to a visible GPU"):
        chosen("auto", "all")


def test_each_worker_takes_its_turn_and_the_run_itself_the_first(machine, monkeypatch):
    machine(FOUR, "3,0")
    taken = []
    for worker in (None, 0, 1, 2):
        monkeypatch.setattr(devices, "_here", devices._Here())
        os.environ.pop(devices.VARIABLE, None)
        suite = Object()
        suite.configure({"egl_device": "all"})
        suite.assign("cuda", worker)
        suite.spaces(pixels().tasks[0])
        taken.append(devices.take())
        assert os.environ[devices.VARIABLE] == str(taken[-1])
    assert taken == [1, 1, 2, 1]


def test_the_users_variable_counts_where_no_option_is_given(machine, monkeypatch):
    machine(FOUR)
    monkeypatch.setenv(devices.VARIABLE, "1")
    assert [devices.take(), devices.take()] == [1, 1]
    monkeypatch.setattr(devices, "_here", devices._Here(Wish(egl=0)))
    assert devices.take() == 0
    monkeypatch.setattr(devices, "_here", devices._Here())
    monkeypatch.setenv(devices.VARIABLE, "9")
    with pytest.raises(UsageError, match="no EGL device 9"):
        devices.take()
    monkeypatch.setenv(devices.VARIABLE, "cuda:1")
    with pytest.raises(UsageError, match="'cuda:1'; it has to be the number of a device"):
        devices.take()


def test_a_process_does_not_change_its_device(machine):
    machine(FOUR)
    assert [devices.take(), devices.take()] == [2, 2]
    devices.wish(Wish(egl=1))
    with pytest.raises(UsageError, match="renders on EGL device 2 and cannot change to 1"):
        devices.take()


def test_the_variable_is_set_before_the_context_is_made(machine, monkeypatch):
    machine(FOUR, "3")
    found = {}

    def context(width, height):
        found.update(os.environ)
        return "context"

    fake = types.SimpleNamespace(GLContext=context)
    monkeypatch.setitem(sys.modules, "mujoco.egl", fake)
    assert rendering._context("egl", 4, 4) == "context"
    assert (found[devices.VARIABLE], found["CUDA_VISIBLE_DEVICES"]) == ("1", "3")


@pytest.mark.parametrize("value", [-1, True, "0", "every", 1.0])
def test_only_numbers_and_all_are_devices(value):
    with pytest.raises(UsageError, match=r"give the number of an EGL device \(0, 1, \.\.\.\), or"):
        Object().configure({"egl_device": value})


def pixels(**settings) -> Suite:
    task = {"id": "soup", "environment": "libero/libero_object", "horizon": 10,
            "task": "pick_up_the_alphabet_soup_and_place_it_in_the_basket",
            "settings": {"observation": "pixels", **settings},
            "learning": {"source": "interaction", "unit": "episodes", "amount": 1}}  # fmt: skip
    data = {"id": "one", "version": "1", "title": "one", "tasks": [task], "seeds": [0],
            "scenario": {"kind": "sequential", "episodes": 1}}  # fmt: skip
    return judge(Suite, data, "one")


def gather(suite, **execution) -> Cast:
    return Cast.gather(Registry(), suite, AgentSpec(name="random"), Execution(**execution))


def test_a_run_records_both_numbers(machine):
    machine(FOUR, "3,0")
    ways = gather(pixels(), device="cuda:0").record()["environments"]["libero/libero_object"]
    assert ways == {"engine": "lean", "egl_device": "1", "egl_cuda_device": "3"}
    options = {"libero": {"egl_device": "all"}}
    ways = gather(pixels(), environments=options).record()["environments"]["libero/libero_object"]
    assert (ways["egl_device"], ways["egl_cuda_device"]) == ("1, 2", "3, 0")
    machine(CPU)
    ways = gather(pixels()).record()["environments"]["libero/libero_object"]
    assert (ways["egl_device"], ways["egl_cuda_device"]) == ("0", "none")
    ways = gather(pixels(observation="state"), device="cuda:5").record()["environments"]
    assert ways == {"libero/libero_object": {"engine": "lean"}}


def test_a_run_is_refused_before_it_begins(machine, monkeypatch):
    machine(FOUR)
    with pytest.raises(UsageError, match="cuda:7 is CUDA 7"):
        gather(pixels(), device="cuda:7")
    machine(FOUR, broken={3})
    gather(pixels(), device="cuda:0")
    with pytest.raises(Unsupported, match=r"EGL 3 = CUDA 1 cannot render here \(no context\); set"):
        gather(pixels(), device="cuda:1")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    gather(pixels(), device="cuda:7")
    with pytest.raises(UsageError, match="egl_device is set to 1, but images are rendered by osm"):
        gather(pixels(), environments={"libero": {"egl_device": 1}})


def test_rendering_on_the_cpu_beside_a_driver_is_said(machine, monkeypatch, tmp_path, caplog):
    machine(CPU)
    gather(pixels())
    assert not caplog.messages
    monkeypatch.setattr(devices, "_DRIVER", tmp_path)
    gather(pixels())
    assert caplog.messages == [
        "images are rendered on the CPU although there is an NVIDIA driver: EGL has only EGL 0 = "
        "no CUDA; see docs/gpu.md"
    ]


def test_the_query_sees_all_gpus_and_leaves_no_trace(monkeypatch):
    """Drivers number what they answer by CUDA_VISIBLE_DEVICES."""
    asked = {}

    def run(command, env, **options):
        asked.update(env)
        return types.SimpleNamespace(stdout="noise\ndevice 2\ndevice -1\n", stderr="", returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.setenv(devices.VARIABLE, "0")
    assert devices.query.__wrapped__() == (Device(0, 2), Device(1, None))
    assert "CUDA_VISIBLE_DEVICES" not in asked
    assert devices.VARIABLE not in asked
    assert asked["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"


def test_a_query_without_an_answer_is_one_line(monkeypatch):
    answer = types.SimpleNamespace(stdout="", stderr="Traceback\nImportError: no EGL", returncode=1)
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: answer)
    with pytest.raises(Unsupported, match=r"no device \(ImportError: no EGL\); set MUJOCO"):
        devices.query.__wrapped__()


def test_the_command_shows_both_numbers(machine):
    from click.testing import CliRunner

    from l2bench_libero.commands import libero

    machine([Device(0, 3), Device(1, None)], "3")
    done = CliRunner().invoke(libero, ["devices", "--device", "cuda:0"])
    assert done.output.splitlines() == [
        "EGL 0 = CUDA 3",
        "EGL 1 = no CUDA",
        "with execution.device=cuda:0, images are rendered on EGL 0 = CUDA 3",
    ]
    done = CliRunner().invoke(libero, ["devices", "--device", "cuda:0", "--json"])
    first, second = {"egl": 0, "cuda": 3}, {"egl": 1, "cuda": None}
    assert json.loads(done.output) == {
        "devices": [first, second], "execution_device": "cuda:0", "renders": first,
    }  # fmt: skip


@pytest.mark.sim
def test_the_devices_of_this_machine_are_numbered_from_0(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    found = devices.query.__wrapped__()
    assert [device.egl for device in found] == list(range(len(found)))


@pytest.mark.sim
def test_robosuite_does_not_take_egls_number_for_one_of_cuda():
    """It refuses to be imported where the one is not among the others."""
    code = "from l2bench_libero import installation as i; i.simulation(); import os; "
    code += "assert os.environ['MUJOCO_EGL_DEVICE_ID'] == '0'"
    variables = {**os.environ, "CUDA_VISIBLE_DEVICES": "3", devices.VARIABLE: "0"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("suite", "settings", "pairs"),
    [
        ("libero_10", {"demonstrations": "official", "pairing": "as_stored"}, 13809),
        ("libero_10", {"demonstrations": "official", "observation": "pixels"}, 13759),
        ("libero_10", {"demonstrations": "official", "count": 10, "pairing": "as_stored"}, 2762),
        ("libero_goal", {"demonstrations": "official"}, None),
        ("libero_object", {"count": 30}, 3000),
        ("libero_object", {"count": 30, "pairing": "shifted"}, 2970),
        ("libero_object", {"count": 3, "longest": 16}, 48),
        ("libero_object", {"count": 3, "longest": 1000}, 300),
        ("libero_90", {}, None),
    ],
)
def test_about_how_many_pairs_a_task_has(suite, settings, pairs):
    from l2bench.plugins import make_environment
    from l2bench.suite import Task
    from l2bench_libero import tasks

    name = f"libero/{suite}"
    environment = make_environment(Registry(), name)
    first = tasks.tasks(suite)[0].name
    assert environment.pairs(Task(id="t", environment=name, task=first, settings=settings)) == pairs


def test_libero_10_has_as_many_pairs_as_were_counted():
    """138,090 over ten tasks, of 50 demonstrations each."""
    from l2bench_libero.environment import OFFICIAL_STEPS

    assert round(10 * 50 * OFFICIAL_STEPS["libero_10"]) == 138_090
