"""Accuracy matrices as CSV and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from l2bench.cli.sources import metric_settings
from l2bench.errors import Unsupported
from l2bench.interop import matrix
from l2bench.interop.source import Options
from l2bench.metrics.continual_sets import GemMetrics, KemkerMetrics
from l2bench.metrics.views import cells
from l2bench.metrics.views import matrix as view

CSV = """after,one,two,three
before,.1,.1,.2
one,.9,.2,.1
two,.7,.8,.3
three,.8,.6,.9
"""
R = [[0.9, 0.2, 0.1], [0.7, 0.8, 0.3], [0.8, 0.6, 0.9]]
B = [0.1, 0.1, 0.2]


def read(tmp_path: Path, text: str | dict, name: str = "m.csv", **options):
    path = tmp_path / (name if isinstance(text, str) else "m.json")
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return matrix.read(path, Options(**options))


def gem(source):
    return {v.id: v.value for v in GemMetrics().score(source.lifetime).values if v.task is None}


@pytest.mark.parametrize("form", ["csv", "json"])
def test_the_worked_example(tmp_path, form):
    data = CSV if form == "csv" else {"R": R, "b": B, "tasks": ["one", "two", "three"]}
    found = gem(read(tmp_path, data))
    assert found["gem.ACC"] == pytest.approx(2.3 / 3)
    assert found["gem.BWT"] == pytest.approx(-0.15)
    assert found["gem.FWT"] == pytest.approx(0.1)
    assert found["gem.forgetting"] == pytest.approx(0.15)


def test_both_forms_give_the_same_tables(tmp_path):
    first = read(tmp_path, CSV, name="m.csv").lifetime
    second = read(tmp_path, {"R": R, "b": B, "tasks": ["one", "two", "three"]}).lifetime
    assert first.cells.equals(second.cells)
    assert first.blocks.equals(second.blocks)
    assert first.suite == second.suite


def test_bare_numbers_need_a_square(tmp_path):
    source = read(tmp_path, "0.9,0.2\n0.7,0.8\n")
    assert [task.id for task in source.lifetime.suite.tasks] == ["task-1", "task-2"]
    assert gem(source)["gem.ACC"] == pytest.approx(0.75)
    assert gem(source)["gem.FWT"] is None
    with pytest.raises(Unsupported, match="3 lines of 2 numbers"):
        read(tmp_path, "0.9,0.2\n0.7,0.8\n0.1,0.1\n")


def test_missing_cells_are_missing(tmp_path):
    text = "after,a,b\na,.5,\nb,-,.75\n"
    lifetime = read(tmp_path, text).lifetime
    assert sorted(cell["value"] for cell in cells(lifetime).values()) == [0.5, 0.75]
    found = gem(read(tmp_path, text))
    assert found["gem.ACC"] is None
    assert gem(read(tmp_path, {"R": [[0.5, None], [None, 0.75]]}))["gem.BWT"] is None


def test_rows_are_in_the_order_of_learning(tmp_path):
    lifetime = read(tmp_path, "after,a,b\nb,0.1,0.5\na,0.5,0.4\n").lifetime
    assert [row["learned"] for row in view(lifetime)["rows"]] == ["b", "a"]
    assert gem(read(tmp_path, {"R": [[0.1, 0.5], [0.5, 0.4]], "tasks": ["a", "b"],
                               "order": ["b", "a"]}))["gem.BWT"] == pytest.approx(-0.1)  # fmt: skip


def test_a_matrix_that_ends_early_is_incomplete(tmp_path):
    source = read(tmp_path, "after,a,b,c\na,.5,.1,.1\nb,.4,.6,.1\n")
    assert not source.lifetime.complete
    assert source.warnings == ("no row after learning 1 of the tasks",)
    assert GemMetrics().score(source.lifetime).get("gem.ACC").value is None


def test_the_report_does_not_make_up_how_much_was_learned(cli, tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("after,a,b\na,.5,.1\nb,.4,.6\n")
    assert cli("report", path)[0] == 0
    page = (tmp_path / "m.csv.report.html").read_text()
    assert "x: tasks learned; y: accuracy" in page
    assert "2 tasks learned" in page
    assert "accuracy from 0 to 1; how much of it was learned is not known" in page
    assert "epoch" not in page


def test_item_counts_give_intervals_and_kemker(tmp_path):
    data = {"R": R, "b": B, "n": 100, "agent": "net", "seed": 7, "name": "digits"}
    source = read(tmp_path, data)
    assert (source.agent, source.lifetime.seed, source.lifetime.suite.id) == ("net", 7, "digits")
    cell = cells(source.lifetime)[0, 0]
    assert cell["n"] == 100
    assert cell["wilson95"][0] < 0.1 < cell["wilson95"][1]
    omega = KemkerMetrics(ideal=0.9).score(source.lifetime).get("kemker.omega_new")
    assert omega.value == pytest.approx(0.85)
    assert read(tmp_path, data, agent="other", seed=1).lifetime.seed == 1


def test_percent_need_their_range(tmp_path):
    text = "after,a,b\na,50,10\nb,40,60\n"
    with pytest.raises(Unsupported, match="accuracy on a after learning a is 50, outside 0 to 1"):
        read(tmp_path, text)
    assert gem(read(tmp_path, text, score_range=(0.0, 100.0)))["gem.ACC"] == pytest.approx(0.5)


def test_other_measures_keep_their_range(tmp_path):
    data = {"R": [[5, 1], [4, 10]], "measure": "return"}
    lifetime = read(tmp_path, data, score_range=(0.0, 20.0)).lifetime
    assert lifetime.suite.tasks[0].score_range == (0, 20)
    assert sorted(cell["value"] for cell in cells(lifetime).values()) == [0.05, 0.2, 0.25, 0.5]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no lines"),
        ("after,a,b\na,0.5\n", "line 2: 2 cells, line 1 has 3"),
        ("after,a,b\na,0.5,x\n", "line 2, column b: 'x' is not a number"),
        ("after,a,b\na,0.5,inf\n", "line 2, column b: an infinite value"),
        ("after,a,b\nc,0.5,0.5\n", "line 2: 'c' is no column"),
        ("after,a,b\na,0.5,0.5\na,0.5,0.5\n", "the row a is there twice"),
        ("after,a,a\na,0.5,0.5\n", "the task a is there twice"),
        ("after,a,b\nbefore,0.5,0.5\n", "no row of accuracies"),
        ("after,a,b\na,0.5,0.5\nb,0.5,-0.5\n", "is -0.5, outside 0 to 1"),
        ('after,a,b\n"a,0.5,0.5\n', "m.csv, line"),
        ({"r": []}, "unknown key 'r' (did you mean 'R'?)"),
        ({"R": []}, "R should be a list of lists"),
        ({"R": [[0.5, 0.5], [0.5]]}, "R, row 1: 1 values for 2 tasks"),
        ({"R": [[0.5, "x"], [0.5, 0.5]]}, "R, row 0, column 1: 'x' is not a number"),
        ({"R": [[0.5]], "b": [0.5, 0.5]}, "b: 2 values for 1 tasks"),
        ({"R": [[0.5]], "n": 0.5}, "n should be a whole number"),
        ({"R": [[0.5]], "n": True}, "n should be a whole number"),
        ({"R": [[0.5]], "seed": True}, "seed should be a whole number"),
        ({"R": [[0.5]], "tasks": 5}, "tasks should be a list of names, is 5"),
        ({"R": [[0.5, 0.5], [0.5, 0.5]], "tasks": "ab"}, "tasks should be a list of names"),
        ({"R": [[0.5]], "order": {"a": 1}}, "order should be a list of names"),
        ({"R": [[10**400]]}, "R, row 0, column 0: too large a number"),
        ({"R": [[0.5]], "order": ["a", "b"]}, "1 rows of R, but an order of 2"),
        ('{"R": [[NaN]]}', "NaN is not a number"),
    ],
)
def test_every_fault_is_named(tmp_path, text, words):
    name = "m.json" if isinstance(text, str) and text.startswith("{") else "m.csv"
    with pytest.raises(Unsupported) as caught:
        read(tmp_path, text, name=name)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_text_that_is_no_utf8(tmp_path):
    (tmp_path / "m.csv").write_bytes(b"after,a\na,\xff\n")
    with pytest.raises(Unsupported, match=r"m.csv, line 2: not UTF-8"):
        matrix.read(tmp_path / "m.csv", Options())


OMEGA = {"R": [[0.8, None, None], [0.6, 0.9, None], [0.4, 0.7, 1.0]], "n": [500, 100, 100]}


@pytest.fixture
def omega(tmp_path) -> Path:
    """The worked example of Kemker's metrics, as a file."""
    path = tmp_path / "omega.json"
    path.write_text(json.dumps({**OMEGA, "tasks": ["a", "b", "c"]}))
    return path


