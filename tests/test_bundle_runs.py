"""What a run leaves in its bundle beside the rows: costs, code, states, and a look at each task."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import ClassVar

import pytest
from stubs import Stub, stubbed
from support import probe_suite, run_suite

from l2bench.bundle import software as code
from l2bench.bundle.files import read_json
from l2bench.bundle.hashing import listing_hash
from l2bench.bundle.model import Tuning
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.bundle.states import share, state_digests
from l2bench.bundle.writer import BundleWriter
from l2bench.cast import AgentSpec, Cast, Execution
from l2bench.errors import Interrupted, RunFailed, UsageError
from l2bench.lifetimes import Run
from l2bench.suite import Model


def only(folder: Path):
    (path,) = find_bundles(folder)
    return read_bundle(path)


class Frugal(Stub):
    """Counts what it uses."""

    updates = 0

    def learn(self, lesson, task):
        super().learn(lesson, task)
        self.updates += 5

    def save(self, folder):
        (folder / "small").write_text(str(self.updates))
        (folder / "memory").write_bytes(bytes(100_000))

    def load(self, folder):
        self.updates = int((folder / "small").read_text())

    def usage(self):
        return {"updates": self.updates, "buffer_bytes": 1000 + self.updates}


def test_each_block_says_what_it_cost(tmp_path):
    run_suite(stubbed(Frugal), probe_suite(2), "stub", tmp_path / "run")
    bundle = only(tmp_path / "run")
    blocks = bundle.lifetime.blocks.to_pylist()
    for block in blocks:
        learns = block["kind"] == "learn"
        assert block["updates"] == (5 if learns else None)
        assert block["env_steps_eval"] == (None if learns else block["episodes_done"])
        assert block["agent_bytes"] > 100_000
        assert block["peak_memory_bytes"] > 2**20
        assert block["buffer_bytes"] >= 1000
    assert bundle.manifest.budget.env_steps_eval == bundle.manifest.counts.episodes_done
    assert bundle.manifest.budget.experts_wall_s is None
    assert bundle.manifest.counts.errors == 0


def test_an_agent_that_does_not_count_leaves_null(registry, tmp_path):
    run_suite(registry, probe_suite(1), "perfect", tmp_path / "run")
    rows = only(tmp_path / "run").lifetime.blocks.to_pylist()
    assert {row["updates"] for row in rows} == {row["buffer_bytes"] for row in rows} == {None}


def test_experts_cost_what_they_say_themselves(registry, tmp_path):
    run_suite(registry, probe_suite(2, experts=True), "perfect", tmp_path / "run")
    bundle = only(tmp_path / "run")
    theirs = [expert.manifest.budget for expert in bundle.experts]
    assert bundle.manifest.budget.experts_wall_s == pytest.approx(sum(b.wall_s for b in theirs))
    assert bundle.manifest.budget.experts_cpu_s == pytest.approx(sum(b.cpu_s for b in theirs))
    assert bundle.manifest.budget.experts_wall_s > 0


def test_tuning_is_recorded(registry, tmp_path):
    spec = AgentSpec(name="perfect")
    cast = Cast.gather(registry, probe_suite(1), spec, Execution(data=tmp_path / "data"))
    tuning = Tuning(protocol="fraction", fraction=0.1, configurations=8, seeds=(90, 91))
    Run(registry, cast, tuning=tuning).execute(
        tmp_path / "run", resume=False, progress=lambda *_: None
    )
    assert only(tmp_path / "run").manifest.tuning == tuning
    run_suite(registry, probe_suite(1), "perfect", tmp_path / "other")
    assert only(tmp_path / "other").manifest.tuning.protocol == "none"


def test_errors_are_counted_and_stay(tmp_path):
    class Fails(Stub):
        broken: ClassVar = True

        def learn(self, lesson, task):
            if self.broken:
                raise ValueError("no")
            super().learn(lesson, task)

    with pytest.raises(RunFailed):
        run_suite(stubbed(Fails), probe_suite(1), "stub", tmp_path / "run")
    assert only(tmp_path / "run").manifest.counts.errors == 1
    Fails.broken = False
    run_suite(stubbed(Fails), probe_suite(1), "stub", tmp_path / "run", resume=True)
    manifest = only(tmp_path / "run").manifest
    assert (manifest.status, manifest.counts.errors) == ("complete", 1)
    assert manifest.counts.discarded_attempts == 1


def test_one_lifetime_that_fails_does_not_stop_the_others(tmp_path):
    """PAR-06: of three, the second raises: two bundles and one recorded failure."""

    class Fails(Stub):
        born = 0

        def __init__(self, settings, life):
            super().__init__(settings, life)
            Fails.born += 1
            self.number = Fails.born

        def learn(self, lesson, task):
            if self.number == 3:  # the first is made to see whether it can be
                raise ValueError("not this one")
            super().learn(lesson, task)

    with pytest.raises(RunFailed, match=r"1 of 3 lifetimes failed \(seeds 1\); .*not this one"):
        run_suite(stubbed(Fails), probe_suite(1, seeds=[0, 1, 2]), "stub", tmp_path / "run")
    found = [read_bundle(path).manifest for path in find_bundles(tmp_path / "run")]
    assert {m.seed.lifetime: m.status for m in found} == {
        0: "complete", 1: "failed", 2: "complete",
    }  # fmt: skip


def test_an_interrupt_among_the_experts_leaves_a_clear_state(tmp_path, cli):
    class Stopped(Stub):
        stops: ClassVar = True

        def learn(self, lesson, task):
            if self.stops:
                raise KeyboardInterrupt
            super().learn(lesson, task)

    registry, suite = stubbed(Stopped), probe_suite(1, experts=True)
    with pytest.raises((KeyboardInterrupt, Interrupted)):
        run_suite(registry, suite, "stub", tmp_path / "run")
    manifest = only(tmp_path / "run").manifest
    assert manifest.status == "interrupted"
    code_, output, errors = cli("score", tmp_path / "run")
    assert (code_, output) == (4, "")
    assert "--resume" in errors
    Stopped.stops = False
    run_suite(registry, suite, "stub", tmp_path / "run", resume=True)
    bundle = only(tmp_path / "run")
    assert bundle.manifest.status == "complete"
    assert bundle.manifest.counts.discarded_attempts == 0  # no block of it had begun
    assert len(bundle.experts) == 1


def test_a_bundle_that_another_process_has_just_finished_is_left_as_it_is(registry, tmp_path):
    run_suite(registry, probe_suite(1), "perfect", tmp_path / "run")
    folder = only(tmp_path / "run").folder
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="just finished by another process"):
        BundleWriter.reopen(folder)  # its work is gone
    (folder / "work").mkdir()
    with pytest.raises(UsageError, match="just finished by another process"):
        BundleWriter.reopen(folder)  # or just going
    shutil.rmtree(folder / "work")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_work_that_somebody_else_clears_is_no_failure(registry, tmp_path, monkeypatch):
    from l2bench.bundle import writer

    def gone(folder, ignore_errors=False):
        if folder.name == "work" and not ignore_errors:
            raise FileNotFoundError(folder)

    monkeypatch.setattr(writer.shutil, "rmtree", gone)
    run_suite(registry, probe_suite(1), "perfect", tmp_path / "run")
    assert only(tmp_path / "run").manifest.status == "complete"


def test_code_is_told_by_the_digest_of_its_files(registry, tmp_path):
    run_suite(registry, probe_suite(1), "perfect", tmp_path / "run")
    manifest = only(tmp_path / "run").manifest
    found = code.software("l2bench", "l2bench")
    assert manifest.l2bench.record_sha256 == found.record_sha256
    assert len(found.record_sha256) == 64
    for plugin in manifest.plugins:
        assert plugin.record_sha256 == found.record_sha256
        assert plugin.editable == found.editable


def distribution(site: Path, files: dict[str, str]) -> None:
    """Install a distribution by hand, as pip would from a wheel."""
    import base64
    import hashlib

    info = site / "toy-1.0.dist-info"
    info.mkdir(parents=True)
    files = {**files, "toy-1.0.dist-info/METADATA": "Name: toy\nVersion: 1.0\n"}
    lines = []
    for name, text in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
        lines.append(f"{name},sha256={digest.rstrip('=')},{len(text)}")
    installed = ["toy-1.0.dist-info/INSTALLER,sha256=abc,4", "../../bin/toy,sha256=abc,9",
                 "toy/__pycache__/a.pyc,,", "toy-1.0.dist-info/RECORD,,"]  # fmt: skip
    (info / "RECORD").write_text("\n".join([*lines, *installed]) + "\n")


def test_an_installed_distribution_is_told_by_its_record(tmp_path, monkeypatch):
    import zipfile

    site = tmp_path / "site"
    distribution(site, {"toy/__init__.py": "", "toy/a.py": "x = 1\n"})
    monkeypatch.syspath_prepend(site)
    code.software.cache_clear()
    found = code.software("toy", "toy")
    assert (found.modified_files, found.editable, found.git) == (0, False, None)
    record = (site / "toy-1.0.dist-info" / "RECORD").read_text()
    with zipfile.ZipFile(tmp_path / "toy.whl", "w") as wheel:
        lines = [line for line in record.splitlines() if not line.startswith("..")]
        wheel.writestr("toy-1.0.dist-info/RECORD", "\n".join(lines))
    assert code.wheel_digest(tmp_path / "toy.whl") == found.record_sha256
    (site / "toy" / "a.py").write_text("x = 2\n")
    (site / "toy" / "__init__.py").unlink()
    code.software.cache_clear()
    changed = code.software("toy", "toy")
    assert changed.modified_files == 2
    assert changed.record_sha256 == found.record_sha256  # what was installed, not what is there


def test_code_that_runs_in_place_is_told_by_its_sources(tmp_path, monkeypatch):
    import subprocess

    site = tmp_path / "site"
    (site / "toy").mkdir(parents=True)
    (site / "toy" / "__init__.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(site)
    code.software.cache_clear()
    found = code.software("no-such-distribution", "toy")
    assert found.editable
    assert found.git is None
    git = ["git", "-C", str(site), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"],
                  ["remote", "add", "origin", "https://bob:pass@example.org/x"]):  # fmt: skip
        subprocess.run([*git, *words], check=True)
    code.software.cache_clear()
    committed = code.software("no-such-distribution", "toy")
    assert committed.record_sha256 == found.record_sha256
    assert not committed.git.dirty
    assert len(committed.git.commit) == 40
    assert "example.org" not in str(committed)
    (site / "toy" / "__init__.py").write_text("x = 2\n")
    code.software.cache_clear()
    changed = code.software("no-such-distribution", "toy")
    assert changed.git.dirty
    assert changed.record_sha256 != found.record_sha256
    code.software.cache_clear()


def test_secrets_and_paths_of_settings_stay_out_and_the_hash_can_be_computed_again(tmp_path):
    from l2bench.agent import AgentSettings
    from l2bench.bundle.hashing import document_hash

    class KeeperSettings(AgentSettings):
        api_token: str = ""
        weights: str = ""
        rate: float = 0.1

    class Keeper(Stub):
        Settings: ClassVar = KeeperSettings

        def details(self):
            assert self.settings.api_token == "swordfish"  # the agent itself has it
            return {"loaded": "/home/bob/w.npz", "password": "swordfish"}

    settings = {"api_token": "swordfish", "weights": "/home/bob/w.npz"}
    suite = probe_suite(1, experts=True)
    run_suite(stubbed(Keeper), suite, "stub", tmp_path / "run", settings=settings)
    bundle = only(tmp_path / "run")
    text = b"".join(p.read_bytes() for p in bundle.folder.rglob("*") if p.is_file())
    host = f'"{os.uname().nodename}"'.encode()
    for word in (b"swordfish", b"bob", host, str(tmp_path).encode()):
        assert word not in text, word
    card = read_json(bundle.folder / "agent.json")
    assert card["settings"] == {"api_token": "[redacted]", "weights": "w.npz", "rate": 0.1}
    assert bundle.manifest.agent.agent_hash == document_hash("l2bench.agent.v1", card)


def test_unchanged_files_of_a_state_are_kept_once(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, small in ((one, "1"), (two, "2")):
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / "memory").write_bytes(b"m" * 1000)
        (folder / "small").write_text(small)
    known = state_digests(one)
    assert share(two, one, known) == state_digests(two)
    assert (two / "sub" / "memory").samefile(one / "sub" / "memory")
    assert not (two / "small").samefile(one / "small")
    assert listing_hash(state_digests(one)) != listing_hash(state_digests(two))
    assert share(two, None, {}) == state_digests(two)


def test_a_big_memory_is_stored_once_and_states_can_be_removed(tmp_path):
    places = []

    class Watched(Frugal):
        def act(self, observations, acting):
            found = list((tmp_path / "run").glob("*.l2b/work/agent/*/memory"))
            places.append((len(found), len({path.stat().st_ino for path in found})))
            return super().act(observations, acting)

    run_suite(stubbed(Watched), probe_suite(2, amount=8), "stub", tmp_path / "run")
    assert max(count for count, _ in places) >= 3
    assert {inodes for count, inodes in places if count} == {1}
    assert only(tmp_path / "run").manifest.status == "complete"


def test_models_are_frozen_and_strict():
    assert issubclass(Tuning, Model)
    with pytest.raises(ValueError, match="greater than 0"):
        Tuning(protocol="fraction", fraction=0)
    json.dumps(Tuning().model_dump(mode="json"))
