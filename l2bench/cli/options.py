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