def omegas(output: str) -> dict[str, float | None]:
    return {m["id"]: m["mean"] for m in json.loads(output)["summary"]["metrics"] if not m["task"]}


def test_kemker_with_the_offline_accuracy_on_the_command_line(cli, omega, tmp_path):
    given = ("--metrics", "kemker", "--setting", "kemker.ideal=0.9")
    code, output, errors = cli("score", omega, *given, "--json")
    assert code == 0, errors
    found = omegas(output)
    assert found["kemker.omega_base"] == pytest.approx(0.555556, abs=1e-6)
    assert found["kemker.omega_all"] == pytest.approx(0.654762, abs=1e-6)
    scorer = json.loads(output)["bundles"][0]["scorer"]
    assert scorer["metric_sets"][0]["settings"] == {"ideal": 0.9}
    code, output, errors = cli("report", omega, *given, "-o", tmp_path / "page.html")
    assert code == 0, errors
    assert "kemker.omega_base  0.56" in output
    page = (tmp_path / "page.html").read_text()
    origin = page[page.index('id="provenance"') :]
    assert "<dt>kemker.ideal</dt><dd>0.9</dd>" in origin
    assert "<dt>kemker</dt><dd>1.1</dd>" in origin
    code, _, errors = cli("report", omega, "--metrics", "kemker", "-o", tmp_path / "plain.html")
    assert code == 0, errors
    assert "kemker.ideal" not in (tmp_path / "plain.html").read_text()
    blank = omegas(cli("score", omega, "--metrics", "kemker", "--json")[1])
    assert blank["kemker.omega_base"] is None
    assert blank["kemker.omega_new"] == pytest.approx(0.95)


