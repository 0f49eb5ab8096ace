"""``l2bench libero``: what the LIBERO suites need beside a run."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from l2bench.cli.main import print_json
from l2bench.cli.options import as_json
from l2bench.errors import UsageError
from l2bench_libero import tasks


@click.group()
def libero() -> None:
    """Demonstrations, task orders and rendering devices of LIBERO."""


@libero.command()
@click.argument("suites", nargs=-1, metavar="SUITE...")
@click.option("--all", "everything", is_flag=True, help="All five suites.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("l2bench-data"),
    show_default=True,
    help="The folder that runs name as execution.data.",
)
@click.option("--revision", default="main", show_default=True, help="Of the repository.")
@click.option("--repository", default=None, help="Another dataset repository of the same layout.")
@as_json
def fetch(
    suites: tuple[str, ...],
    everything: bool,
    output: Path,
    revision: str,
    repository: str | None,
    as_json: bool,
) -> None:
    """Get the official demonstrations of SUITE, such as libero_goal, and verify them.

    A transfer that broke off goes on where it was when the command is given again. HF_ENDPOINT
    names a mirror.
    """
    from l2bench_libero.environment import FOLDER
    from l2bench_libero.fetch import REPOSITORY, unseen
    from l2bench_libero.fetch import fetch as bring
    from l2bench_libero.hub import Hub

    if everything == bool(suites):
        known = ", ".join(tasks.SUITES)
        raise UsageError(f"name one or more suites, or give --all; there are {known}")
    chosen = tasks.SUITES if everything else suites
    moved = _show if sys.stderr.isatty() else unseen
    say = (lambda text: click.echo(text, err=True)) if as_json else click.echo
    found = bring(chosen, output / FOLDER, Hub(repository or REPOSITORY, revision), say, moved)
    if as_json:
        print_json(found)


def _show(done: int, total: int) -> None:
    click.echo(f"\r{100 * done / total:5.1f} %", nl=done >= total, err=True)


@libero.command()
@click.option("--device", default="auto", show_default=True, help="As in execution.device.")
@as_json
def devices(device: str, as_json: bool) -> None:
    """Show EGL's and CUDA's numbers of each device, and which one would render images."""
    from l2bench_libero import devices as found

    if not as_json:
        for each in found.query():
            click.echo(str(each))
    found.wish(found.Wish(device))
    chosen = found.assigned()[0]
    if as_json:
        known = [asdict(each) for each in found.query()]
        print_json({"devices": known, "execution_device": device, "renders": asdict(chosen)})
    else:
        click.echo(f"with execution.device={device}, images are rendered on {chosen}")


@libero.command()
@click.argument("suite")
@click.argument("index", type=int)
@as_json
def order(suite: str, index: int, as_json: bool) -> None:
    """Print the override that gives SUITE one of the 21 published task orders, by its number.

    It is meant for a run: l2bench run libero_goal "$(l2bench libero order libero_goal 7)"
    """
    from l2bench.cli.compose import compose
    from l2bench.plugins import Registry

    suite_of = compose(Registry(), suite, ["agent=random"]).suite
    environments = {task.environment.rsplit("/", 1)[-1] for task in suite_of.tasks}
    if len(environments) != 1:
        raise UsageError(f"suite '{suite}' mixes environments; the orders are of one LIBERO suite")
    upstream = environments.pop()
    ids = {tasks.find(upstream, task.task).index: task.id for task in suite_of.tasks}
    wanted = tasks.task_order(upstream, index)
    missing = [str(i) for i in wanted if i not in ids]
    if missing:
        raise UsageError(f"suite '{suite}' lacks the LIBERO tasks {', '.join(missing)}")
    named = [ids[i] for i in wanted]
    override = f"scenario.order=[{','.join(named)}]"
    if as_json:
        print_json({"suite": suite, "index": index, "order": named, "override": override})
    else:
        click.echo(override)
