"""``l2bench score``: metrics recomputed from the raw rows of bundles."""

from __future__ import annotations

from pathlib import Path

import click

from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.cli.main import print_json
from l2bench.cli.options import as_json, bundles
from l2bench.plugins import Registry
from l2bench.scoring import metric_sets, score_bundle, summarise


@click.command()
@bundles
@click.option("--metrics", multiple=True, help="A metric set; repeatable. Default: the suite's.")
@as_json
def score(path: Path, metrics: tuple[str, ...], as_json: bool) -> None:
    """Score the bundle at PATH, or all bundles in the folder PATH, from their raw rows."""
    registry = Registry()
    folders = find_bundles(path)
    read = [read_bundle(folder) for folder in folders]
    sets = metric_sets(registry, metrics or read[0].suite.metrics)
    summary = summarise(folders, sets)
    if as_json:
        scored = [{"bundle": b.folder.name, **score_bundle(b, sets)} for b in read]
        print_json({"summary": summary, "bundles": scored})
        return
    from l2bench.cli.output import print_summary

    print_summary(summary)