def test_kemker_with_an_expert_as_the_offline_learner(cli, omega, tmp_path):
    expert = tmp_path / "alone.json"
    expert.write_text(json.dumps({"R": [[0.9]], "tasks": ["a"]}))
    code, output, errors = cli("score", omega, "--metrics", "kemker", "--expert", expert, "--json")
    assert code == 0, errors
    assert omegas(output)["kemker.omega_base"] == pytest.approx(0.555556, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kemker", "should be SET.KEY=VALUE"),
        ("kemker.ideal", "should be SET.KEY=VALUE"),
        ("ideal=1", "should be SET.KEY=VALUE"),
        ("kemker.ideal=much", "ideal=much: an accuracy is a fraction"),
        ("kemker.ideal=5.", "ideal=5.0: an accuracy is a fraction"),
        ("kemker.ideal=inf", "ideal=inf: an accuracy is a fraction"),
        ("kemker.idea=1", "did you mean 'ideal'"),
        ("gem.ideal=1", "for metric set 'gem', which is not asked for"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused(cli, omega, text, words):
    code, _, errors = cli("score", omega, "--metrics", "kemker", "--setting", text)
    assert code == 2
    assert words in errors
    twice = ("--setting", "kemker.ideal=1") * 2
    assert "is given twice" in cli("score", omega, "--metrics", "kemker", *twice)[2]


def test_items_are_counted_for_each_task(tmp_path):
    lifetime = read(tmp_path, OMEGA).lifetime
    assert [cells(lifetime)[5, task]["n"] for task in range(3)] == [500, 100, 100]
    with pytest.raises(Unsupported, match="n has 2 numbers for 3 tasks"):
        read(tmp_path, {**OMEGA, "n": [1, 2]})
    with pytest.raises(Unsupported, match="n should be a whole number from 0, is 'x'"):
        read(tmp_path, {**OMEGA, "n": [1, 2, "x"]})


def test_several_matrices_are_of_one_suite_where_it_has_one_name(tmp_path, cli):
    for seed in range(3):
        file = tmp_path / f"acc{seed}.csv"
        file.write_text(f",a,b\na,0.9,0.1\nb,0.{5 + seed},0.8\n")
        about = ("--suite", "my tasks", "--agent", "mine", "--seed", seed)
        made = cli("import", "matrix", file, *about, "-o", tmp_path / "all" / f"{seed}.l2b")
        assert made[0] == 0, made[2]
    code, out, errors = cli("score", tmp_path / "all")
    assert code == 0, errors
    assert "3 of 3" in out


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (".9", 0.9),
        ("1e-3", 0.001),
        ("5.", 5.0),
        ("+2", 2.0),
        ("3", 3),
        ("skip", "skip"),
        ("null", None),
        ("[1, 2]", [1, 2]),
        ("inf", "inf"),
        ("NaN", "NaN"),
        ("1e999", "1e999"),
        ("1_0", "1_0"),
        ("", ""),
    ],
)
def test_values_of_settings_are_json_numbers_or_words(text, value):
    found = metric_settings([f"kemker.ideal={text}"])["kemker"]["ideal"]
    assert (found, type(found)) == (value, type(value))


