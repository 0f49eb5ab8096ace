"""How commands show scores: a table on a terminal, aligned lines in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from l2bench.report import terminal
from l2bench.report.text import deviates


def print_summary(summary: Mapping[str, Any], *, every: bool = False) -> None:
    """Print the headline metrics of a summary, or every metric of the whole lifetime.

    A suite that was changed has the changed keys below its metrics.
    """
    if every:
        metrics = [{**metric, "headline": True} for metric in summary["metrics"]]
        summary = {**summary, "metrics": metrics}
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(terminal.table(summary))
    else:
        click.echo(terminal.plain(summary), nl=False)
    if line := deviates(summary["suite"]["deviations"]):
        click.echo(line)
