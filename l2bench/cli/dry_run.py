"""``l2bench run --dry-run``: the plan of a run, and how long it may take."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

from l2bench.cast import Cast
from l2bench.cli.main import print_json
from l2bench.cli.plan import describe, estimate, show
from l2bench.plugins import Registry
from l2bench.report.text import duration, plural, printable


def dry_run(
    registry: Registry, composed: Any, cast: Cast, *, measured: bool, as_json: bool
) -> None:
    """Print plan and time; ``measured`` has the costs measured here instead of looked up."""
    described = describe(registry, composed, cast)
    if cast.execution.device.startswith("cuda") and shutil.which("nvidia-smi") is None:
        click.echo(
            f"warning: execution.device is {cast.execution.device}, and no NVIDIA driver is found "
            f"here (nvidia-smi); an agent that finds no GPU refuses to run",
            err=True,
        )
    calibration = _calibration(cast) if measured else None
    cost = None if measured else estimate(cast, described)
    if as_json:
        extra = {"calibration": calibration} if measured else {"estimate": cost}
        print_json({**described, **extra})
        return
    show(described)
    if calibration is not None:
        _show(calibration)
    elif cost is not None:
        seconds = cost["seconds"]
        shown = "unknown" if seconds is None else duration(seconds)
        click.echo(f"simulation time: {shown} ({cost['note']})")


def _calibration(cast: Cast) -> dict[str, Any]:
    from l2bench.calibration import calibrate, expected

    with contextlib.redirect_stdout(sys.stderr):
        costs = calibrate(cast)
    names = [task.id for task in cast.suite.tasks]
    kinds = [{**asdict(cost), "tasks": [names[task] for task in cost.tasks]} for cost in costs]
    return {"costs": kinds, "expected": expected(cast, costs)}


def _show(calibration: Mapping[str, Any]) -> None:
    click.echo("measured on this machine:")
    for cost in calibration["costs"]:
        tasks = cost["tasks"]
        more = f" and {len(tasks) - 1} like it" if len(tasks) > 1 else ""
        parts = [
            ("building", cost["build"], ""),
            ("reset", cost["reset"], ""),
            ("step", cost["step"], ""),
            (
                "answer",
                cost["act"],
                f" to {cost['batch']}, good for {plural(cost['chunk'], 'step')}",
            ),
            (f"learning a {cost['item']}", cost["learn"], ""),
        ]
        shown = ", ".join(f"{n} {_short(s)}{note}" for n, s, note in parts if s is not None)
        click.echo(printable(f"  {tasks[0]}{more}: {shown}"))
    total = calibration["expected"]
    workers = f"{plural(total['workers'], 'worker')} on {plural(total['cores'], 'core')}"
    where = f"{plural(total['lifetimes'], 'lifetime')}, {workers}"
    click.echo(f"at most, with every episode at its horizon ({where}):")
    for name in ("simulation", "acting", "learning"):
        seconds = total[name]
        unknown = "unknown before the demonstrations are there; see the cost of a pair"
        click.echo(f"  {name}: {unknown if seconds is None else duration(seconds)}")


def _short(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