COMMA = "m.csv: cells are separated by a comma"
POINT = "decimals are written with a point, like .9"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("after;a;b\na;.9;.2\nb;.7;.8\n", f"{COMMA}; found semicolons"),
        ("after\ta\tb\na\t.9\t.2\nb\t.7\t.8\n", f"{COMMA}; found tabs"),
        (".9 .2\n.7 .8\n", f"{COMMA}; found spaces"),
        ("after;a;b\na;0,9;0,2\nb;0,7;0,8\n", f"{COMMA}, and {POINT}; found semicolons and commas"),
        ("0,9;0,2\n0,7;0,8\n", f"{COMMA}, and {POINT}; found semicolons and commas"),
        ('"";"a";"b"\n"a";.9;.2\n"b";.7;.8\n', f"{COMMA}; found semicolons"),
        (",a|1,b|1\na|1,.9,x\nb|1,.1,.2\n", "line 2, column b|1: 'x' is not a number"),
        (
            "after,a,b\na,0,9,0,2\n",
            f"line 2: 5 cells, line 1 has 3 (a comma separates cells; {POINT})",
        ),
        ("0,9,0,2\n0,7,0,8\n", POINT),
        ('after,a\na,"0,9"\n', f"line 2, column a: '0,9' is not a number; {POINT}"),
        (
            "after,a\na,90%\n",
            "column a: '90%' is not a number; write 90 without the sign and give --range",
        ),
        ("90%,20%\n70%,80%\n", "column task-1: '90%' is not a number; write 90 without the sign"),
        ({"R": [["90%"]]}, "R, row 0, column 0: '90%' is not a number; write 90 without the sign"),
    ],
)
def test_what_other_tables_write_is_refused_with_its_cause(tmp_path, text, words):
    with pytest.raises(Unsupported) as caught:
        read(tmp_path, text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_fault_of_a_table_with_commas_is_not_laid_on_the_separator(tmp_path):
    with pytest.raises(Unsupported, match=r"line 3, column b: '.x' is not a number$"):
        read(tmp_path, "after, a, b\na, .9, .2\nb, .7, .x\n")
    named = read(tmp_path, ",a;b\na;b,.9\n").lifetime  # a name may hold one
    assert [task.task for task in named.suite.tasks] == ["a;b"]
    levels = read(tmp_path, "after,50%,90%\n50%,.9,.2\n90%,.7,.8\n").lifetime
    assert [task.task for task in levels.suite.tasks] == ["50%", "90%"]
