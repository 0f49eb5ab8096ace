"""``l2bench report``: a page to look at and a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from l2bench.bundle.files import write_atomically
from l2bench.bundle.reader import Bundle, find_bundles, read_bundle
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
from l2bench.scoring import summarise_bundles


@click.command()
@bundles
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="The page. Default: PATH/report.html."
)
@click.option("--force", is_flag=True, help="Replace the file given with -o.")
@metrics
@metric_settings
@experts
@source_kind
@about_source
@as_json
def report(
    path: Path,
    out: Path | None,
    force: bool,
    metrics: tuple[str, ...],
    experts: tuple[Path, ...],
    kind: str | None,
    settings: tuple[str, ...],
    as_json: bool,
    **about: Any,
) -> None:
    """Make one page, which opens from disk, of the bundles or another tool's results at PATH."""
    from l2bench.cli.sources import metric_settings as parsed
    from l2bench.cli.sources import opened
    from l2bench.interop.source import Imported

    if out is not None and out.exists() and not force:
        raise UsageError(f"{out} exists already; replace it with --force, or choose another -o")
    read = opened(Registry(), path, kind, experts, metrics, about, parsed(settings))
    given = {"--expert": experts, "--metrics": metrics, "--setting": settings}
    fresh = [option for option, values in given.items() if values]
    if fresh and not isinstance(read[0], Imported):
        raise UsageError(
            f"{fresh[0]} goes with another tool's results; a bundle's scores are stored "
            f"(l2bench score {path} scores it anew)"
        )
    summary = summarise_bundles(read)
    if isinstance(read[0], Imported):
        told = [str(text) for bundle in read for text in bundle.scores["warnings"]]
        for text in dict.fromkeys(told):
            click.echo(printable(f"warning: {text}"), err=True)
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
    write_atomically(page, render(ordered, summary, folder=page.parent).encode("utf-8", "replace"))
    return page
