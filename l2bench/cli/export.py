"""``l2bench export``: bundles for another tool, as CSV, or as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from l2bench.cli.main import print_json
from l2bench.cli.options import about_source, as_json, experts, source_kind
from l2bench.interop import exports
from l2bench.plugins import Registry
from l2bench.report.text import printable

_KINDS = "\n".join(f"  {kind:9} {text}" for kind, text in exports.EXPORTS.items())


@click.command(epilog=f"\b\nKinds:\n{_KINDS}")
@click.argument("form", metavar="KIND")
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="The file or folder."
)
@click.option("--force", is_flag=True, help="Replace an earlier export.")
@click.option("--metrics", multiple=True, help="A metric set; repeatable. Default: stored scores.")
@experts
@source_kind
@about_source
@as_json
def export(
    form: str,
    paths: tuple[Path, ...],
    out: Path,
    force: bool,
    metrics: tuple[str, ...],
    experts: tuple[Path, ...],
    kind: str | None,
    as_json: bool,
    **about: Any,
) -> None:
    """Write what lies at each PATH (a bundle, a folder of bundles, another tool's results)."""
    from l2bench.cli.sources import opened, rescored

    exports.check_export(form, out, force=force)
    registry = Registry()
    groups: list[exports.Group] = []
    for path in paths:
        bundles = opened(registry, path, kind, experts, metrics, about)
        fresh = bool(metrics or experts)
        scored = (
            rescored(registry, bundles, experts, metrics)
            if fresh
            else [bundle.scores for bundle in bundles]
        )
        groups.append((bundles, scored))
    warnings = exports.export(form, groups, out)
    for text in warnings:
        click.echo(printable(f"warning: {text}"), err=True)
    if as_json:
        print_json({"export": str(out), "kind": form, "warnings": warnings})
    else:
        click.echo(f"export   {out}")
