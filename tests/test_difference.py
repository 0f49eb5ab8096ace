"""Where two bundles part: rows, columns and metrics, and nothing where they are equal."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pytest
from support import probe_suite, run_suite

from l2bench.bundle.model import Manifest
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.bundle.store import write_table
from l2bench.cli.main import invoke
from l2bench.difference import difference
from l2bench.plugins import Registry
from l2bench.scoring import metric_sets, score_bundle


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "out"
    run_suite(Registry(), probe_suite(), "late_bloomer", folder)
    return find_bundles(folder)[0]


def edited(bundle, folder, name, change):
    """Return a copy of a bundle in which one table was changed, with its digests made to fit."""
    copy = folder / bundle.name
    shutil.copytree(bundle, copy)
    path = copy / "manifest.json"
    manifest = Manifest.model_validate_json(path.read_text())
    table = change(read_bundle(bundle)._table(name))
    tables = {**manifest.tables, name: write_table(copy, name, table)}
    path.write_text(manifest.model_copy(update={"tables": tables}).model_dump_json())
    return copy


def with_value(table, column, row, value):
    values = table[column].to_pylist()
    values[row] = value
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.schema.field(at), pa.array(values, table[column].type))


def found(first, second):
    pair = [read_bundle(first), read_bundle(second)]
    sets = metric_sets(Registry(), pair[0].suite.metrics)
    return difference(*pair, [score_bundle(bundle, sets) for bundle in pair])


def test_a_bundle_does_not_differ_from_itself(original):
    result = found(original, original)
    assert result["identical"]
    assert result["parts_at"] is None
    assert result["metrics"]["changed"] == []
    assert result["metrics"]["unchanged"] > 10
    assert result["conditions"] == {}


def test_the_first_row_that_differs_is_named_with_its_columns(original, tmp_path):
    rows = read_bundle(original).lifetime.episodes
    last = rows.num_rows - 1
    score = rows["score"][last].as_py()
    copy = edited(original, tmp_path, "episodes", lambda t: with_value(t, "score", last, 0.25))
    result = found(original, copy)
    assert not result["identical"]
    at = result["parts_at"]
    assert at["table"] == "episodes"
    assert at["values"] == {"score": [score, 0.25]}
    assert at["key"]["block_index"] == rows["block_index"][last].as_py()
    assert result["tables"]["episodes"]["differing_rows"] == 1
    assert result["tables"]["learning"]["differing_rows"] == 0
    assert [m["id"] for m in result["metrics"]["changed"] if m["change"]]


def test_the_earliest_block_counts_whatever_the_table(original, tmp_path):
    """An early evaluation row comes before a late learning row."""
    copy = edited(original, tmp_path, "learning", lambda t: with_value(t, "score", -1, 0.5))
    copy = edited(copy, tmp_path / "2", "episodes", lambda t: with_value(t, "length", 0, 7))
    assert found(original, copy)["parts_at"]["table"] == "episodes"


def test_rows_that_only_one_has_and_nulls_are_seen(original, tmp_path):
    fewer = edited(original, tmp_path / "a", "episodes", lambda t: t.slice(0, t.num_rows - 2))
    result = found(original, fewer)
    assert result["tables"]["episodes"]["differing_rows"] == 2
    assert result["parts_at"]["there"] == [True, False]
    null = edited(original, tmp_path / "b", "episodes", lambda t: with_value(t, "score", 3, None))
    assert found(original, null)["parts_at"]["values"]["score"][1] is None
    assert found(null, null)["identical"]


def test_wall_times_are_no_difference(original, tmp_path):
    copy = edited(original, tmp_path, "episodes", lambda t: with_value(t, "wall_s", 0, 99.0))
    assert found(original, copy)["identical"]


def test_the_command_ends_with_one_where_rows_differ(original, tmp_path, capsys):
    assert invoke(["diff", str(original), str(original), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["identical"]
    copy = edited(original, tmp_path, "episodes", lambda t: with_value(t, "score", 0, 0.125))
    assert invoke(["diff", str(original), str(copy)]) == 1
    assert "0.125" in capsys.readouterr().out


def test_folders_without_a_common_seed_are_refused(tmp_path, capsys):
    registry = Registry()
    run_suite(registry, probe_suite(seeds=[0, 1]), "perfect", tmp_path / "a", seeds=(0, 1))
    run_suite(registry, probe_suite(seeds=[2, 3]), "perfect", tmp_path / "b", seeds=(2, 3))
    assert invoke(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert "none in common" in capsys.readouterr().err
    assert invoke(["diff", str(tmp_path / "a"), str(tmp_path / "a")]) == 0
