"""How logs are read must not show: pieces, guesses, shortcuts and their long ways agree."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from interop.builders import l2logger_folder, log_rows, stored_rows
from interop.test_l2logger import CASES, ORACLE, read

from l2bench.errors import L2benchError, Unsupported
from l2bench.interop import experiences, l2logger_file, l2logger_rows
from l2bench.metrics import l2m_preprocess
from l2bench.metrics.l2m_lifetime import LoggedLifetime, log_of
from l2bench.metrics.sets import L2MetricsMetrics

BLOCKS = (
    ("E", "a_1", [0.1, 0.2]), ("E", "b_1", [0.3]), ("L", "a_1", [0.5, 0.25, 1, 0.75]),
    ("E", "a_1", [0.9]), ("E", "b_1", [0.3, 0.4]), ("L", "b_1", [0.5, 0.6]), ("E", "a_1", [0.7]),
)  # fmt: skip


def same(first, second) -> None:
    for table in ("blocks", "episodes", "learning"):
        assert getattr(first.lifetime, table).equals(getattr(second.lifetime, table)), table
    assert first.lifetime.suite == second.lifetime.suite
    assert first.settings == second.settings
    assert first.warnings == second.warnings


@pytest.mark.parametrize("size", [1, 150, 300])
def test_a_file_in_pieces_is_the_same_file(tmp_path, monkeypatch, size):
    folder = l2logger_folder(tmp_path / "log", log_rows(*BLOCKS))
    whole = read(folder)
    monkeypatch.setattr(l2logger_file, "PIECE", size)
    same(read(folder), whole)
    path = folder / "worker-default" / "1-train" / "data-log.tsv"
    good = path.read_text()
    for broken, words in (
        (good.replace("\t0.75\n", "\tx\n"), "line 5, column performance: 'x' is not a number"),
        (good.replace("1\t6\t", "1\t\t"), "line 5, column exp_num"),
    ):
        path.write_text(broken)
        with pytest.raises(Unsupported, match=words):
            read(folder)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("task_params", ["{}", '{"a": 1}', "{}", "{}"]),
        ("exp_status", ["complete", "incomplete", "complete", "complete"]),
        ("exp_status", ["complete", "incomplete", "incomplete", "complete"]),
        ("task_name", ["a_1", "b_1", "a_1", "a_1"]),
        ("task_name", ["ab_1", "a_1", "abb_1", "ab_1"]),
        ("worker_id", ["é", "é", "é", "é"]),
        ("worker_id", ["a", "aa", "a", "a"]),
    ],
)
def test_words_that_differ_between_equal_ends_are_seen(tmp_path, column, words):
    rows = log_rows(("L", "a_1", [0.5, 0.25, 1, 0.75]), ("E", "a_1", [1]))
    folder = l2logger_folder(tmp_path / "log", rows)
    path = next(folder.rglob("0-train/data-log.tsv"))
    head, *lines = path.read_text().splitlines()
    at = head.split("\t").index(column)
    cells = [line.split("\t") for line in lines]
    for row, word in zip(cells, words, strict=True):
        row[at] = word
    raw = ("\n".join([head, *("\t".join(row) for row in cells)]) + "\n").encode()
    (part,) = l2logger_file.parts(raw, "x", "performance")
    names, codes = part.words[column]
    assert [names[0 if codes is None else codes[row]] for row in range(4)] == words
    assert (codes is None) == (len(set(words)) == 1)


def test_more_rows_than_the_size_suggests_find_room(tmp_path, monkeypatch):
    folder = l2logger_folder(tmp_path / "log", log_rows(*BLOCKS))
    whole = read(folder)
    monkeypatch.setattr(l2logger_rows, "USUAL_LINE", 10**6)
    same(read(folder), whole)


@pytest.mark.parametrize("copied", [1, 10**9])
def test_short_runs_are_copied_and_long_ones_are_not(tmp_path, monkeypatch, copied):
    rows = log_rows(*BLOCKS)
    rows[4]["performance"] = ""
    folder = l2logger_folder(tmp_path / "log", rows)
    whole = read(folder)
    monkeypatch.setattr(experiences, "COPIED", copied)
    same(read(folder), whole)
    lifetime = read(folder).lifetime
    chunks = lifetime.learning["score"].num_chunks
    assert (chunks > 1) == (copied == 1)


@pytest.mark.parametrize("name", CASES)
def test_the_tables_give_the_log_that_the_rows_give(name, tmp_path):
    """The rows that come with a lifetime are a shortcut: its tables say the same."""
    folder = l2logger_folder(tmp_path / "log", stored_rows(ORACLE / "cases" / name / "log.tsv.gz"))
    try:
        lifetime = read(folder, measure="performance").lifetime
    except L2benchError:
        return  # a malformed case
    assert isinstance(lifetime, LoggedLifetime)
    tables = replace(lifetime, learning=lifetime.learning.slice(0))
    assert lifetime.untouched() is not None
    assert tables.untouched() is None
    for raw in (True, False):
        first, second = log_of(lifetime, raw=raw), log_of(tables, raw=raw)
        for field in dataclasses.fields(first):
            if field.name != "warnings":
                one, other = getattr(first, field.name), getattr(second, field.name)
                assert np.array_equal(one, other), field.name


def test_tables_that_were_replaced_count(tmp_path):
    lifetime = read(l2logger_folder(tmp_path / "log", log_rows(*BLOCKS))).lifetime
    fewer = replace(lifetime, learning=lifetime.learning.slice(0, 2))
    assert len(log_of(lifetime).value) == len(log_of(fewer).value) + 4


@pytest.mark.parametrize("short", [0, 1, 10**9])
def test_regimes_are_scaled_alike_one_by_one_and_together(tmp_path: Path, monkeypatch, short):
    lifetime = read(l2logger_folder(tmp_path / "log", log_rows(*BLOCKS))).lifetime
    expected = L2MetricsMetrics().score(lifetime).values
    monkeypatch.setattr(l2m_preprocess, "SHORT", short)
    assert L2MetricsMetrics().score(lifetime).values == expected
