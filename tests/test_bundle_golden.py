"""Bundles of every released version of the format are read, verified and scored for ever."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from make_golden import MAKERS, PLACE, values

from l2bench.bundle.archive import inspect_archive
from l2bench.bundle.files import read_json
from l2bench.bundle.hashing import content_hash, file_hash
from l2bench.bundle.reader import read_bundle
from l2bench.bundle.store import VOLATILE, manifest_digest

ARCHIVES = sorted(PLACE.glob("*.l2b.zip"))
LARGEST = 100_000


def test_there_is_a_golden_bundle_of_each_kind():
    assert {path.name.split("-")[0] for path in ARCHIVES} >= set(MAKERS)


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda p: p.name)
def test_a_golden_bundle_is_read_and_scored_as_ever(cli, path: Path):
    assert path.stat().st_size <= LARGEST
    assert inspect_archive(path) == []
    bundle = read_bundle(path)
    expected = read_json(path.with_name(path.name.replace(".l2b.zip", ".expected.json")))
    assert json.loads(json.dumps(values(bundle))) == expected
    stored = {
        " ".join(str(m[key]) for key in ("id", "task", "source") if m[key] is not None): [
            m["value"], m["n"]
        ]
        for m in bundle.scores["metrics"]
    }  # fmt: skip
    assert stored == expected["metrics"]
    code, _, errors = cli("score", path)
    assert code == (4 if bundle.manifest.status == "incomplete" else 0), errors


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda p: p.name)
def test_every_digest_of_a_golden_bundle_can_be_computed_again(path: Path):
    bundle = read_bundle(path)
    for one in (bundle, *bundle.experts):
        stored = read_json(one.folder / "manifest.json")
        assert stored["manifest_digest"] == manifest_digest(stored)
        for name, ref in one.manifest.files.items():
            assert file_hash(one.folder / name) == ref.sha256, name
        for name, table in one.manifest.tables.items():
            rows = pq.read_table(one.folder / "tables" / f"{name}.parquet")
            assert rows.num_rows == table.rows
            assert content_hash(rows, VOLATILE) == table.content_sha256, name
        lines = (one.folder / "checksums.sha256").read_text().splitlines()
        for line in lines:
            digest, name = line.split("  ")
            assert hashlib.sha256((one.folder / name).read_bytes()).hexdigest() == digest
