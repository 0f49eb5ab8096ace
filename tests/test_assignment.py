"""Environments are told where they are: the agent's device, and which worker their process is."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from stubs import Stub, stubbed
from support import probe_suite, run_suite

from l2bench.builtin.probe import ProbeEnvironment
from l2bench.cast import Execution, made_environment


class Told(ProbeEnvironment):
    """Writes down what it is told, whichever process it is in."""

    file: ClassVar[Path]
    configured = False

    def configure(self, options):
        self.configured = True

    def assign(self, device, worker):
        assert self.configured
        with self.file.open("a") as file:
            file.write(f"{device} {worker}\n")


@pytest.fixture
def told(tmp_path, monkeypatch):
    monkeypatch.setattr(Told, "file", tmp_path / "told", raising=False)
    return lambda: sorted((tmp_path / "told").read_text().splitlines())


def test_an_environment_is_told_after_it_is_configured(told):
    registry = stubbed(Stub, told=Told)
    made_environment(registry, "l2bench/told", Execution(device="cuda:1"))
    made_environment(registry, "l2bench/told", Execution(), worker=3)
    assert told() == ["auto 3", "cuda:1 None"]


def test_every_worker_has_a_number_of_its_own(told, tmp_path):
    suite = probe_suite(1, every=None, scenario={"episodes": 4})
    tasks = tuple(t.model_copy(update={"environment": "l2bench/told"}) for t in suite.tasks)
    suite = suite.model_copy(update={"tasks": tasks})
    how = {"workers": 3, "start_method": "fork", "device": "cpu"}
    run_suite(stubbed(Stub, told=Told), suite, "stub", tmp_path / "run", **how)
    found = told()
    assert set(found) == {"cpu None", "cpu 0", "cpu 1", "cpu 2"}
    assert found.count("cpu 1") == 1
