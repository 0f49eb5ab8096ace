"""The table for terminals and pipes."""

import io

import pytest
from rich.console import Console

from l2bench.cli.output import print_summary
from l2bench.report import terminal


def shown(summary, width=160):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(terminal.table(summary))
    return console.file.getvalue()


@pytest.fixture
def summary(make):
    return make.summary(make.bundles(make.suite(2, 5)))


def test_headline_metrics_with_interval_direction_and_lifetimes(summary):
    fwt = summary["metrics"][0]
    line = next(x for x in shown(summary).splitlines() if "libero.FWT" in x)
    assert f"{fwt['mean']:.2f}" in line
    assert f"{fwt['low']:.2f} to {fwt['high']:.2f}" in line
    assert "\N{UPWARDS ARROW} higher is better" in line
    assert "5 of 5" in line


def test_undefined_metrics_give_their_reason_and_no_number(summary):
    line = next(x for x in shown(summary).splitlines() if "contrast" in x)
    assert "no pretest of the task" in line
    assert "0.00" not in line


def test_few_lifetimes_show_points(make):
    summary = make.summary(make.bundles(make.suite(1, 2)))
    text = shown(summary, 200)
    assert "n = 2, no interval below 3 lifetimes" in text
    assert "points " in text


def test_plain_lines_are_ascii_and_aligned(summary):
    text = terminal.plain(summary)
    text.encode("ascii")
    title, head, *rows = text.splitlines()
    assert title == "example/replay on example-suite 1.2, 5 lifetimes"
    at = head.index("lifetimes")
    assert [row[at : at + 6] for row in rows] == ["5 of 5"] * 4 + ["0 of 5"]
    assert rows[-1].endswith("no pretest of the task")
    assert any(" -" in row for row in rows)


def test_a_changed_suite_says_so(summary):
    summary["suite"]["deviations"] = ["scenario.episodes", "seeds"]
    head = "example/replay on example-suite 1.2 (changed: 2 keys), 5 lifetimes"
    assert terminal.plain(summary).startswith(head)
    assert head in shown(summary)


def test_only_headline_metrics_are_shown(summary):
    assert "libero.FWT_k" not in terminal.plain(summary)
    assert len(terminal.plain(summary).splitlines()) == 2 + 5


@pytest.mark.parametrize("hostile", ["\x1b[31mred\x07", "a\u202eb\u2066c", "a\nb\rc", "\ud800"])
def test_terminal_texts_hold_no_control_characters(summary, hostile):
    texts = {"name": hostile, "unit": hostile, "undefined_reasons": [hostile]}
    metrics = [{**metric, **texts} for metric in summary["metrics"]]
    agent = {**summary["agent"], "name": hostile}
    suite = {**summary["suite"], "id": hostile, "version": hostile}
    bad = {**summary, "metrics": metrics, "agent": agent, "suite": suite}
    for text in (shown(bad), terminal.plain(bad)):
        text.encode()
        assert all(c == "\n" or c.isprintable() for c in text)


def test_names_are_no_markup(summary):
    metrics = [{**metric, "id": "[bold red]x[/]"} for metric in summary["metrics"]]
    assert "[bold red]x[/]" in shown({**summary, "metrics": metrics})


def test_long_names_are_cut(summary):
    metrics = [{**metric, "name": "x" * 10_000} for metric in summary["metrics"]]
    assert len(terminal.plain({**summary, "metrics": metrics})) < 3_000


def test_where_all_metrics_are_of_tasks_a_line_says_where_they_are(summary, capsys):
    own = [metric for metric in summary["metrics"] if metric["scope"] != "lifetime"]
    for every in (False, True):
        print_summary({**summary, "metrics": own}, every=every)
        last = capsys.readouterr().out.splitlines()[-1]
        assert last == (
            f"no metric of the whole lifetime; --json has {len(own)} values of tasks and pairs"
        )
        print_summary(summary, every=every)
        assert "no metric of the whole lifetime" not in capsys.readouterr().out
