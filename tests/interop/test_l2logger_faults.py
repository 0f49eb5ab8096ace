"""Torn and malformed logs of l2logger: every fault by file, line and column."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from interop.builders import l2logger_folder, log_rows

from l2bench.bundle.files import read_json
from l2bench.errors import Unsupported
from l2bench.interop import l2logger
from l2bench.interop.source import Options


def read(folder: Path):
    return l2logger.read(folder, Options())


def cut(folder: Path, keep: float) -> Path:
    """Cut the last line of the last file."""
    path = sorted(folder.rglob("data-log.tsv"))[-1]
    raw = path.read_bytes()
    start = raw[:-1].rfind(b"\n") + 1
    path.write_bytes(raw[: start + int((len(raw) - start) * keep)])
    return path


@pytest.mark.parametrize("keep", [0.5, 0.99])
def test_a_torn_last_line_is_told_and_withholds_the_headline(cli, tmp_path, keep):
    rows = log_rows(("E", "a_1", [1]), ("L", "a_1", [1, 0]), ("E", "a_1", [0.5, 0.25, 1]))
    folder = l2logger_folder(tmp_path / "log", rows)
    cut(folder, keep)
    source = read(folder)
    assert not source.lifetime.complete
    (warning,) = source.warnings
    assert "2-test/data-log.tsv, line 4 does not end and is left out" in warning
    assert source.lifetime.episodes.num_rows == 3
    code, output, errors = cli("score", folder, "--json")
    assert code == 4
    assert "line 4 does not end" in errors
    document = json.loads(output)
    for metric in document["summary"]["metrics"]:
        if metric["scope"] == "lifetime":
            assert metric["mean"] is None
    found = {m["id"]: m["value"] for m in document["bundles"][0]["metrics"] if m["task"]}
    assert found["l2m.mean_training_performance_k"] == 0.5


@pytest.mark.parametrize("raw", [b"", b"block_num\texp_n"])
def test_a_file_that_was_never_begun_is_told(tmp_path, raw):
    folder = l2logger_folder(tmp_path / "log", log_rows(("E", "a_1", [1]), ("L", "a_1", [1])))
    (folder / "worker-default" / "1-train" / "data-log.tsv").write_bytes(raw)
    source = read(folder)
    assert not source.lifetime.complete
    assert "1-train/data-log.tsv" in source.warnings[0]


def changed(tmp_path: Path, change) -> Path:
    folder = l2logger_folder(tmp_path / "log", log_rows(("E", "a_1", [1, 2]), ("L", "a_1", [3])))
    path = folder / "worker-default" / "0-test" / "data-log.tsv"
    path.write_bytes(change(path.read_bytes()))
    return folder


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: b.replace(b"\t2\n", b"\n"), "line 3: 9 cells, the header has 10"),
        (lambda b: b.replace(b"\t2\n", b"\ttwo\n"), "line 3, column performance: 'two' is not"),
        (lambda b: b.replace(b"\t2\n", b"\t1_0\n"), "line 3, column performance: '1_0' is not"),
        (lambda b: b.replace(b"\t2\n", "\t\u0661\n".encode()), "line 3, column performance: "),
        (lambda b: b.replace(b"0\t1\t", b"0\t+3\t"), "line 3, column exp_num: '+3' is not a whole"),
        (lambda b: b.replace(b"0\t1\t", b"0\t%d\t" % (2**63)), "line 3, column exp_num"),
        (lambda b: b.replace(b"{}", "{}\u2028".encode(), 1).replace(b"\t2\n", b"\tx\n"), "line 3,"),
        (lambda b: b.replace(b"\t2\n", b"\tinf\n"), "line 3, column performance: an infinite"),
        (lambda b: b.replace(b"0\t1\t", b"0\t1.5\t"), "line 3, column exp_num: '1.5' is not"),
        (lambda b: b.replace(b"0\t1\t", b"0\t\t"), "line 3, column exp_num"),
        (lambda b: b.replace(b"0\t0\tw", b"0\t-1\tw"), "line 2, column exp_num: -1 is negative"),
        (lambda b: b.replace(b"\t1\n", b"\t1\n\n"), "line 3"),
        (lambda b: b.replace(b"complete", b"done"), "line 2, column exp_status: 'done'"),
        (lambda b: b.replace(b"wake", b"awake"), "line 2, column block_subtype: 'awake'"),
        (lambda b: b.replace(b"\ttest\t", b"\teval\t"), "line 2, column block_type: 'eval'"),
        (lambda b: b.replace(b"a_1", b""), "line 2, column task_name: no name"),
        (lambda b: b.replace(b"{}", b"{"), "line 2, column task_params: '{' is not JSON"),
        (lambda b: b.replace(b"worker-default", b"a/b"), "line 2, column worker_id: 'a/b'"),
        (lambda b: b.replace(b"exp_num", b"exp"), "line 1: column exp_num is missing"),
        (lambda b: b.replace(b"performance", b"reward"), "line 1: column performance is missing"),
        (lambda b: b.replace(b"timestamp", b"exp_num"), "line 1: column exp_num is there twice"),
        (lambda b: b.replace(b"a_1", b"\xff\xfe"), "0-test/data-log.tsv"),
        (lambda b: b"\x00" * 40 + b"\n", "0-test/data-log.tsv"),
        (lambda b: b.replace(b"{}", b'"{}', 1), "0-test/data-log.tsv"),
    ],
)  # fmt: skip
def test_every_fault_is_named_with_file_line_and_column(tmp_path, change, words):
    with pytest.raises(Unsupported) as caught:
        read(changed(tmp_path, change))
    assert words in str(caught.value)
    assert "0-test/data-log.tsv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_negative_blocks_are_refused(tmp_path):
    rows = [{**row, "block_num": "-1"} for row in log_rows(("L", "a_1", [1, 2]))]
    with pytest.raises(
        Unsupported, match=r"data-log\.tsv, line 2, column block_num: -1 is negative"
    ):
        read(l2logger_folder(tmp_path / "log", rows))


def test_a_fault_in_a_later_file_is_named_with_that_file(tmp_path):
    folder = l2logger_folder(
        tmp_path / "log", log_rows(("E", "a_1", [1, 2]), ("L", "a_1", [3, 4]), ("E", "a_1", [5]))
    )
    path = folder / "worker-default" / "1-train" / "data-log.tsv"
    path.write_text(path.read_text().replace("\t4\n", "\t-inf\n"))
    with pytest.raises(Unsupported, match=r"1-train/data-log.tsv, line 3, column performance"):
        read(folder)


def test_what_a_folder_must_have(tmp_path):
    rows = log_rows(("L", "a_1", [1]), ("E", "a_1", [1]))
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "logger_info.json").write_text('{"metrics_columns": ["performance"]}')
    with pytest.raises(Unsupported, match=r"no data-log\.tsv below it"):
        read(empty)
    folder = l2logger_folder(tmp_path / "log", rows)
    (folder / "logger_info.json").write_text('{"metrics_columns": "performance"}')
    with pytest.raises(Unsupported, match="metrics_columns should be a list"):
        read(folder)
    (folder / "logger_info.json").write_text("{")
    with pytest.raises(Unsupported, match="not readable JSON"):
        read(folder)
    source = read(l2logger_folder(tmp_path / "bare", rows, info=False))
    assert source.settings["measure"] == "performance"
    assert "logger_info.json is missing" in source.warnings


@pytest.mark.parametrize("lines", [slice(1, None), slice(2, 3)])
def test_a_word_that_is_no_utf8_is_refused_in_all_lines_and_in_one(tmp_path, lines):
    folder = l2logger_folder(tmp_path / "log", log_rows(("L", "a_1", [1, 2, 3])))
    (path,) = folder.rglob("data-log.tsv")
    raw = path.read_bytes().splitlines(keepends=True)
    raw[lines] = [line.replace(b"complete", b"c\xff") for line in raw[lines]]
    path.write_bytes(b"".join(raw))
    first = lines.start + 1
    with pytest.raises(Unsupported, match=rf"data-log.tsv, line {first}: not UTF-8"):
        read(folder)


@pytest.mark.parametrize("column", ["worker_id", "block_num", "timestamp"])
def test_a_column_of_the_format_is_no_measure(tmp_path, column):
    folder = l2logger_folder(tmp_path / "log", log_rows(("L", "a_1", [1, 2])))
    (folder / "logger_info.json").write_text(json.dumps({"metrics_columns": [column]}))
    with pytest.raises(Unsupported, match=f"metrics_columns names {column}, which is a column of"):
        read(folder)


def test_a_pipe_is_not_waited_for(tmp_path):
    folder = l2logger_folder(tmp_path / "log", log_rows(("L", "a_1", [1, 2])))
    (path,) = folder.rglob("data-log.tsv")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(Unsupported, match=r"data-log.tsv is a pipe, expected a file"):
        read(folder)
    path.rename(folder / "logger_info.json")
    with pytest.raises(Unsupported, match=r"no data-log.tsv"):
        read(folder)
    with pytest.raises(Unsupported, match=r"logger_info.json is a pipe"):
        read_json(folder / "logger_info.json")


def test_a_link_to_itself_is_no_place_for_a_bundle(cli, tmp_path):
    folder = l2logger_folder(tmp_path / "log", log_rows(("L", "a_1", [1, 2])))
    (tmp_path / "loop").symlink_to("loop")
    code, _, errors = cli("import", "l2logger", folder, "-o", tmp_path / "loop")
    assert code == 2
    assert "is a link that leads nowhere" in errors
