"""Damage of every kind is found, and never a crash: flipped bytes, missing keys, odd values."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from check.corpus import Edit, tiny_suite

from l2bench.bundle.reader import find_bundles
from l2bench.check.bundle import check_bundle
from l2bench.check.submission import check_submission

FLIPS = 12  # of each file


def codes(path: Path) -> set[str]:
    checked = check_bundle(path, isolated=False)
    return {finding.code for finding in checked.errors}


def test_a_flipped_bit_in_any_file_is_found(bundle):
    rng = random.Random(11)
    files = sorted(path for path in bundle.rglob("*") if path.is_file())
    assert len(files) > 30
    for path in files:
        sound = path.read_bytes()
        flips = 100 if path.parent == bundle and path.name == "manifest.json" else FLIPS
        for _ in range(flips):
            data = bytearray(sound)
            at = rng.randrange(len(data))
            data[at] ^= 1 << rng.randrange(8)
            path.write_bytes(data)
            found = codes(bundle)
            assert found and "I01" not in found, f"{path.name} byte {at}: {found}"
        path.write_bytes(sound)
    assert codes(bundle) == set()


def test_flips_that_a_reader_would_not_see_are_found_in_the_manifest(bundle):
    path = bundle / "manifest.json"
    sound = path.read_text()
    for before, after in (("\n ", "\n\t"), ("\n", " "), (": ", ":\n"), ("e-0", "E-0")):
        spoilt = sound.replace(before, after, 1)
        path.write_text(spoilt)
        assert spoilt == sound or codes(bundle) == {"H04"}


def test_the_command_line_finds_flips_with_exit_code_1(cli, bundle):
    rng = random.Random(3)
    for name in ("manifest.json", "suite.json", "tables/episodes.parquet", "checksums.sha256"):
        path = bundle / name
        sound = path.read_bytes()
        data = bytearray(sound)
        data[rng.randrange(len(data))] ^= 0x10
        path.write_bytes(data)
        code, out, _ = cli("check", bundle)
        assert code in (1, 3), out
        path.write_bytes(sound)
    assert cli("check", bundle)[0] == 0


def test_cut_files_are_found(bundle):
    for path in sorted(p for p in bundle.rglob("*") if p.is_file()):
        sound = path.read_bytes()
        for keep in (0, 1, len(sound) // 2, len(sound) - 1):
            path.write_bytes(sound[:keep])
            found = codes(bundle)
            assert found and "I01" not in found, (path, keep)
        path.write_bytes(sound)


def walk(data, path=()):
    """Every place in nested data."""
    for key in data if isinstance(data, dict) else range(len(data)):
        yield (*path, key)
        if isinstance(data[key], dict | list):
            yield from walk(data[key], (*path, key))


def at(data, path):
    for key in path:
        data = data[key]
    return data


ODD = (None, -1, 2**63, "", "x" * 1000, [], {}, True, 1.5, {"a": [1]})


@pytest.mark.parametrize(
    "name", ["manifest.json", "suite.json", "agent.json", "provenance.json", "scores.json"]
)
def test_a_document_without_a_key_or_with_an_odd_value_is_never_a_crash(edit, name):
    """SUB-03: every key removed in turn; the digests fit, so that the rules themselves are met."""
    rng = random.Random(1)
    sound = edit.document(name)
    places = [p for p in walk(sound) if not {"curves", "matrix", "files"} & set(p[:1])]
    many = 60 if name in ("manifest.json", "suite.json") else 20
    for path in places if len(places) < many else rng.sample(places, many):
        for remove in (True, False):
            data = json.loads(json.dumps(sound))
            where = at(data, path[:-1])
            if remove:
                del where[path[-1]]
            else:
                where[path[-1]] = rng.choice(ODD)
            place(edit, name, data)
            checked = check_bundle(edit.folder, isolated=False)
            assert "I01" not in {f.code for f in checked.findings}, (path, checked.findings)
    place(edit, name, sound)
    assert check_bundle(edit.folder, isolated=False).findings == ()


def place(edit: Edit, name: str, data) -> None:
    """Write a document so that its digests fit, whether or not it is of the right form."""
    if name != "manifest.json":
        edit.write(name, data)
        edit.refile()
        return
    from l2bench.bundle.store import manifest_digest

    try:
        digest = manifest_digest(data)
    except (ValueError, TypeError):
        digest = None
    text = json.dumps({**data, "manifest_digest": digest}, indent=1, ensure_ascii=False)
    (edit.folder / name).write_text(text + "\n")


def test_a_submission_without_a_key_is_never_a_crash(submission):
    path = submission / "submission.json"
    sound = json.loads(path.read_text())
    for keys in list(walk(sound)):
        data = json.loads(json.dumps(sound))
        del at(data, keys[:-1])[keys[-1]]
        data["runs"] = data.get("runs", [])[:1]
        path.write_text(json.dumps(data))
        checked = check_submission(submission, isolated=False)
        assert checked.errors and "I01" not in {f.code for f in checked.findings}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", '{"a": NaN}', '{"a": 1e999}', '{"a": 1, "a": 2}', '{"a":' * 100_000,
     json.dumps({"a": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}),
     "\udcff"],
)  # fmt: skip
def test_odd_json_is_M01(edit, text):
    (edit.folder / "agent.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    edit.refile()
    assert codes(edit.folder) == {"M01"}
    (edit.folder / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert codes(edit.folder) == {"M01"}


def spoilt(edit: Edit, column: str, values: pa.Array) -> set[str]:
    whole = pq.read_table(edit.folder / "tables" / "episodes.parquet")
    place = whole.column_names.index(column)
    edit.replace_table("episodes", whole.set_column(place, column, values))
    edit.refile()
    return codes(edit.folder)


def test_columns_of_other_types_are_R01(edit):
    count = edit.manifest["tables"]["episodes"]["rows"]
    lists = pa.array([[1]] * count)
    texts = pa.array(["1"] * count)
    for values in (lists, texts, pa.nulls(count, pa.float64()), pa.array([1.0] * count)):
        assert spoilt(edit, "length", values) == {"R01"}


def test_null_where_there_must_be_a_value_is_R01(edit):
    count = edit.manifest["tables"]["episodes"]["rows"]
    assert spoilt(edit, "length", pa.nulls(count, pa.int32())) == {"R01"}


def test_nan_is_Q01_and_so_is_infinity(edit):
    count = edit.manifest["tables"]["episodes"]["rows"]
    assert "Q01" in spoilt(edit, "score", pa.array([float("nan")] * count))
    assert "Q01" in spoilt(edit, "score", pa.array([float("inf")] * count))


def test_a_page_whose_checksum_is_wrong_is_found(edit):
    path = edit.folder / "tables" / "learning.parquet"
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    from l2bench.bundle.hashing import file_hash

    edit.manifest["tables"]["learning"]["bytes_sha256"] = file_hash(path)
    edit.refile()
    assert codes(edit.folder) == {"R01"}


def test_a_suite_that_plans_without_end_is_no_crash(edit):
    many = tiny_suite(scenario={**tiny_suite().scenario.model_dump(mode="json"), "rounds": 1000})
    edit.resuite(many)
    edit.refile()
    found = codes(edit.folder)
    assert found and "I01" not in found


BLOCKED = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "gymnasium", "mujoco", "hydra", "omegaconf", "sklearn",
                                  "robosuite", "l2bench_agents", "l2bench_libero"}:
            raise ImportError(f"{name} is not to be imported")
sys.meta_path.insert(0, Refuse())
from pathlib import Path
from l2bench.check.bundle import check_bundle
from l2bench.check.submission import check_submission
checked = [check_bundle(Path(sys.argv[1]), isolated=False),
           check_submission(Path(sys.argv[2]), isolated=False)]
sys.exit(sum(len(each.findings) for each in checked))
"""


def test_checking_needs_no_simulator_no_agent_and_no_torch(sound, sound_submission):
    command = [sys.executable, "-c", BLOCKED, find_bundles(sound)[0], sound_submission]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
