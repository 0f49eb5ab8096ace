"""``l2bench run``: a suite from its file to scored bundles and a report."""

from __future__ import annotations

import contextlib
import secrets
import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from l2bench.cast import Cast
from l2bench.cli.compose import compose
from l2bench.cli.main import print_json
from l2bench.cli.options import as_json, suite_and_overrides
from l2bench.cli.progress import of_lifetimes
from l2bench.cli.report import write_page
from l2bench.errors import Interrupted, UsageError
from l2bench.lifetimes import Run, slug
from l2bench.plugins import Registry


@click.command()
@suite_and_overrides
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for the bundles; must not exist yet. Default: a new one below runs/.",
)
@click.option("--resume", is_flag=True, help="Go on with what is unfinished in the folder -o.")
@click.option(
    "--expert",
    "experts",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Ready single-task experts, a bundle or a folder of them, instead of running them.",
)
@click.option("--dry-run", is_flag=True, help="Show plan and time estimate; run nothing.")
@click.option("--calibrate", is_flag=True, help="With --dry-run: measure what things cost here.")
@as_json
def run(
    suite: str,
    overrides: tuple[str, ...],
    out: Path | None,
    resume: bool,
    experts: tuple[Path, ...],
    dry_run: bool,
    calibrate: bool,
    as_json: bool,
) -> None:
    """Run SUITE, a name or a file ending in .yaml, and leave bundles, scores and a report.

    OVERRIDES are key=value, such as profile=smoke, agent=random or execution.workers=2.
    """
    if resume and out is None:
        raise UsageError("--resume needs the folder to go on with: -o DIR")
    if calibrate and not dry_run:
        raise UsageError("--calibrate measures for an estimate: give --dry-run as well")
    registry = Registry()
    composed = compose(registry, suite, overrides)
    cast = Cast.gather(registry, composed.suite, composed.agent, composed.execution)
    if dry_run:
        from l2bench.cli.dry_run import dry_run as show_plan

        show_plan(registry, composed, cast, measured=calibrate, as_json=as_json)
        return
    cast.check_data()
    folder = (out or _default_folder(cast)).absolute()
    with (
        of_lifetimes() as progress,
        contextlib.redirect_stdout(sys.stderr),  # standard output is the command's alone
        _resumable(["l2bench", "run", suite, *overrides, "-o", str(folder), "--resume"]),
    ):
        prepared = Run(registry, cast, composed.deviations)
        summary = prepared.execute(folder, resume=resume, progress=progress, experts=experts)
    page = write_page(folder, summary)
    if as_json:
        print_json({**summary, "folder": str(folder), "report": str(page)})
        return
    from l2bench.cli.output import print_summary

    print_summary(summary)
    click.echo(f"report   {page}")
    click.echo(f"bundles  {folder}")


@contextlib.contextmanager
def _resumable(again: Sequence[str]) -> Iterator[None]:
    """Say how to go on if the user interrupts."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; go on with: {shlex.join(again)}") from None


def _default_folder(cast: Cast) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = f"{cast.suite.id}__{slug(cast.agent_name)}__{stamp}-{secrets.token_hex(3)}"
    return Path("runs") / name
