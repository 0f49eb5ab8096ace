"""``l2bench bundle``: looking into bundles, packing, scrubbing, migrating, and the schemas."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
from make_schemas import DOCUMENTS, PLACE, schema
from support import probe_suite, run_suite

from l2bench.bundle.copies import looks_personal, migrate, pack, scrub
from l2bench.bundle.files import read_json
from l2bench.bundle.hashing import document_hash
from l2bench.bundle.model import FORMAT_VERSION
from l2bench.bundle.privacy import REDACTED, anonymous, personal, redacted, scrubbed
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.bundle.store import manifest_digest
from l2bench.errors import Incomplete, RunFailed, Unsupported, UsageError


@pytest.fixture(scope="module")
def made(registry, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("copies") / "run"
    suite = probe_suite(2, experts=True)
    run_suite(registry, suite, "forgetter", folder)
    return find_bundles(folder)[0]


@pytest.fixture
def copy(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / made.name))


def edit(folder: Path, name: str, **changes) -> None:
    data = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**data, **changes}))


def test_packed_and_unpacked_is_the_same_bundle(cli, made, tmp_path):
    packed = tmp_path / f"{made.name}.zip"
    code, output, errors = cli("bundle", "pack", made, "-o", packed, "--json")
    assert (code, json.loads(output)) == (0, {"written": str(packed)}), errors
    pack(read_bundle(made), tmp_path / "again.l2b.zip")
    assert packed.read_bytes() == (tmp_path / "again.l2b.zip").read_bytes()
    code, _, errors = cli("bundle", "unpack", packed, "-o", tmp_path / "out.l2b")
    assert code == 0, errors
    assert tree(tmp_path / "out.l2b") == tree(made)
    code, _, errors = cli("bundle", "unpack", packed, "-o", tmp_path / "out.l2b")
    assert code == 2
    assert "exists already" in errors


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_archives_are_read_where_folders_are(cli, made, tmp_path):
    (tmp_path / "runs").mkdir()
    packed = tmp_path / "runs" / f"{made.name}.zip"
    pack(read_bundle(made), packed)
    plain = json.loads(cli("score", made.parent, "--json")[1])
    for path in (packed, packed.parent):
        code, output, errors = cli("score", path, "--json")
        assert code == 0, errors
        assert json.loads(output) == plain
    code, _, errors = cli("report", packed, "-o", tmp_path / "x.html")
    assert code == 0, errors
    assert read_bundle(packed).experts
    shutil.copytree(made, packed.parent / made.name)
    assert find_bundles(packed.parent) == [packed.parent / made.name]  # the folder is the bundle
    packed.write_bytes(packed.read_bytes()[:-10])
    shutil.rmtree(packed.parent / made.name)
    code, output, errors = cli("score", packed)
    assert code == 3
    assert "A01" in errors


def test_what_is_not_finished_or_not_intact_is_not_packed(copy, tmp_path):
    target = tmp_path / "x.l2b.zip"
    with pytest.raises(UsageError, match=r"should end in \.l2b\.zip"):
        pack(read_bundle(copy), tmp_path / "x.zip")
    (copy / "events.jsonl").write_text("{}\n")
    with pytest.raises(Unsupported, match=r"events\.jsonl is missing or not the file"):
        pack(read_bundle(copy), target)
    files = read_json(copy / "manifest.json")["files"]
    for name in ("../../etc/passwd", "/etc/passwd"):
        edit(copy, "manifest.json", files={**files, name: {"bytes": 1, "sha256": "0" * 64}})
        with pytest.raises(Unsupported, match="does not lie in it"):
            pack(read_bundle(copy), target)
    edit(copy, "manifest.json", status="interrupted")
    for refuse in (pack, scrub):
        with pytest.raises(Incomplete):
            refuse(read_bundle(copy), target)
    assert not target.exists()


def test_a_kind_of_file_that_archives_do_not_hold_is_not_packed(copy, tmp_path):
    (copy / "state.pt").write_bytes(b"x")
    from l2bench.bundle.store import file_refs

    files = {name: ref.model_dump() for name, ref in file_refs(copy).items()}
    edit(copy, "manifest.json", files=files)
    with pytest.raises(RunFailed, match="A06"):
        pack(read_bundle(copy), tmp_path / "x.l2b.zip")
    assert not (tmp_path / "x.l2b.zip").exists()


def test_scrubbing_removes_what_is_personal_and_nothing_else(cli, copy, tmp_path):
    card = read_json(copy / "agent.json")
    settings = {"api_token": "swordfish", "weights": "/home/bob/w.npz", "lr": 0.1}
    edit(copy, "agent.json", settings=settings)
    trace = 'File "/home/bob/agent.py", line 1: KeyError: bob@example.org'
    event = {"at": "2026-01-01T00:00:00Z", "event": "error", "traceback": trace}
    with (copy / "events.jsonl").open("a") as file:
        file.write(json.dumps(event) + "\n")
    edit(copy, "manifest.json", notes="run by bob@example.org on 10.0.0.7, see /home/bob/notes")
    (copy / "annotations.jsonl").write_text('{"author": "Bob", "text": "at /home/bob/x.md"}\n')
    before = tree(copy)
    code, output, _ = cli("bundle", "show", copy, "--privacy", "--json")
    assert code == 0
    places = {(f["file"].split(":")[0], f["why"]) for f in json.loads(output)["personal"]}
    assert ("agent.json", "may be a secret") in places
    assert ("agent.json", "a path of a machine") in places
    assert ("manifest.json", "an e-mail address") in places
    assert ("manifest.json", "an address of a machine") in places
    assert ("events.jsonl", "an e-mail address") in places
    code, _, errors = cli("bundle", "scrub", copy, "-o", tmp_path / "clean.l2b")
    assert code == 0, errors
    assert tree(copy) == before  # never in place
    clean = tmp_path / "clean.l2b"
    assert looks_personal(read_bundle(clean)) == []
    text = b"".join(data for name, data in tree(clean).items() if not name.endswith(".parquet"))
    for word in (b"bob", b"Bob", b"swordfish", b"10.0.0.7"):
        assert word not in text
    assert read_json(clean / "agent.json")["settings"] == {
        "api_token": REDACTED, "weights": "w.npz", "lr": 0.1
    }  # fmt: skip
    for name in tree(made_tables := clean / "tables"):
        assert (made_tables / name).read_bytes() == before[f"tables/{name}"]
    done = subprocess.run(["sha256sum", "-c", "checksums.sha256"], cwd=clean, capture_output=True)
    assert done.returncode == 0
    manifest = read_json(clean / "manifest.json")
    assert manifest["manifest_digest"] == manifest_digest(manifest)
    assert manifest["agent"]["agent_hash"] == document_hash(
        "l2bench.agent.v1", read_json(clean / "agent.json")
    )
    assert read_bundle(clean).scores == read_bundle(copy).scores
    assert [e.manifest.bundle_id for e in read_bundle(clean).experts]
    pack(read_bundle(clean), tmp_path / "clean.l2b.zip")
    assert card["settings"] == {}


def test_a_bundle_without_anything_personal_keeps_its_hashes(made, tmp_path):
    scrub(read_bundle(made), tmp_path / "clean.l2b")
    before, after = read_bundle(made).manifest, read_bundle(tmp_path / "clean.l2b").manifest
    assert after.agent == before.agent
    assert after.tables == before.tables
    with pytest.raises(UsageError, match="exists already"):
        scrub(read_bundle(made), tmp_path / "clean.l2b")


def test_a_migrated_bundle_of_this_version_is_a_copy(cli, made, tmp_path):
    code, _, errors = cli("bundle", "migrate", made, tmp_path / "new.l2b")
    assert code == 0, errors
    assert tree(tmp_path / "new.l2b") == tree(made)


def test_migrations_are_taken_one_after_the_other(copy, tmp_path, monkeypatch):
    from l2bench.bundle import copies

    def step(to):
        return lambda folder: edit(folder, "manifest.json", format_version=to, notes=f"at {to}")

    monkeypatch.setattr(copies, "MIGRATIONS", {"1.0": step("1.1"), "1.1": step("1.2")})
    monkeypatch.setattr(copies, "FORMAT_VERSION", "1.2")
    migrate(read_bundle(copy), tmp_path / "new.l2b")
    manifest = read_json(tmp_path / "new.l2b" / "manifest.json")
    assert (manifest["format_version"], manifest["notes"]) == ("1.2", "at 1.2")
    assert read_json(copy / "manifest.json")["format_version"] == "1.0"


def test_sub_08_versions_that_are_not_read_say_what_is(cli, copy, tmp_path):
    """SUB-08: schema 99 and schema 0 are refused with the supported range."""
    for version in ("99.0", "0.9", "2.0", "1", "1.x", "", 1.0, None):
        edit(copy, "manifest.json", format_version=version)
        for command in (("score", copy), ("bundle", "migrate", copy, tmp_path / "new.l2b")):
            code, output, errors = cli(*command)
            assert code == 3, (version, errors)
            assert f"reads {FORMAT_VERSION} and other 1.x" in errors
            assert output == ""
    assert not (tmp_path / "new.l2b").exists()


def test_of_a_newer_minor_version_what_is_known_is_read_and_what_is_not_is_kept(
    cli, copy, tmp_path, caplog
):
    data = read_json(copy / "manifest.json")
    data["counts"]["dreams"] = 3
    data["plugins"][0]["mood"] = "good"
    edit(copy, "manifest.json", **{**data, "format_version": "1.7", "novelty": {"a": [1]}})
    edit(copy, "provenance.json", weather="fine")
    expected = read_bundle(find_bundles(copy)[0])
    assert "newer than 1.0" in caplog.text
    assert expected.manifest.counts.blocks_sealed == 12
    code, _, errors = cli("score", copy)
    assert code == 0, errors
    scrub(expected, tmp_path / "scrubbed.l2b")
    migrate(expected, tmp_path / "migrated.l2b")
    for name in ("scrubbed.l2b", "migrated.l2b"):
        kept = read_json(tmp_path / name / "manifest.json")
        assert kept["novelty"] == {"a": [1]}
        assert kept["counts"]["dreams"] == 3
        assert read_json(tmp_path / name / "provenance.json")["weather"] == "fine"
    edit(copy, "manifest.json", format_version="1.0")
    with pytest.raises(Unsupported, match="unknown key"):
        read_bundle(copy)


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_the_schemas_that_ship_are_those_of_the_models(cli, name):
    text = (PLACE / f"{name}.json").read_text()
    assert json.loads(text) == json.loads(schema(name)), "run: python tests/make_schemas.py"
    code, output, _ = cli("bundle", "schema", name)
    assert code == 0
    assert json.loads(output) == json.loads(text)
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


@pytest.mark.parametrize("name", ["manifest", "suite", "agent", "provenance"])
def test_the_schemas_fit_what_is_written(made, name):
    known = json.loads((PLACE / f"{name}.json").read_text())
    data = read_json(made / f"{name}.json")
    jsonschema.validate(data, known)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**data, "colour": "red"}, known)


def test_looking_into_bundles(cli, made, copy):
    code, output, errors = cli("bundle", "show", made)
    assert code == 0, errors
    assert "l2bench/forgetter" in output
    assert "task-1: honours its seed" in output
    document = json.loads(cli("bundle", "show", made, "--json")[1])
    assert document["manifest"] == read_bundle(made).manifest.model_dump(mode="json")
    edit(copy, "manifest.json", status="interrupted")
    assert "interrupted" in cli("bundle", "show", copy)[1]
    code, _, errors = cli("bundle", "schema", "manifst")
    assert code == 2
    assert "did you mean 'manifest'" in errors
    assert cli("bundle", "schema")[1].split() == sorted(DOCUMENTS)
    assert cli("bundle", "pak")[0] == 2


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("no such file: '/home/bob/data/x.npz'", "no such file: 'x.npz'"),
        (r"C:\Users\bob\x.npz is gone", "x.npz is gone"),
        ('File "/opt/lib/agents/a.py", line 3', 'File "agents/a.py", line 3'),
        ("task l2bench/catch, 3/4 done, see https://example.org/a/b", None),
    ],
)
def test_messages_without_the_folders_of_this_machine(text, clean):
    assert anonymous(text) == (clean or text)


def test_secrets_are_texts_under_telling_keys():
    data = {"hf_token": "abc", "max_tokens": 5, "api_key": "x", "keyboard": "dvorak",
            "observation_key": "state", "tokenizer": "bert",
            "nested": {"db_password": "y", "credentials": {"user": "z"}}, "secret": None,
            "use_secret": True, "weights": "/data/bob/w.npz", "empty": ""}  # fmt: skip
    assert redacted(data) == {
        **data, "hf_token": REDACTED, "api_key": REDACTED, "weights": "w.npz",
        "nested": {"db_password": REDACTED, "credentials": {"user": REDACTED}},
    }  # fmt: skip
    assert [found.place for found in personal(data)] == [
        "hf_token", "api_key", "nested.db_password", "nested.credentials.user", "weights",
    ]  # fmt: skip
    assert list(personal(scrubbed(data))) == []
