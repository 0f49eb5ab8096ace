"""How commands show scores: a table on a terminal, aligned lines in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from l2bench.report import terminal
from l2bench.report.text import deviates, plural


def print_summary(summary: Mapping[str, Any], *, every: bool = False) -> None:
    """Print the headline metrics of a summary, or every metric of the whole lifetime.

    A suite that was changed has the changed keys below its metrics. Where all metrics are of
    tasks or pairs, a line says where they are.
    """
    if every:
        metrics = [{**metric, "headline": True} for metric in summary["metrics"]]
        summary = {**summary, "metrics": metrics}
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(terminal.table(summary))
    else:
        click.echo(terminal.plain(summary), nl=False)
    if summary["metrics"] and all(m["scope"] != "lifetime" for m in summary["metrics"]):
        values = plural(len(summary["metrics"]), "value")
        click.echo(f"no metric of the whole lifetime; --json has {values} of tasks and pairs")
    if line := deviates(summary["suite"]["deviations"]):
        click.echo(line)
