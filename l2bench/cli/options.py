"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def as_json(function: F) -> F:
    """Add ``--json``: exactly one JSON document on standard output."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(
        function
    )


def suite_and_overrides(function: F) -> F:
    """Add SUITE and its overrides."""
    function = click.argument("overrides", nargs=-1)(function)
    return click.argument("suite")(function)


def bundles(function: F) -> F:
    """Add PATH: a bundle, or a folder of bundles."""
    return click.argument("path", type=click.Path(path_type=Path))(function)


def source_kind(function: F) -> F:
    """Add ``--kind``: what PATH holds, where that is not clear by itself."""
    text = "The kind of source at PATH, if it is no bundle and cannot be told by its files."
    return click.option("--kind", help=text)(function)


def experts(function: F) -> F:
    """Add ``--expert``: lifetimes that learned one task each."""
    text = "A single-task expert, a bundle or a source like PATH; repeatable."
    path = click.Path(path_type=Path)
    return click.option("--expert", "experts", multiple=True, type=path, help=text)(function)


def metrics(function: F) -> F:
    """Add ``--metrics``: the names of metric sets."""
    text = "A metric set; repeatable. Default: the suite's."
    return click.option("--metrics", multiple=True, help=text)(function)


def metric_settings(function: F) -> F:
    """Add ``--setting``: values of metric sets' own settings; the function gets the texts."""
    text = "A setting of a metric set, such as kemker.ideal=0.97; repeatable."
    return click.option("--setting", "settings", multiple=True, metavar="SET.KEY=VALUE", help=text)(
        function
    )


def about_source(function: F) -> F:
    """Add what can be said about a source; the function gets them as ``measure`` and so on."""
    for name, arguments in (
        ("--seed", {"type": click.IntRange(0, 2**63 - 1), "help": "The lifetime's seed."}),
        ("--agent", {"help": "The agent's name."}),
        ("--suite", {"help": "The name of what was run; by default that of the source."}),
        ("--range", {"nargs": 2, "type": float, "help": "Smallest and largest score."}),
        ("--measure", {"help": "The column that is the score, where there are several."}),
    ):
        function = click.option(name, **arguments)(function)
    return function
