"""``l2bench import``: a bundle from another tool's results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from l2bench.cli.main import print_json
from l2bench.cli.options import about_source, as_json, experts
from l2bench.interop.kinds import IMPORTERS, importer, open_source
from l2bench.interop.source import write
from l2bench.plugins import Registry
from l2bench.report.text import printable

_KINDS = "\n".join(f"  {kind:16} {known.looks_like}" for kind, known in IMPORTERS.items())


@click.command("import", epilog=f"\b\nKinds:\n{_KINDS}")
@click.argument("kind")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="The bundle to write."
)
@click.option("--force", is_flag=True, help="Replace the bundle given with -o.")
@experts
@about_source
@as_json
def import_(
    kind: str,
    path: Path,
    out: Path,
    force: bool,
    experts: tuple[Path, ...],
    as_json: bool,
    **about: Any,
) -> int:
    """Make a bundle from results of another tool at PATH, of the kind KIND, and score it."""
    from l2bench.cli.sources import options

    registry = Registry()
    bundle = open_source(registry, importer(kind), path, options(about), experts)
    write(bundle, out, force=force)
    manifest, lifetime = bundle.manifest, bundle.lifetime
    warnings = list(manifest.source.warnings) if manifest.source else []
    for text in warnings:
        click.echo(printable(f"warning: {text}"), err=True)
    facts = {
        "status": manifest.status,
        "fidelity": manifest.fidelity,
        "tasks": len(lifetime.suite.tasks),
        "blocks": lifetime.blocks.num_rows,
        "learning_rows": lifetime.learning.num_rows,
        "evaluation_rows": lifetime.episodes.num_rows,
        "cells": 0 if lifetime.cells is None else lifetime.cells.num_rows,
        "experts": len(bundle.experts),
    }
    if as_json:
        print_json({"bundle": str(out), "kind": kind, **facts, "warnings": warnings})
    else:
        for name, value in facts.items():
            click.echo(f"{name.replace('_', ' '):16} {value}")
        click.echo(f"bundle           {out}")
    return 0 if manifest.status == "complete" else 4
