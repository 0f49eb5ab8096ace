"""``l2bench compare``: two or more agents on one suite."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from l2bench.cli.main import print_json
from l2bench.cli.options import as_json
from l2bench.comparison import compare as compare_contenders
from l2bench.comparison import contender
from l2bench.errors import RunFailed
from l2bench.report.text import printable


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--metrics", multiple=True, help="A metric id; repeatable. Default: headline.")
@as_json
def compare(paths: tuple[Path, ...], metrics: tuple[str, ...], as_json: bool) -> None:
    """Compare the agents whose bundles are at PATHS, one folder an agent.

    Ends with exit code 1 where suites, protocols or simulators differ, with the reason.
    """
    result = compare_contenders([contender(path) for path in paths], metrics)
    if as_json:
        print_json(result)
        if not result["comparable"]:
            raise click.exceptions.Exit(RunFailed.exit_code)
        return
    for key, values in result["settings"].items():
        click.echo(printable(f"{key}: {' | '.join(str(value) for value in values)}"))
    if not result["comparable"]:
        raise RunFailed(f"not comparable: {'; '.join(result['reasons'])}")
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
