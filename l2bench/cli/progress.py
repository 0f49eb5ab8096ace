"""How far a long command is: a bar on a terminal, now and then a line in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import click

from l2bench.report.text import printable

#: Seconds between two lines where standard error is no terminal.
QUIET = 60.0


class Lines:
    """Lines on standard error, the first after `QUIET` seconds and not more often than that."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def show(self, text: str) -> None:
        """Print a line if it is time for one."""
        now = time.monotonic()
        if now - self._last >= QUIET:
            self._last = now
            click.echo(printable(text), err=True)


@contextlib.contextmanager
def of_lifetimes() -> Iterator[Callable[..., None]]:
    """Yield the progress callback of a run of lifetimes."""
    if sys.stderr.isatty():
        with _bar() as report:
            yield report
        return
    lines = Lines()

    def log(done: int, of: int, at: int, blocks: int, text: str, share: float | None) -> None:
        if share is None:  # data is being made, which a block needs
            lines.show(text)
        else:
            share_of_all = (done + share) / of
            lines.show(f"{_where(done, of, at, blocks)} ({share_of_all:.0%} of all): {text}")

    yield log


def of_data() -> Callable[[int, int, str], None]:
    """Return the progress callback of making data: how many of how many, and of what."""
    lines = Lines()

    def log(done: int, total: int, text: str) -> None:
        if sys.stderr.isatty():
            click.echo(printable(f"\r{text}: {done}/{total}"), nl=done == total, err=True)
        else:
            lines.show(f"{text}: {done} of {total}")

    return log


def _where(done: int, of: int, at: int, blocks: int) -> str:
    return f"lifetime {done + 1}/{of}, block {min(at + 1, blocks)}/{blocks}"


@contextlib.contextmanager
def _bar() -> Iterator[Callable[..., None]]:
    """Yield a callback that draws a bar with the time left."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:<44}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        shown = bar.add_task("starting", total=1.0)

        def report(
            done: int, of: int, at: int, blocks: int, text: str, share: float | None
        ) -> None:
            if share is None:
                bar.update(shown, description=text[:44])
                return
            where = f"{_where(done, of, at, blocks)}: {text}"
            bar.update(shown, completed=(done + share) / of, description=where[:44])

        yield report
