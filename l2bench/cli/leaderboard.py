"""``l2bench leaderboard``: register suites, accept submissions, and build the pages of a board."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from l2bench.bundle.locks import held
from l2bench.cli.main import print_json
from l2bench.cli.options import as_json
from l2bench.errors import UsageError
from l2bench.plugins import Registry
from l2bench.report.text import plural, printable

F = TypeVar("F", bound=Callable[..., Any])


def on_board(function: F) -> F:
    """Add ``--board``."""
    path = click.Path(path_type=Path)
    return click.option("--board", type=path, required=True, help="The board's folder.")(function)


def with_plugins(function: F) -> F:
    """Add ``--plugins``."""
    text = "Score with the metric sets of installed plugins too; by default only L2bench's own."
    return click.option("--plugins", is_flag=True, help=text)(function)


@click.group()
def leaderboard() -> None:
    """Keep a leaderboard: a folder of registered suites and checked submissions."""


@leaderboard.command()
@click.argument("board", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="The site.")
@click.option("--force", is_flag=True, help="Replace an earlier site.")
@click.option("--bundles/--no-bundles", default=True, help="Copy the runs into the site.")
@with_plugins
@as_json
def build(board: Path, out: Path, force: bool, bundles: bool, plugins: bool, as_json: bool) -> int:
    """Check and score every submission of BOARD again and write its pages.

    The site is static: it opens from disk, needs no network, and is the same for the same board.
    Ends with exit code 1 if an entry could not be checked on this machine (I01).
    """
    from l2bench.check.board import Board
    from l2bench.leaderboard.downloads import board_document
    from l2bench.leaderboard.reading import read_entries
    from l2bench.leaderboard.site import refuse_existing, suite_boards, write_site

    refuse_existing(out, force=force)
    read = Board.load(board)
    with tempfile.TemporaryDirectory(prefix="l2bench-board-") as workspace:
        entries = read_entries(
            read, Path(workspace), plugins=plugins,
            progress=lambda key: click.echo(printable(f"checking {key}"), err=True),
        )  # fmt: skip
        boards = suite_boards(read, entries)
        write_site(read, boards, out, bundles=bundles)
        whole = board_document(read.files.title, read.files.rules_version, boards)
    site = out.absolute()
    unchecked = [
        entry.key
        for suite in boards
        for entry in suite.excluded
        if any(found.code == "I01" for found in entry.findings)
    ]
    for key in unchecked:
        click.echo(printable(f"l2bench: {key} could not be checked (I01); build again"), err=True)
    if as_json:
        print_json({**whole, "site": str(site)})
        return 1 if unchecked else 0
    click.echo(f"accepted {whole['accepted']} = {whole['shown']} shown + {whole['excluded']} "
               f"excluded")  # fmt: skip
    for suite in boards:
        for entry in suite.excluded:
            click.echo(printable(f"excluded {entry.key}: {'; '.join(entry.reasons[:3])}"))
    click.echo(f"site     {site / 'index.html'}")
    return 1 if unchecked else 0


@leaderboard.command()
@click.argument("suite")
@on_board
@click.option("--rank-by", "metric", help="The metric that ranks the entries.")
@click.option("--title", help="Makes the board, with this title.")
@click.option(
    "--accept-editable", is_flag=True,
    help="With --title: take runs of plugins that are installed in place, for trials.",
)  # fmt: skip
@as_json
def register(
    suite: str,
    board: Path,
    metric: str | None,
    title: str | None,
    accept_editable: bool,
    as_json: bool,
) -> None:
    """Add SUITE, a name or a file ending in .yaml, to a board.

    The releases of its environments and metric sets that are installed here become the ones that
    the board accepts.
    """
    from l2bench.check.board import Board
    from l2bench.cli.compose import compose
    from l2bench.leaderboard.changes import create, ranking_metric, register

    if accept_editable and title is None:
        raise UsageError("--accept-editable is decided when a board is made; give --title too")
    registry = Registry()
    resolved = compose(registry, suite, ["agent=any"]).suite  # a board takes any agent
    ranking_metric(resolved, metric, registry)  # before a board is made for it
    with held(board):
        if title is not None:
            found = create(board, title, accept_editable=accept_editable)
        else:
            found = Board.load(board)
        entry = register(found, resolved, metric, registry).files.suites[-1]
    if as_json:
        print_json(entry.model_dump(mode="json"))
        return
    click.echo(f"registered {entry.id} {entry.version}, ranked by {entry.headline}")
    click.echo(f"hash       {entry.suite_hash}")
    click.echo(f"board      {board.absolute()}")


@leaderboard.command()
@on_board
@as_json
def lock(board: Path, as_json: bool) -> None:
    """Accept the releases installed here, beside those accepted already.

    They are those of the environments and metric sets of the board's suites. What runs in place,
    from its sources, is accepted by version alone.
    """
    from l2bench.check.board import Board
    from l2bench.leaderboard.changes import lock

    with held(board):
        locked, left = lock(Board.load(board), Registry())
    plugins = locked.files.plugins
    if as_json:
        shown = [plugin.model_dump(mode="json") for plugin in plugins]
        print_json({"plugins": shown, "left_as_they_are": list(left)})
        return
    for plugin in plugins:
        digests = plural(len(plugin.record_sha256), "digest")
        click.echo(printable(f"{plugin.distribution} {plugin.version}  {digests}"))
    for suite in left:
        click.echo(printable(f"{suite} left as it is: not all of its plugins are installed here"))


@leaderboard.command()
@click.argument("submission", type=click.Path(path_type=Path))
@on_board
@with_plugins
@as_json
def accept(submission: Path, board: Path, plugins: bool, as_json: bool) -> None:
    """Check SUBMISSION and copy it onto the board; what is there already never changes."""
    from l2bench.check.board import Board
    from l2bench.leaderboard.changes import accept

    with held(board):
        key, checked = accept(Board.load(board), submission, plugins=plugins)
    findings = checked.findings
    if as_json:
        print_json({"entry": key, **checked.data()})
        return
    for found in findings:
        click.echo(printable(f"{found.severity} {found.code} {found.path}: {found.message}"))
    remarks = "no remarks" if not findings else plural(len(findings), "remark")
    click.echo(f"accepted {key} ({remarks})")
    click.echo(f"entry    {(board / 'submissions' / key).absolute()}")


@leaderboard.command()
@click.argument("entry")
@on_board
@click.option("--reason", required=True, help="Shown in its place.")
@click.option("--on", "day", help="The date, YYYY-MM-DD. Default: today.")
@as_json
def withdraw(entry: str, board: Path, reason: str, day: str | None, as_json: bool) -> None:
    """Take ENTRY out of the rankings; its name, the date and the reason stay visible."""
    from l2bench.check.board import Board
    from l2bench.leaderboard.changes import withdraw

    with held(board):
        gone = withdraw(Board.load(board), entry, reason, _today(day)).files.withdrawals[-1]
    if as_json:
        print_json(gone.model_dump(mode="json"))
        return
    click.echo(printable(f"withdrawn {gone.submission} on {gone.on.isoformat()}: {gone.reason}"))


def _today(given: str | None = None) -> date:
    """Return the date given, else that of SOURCE_DATE_EPOCH, else today's (UTC).

    Raises:
        UsageError: if it is no date.
    """
    stamp = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        if given is not None:
            return date.fromisoformat(given)
        moment = datetime.now(UTC) if stamp is None else datetime.fromtimestamp(int(stamp), UTC)
        return moment.date()
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"'{given or stamp}' is no date; write YYYY-MM-DD") from None
