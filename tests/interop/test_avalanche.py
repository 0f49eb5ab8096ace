"""Files of Avalanche's CSV logger, in the layout the tool writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from l2bench.errors import Unsupported
from l2bench.interop import avalanche
from l2bench.interop.source import Options
from l2bench.metrics.continual_sets import GemMetrics
from l2bench.metrics.views import cells, matrix

HEADER = "eval_exp,training_exp,eval_accuracy,eval_loss,forgetting\n"
TRAINING = "training_exp,epoch,training_accuracy,val_accuracy,training_loss,val_loss\n"
R = [[0.9, 0.2, 0.1], [0.7, 0.8, 0.3], [0.8, 0.6, 0.9]]
B = [0.1, 0.1, 0.2]


def evaluations(rows=R, before=B, loss="0.5000") -> str:
    lines = [f"{j},None,{value:.4f},{loss},0\n" for j, value in enumerate(before)]
    for i, values in enumerate(rows):
        lines += [f"{j},{i},{value:.4f},{loss},0\n" for j, value in enumerate(values)]
    return HEADER + "".join(lines)


def log(folder: Path, text: str | None = None, epochs=(2, 2, 2)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "eval_results.csv").write_text(evaluations() if text is None else text)
    lines = [f"{i},{e},0.5000,0,0.7000,0\n" for i, count in enumerate(epochs) for e in range(count)]
    (folder / "training_results.csv").write_text(TRAINING + "".join(lines))
    return folder


def read(folder: Path):
    return avalanche.read(folder, Options())


def gem(source):
    return {v.id: v.value for v in GemMetrics().score(source.lifetime).values if v.task is None}


def test_the_worked_example(cli, tmp_path):
    folder = log(tmp_path / "csvlogs")
    found = gem(read(folder))
    assert found["gem.ACC"] == pytest.approx(2.3 / 3)
    assert found["gem.BWT"] == pytest.approx(-0.15)
    assert found["gem.FWT"] == pytest.approx(0.1)
    assert found["gem.forgetting"] == pytest.approx(0.15)
    code, output, errors = cli("score", folder)
    assert code == 0, errors
    assert "gem.ACC" in output


def test_the_tables(tmp_path):
    lifetime = read(log(tmp_path / "csvlogs", epochs=(3, 3, 3))).lifetime
    assert [task.id for task in lifetime.suite.tasks] == [f"experience-{i}" for i in range(3)]
    assert lifetime.suite.tasks[0].learning.amount == 3
    assert [row["learned"] for row in matrix(lifetime)["rows"]] == [
        None, "experience-0", "experience-1", "experience-2",
    ]  # fmt: skip
    assert len(cells(lifetime)) == 12
    assert lifetime.complete


def test_an_accuracy_that_was_not_logged_is_missing_not_zero(tmp_path):
    text = evaluations().replace("1,0,0.2000,", "1,0,0,")
    lifetime = read(log(tmp_path / "csvlogs", text)).lifetime
    assert len(cells(lifetime)) == 11
    assert 0.0 not in [cell["value"] for cell in cells(lifetime).values()]
    measured = evaluations().replace("1,0,0.2000,", "1,0,0.0000,")
    assert len(cells(read(log(tmp_path / "other", measured)).lifetime)) == 12
    nothing = evaluations([[0, 0], [0, 0]], []).replace("0.0000", "0")
    with pytest.raises(Unsupported, match="no accuracy was logged"):
        read(log(tmp_path / "none", nothing))


def test_a_second_evaluation_after_the_same_training_is_one_of_its_own(tmp_path):
    text = evaluations([[0.5, 0.1]], []) + "0,0,0.6000,0.5,0\n1,0,0.2000,0.5,0\n"
    text += "0,1,0.4000,0.5,0\n1,1,0.7000,0.5,0\n"
    lifetime = read(log(tmp_path / "csvlogs", text, epochs=(1, 1))).lifetime
    assert lifetime.blocks["kind"].to_pylist() == ["learn", "eval", "eval", "learn", "eval"]
    assert gem(read(tmp_path / "csvlogs"))["gem.ACC"] == pytest.approx(0.55)


def test_training_without_evaluation_is_incomplete(tmp_path):
    source = read(log(tmp_path / "csvlogs", evaluations(R[:2]), epochs=(1, 1, 1)))
    assert not source.lifetime.complete
    assert "no evaluation after training on some of the experiences" in source.warnings


def test_torn_lines_are_told(tmp_path):
    folder = log(tmp_path / "csvlogs", evaluations()[:-8])
    source = read(folder)
    assert not source.lifetime.complete
    assert "eval_results.csv, line 13 does not end and is left out" in source.warnings[0]


def test_without_the_training_log(tmp_path):
    folder = log(tmp_path / "csvlogs")
    (folder / "training_results.csv").unlink()
    assert read(folder).lifetime.complete
    assert read(folder / "eval_results.csv").lifetime.complete


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEADER, "has no evaluation"),
        ("", "has no lines"),
        (HEADER.replace("eval_exp", "exp") + "0,0,0.5,0,0\n", "column eval_exp is missing"),
        (HEADER + "0,0,0.5\n", "line 2: 3 cells where the header has 5"),
        (HEADER + "0,0,half,0.1,0\n", "line 2, column eval_accuracy: 'half' is not a number"),
        (HEADER + "0,0,1.5,0.1,0\n", "accuracy on 0 after learning 0 is 1.5"),
        (HEADER + "x,0,0.5,0.1,0\n", "line 2, column eval_exp: 'x' is not a number"),
        (HEADER + "0,0,0.5,0.1,0\n0,None,0.5,0.1,0\n", "line 3, column training_exp: None after"),
        (HEADER + "0,0,0.5,\ntensor(0.1),0\n", "line 2: 4 cells where the header has 5"),
    ],
)
def test_every_fault_is_named(tmp_path, text, words):
    with pytest.raises(Unsupported) as caught:
        read(log(tmp_path / "csvlogs", text, epochs=()))
    assert words in str(caught.value)
