"""Writing scores as tables: tidy CSV for analysis, Markdown and LaTeX for papers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from l2bench.bundle.lifetime import columns
from l2bench.bundle.reader import Bundle
from l2bench.errors import UsageError
from l2bench.metrics.views import cells

#: The columns of the tidy table.
COLUMNS = (
    "run", "suite", "agent", "seed", "task", "source", "block", "role", "after", "checkpoint",
    "metric", "value", "n", "unit", "higher_is_better", "reason",
)  # fmt: skip
#: The metric of rows that hold measured performance, in each task's score range.
PERFORMANCE = "performance"

Summary = Mapping[str, Any]


def tidy(bundles: Sequence[Bundle], scored: Sequence[Mapping[str, Any]]) -> str:
    """Return one CSV line per run, task, block and metric.

    Lines with a block hold measured performance, those without a metric of the lifetime, a task or
    a pair. What was not measured is an empty value with its reason. Texts that a spreadsheet
    would take for a formula get an apostrophe in front.
    """
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(COLUMNS)
    for bundle, scores in zip(bundles, scored, strict=True):
        run = {
            "run": bundle.folder.name,
            "suite": f"{bundle.manifest.suite.id} {bundle.manifest.suite.version}",
            "agent": bundle.manifest.agent.name,
            "seed": bundle.manifest.seed.lifetime,
        }
        for row in (*_measured(bundle), *_metrics(scores)):
            whole = {**run, **row}
            writer.writerow([csv_cell(whole.get(column)) for column in COLUMNS])
    return sink.getvalue()


def _measured(bundle: Bundle) -> Iterator[dict[str, Any]]:
    lifetime = bundle.lifetime
    blocks = columns(lifetime.blocks)
    place = {int(index): row for row, index in enumerate(blocks["block_index"])}
    names = [task.id for task in lifetime.suite.tasks]
    for (block, task), cell in sorted(cells(lifetime).items()):
        row = place[block]
        after, checkpoint = int(blocks["learn_task"][row]), int(blocks["checkpoint"][row])
        yield {
            "task": names[task],
            "block": block,
            "role": str(blocks["role"][row]),
            "after": names[after] if after >= 0 else None,
            "checkpoint": checkpoint if checkpoint >= 0 else None,
            "metric": PERFORMANCE,
            "value": cell["value"],
            "n": cell["n"],
            "unit": PERFORMANCE,
            "higher_is_better": True,
        }


def _metrics(scores: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for metric in scores["metrics"]:
        yield {
            "task": metric["task"],
            "source": metric["source"],
            "metric": metric["id"],
            "value": metric["value"],
            "n": metric["n"],
            "unit": metric["unit"],
            "higher_is_better": metric["higher_is_better"],
            "reason": metric["undefined_reason"],
        }


def csv_cell(value: Any) -> str:
    """Return a value as it stands in a CSV cell; a text is never taken for a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(float(value))
    text = str(value)
    dangerous = isinstance(value, str) and text[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{text}" if dangerous else text


def markdown(summaries: Sequence[Summary]) -> str:
    """Return the headline metrics as a Markdown table, a column per summary.

    Raises:
        UsageError: if the summaries are of different suites.
    """
    heads = ["metric", *(_escaped(_title(s)) for s in summaries), "better"]
    lines = [_line(heads), _line(["---", *["---:"] * len(summaries), "---"])]
    for metric, members in _rows(summaries):
        shown = [_estimate(member, "{}", "to") or "\N{EN DASH}" for member in members]
        lines.append(_line([f"`{metric['id']}`", *shown, _direction(metric)]))
    notes = [f"- `{id}`: {_escaped(reason)}" for id, reason in _reasons(summaries)]
    return "\n".join([*lines, *(["", "Not defined:", "", *notes] if notes else [])]) + "\n"


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _escaped(text: str) -> str:
    """Return a text without effect on Markdown or HTML."""
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_{}\[\]#|~])", r"\\\1", flat)


def latex(summaries: Sequence[Summary]) -> str:
    """Return the headline metrics as a LaTeX table (package booktabs), a column per summary.

    Raises:
        UsageError: if the summaries are of different suites.
    """
    first = summaries[0]["suite"]
    comment = " ".join(f"{first['id']} {first['version']} {first['suite_hash']}".split())
    lines = [
        f"% {comment}",
        r"\begin{tabular}{l" + "r" * len(summaries) + "}",
        r"\toprule",
        " & ".join(["Metric", *(_tex(_title(s)) for s in summaries)]) + r" \\",
        r"\midrule",
    ]
    arrows = {True: r" $\uparrow$", False: r" $\downarrow$", None: ""}
    for metric, members in _rows(summaries):
        name = _tex(metric["id"]) + arrows[metric["higher_is_better"]]
        shown = [_estimate(member, "${}$", "to") or "--" for member in members]
        lines.append(" & ".join([name, *shown]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [f"% {id}: {' '.join(reason.split())}" for id, reason in _reasons(summaries)]
    return "\n".join(lines) + "\n"


_TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}  # fmt: skip


def _tex(text: str) -> str:
    """Return a text without effect on LaTeX."""
    return "".join(_TEX.get(character, character) for character in " ".join(text.split()))


def _rows(
    summaries: Sequence[Summary],
) -> Iterator[tuple[Mapping[str, Any], list[Mapping[str, Any] | None]]]:
    """Yield each headline metric with its estimates, one per summary."""
    hashes = {summary["suite"]["suite_hash"] for summary in summaries}
    if len(hashes) > 1:
        names = " and ".join(sorted({summary["suite"]["id"] for summary in summaries}))
        raise UsageError(f"one table is of one suite; these are {len(hashes)} ({names})")
    found = [{m["id"]: m for m in _headline(summary)} for summary in summaries]
    for id in dict.fromkeys(id for metrics in found for id in metrics):
        members = [metrics.get(id) for metrics in found]
        yield next(member for member in members if member is not None), members


def _headline(summary: Summary) -> list[Mapping[str, Any]]:
    whole = [metric for metric in summary["metrics"] if metric["scope"] == "lifetime"]
    return [metric for metric in whole if metric["headline"]] or whole


def _reasons(summaries: Sequence[Summary]) -> Iterator[tuple[str, str]]:
    for metric, members in _rows(summaries):
        lost = [m["undefined_reasons"] for m in members if m and m["mean"] is None]
        for reason in dict.fromkeys(reason for reasons in lost for reason in reasons):
            yield metric["id"], str(reason)


def _estimate(metric: Mapping[str, Any] | None, form: str, between: str) -> str:
    """Return a mean with its interval, each number in this form; "" where it is not defined."""
    if metric is None or metric["mean"] is None:
        return ""
    low, high = metric["low"], metric["high"]
    mean, *ends = [
        form.format(f"{value:.1f}" if abs(value) >= 100 else f"{value:.3f}")
        for value in (metric["mean"], low, high)
        if value is not None
    ]
    return f"{mean} ({ends[0]} {between} {ends[1]})" if len(ends) == 2 else mean


def _direction(metric: Mapping[str, Any]) -> str:
    return {True: "higher", False: "lower", None: ""}[metric["higher_is_better"]]


def _title(summary: Summary) -> str:
    lifetimes = summary["n_lifetimes"]
    return f"{summary['agent']['name']} ({lifetimes} lifetime{'' if lifetimes == 1 else 's'})"
