"""A look at each task before a run: its seed, its first image, and what drew it."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from stubs import Stub, stubbed
from support import probe_suite, run_suite, scores_in

from l2bench.builtin.probe import Probe, ProbeEnvironment
from l2bench.bundle.reader import find_bundles, read_bundle


def only(folder: Path):
    (path,) = find_bundles(folder)
    return read_bundle(path)


def swapped(suite, environment: str):
    """The suite with every task in another environment."""
    tasks = tuple(t.model_copy(update={"environment": environment}) for t in suite.tasks)
    return suite.model_copy(update={"tasks": tasks})


class Pictures(gymnasium.Env):
    """Shows two images and ends at once."""

    light = 120
    observation_space = Dict(
        front=Box(0, 255, (4, 6, 3), np.uint8), state=Box(-1, 1, (2,), np.float32)
    )
    action_space = Discrete(4)

    def reset(self, *, seed=None, options=None):
        image = np.full((4, 6, 3), self.light, np.uint8)
        return {"front": image, "state": np.zeros(2, np.float32)}, {"success": False}

    def step(self, action):
        return self.reset()[0], 0.0, True, False, {"success": True}


class Gallery(ProbeEnvironment):
    """Image tasks of one renderer."""

    renderer: str | None = "egl"
    live: type = Pictures

    def make(self, task):
        return self.live()

    def spaces(self, task):
        from l2bench.environment import Spaces

        return Spaces(Pictures.observation_space, Pictures.action_space)

    def versions(self):
        return {"renderer": self.renderer} if self.renderer else {}


class Blind(Stub):
    def act(self, observations, acting):
        return np.zeros(len(acting.slots), dtype=int)


def lived(folder: Path, environment: type, seeds=(0,)):
    suite = swapped(probe_suite(1, seeds=list(seeds)), "l2bench/odd")
    run_suite(stubbed(Blind, odd=environment), suite, "stub", folder)
    return folder


def test_the_first_image_of_each_task_is_recorded(tmp_path):
    lived(tmp_path / "run", Gallery)
    (segment,) = only(tmp_path / "run").provenance.segments
    probe = segment.probes["task-1"]
    assert probe.seed_honoured is True
    assert probe.render_backend == "egl"
    assert set(probe.frames) == {"front"}  # a state is no image
    frame = probe.frames["front"]
    assert (frame.shape, frame.dtype, frame.mean, frame.std) == ((4, 6, 3), "uint8", 120.0, 0.0)


def test_a_backend_that_nobody_tells_is_the_machines_setting(tmp_path, monkeypatch):
    silent = type("Silent", (Gallery,), {"renderer": None})
    for setting, expected in (("osmesa", "osmesa"), (None, "unknown")):
        monkeypatch.delenv("MUJOCO_GL", raising=False)
        if setting:
            monkeypatch.setenv("MUJOCO_GL", setting)
        folder = lived(tmp_path / expected, silent)
        (segment,) = only(folder).provenance.segments
        assert segment.probes["task-1"].render_backend == expected


def test_a_task_is_looked_at_once_for_all_lifetimes_and_experts(tmp_path):
    made = []

    class Counted(ProbeEnvironment):
        def make(self, task):
            made.append(task.id)
            return Probe()

    suite = swapped(probe_suite(1, seeds=[0, 1]), "l2bench/odd")
    run_suite(stubbed(Stub, odd=Counted), suite, "stub", tmp_path / "plain")
    plain = len(made)
    made.clear()
    run_suite(stubbed(Stub, odd=Counted), suite, "stub", tmp_path / "again")
    assert len(made) == plain
    lessons, pools = 2, 1  # each lifetime builds one per lesson and one to evaluate in
    assert plain == 1 + 2 * (lessons + pools)


def test_what_cannot_be_looked_at_is_no_error_by_itself(tmp_path):
    class Shy(Probe):
        calls = 0

        def reset(self, *, seed=None, options=None):
            Shy.calls += 1
            if Shy.calls == 1:
                raise OSError("not yet, says /home/bob/x")
            return super().reset(seed=seed, options=options)

    shy = type("ShyEnvironment", (ProbeEnvironment,), {"make": lambda self, task: Shy()})
    lived(tmp_path / "run", shy)
    (segment,) = only(tmp_path / "run").provenance.segments
    probe = segment.probes["task-1"]
    assert (probe.seed_honoured, probe.reason) == (None, "OSError: not yet, says x")


def test_tasks_of_samples_are_not_looked_at(registry, tmp_path):
    suite = probe_suite(1, source="samples", unit="epochs")
    run_suite(registry, suite, "perfect", tmp_path / "run")
    (segment,) = only(tmp_path / "run").provenance.segments
    assert segment.probes == {}
    assert scores_in(tmp_path / "run")["metrics"]
