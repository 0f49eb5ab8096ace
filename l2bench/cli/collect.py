"""``l2bench collect``: demonstrations made or checked before a run needs them."""

from __future__ import annotations

import click

from l2bench.cast import Cast
from l2bench.cli.compose import compose
from l2bench.cli.main import print_json
from l2bench.cli.options import as_json, suite_and_overrides
from l2bench.cli.progress import of_data
from l2bench.plugins import Registry


@click.command()
@suite_and_overrides
@as_json
def collect(suite: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Make the demonstrations that SUITE learns from, or check those that are there.

    They go below the folder execution.data; `l2bench run` makes them too where they are missing.
    """
    registry = Registry()
    composed = compose(registry, suite, overrides)
    cast = Cast.gather(registry, composed.suite, composed.agent, composed.execution)
    cast.progress = of_data()
    wanted = [
        index
        for index, task in enumerate(composed.suite.tasks)
        if task.learning is not None and task.learning.source == "demonstrations"
    ]
    rows = []
    for index in wanted:
        data = cast.demonstrations(index)
        rows.append(
            {
                "task": composed.suite.tasks[index].id,
                "demonstrations": len(data.starts) - 1,
                "pairs": len(data),
                "origin": dict(data.origin),
            }
        )
        cast.forget(index)
        if not as_json:
            last = rows[-1]
            click.echo(
                f"{last['task']}: {last['demonstrations']} demonstrations, {last['pairs']} pairs"
            )
    if as_json:
        print_json({"data": str(composed.execution.data), "tasks": rows})
    elif not rows:
        click.echo(f"suite '{composed.suite.id}' learns nothing from demonstrations")
    else:
        click.echo(f"data     {composed.execution.data}")
