"""Fixtures that all core tests share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings

from l2bench.cli.main import invoke
from l2bench.plugins import Registry

settings.register_profile("untimed", deadline=None)  # a busy machine is no fault
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def registry() -> Registry:
    return Registry()


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command line in this process; returns exit code, standard output and error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = invoke([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
