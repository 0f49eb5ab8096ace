"""The report page: one file that opens from disk, without network, scripts or fonts.

The page is a function of its bundles: no clock, no paths, no order of a hash table. Every text
passes `visible` and Jinja's autoescaping; the only markup put in as it stands is our own.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

import l2bench
from l2bench.bundle.reader import Bundle, refuse_mixture
from l2bench.report import charts, colours, origin, sections
from l2bench.report.charts import course_panel, curve_panel, heat_map, swatch
from l2bench.report.data import Lives
from l2bench.report.text import NOTHING, count, rate, shorten, visible


def render(bundles: Sequence[Bundle], summary: Mapping[str, Any]) -> str:
    """Return the page of the lifetimes of one agent on one suite, in the order given.

    ``summary`` is what `l2bench.scoring.summarise` returns for the same bundles.

    Raises:
        UsageError: if there are no bundles, or they belong to several suites or agents.
        Incomplete: if a lifetime has not finished.
    """
    refuse_mixture(bundles)
    environment = _environment()
    style = environment.get_template("style.css").render(
        palette=colours.PALETTE, light=colours.ramp(False), dark=colours.ramp(True)
    )
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = environment.get_template("page.html")
    context = _context(bundles, summary)
    return page.render(style=Markup(style), style_hash=digest, **context)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("l2bench.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalise,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"rate": rate, "short": shorten, "name": breakable, "count": count}
    environment.globals["nothing"] = NOTHING
    environment.globals["swatch"] = swatch
    environment.globals["box"] = charts.BOX
    return environment


def breakable(name: str) -> Markup:
    """Return a task's name, escaped, with places where a line may break."""
    whole = escape(visible(shorten(name)))
    return Markup("_<wbr>").join(whole.split("_"))


def _finalise(value: Any) -> Any:
    """Make every text that enters a page visible; what is not there becomes a dash."""
    if value is None:
        return NOTHING
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


def _context(bundles: Sequence[Bundle], summary: Mapping[str, Any]) -> dict[str, Any]:
    lives = Lives.of([bundle.lifetime for bundle in bundles])
    suite = bundles[0].suite
    learned = len({task for task, _ in lives.visits[0]})
    visits = max(len(visits) for visits in lives.visits)
    return {
        "version": l2bench.__version__,
        "agent": shorten(bundles[0].manifest.agent.name),
        "suite": suite,
        "header": origin.header(bundles, summary),
        "warnings": origin.warnings(bundles),
        "summary": sections.sentences(bundles, summary, lives.matrix, learned),
        "headline": sections.headline_rows(summary),
        "measure": sections.measure_name(suite),
        "measure_note": sections.measure_note(suite),
        "lives": lives,
        "visits": visits,
        "outside": any(not 0 <= value <= 1 for value in _values(lives)),
        "heat_map": heat_map(lives.matrix) if lives.matrix.measured else None,
        "curves": [(curve, curve_panel(curve, lives.seeds)) for curve in lives.curves],
        "courses": [(course, course_panel(course, visits)) for course in lives.courses],
        "tasks": sections.task_table(lives, summary),
        "metrics": sections.metric_tables(summary),
        "cost": origin.cost(bundles),
        "provenance": origin.provenance(bundles),
        "digests": origin.digests(bundles),
        "rerun": origin.rerun(bundles),
        "imported": origin.imported(bundles),
        "deviations": bundles[0].manifest.suite.deviations,
    }


def _values(lives: Lives) -> Iterator[float]:
    """Yield every performance that a chart shows."""
    for row in lives.matrix.rows:
        for cell in row.cells:
            yield from (point.value for point in cell.points)
    for curve in lives.curves:
        for cell in curve.cells:
            yield from (point.value for point in cell.points)
