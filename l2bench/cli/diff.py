"""``l2bench diff``: the first row at which two bundles part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from l2bench.bundle.reader import Bundle, find_bundles, read_bundle
from l2bench.cli.main import print_json
from l2bench.cli.options import as_json
from l2bench.cli.sources import rescored
from l2bench.difference import difference
from l2bench.errors import RunFailed, UsageError, choices
from l2bench.plugins import Registry
from l2bench.report.text import printable

#: Changed values shown on a terminal; --json has all.
SHOWN = 20


@click.command()
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@as_json
def diff(first: Path, second: Path, as_json: bool) -> None:
    """Show where the lifetimes at FIRST and SECOND part, and what that changes in the metrics.

    Each is a bundle, or a folder of them; of folders, lifetimes of the same seed are set side by
    side. Wall times and attempts are left out. Ends with exit code 1 if any row differs.
    """
    registry = Registry()
    found = [
        difference(one, other, rescored(registry, [one, other], (), ()))
        for one, other in _pairs(first, second)
    ]
    if as_json:
        print_json({"pairs": found, "identical": all(pair["identical"] for pair in found)})
    else:
        for pair in found:
            _show(pair)
    if not all(pair["identical"] for pair in found):
        raise click.exceptions.Exit(RunFailed.exit_code)


def _pairs(first: Path, second: Path) -> Sequence[tuple[Bundle, Bundle]]:
    """Return the lifetimes that belong together: the two bundles, or those of equal seeds."""
    sides = [[read_bundle(path) for path in find_bundles(place)] for place in (first, second)]
    if all(len(side) == 1 for side in sides):
        return [(sides[0][0], sides[1][0])]
    by_seed = [{bundle.manifest.seed.lifetime: bundle for bundle in side} for side in sides]
    shared = sorted(by_seed[0].keys() & by_seed[1].keys())
    if not shared:
        seeds = [choices(str(seed) for seed in side) for side in by_seed]
        raise UsageError(
            f"{first} has seeds {seeds[0]} and {second} has {seeds[1]}: none in common; "
            f"name one bundle of each"
        )
    return [(by_seed[0][seed], by_seed[1][seed]) for seed in shared]


def _show(pair: Mapping[str, Any]) -> None:
    for name in pair["bundles"]:
        click.echo(printable(name))
    for key, values in pair["conditions"].items():
        shown = ", ".join(values) if key == "suite" else " | ".join(str(v) for v in values)
        click.echo(printable(f"  {key}: {shown}"))
    if pair["identical"]:
        click.echo("  identical: every row is equal\n")
        return
    click.echo(printable(f"  part at {_place(pair['parts_at'])}"))
    for name, found in pair["tables"].items():
        if found["differing_rows"]:
            columns = ", ".join(f"{c} {n}" for c, n in found["differing_columns"].items())
            rows = f"{found['rows'][0]} and {found['rows'][1]} rows"
            where = f" ({columns})" if columns else ""
            click.echo(f"  {name}: {found['differing_rows']} rows differ{where}; {rows}")
    changed = pair["metrics"]["changed"]
    ordered = sorted(changed, key=lambda m: (not m["headline"], m["task"] is not None))
    for metric in ordered[:SHOWN]:
        task = f" of {metric['task']}" if metric["task"] else ""
        source = f" ({metric['source']})" if metric["source"] else ""
        values = [_number(value) for value in metric["values"]]
        by = "" if metric["change"] is None else f"  {metric['change']:+.4g}"
        click.echo(printable(f"  {metric['id']}{task}{source}: {values[0]} -> {values[1]}{by}"))
    if len(changed) > SHOWN:
        click.echo(f"  ... and {len(changed) - SHOWN} more; all with --json")
    click.echo(f"  {pair['metrics']['unchanged']} values are the same\n")


def _place(row: Mapping[str, Any]) -> str:
    key = ", ".join(f"{name} {value}" for name, value in row["key"].items())
    where = f"{row['table']}, {key}"
    if not all(row["there"]):
        return f"{where}: only in the {'first' if row['there'][0] else 'second'}"
    return f"{where}: " + "; ".join(
        f"{column} {_number(a)} -> {_number(b)}" for column, (a, b) in row["values"].items()
    )


def _number(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
