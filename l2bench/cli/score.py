"""``l2bench score``: metrics recomputed from bundles, or from other tools' results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from l2bench.cli.brief import brief
from l2bench.cli.main import print_json
from l2bench.cli.options import (
    about_source,
    as_json,
    bundles,
    experts,
    metric_settings,
    metrics,
    source_kind,
)
from l2bench.errors import UsageError
from l2bench.plugins import Registry
from l2bench.report.text import printable


@click.command()
@bundles
@click.argument("more", nargs=-1, metavar="", type=click.Path(path_type=Path))
@metrics
@click.option("--all", "every", is_flag=True, help="Show every metric of the whole lifetime.")
@metric_settings
@experts
@source_kind
@about_source
@as_json
@brief()
def score(
    path: Path,
    more: tuple[Path, ...],
    metrics: tuple[str, ...],
    every: bool,
    experts: tuple[Path, ...],
    kind: str | None,
    settings: tuple[str, ...],
    as_json: bool,
    **about: Any,
) -> int:
    """Score the bundle at PATH, all bundles in the folder PATH, or another tool's results there."""
    from l2bench.cli import sources
    from l2bench.interop.kinds import IMPORTED_TO
    from l2bench.scoring import summarise_bundles

    if more:
        raise UsageError(
            f"score takes one PATH, found {1 + len(more)}; of several lifetimes give the folder "
            f"with their bundles (other tools' results become bundles with: l2bench import KIND "
            f"PATH -o {IMPORTED_TO})"
        )
    registry, given = Registry(), sources.metric_settings(settings)
    read = sources.opened(registry, path, kind, experts, metrics, about, given)
    scored = sources.rescored(registry, read, experts, metrics, given)
    summary = summarise_bundles(read, scored)
    incomplete = any(bundle.manifest.status == "incomplete" for bundle in read)
    for text in dict.fromkeys(str(text) for scores in scored for text in scores["warnings"]):
        click.echo(printable(f"warning: {text}"), err=True)
    if as_json:
        both = zip(read, scored, strict=True)
        documents = [{"bundle": bundle.folder.name, **scores} for bundle, scores in both]
        print_json({"summary": summary, "bundles": documents})
    else:
        from l2bench.cli.output import print_summary

        print_summary(summary, every=every)
    return 4 if incomplete else 0
