"""How far a long command is: lines in a log now and then, and what a dry run warns of."""

from __future__ import annotations

import pytest

from l2bench.cli import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_log_gets_a_line_now_and_then(clock, capsys):
    with progress.of_lifetimes() as report:
        report(0, 2, 0, 10, "learn catch", 0.0)
        clock[0] = progress.QUIET - 1
        report(0, 2, 3, 10, "learn catch", 0.3)
        assert capsys.readouterr().err == ""
        clock[0] = progress.QUIET
        report(1, 2, 4, 10, "evaluate all", 0.5)
        report(1, 2, 5, 10, "evaluate all", 0.6)
    assert capsys.readouterr().err == "lifetime 2/2, block 5/10 (75% of all): evaluate all\n"


def test_data_in_the_making_is_told_as_such(clock, capsys):
    with progress.of_lifetimes() as report:
        clock[0] = 2 * progress.QUIET
        report(0, 2, 0, 0, "demonstrations of butter 3/20", None)
    made = progress.of_data()
    clock[0] *= 2
    made(4, 20, "butter\n")
    made(5, 20, "butter")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "demonstrations of butter 3/20"
    assert lines[1].startswith("butter") and lines[1].endswith(": 4 of 20")
    assert len(lines) == 2


def test_a_dry_run_for_a_gpu_warns_where_there_is_none(cli, monkeypatch):
    from l2bench.builtin.baselines import Random

    monkeypatch.setattr(Random, "devices", {"cpu", "cuda"})
    arguments = ("run", "quickstart", "agent=random", "execution.device=cuda", "--dry-run")
    monkeypatch.setattr("l2bench.cli.dry_run.shutil.which", lambda _: None)
    code, _, errors = cli(*arguments)
    assert code == 0
    assert "no NVIDIA driver is found here" in errors
    monkeypatch.setattr("l2bench.cli.dry_run.shutil.which", lambda _: "/usr/bin/nvidia-smi")
    assert "NVIDIA" not in cli(*arguments)[2]
