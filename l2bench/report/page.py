"""The report page of one agent on one suite: one file that opens from disk.

The page is a function of its bundles: no clock, no paths, no order of a hash table. Every text
passes `visible` and Jinja's autoescaping; the only markup put in as it stands is our own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from l2bench.bundle.reader import Bundle, refuse_mixture
from l2bench.report import cost, frame, origin, sections
from l2bench.report.charts import course_panel, curve_panel, heat_map
from l2bench.report.data import Lives
from l2bench.report.life import life
from l2bench.report.tasks import task_table
from l2bench.report.text import changed, shorten
from l2bench.report.transfer import together, transfer
from l2bench.report.wide import beside_panel, life_chart


def render(
    bundles: Sequence[Bundle], summary: Mapping[str, Any], *, folder: Path | None = None
) -> str:
    """Return the page of the lifetimes of one agent on one suite, in the order given.

    ``summary`` is what `l2bench.scoring.summarise` returns for the same bundles. The page links
    the bundles' videos where it is told the ``folder`` that it will lie in.

    Raises:
        UsageError: if there are no bundles, or they belong to several suites or agents.
        Incomplete: if a lifetime has not finished.
    """
    return frame.page("page.html", **context(bundles, summary, folder=folder))


def context(
    bundles: Sequence[Bundle], summary: Mapping[str, Any], *, folder: Path | None = None
) -> dict[str, Any]:
    """Return what the sections of a report need, as `render` puts them on a page of their own.

    Raises:
        UsageError: if there are no bundles, or they belong to several suites or agents.
        Incomplete: if a lifetime has not finished.
    """
    refuse_mixture(bundles)
    lives = Lives.of([bundle.lifetime for bundle in bundles])
    suite = bundles[0].suite
    return {
        "agent": shorten(bundles[0].manifest.agent.name),
        "suite": suite,
        "changed": changed(origin.deviations(bundles)),
        "measure": sections.measure_name(suite),
        "measure_note": sections.measure_note(suite),
        **_words(bundles, summary, lives),
        **_charts(bundles, lives),
        "together": together(summary),
        "tasks": task_table(lives, summary),
        "metrics": sections.metric_tables(summary),
        "provenance": origin.provenance(bundles),
        "digests": origin.digests(bundles),
        "rerun": origin.rerun(bundles),
        "imported": origin.imported(bundles),
        "videos": _videos(bundles, folder) if folder else [],
    }


def _words(bundles: Sequence[Bundle], summary: Mapping[str, Any], lives: Lives) -> dict[str, Any]:
    """Return what is said before the charts."""
    learned = len({task for task, _ in lives.visits[0]})
    return {
        "header": origin.header(bundles, summary),
        "warnings": origin.warnings(bundles),
        "summary": sections.sentences(bundles, summary, lives.matrix, learned),
        "counts": sections.counts(bundles, lives),
        "headline": sections.headline_rows(summary),
        "caution": sections.caution(sections.headline(summary)),
    }


def _charts(bundles: Sequence[Bundle], lives: Lives) -> dict[str, Any]:
    """Return the charts and what their tables hold."""
    visits = max(len(visits) for visits in lives.visits)
    whole, against = life(lives), transfer(bundles, lives)
    return {
        "lives": lives,
        "looks": lives.looks,
        "visits": visits,
        "outside": any(not 0 <= value <= 1 for value in _values(lives)),
        "heat_map": heat_map(lives.matrix) if lives.matrix.measured else None,
        "life": whole,
        "life_chart": life_chart(whole, lives.looks) if whole.measured else None,
        "checkpoints": any("curve" in b.lifetime.blocks["role"].to_pylist() for b in bundles),
        "curves": [(c, curve_panel(c, lives.seeds, lives.looks)) for c in lives.curves],
        "courses": [(c, course_panel(c, visits, lives.looks)) for c in lives.courses],
        "transfer": against,
        "besides": [(each, beside_panel(each, lives.looks)) for each in against.tasks],
        "cost": cost.lifetimes_cost(bundles, against.experts, against.bounds),
        "blocks_cost": cost.blocks_cost(bundles, lives),
    }


def _values(lives: Lives) -> Iterator[float]:
    """Yield every performance that a chart shows."""
    for row in lives.matrix.rows:
        for cell in row.cells:
            yield from (point.value for point in cell.points)
    for curve in lives.curves:
        for cell in curve.cells:
            yield from (point.value for point in cell.points)


def _videos(bundles: Sequence[Bundle], folder: Path) -> list[tuple[str, str]]:
    """Return name and relative address of every video of the bundles."""
    found = []
    for bundle in bundles:
        for path in sorted((bundle.folder / "videos").glob("*.mp4")):
            address = quote(Path(os.path.relpath(path, folder)).as_posix())
            found.append((f"seed {bundle.manifest.seed.lifetime}: {shorten(path.name)}", address))
    return found
