"""What every page has in common: templates, styles, the script that sorts tables, and their hashes.

A page is one template that extends ``base.html``; `page` fills it. Colours, charts and macros of
``svg.html`` serve any page: reports, comparisons, and boards.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

import l2bench
from l2bench.metrics import statistics
from l2bench.report import charts, colours
from l2bench.report.text import NOTHING, count, duration, number, rate, shorten, signed, visible

#: Numbers as words, by number.
_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip


def page(template: str | Template, *, more_style: str = "", **context: Any) -> str:
    """Return a page that opens from disk and that its content security policy keeps to itself.

    Nothing but the inline style and script runs or loads. Every text passes `visible` and
    autoescaping. ``template`` may come from elsewhere, such as an overlay of `environment`, and
    bring styles of its own. A table of class ``sortable`` gets buttons in its column headers; a
    cell sorts by its ``data-sort``, else by its text.
    """
    style, script = _style() + more_style, _script()
    return (
        environment()
        .get_template(template)
        .render(
            version=l2bench.__version__,
            style=Markup(style),
            style_hash=_digest(style),
            script=Markup(script),
            script_hash=_digest(script),
            **context,
        )
    )


@cache
def environment() -> Environment:
    """Return the templates with their filters; undefined names are errors."""
    templates = Environment(
        loader=PackageLoader("l2bench.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalise,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "rate": rate,
        "number": number,
        "signed": signed,
        "short": shorten,
        "name": breakable,
        "count": count,
        "duration": duration,
        "word": word,
    }
    templates.globals["nothing"] = NOTHING
    templates.globals["swatch"] = charts.swatch
    templates.globals["box"] = charts.BOX
    templates.globals["for_interval"] = statistics.MINIMUM_FOR_INTERVAL
    templates.globals["for_bootstrap"] = statistics.MINIMUM_FOR_BOOTSTRAP
    return templates


def word(number: int) -> str:
    """Return a whole number as it stands in a sentence: up to twelve in letters."""
    return _WORDS[number] if 0 <= number < len(_WORDS) else count(number)


def breakable(name: str) -> Markup:
    """Return a name, escaped, with places where a line may break; a single last letter stays on."""
    whole = escape(visible(shorten(name)))
    head, last = (whole[:-2], whole[-2:]) if whole[-2:-1] == "_" else (whole, Markup(""))
    return Markup("_<wbr>").join(head.split("_")) + last


def _finalise(value: Any) -> Any:
    """Make every text that enters a page visible; what is not there becomes a dash."""
    if value is None:
        return NOTHING
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


@cache
def _style() -> str:
    return (
        environment()
        .get_template("style.css")
        .render(palette=colours.PALETTE, light=colours.ramp(False), dark=colours.ramp(True))
    )


@cache
def _script() -> str:
    return environment().get_template("sort.js").render()


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
