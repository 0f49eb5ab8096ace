"""``l2bench report``: a page to look at and a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from l2bench.bundle.files import write_atomically
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.cli.main import print_json
from l2bench.cli.options import as_json, bundles
from l2bench.errors import UsageError
from l2bench.scoring import summarise


@click.command()
@bundles
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="The page. Default: PATH/report.html."
)
@click.option("--force", is_flag=True, help="Replace the file given with -o.")
@as_json
def report(path: Path, out: Path | None, force: bool, as_json: bool) -> None:
    """Make one page, which opens from disk, of the bundle or the folder of bundles at PATH."""
    if out is not None and out.exists() and not force:
        raise UsageError(f"{out} exists already; replace it with --force, or choose another -o")
    folders = find_bundles(path)
    summary = summarise(folders)
    page = write_page(path, summary, out)
    if as_json:
        print_json({**summary, "report": str(page)})
        return
    from l2bench.cli.output import print_summary

    print_summary(summary)
    click.echo(f"report   {page}")


def write_page(path: Path, summary: Mapping[str, Any], out: Path | None = None) -> Path:
    """Write the report of the bundles at a path and return its absolute path.

    The default place for a single bundle is beside it, since a sealed bundle is never changed.
    """
    from l2bench.report.page import render

    folders = [folder for folder in find_bundles(path) if folder.name in summary["bundles"]]
    inside = folders != [path]
    default = path / "report.html" if inside else path.with_name(path.name + ".report.html")
    page = (out or default).absolute()
    read = sorted((read_bundle(f) for f in folders), key=lambda b: b.manifest.seed.lifetime)
    write_atomically(page, render(read, summary).encode())
    return page
