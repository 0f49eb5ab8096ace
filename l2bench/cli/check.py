"""``l2bench check``: whether bundles and submissions are sound, rule by rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from l2bench.cli.main import print_json
from l2bench.cli.options import as_json
from l2bench.report.text import plural, printable

if TYPE_CHECKING:
    from l2bench.check.board import Board
    from l2bench.check.findings import Finding
    from l2bench.check.results import Checked


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--board", type=click.Path(path_type=Path), help="Check against this board's rules.")
@click.option("--plugins", is_flag=True, help="Also use metric sets of installed plugins.")
@click.option("--changes", type=click.File(), help="Output of 'git diff --name-status' to check.")
@as_json
def check(
    paths: tuple[Path, ...], board: Path | None, plugins: bool, changes: Any, as_json: bool
) -> int:
    """Check bundles, archives, folders of runs, or submissions at PATHS.

    Every number is computed again from the rows. No agent, environment or simulator is loaded.
    """
    from l2bench.check.contribution import check_changes
    from l2bench.check.paths import check_path
    from l2bench.check.results import Checked
    from l2bench.errors import RunFailed, UsageError

    against = opened(board)
    outcomes = []
    if changes is not None:
        if against is None:
            raise UsageError("--changes needs --board: the board as it was before")
        found = check_changes(changes.read().splitlines(), against)
        outcomes.append(Checked(Path(), "changes", tuple(found)))
    elif not paths:
        raise RunFailed("0 bundles found: no path was given")
    outcomes += [check_path(path, against, plugins=plugins) for path in paths]
    return show(outcomes, as_json)


def opened(board: Path | None) -> Board | None:
    """Return the board at a path."""
    from l2bench.check.board import Board

    return None if board is None else Board.load(board)


def show(outcomes: Sequence[Checked], as_json: bool, extra: dict[str, Any] | None = None) -> int:
    """Print outcomes, one line a finding, and return the exit code."""
    code = exit_code(outcomes)
    if as_json:
        import l2bench

        print_json(
            {
                "format": "l2bench.check",
                "format_version": "1.0",
                "l2bench": l2bench.__version__,
                "ok": code == 0,
                "exit_code": code,
                "checked": [outcome.data() for outcome in outcomes],
                **(extra or {}),
            }
        )
        return code
    for outcome in outcomes:
        for finding in outcome.findings:
            _line(outcome.path, finding)
        for each in outcome.waived:
            text = f"{each.finding.code} waived by {each.waiver.by}: {each.waiver.reason}"
            click.echo(printable(text))
        click.echo(printable(_sum(outcome)))
    return code


def exit_code(outcomes: Iterable[Checked]) -> int:
    """Return 0 if nothing is wrong, 3 if all that is wrong are versions, else 1."""
    codes = {outcome.exit_code for outcome in outcomes} - {0}
    return 0 if not codes else 3 if codes == {3} else 1


def _line(path: Path, finding: Finding) -> None:
    where = "/".join(part for part in (str(path), finding.path) if part)
    row = "" if finding.row is None else f":{finding.row}"
    text = f"{finding.code} {finding.severity} {where}{row} {finding.message}"
    facts = [
        f"{word}: {value}"
        for word, value in (("expected", finding.expected), ("found", finding.found))
        if value is not None
    ]
    if facts:
        text += f" ({'; '.join(facts)})"
    click.echo(printable(text))
    if finding.hint:
        click.echo(printable(f"    {finding.hint}"))


def _sum(outcome: Checked) -> str:
    found = f"{plural(len(outcome.errors), 'error')}, {plural(len(outcome.warnings), 'warning')}"
    what = "" if outcome.kind == "changes" else f", {plural(len(outcome.runs), 'bundle')} scored"
    tier = f", {outcome.tier}" if outcome.tier else ""
    waived = f", {len(outcome.waived)} waived" if outcome.waived else ""
    return f"{outcome.path}: {found}{waived}{what}{tier}"
