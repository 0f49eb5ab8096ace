"""``l2bench compare``: two or more agents on one suite."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from l2bench.bundle.files import write_atomically
from l2bench.cli.main import print_json
from l2bench.cli.options import as_json
from l2bench.comparison import Contender, contender
from l2bench.errors import RunFailed, UsageError
from l2bench.outcomes import weighed
from l2bench.report.text import changed, deviates, printable, sentence_list


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--metrics", multiple=True, help="A metric id; repeatable. Default: headline.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write a page as well.")
@click.option("--force", is_flag=True, help="Replace the file given with -o.")
@as_json
def compare(
    paths: tuple[Path, ...],
    metrics: tuple[str, ...],
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Compare the agents whose bundles are at PATHS, one folder an agent.

    What differs in their settings stands before the scores. Ends with exit code 1 where suites,
    protocols or simulators differ, with the reason.
    """
    if out is not None and out.exists() and not force:
        raise UsageError(f"{out} exists already; replace it with --force, or choose another -o")
    result = weighed([_contender(path) for path in paths], metrics)
    if out is not None:
        from l2bench.report.versus import render

        write_atomically(out.absolute(), render(result).encode("utf-8", "replace"))
    if as_json:
        print_json({**result, "page": str(out.absolute())} if out else result)
        if not result["comparable"]:
            raise click.exceptions.Exit(RunFailed.exit_code)
        return
    _print(result)
    if out is not None:
        click.echo(f"\npage     {out.absolute()}")
    if not result["comparable"]:
        raise RunFailed(f"not comparable: {'; '.join(result['reasons'])}")


def _contender(path: Path) -> Contender:
    """Return the agent whose bundles lie at a path; the remedy where they are to be made yet."""
    from l2bench.interop.kinds import holds_bundles, sources_there

    if path.exists() and not holds_bundles(path) and (told := sources_there(path)):
        raise RunFailed(
            f"0 bundles found at {path}, but {told} (one folder an agent, all of one --suite)"
        )
    return contender(path)


def _print(result: Mapping[str, Any]) -> None:
    """Print the suite, what differs, then the scores."""
    suite = result["suite"]
    if result["comparable"]:
        name = f"{suite['id']} {suite['version']}{changed(suite['deviations'])}"
        click.echo(printable(f"{sentence_list(result['agents'])} on {name}"))
    if line := deviates(suite["deviations"]):
        click.echo(line)
    for key, values in result["settings"].items():
        click.echo(printable(f"{key}: {' | '.join(str(value) for value in values)}"))
    for warning in result["warnings"]:
        click.echo(printable(f"warning: {warning}"))
    for metric in result["metrics"]:
        _show(result["agents"], metric)


def _show(agents: list[str], metric: Mapping[str, Any]) -> None:
    direction = {True: "higher is better", False: "lower is better", None: "no direction"}
    click.echo(f"\n{metric['id']} ({metric['unit']}, {direction[metric['higher_is_better']]})")
    ranks = metric["ranks"] or {}
    for label, found in zip(agents, metric["estimates"], strict=True):
        low, high = ranks.get(label, (None, None))
        place = "" if low is None else f"  rank {low}" + (f"-{high}" if high != low else "")
        click.echo(printable(f"  {label:30}{_estimate(found)}{place}"))
    for pair in metric["pairs"]:
        click.echo(printable(f"  {' minus '.join(pair['agents'])}: {_verdict(pair)}"))


def _estimate(found: Mapping[str, Any]) -> str:
    if found["mean"] is None:
        return f"  -     ({found['note']})"
    n = len(found["points"])
    if found["low"] is None:
        points = ", ".join(f"{point:.3g}" for point in found["points"])
        return f"{found['mean']:8.3f}  (n = {n}: {points})"
    return f"{found['mean']:8.3f}  [{found['low']:.3f}, {found['high']:.3f}]  n = {n}"


def _verdict(pair: Mapping[str, Any]) -> str:
    if pair["verdict"] == "undefined":
        return str(pair["note"])
    text = f"{pair['difference']:+.3f}"
    if pair["low"] is not None:
        text += f" [{pair['low']:+.3f}, {pair['high']:+.3f}]"
    text += " paired by seed" if pair["paired"] else " not paired"
    text += f"; P(larger) {pair['probability_first_is_larger']:.2f} over all pairs of lifetimes"
    if pair["verdict"] == "insufficient":
        return f"{text}; {pair['note']}"
    if pair["verdict"] == "identical":
        return "identical"
    if pair["verdict"] == "apart":
        return f"{text}; told apart"
    more = pair["more_lifetimes"]
    hint = f"; about {more} more lifetimes would tell them apart at this spread" if more else ""
    return f"{text}; not told apart{hint}"
