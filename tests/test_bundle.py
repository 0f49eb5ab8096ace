"""Bundles: what is written, what is refused, and hashes that do not depend on the encoding."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import content_hashes, probe_suite, run_suite

from l2bench.bundle.files import read_json
from l2bench.bundle.hashing import content_hash, file_hash
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.bundle.tables import KEYS, SCHEMAS, concatenate, table
from l2bench.errors import L2benchError, RunFailed, Unsupported, UsageError


@pytest.fixture(scope="module")
def bundle(registry, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "run"
    run_suite(registry, probe_suite(2), "forgetter", folder)
    return find_bundles(folder)[0]


def test_the_files_are_those_of_the_format_and_nothing_is_left_over(bundle):
    names = {p.relative_to(bundle).as_posix() for p in bundle.rglob("*") if p.is_file()}
    assert names == {
        "manifest.json", "suite.json", "agent.json", "provenance.json", "scores.json",
        "events.jsonl", "checksums.sha256", "tables/blocks.parquet", "tables/episodes.parquet",
        "tables/learning.parquet", "tables/series.parquet", "tables/traces.parquet",
    }  # fmt: skip


def test_the_manifest_counts_what_is_in_the_tables(bundle):
    read = read_bundle(bundle)
    manifest, lifetime = read.manifest, read.lifetime
    assert manifest.status == "complete"
    assert manifest.counts.blocks_sealed == manifest.counts.blocks_planned == 12
    assert lifetime.blocks.num_rows == 12
    assert manifest.counts.episodes_done == lifetime.episodes.num_rows == 6 * 5 + 3 * 5
    assert manifest.budget.lx_done == lifetime.learning.num_rows == 8
    assert manifest.budget.env_steps_total == 8
    for name, ref in manifest.tables.items():
        rows = pq.read_table(bundle / "tables" / f"{name}.parquet")
        assert ref.rows == rows.num_rows
        assert rows.schema.equals(SCHEMAS[name], check_metadata=True)


def test_checksums_are_in_the_form_of_sha256sum(bundle):
    done = subprocess.run(
        ["sha256sum", "-c", "checksums.sha256"], cwd=bundle, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_nothing_personal_is_recorded(bundle):
    text = "".join(p.read_text() for p in bundle.glob("*.json*"))
    assert str(Path.home()) not in text
    assert str(bundle.parent) not in text
    import getpass
    import socket

    assert socket.gethostname() not in text
    assert f'"{getpass.getuser()}"' not in text


def test_seeds_in_the_rows_are_the_derived_ones(bundle):
    from l2bench.seeding import derive

    read = read_bundle(bundle)
    for row in read.lifetime.episodes.to_pylist():
        key = (row["block_index"], row["task_index"], row["episode_index"])
        assert row["env_seed"] == derive(read.suite.hash, 0, "evaluation", *key)
    seeds = read.lifetime.episodes["env_seed"].to_pylist()
    assert len(set(seeds)) == len(seeds)


def test_keys_are_unique_and_sorted(bundle):
    lifetime = read_bundle(bundle).lifetime
    for name, rows in (("episodes", lifetime.episodes), ("learning", lifetime.learning)):
        keys = list(zip(*(rows[column].to_pylist() for column in KEYS[name]), strict=True))
        assert keys == sorted(set(keys))


def test_content_hash_ignores_encoding_and_sees_every_value():
    rows = [
        {"block_index": 0, "lx_index": i, "name": f"n{i}", "value": None if i == 1 else i / 3}
        for i in range(4)
    ]
    whole = table("series", rows)
    parts = concatenate("series", [table("series", [row]) for row in reversed(rows)])
    assert content_hash(whole) == content_hash(parts)
    for change in ({"value": 0.5}, {"name": "other"}, {"value": None}, {"lx_index": 9}):
        changed = [*rows[:3], {**rows[3], **change}]
        assert content_hash(table("series", changed)) != content_hash(whole)
    assert content_hash(pa.table({"x": [0.0]})) == content_hash(pa.table({"x": [-0.0]}))
    assert content_hash(pa.table({"x": ["ab", "c"]})) != content_hash(pa.table({"x": ["a", "bc"]}))


@pytest.mark.parametrize(
    "texts", [[], [None], ["", ""], ["a", None, "über", "", "日本"], ["x" * 300, "y"] * 50]
)
def test_texts_are_hashed_by_length_and_utf_8(texts):
    from hashlib import sha256

    plain = pa.array(texts, pa.string())
    words = [(text or "").encode() for text in texts]
    digest = sha256(f"t\0text\0{len(texts)}\0".encode())
    digest.update(bytes(text is not None for text in texts))
    digest.update(b"".join(len(word).to_bytes(8, "little") for word in words) + b"".join(words))
    for array in (plain, plain.dictionary_encode(), pa.chunked_array([plain]),
                  pa.concat_arrays([pa.array(["before"]), plain]).slice(1)):  # fmt: skip
        assert content_hash(pa.table({"t": array})) == f"sha256:{digest.hexdigest()}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' is given twice"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": 1e999}', "too large"),
        ("[1]", "expected an object"),
        ("{", "not readable JSON"),
        ('{"a":' * 100_000, "not readable JSON"),
        ("\xff", "not readable JSON"),
    ],
)
def test_json_is_read_strictly(tmp_path, text, words):
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(Unsupported, match=words):
        read_json(path)


def test_missing_and_damaged_parts_are_named(bundle, tmp_path):
    import shutil

    def broken(change) -> str:
        copy = tmp_path / "copy.l2b"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(bundle, copy)
        change(copy)
        with pytest.raises(L2benchError) as caught:
            _ = read_bundle(copy).lifetime
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def edit(copy: Path, **changes) -> None:
        data = json.loads((copy / "manifest.json").read_text())
        (copy / "manifest.json").write_text(json.dumps({**data, **changes}))

    assert "manifest.json" in broken(lambda c: (c / "manifest.json").unlink())
    assert "suite.json is missing" in broken(lambda c: (c / "suite.json").unlink())
    assert "reads 1.0" in broken(lambda c: edit(c, format_version="99.0"))
    assert "unknown key 'colour'" in broken(lambda c: edit(c, colour="red"))
    assert "running" in broken(lambda c: edit(c, status="running"))
    episodes = "tables/episodes.parquet"
    assert "episodes.parquet is missing" in broken(lambda c: (c / episodes).unlink())
    data = bytearray((bundle / episodes).read_bytes())
    cut = bytes(data[: len(data) // 2])
    assert "another SHA-256" in broken(lambda c: (c / episodes).write_bytes(cut))
    better = pq.read_table(bundle / episodes)
    score = pa.array([1.0] * better.num_rows)
    better = better.set_column(better.schema.get_field_index("score"), "score", score)
    assert "another SHA-256" in broken(lambda c: pq.write_table(better, c / episodes))

    def recorded(copy: Path, write) -> None:
        """Change a table and its digest in the manifest too."""
        write(copy / episodes)
        tables = json.loads((copy / "manifest.json").read_text())["tables"]
        tables["episodes"]["bytes_sha256"] = file_hash(copy / episodes)
        edit(copy, tables=tables)

    wrong = pq.read_table(bundle / episodes).drop_columns(["score"])
    assert "cannot be read" in broken(lambda c: recorded(c, lambda p: p.write_bytes(cut)))
    assert "'score' should be double" in broken(
        lambda c: recorded(c, lambda p: pq.write_table(wrong, p))
    )


def test_stored_scores_that_were_edited_are_refused(bundle, tmp_path):
    import shutil

    copy = tmp_path / "copy.l2b"
    shutil.copytree(bundle, copy)
    scores = json.loads((copy / "scores.json").read_text())
    scores["metrics"][0]["value"] = 1.0
    (copy / "scores.json").write_text(json.dumps(scores))
    with pytest.raises(Unsupported, match="not the file that the manifest records"):
        _ = read_bundle(copy).scores


def test_every_manifest_key_that_is_removed_gives_one_line(bundle, tmp_path):
    import shutil

    copy = tmp_path / "copy.l2b"
    shutil.copytree(bundle, copy)
    data = json.loads((copy / "manifest.json").read_text())
    refused = set()
    for key in data:
        kept = {k: v for k, v in data.items() if k != key}
        (copy / "manifest.json").write_text(json.dumps(kept))
        try:
            read_bundle(copy)
        except Unsupported as error:
            assert key in str(error) or key == "format_version", (key, str(error))
            refused.add(key)
    assert refused == {
        "format_version", "bundle_id", "status", "created_at", "l2bench", "suite", "seed",
        "agent", "counts", "journal_head",
    }  # fmt: skip


def test_finding_nothing_fails(tmp_path):
    with pytest.raises(RunFailed, match="0 bundles found"):
        find_bundles(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        find_bundles(tmp_path / "nowhere")


def test_a_seed_gives_the_same_tables_and_another_seed_others(registry, tmp_path):
    suite = probe_suite(2, seeds=[0, 1])
    for name in ("a", "b"):
        run_suite(registry, suite, "random", tmp_path / name)
    first, second = content_hashes(tmp_path / "a"), content_hashes(tmp_path / "b")
    assert first == second
    assert first[0]["episodes"] != first[1]["episodes"]


def test_a_mixture_of_agents_or_a_seed_twice_is_refused(registry, tmp_path):
    import shutil

    from l2bench.scoring import summarise

    folders = []
    for agent in ("perfect", "frozen"):
        run_suite(registry, probe_suite(2), agent, tmp_path / agent)
        folders += find_bundles(tmp_path / agent)
    with pytest.raises(UsageError, match="of another agent"):
        summarise(folders)
    copy = tmp_path / "copy.l2b"
    shutil.copytree(folders[0], copy)
    with pytest.raises(UsageError, match="both of seed 0"):
        summarise([folders[0], copy])
