"""``l2bench report``: a page to look at and a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from l2bench.bundle.files import write_atomically
from l2bench.bundle.reader import Bundle, find_bundles, read_bundle
from l2bench.cli.main import print_json
from l2bench.cli.options import about_source, as_json, bundles, experts, source_kind
from l2bench.errors import UsageError
from l2bench.plugins import Registry
from l2bench.scoring import summarise_bundles


@click.command()
@bundles
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="The page. Default: PATH/report.html."
)
@click.option("--force", is_flag=True, help="Replace the file given with -o.")
@experts
@source_kind
@about_source
@as_json
def report(
    path: Path,
    out: Path | None,
    force: bool,
    experts: tuple[Path, ...],
    kind: str | None,
    as_json: bool,
    **about: Any,
) -> None:
    """Make one page, which opens from disk, of the bundles or another tool's results at PATH."""
    from l2bench.cli.sources import opened
    from l2bench.interop.source import Imported

    if out is not None and out.exists() and not force:
        raise UsageError(f"{out} exists already; replace it with --force, or choose another -o")
    read = opened(Registry(), path, kind, experts, (), about)
    if experts and not isinstance(read[0], Imported):
        raise UsageError("--expert goes with another tool's results; a bundle's scores are stored")
    summary = summarise_bundles(read)
    inside = path.is_dir() and [path.resolve()] != [bundle.folder.resolve() for bundle in read]
    inside = inside and not isinstance(read[0], Imported)
    page = _write(read, summary, out or _default_page(path.resolve(), inside=inside))
    if as_json:
        print_json({**summary, "report": str(page)})
        return
    from l2bench.cli.output import print_summary

    print_summary(summary)
    click.echo(f"report   {page}")


def write_page(path: Path, summary: Mapping[str, Any], out: Path | None = None) -> Path:
    """Write the report of the bundles at a path and return its absolute path."""
    path = path.resolve()
    folders = [folder for folder in find_bundles(path) if folder.name in summary["bundles"]]
    page = out or _default_page(path, inside=folders != [path])
    return _write([read_bundle(folder) for folder in folders], summary, page)


def _default_page(path: Path, *, inside: bool) -> Path:
    """Return where a report goes: beside what must not be changed, a bundle or other results."""
    return path / "report.html" if inside else path.with_name(path.name + ".report.html")


def _write(bundles: Sequence[Bundle], summary: Mapping[str, Any], out: Path) -> Path:
    from l2bench.report.page import render

    page = out.absolute()
    ordered = sorted(bundles, key=lambda bundle: bundle.manifest.seed.lifetime)
    write_atomically(page, render(ordered, summary).encode())
    return page
