"""Which OpenGL backend is taken, what is said when none works, and what is loaded first."""

import os
import subprocess
import sys

import pytest

from l2bench.errors import Unsupported, UsageError
from l2bench_libero import rendering


@pytest.fixture
def working(monkeypatch):
    """Return a function that decides which backends work."""
    monkeypatch.delenv("MUJOCO_GL", raising=False)

    def decide(*names):
        answers = {name: "" for name in names}
        monkeypatch.setattr(rendering, "probe", lambda name: answers.get(name, "no library"))

    return decide


def test_egl_before_osmesa(working):
    working("egl", "osmesa")
    assert rendering.backend() == "egl"
    working("osmesa")
    assert rendering.backend() == "osmesa"


def test_the_users_choice_comes_first(working, monkeypatch):
    working("egl", "osmesa")
    monkeypatch.setenv("MUJOCO_GL", "OSMesa")
    assert rendering.backend() == "osmesa"


def test_what_was_tried_is_named(working, monkeypatch):
    """REN-01: the backends tried, why they failed, and what to do."""
    working()
    with pytest.raises(Unsupported, match=r"\(egl: no library; osmesa: no library\); install"):
        rendering.backend()
    monkeypatch.setenv("MUJOCO_GL", "egl")
    with pytest.raises(Unsupported, match=r"\(egl: no library\).*, unset MUJOCO_GL"):
        rendering.backend()


@pytest.mark.parametrize("name", ["glfw", "disable", "elg"])
def test_backends_that_cannot_render_off_screen_are_refused(working, monkeypatch, name):
    working("egl")
    monkeypatch.setenv("MUJOCO_GL", name)
    with pytest.raises(UsageError, match=f"unset, egl or osmesa; it is '{name}'"):
        rendering.backend()


def test_a_probe_reports_the_reason():
    reason = "ModuleNotFoundError: No module named 'mujoco.nonsense'"
    assert rendering.probe("nonsense") == reason


def test_a_backend_that_another_library_chose_first_is_told(monkeypatch):
    """REN-02: what is set too late is said, and the variables are as they were."""

    def taken(name):
        raise AttributeError("'NoneType' object has no attribute 'eglQueryString'")

    monkeypatch.setenv("PYOPENGL_PLATFORM", "glx")
    monkeypatch.setattr(rendering.devices, "take", lambda: None)
    before = dict(os.environ)
    with monkeypatch.context() as patch:
        patch.setattr(rendering.importlib, "import_module", taken)
        with pytest.raises(Unsupported, match=r"eglQueryString.*set MUJOCO_GL before starting"):
            rendering._context("egl", 4, 4)
    assert dict(os.environ) == before


@pytest.mark.sim
def test_triton_is_loaded_before_mesa(tmp_path):
    """The LLVM of triton, which CUDA builds of torch import late, crashes behind that of Mesa."""
    (tmp_path / "triton.py").write_text(
        "print('OSMesa' in open('/proc/self/maps').read(), flush=True)\n"
    )
    code = (
        "from l2bench_libero.rendering import _context\n"
        "context = _context('osmesa', 64, 64)\n"
        "context.make_current()\n"
        "import os, sys\n"
        "print('triton' in sys.modules, 'OSMesa' in open('/proc/self/maps').read(), flush=True)\n"
        "os._exit(0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "MUJOCO_GL": "osmesa"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True", "True"], done.stderr
