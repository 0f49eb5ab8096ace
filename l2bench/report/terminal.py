"""The headline metrics in a terminal: a table for people, aligned lines for pipes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from l2bench.report.sections import headline_rows
from l2bench.report.text import NOTHING, changed, plural, printable, shorten

_HEADS = ("metric", "mean", "95 % interval", "unit", "direction", "lifetimes")

#: Typographic characters of the page and what stands for them where only ASCII is sure to show.
_ASCII = str.maketrans({"\N{MINUS SIGN}": "-", NOTHING: "-", "\N{HORIZONTAL ELLIPSIS}": "~"})


def table(summary: Mapping[str, Any]) -> Table:
    """Return the headline metrics of a summary as a table; undefined ones with their reason."""
    grid = Table(box=box.SIMPLE_HEAD, title=Text(title(summary)), title_justify="left")
    for head in _HEADS:
        right = head in ("mean", "lifetimes")
        grid.add_column(head, justify="right" if right else "left", no_wrap=head == "mean")
    for cells, reason in _rows(summary, symbols=True):
        texts = [Text(cell) for cell in cells]
        texts[1].stylize("dim" if reason and cells[1] == NOTHING else "bold")
        if reason:
            texts[2].append(f"{' ' if cells[2] else ''}{reason}", style="dim")
        grid.add_row(*texts)
    return grid


def plain(summary: Mapping[str, Any]) -> str:
    """Return the same table as aligned lines of ASCII, where the names are ASCII themselves."""
    lines = [list(_HEADS)]
    for cells, reason in _rows(summary, symbols=False):
        lines.append([*cells[:-1], f"{cells[-1]}{'  ' if reason else ''}{reason}"])
    widths = [max(len(line[at]) for line in lines) for at in range(len(_HEADS))]
    texts = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([title(summary), *texts]).translate(_ASCII) + "\n"


def title(summary: Mapping[str, Any]) -> str:
    """Return what the table is about, in one line."""
    agent, suite = summary["agent"], summary["suite"]
    words = f"{shorten(agent['name'], 80)} on {shorten(suite['id'], 80)} "
    words += f"{shorten(suite['version'], 40)}{changed(suite['deviations'])}, "
    return printable(words + plural(summary["n_lifetimes"], "lifetime"))


def _rows(summary: Mapping[str, Any], *, symbols: bool) -> list[tuple[list[str], str]]:
    """Return the cells of each metric and the reason why it, or part of it, is undefined."""
    rows = []
    for row in headline_rows(summary):
        note = f" ({row['note']})" if row["note"] else ""
        cells = [
            row["id"],
            row["mean"] or NOTHING,
            f"{row['spread']}{note}",
            row["unit"],
            f"{row['symbol']} {row['direction']}" if symbols else row["direction"],
            row["lifetimes"],
        ]
        rows.append(([printable(cell) for cell in cells], printable(row["reason"])))
    return rows
