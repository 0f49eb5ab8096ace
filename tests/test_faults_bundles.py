"""Faults of resumption, records and packing that users of other benchmarks met."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from pathlib import Path

import numpy as np
import pytest
from stubs import Stub, stubbed
from support import ROOT, content_hashes, probe_suite, run_suite, scores_in, value

from l2bench.bundle.archive import open_archive, unpacked
from l2bench.bundle.copies import pack
from l2bench.bundle.files import read_json
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.cast import AgentSpec, Cast, Execution
from l2bench.errors import Incomplete, RunFailed

SMOKE = ["run", str(ROOT / "suites" / "quickstart.yaml"), "profile=smoke"]


def only(folder: Path):
    (path,) = find_bundles(folder)
    return read_bundle(path)


# -- resumption


def test_res_03_a_run_is_resumed_from_another_folder(cli, tmp_path, monkeypatch):
    """RES-03: a suite given by its file; from elsewhere it is found, or the place is named."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "my.yaml").write_text(json.dumps(probe_suite(1).resolved()))
    monkeypatch.chdir(here)
    code, _, errors = cli("run", "my.yaml", "agent=perfect", "-o", "run")
    assert code == 0, errors
    bundle = find_bundles(here / "run")[0]
    begun = read_json(bundle / "manifest.json")
    monkeypatch.chdir(there)
    code, _, errors = cli("run", "my.yaml", "agent=perfect", "-o", here / "run", "--resume")
    assert code == 2
    assert "my.yaml" in errors
    code, _, errors = cli("run", here / "my.yaml", "agent=perfect", "-o", here / "run", "--resume")
    assert code == 0, errors
    assert read_json(bundle / "manifest.json") == begun


class Stops(Stub):
    """Learns until it is told to stop."""

    after = 2
    lessons = 0

    def learn(self, lesson, task):
        Stops.lessons += 1
        if Stops.lessons > Stops.after:
            raise KeyboardInterrupt
        super().learn(lesson, task)


@pytest.fixture
def interrupted(tmp_path, monkeypatch) -> Path:
    """The folder of a run that was interrupted in its second task."""
    monkeypatch.setattr(Stops, "lessons", 0)
    with pytest.raises(KeyboardInterrupt):
        run_suite(stubbed(Stops), probe_suite(2), "stub", tmp_path / "run")
    monkeypatch.setattr(Stops, "after", 100)
    return tmp_path / "run"


def test_res_04_the_manifest_is_right_after_an_interrupt(interrupted):
    """RES-04: it parses, settings intact, status and counts true; no scores are given."""
    bundle = only(interrupted)
    counts = bundle.manifest.counts
    assert bundle.manifest.status == "interrupted"
    assert bundle.suite == probe_suite(2)
    assert bundle.agent.name == "l2bench/stub"
    assert 0 < counts.blocks_sealed < counts.blocks_planned
    journal = (bundle.folder / "work" / "journal.jsonl").read_text()
    assert counts.blocks_sealed == journal.count("\n")
    with pytest.raises(Incomplete, match="--resume"):
        _ = bundle.lifetime


def test_res_06_a_truncated_state_falls_back_to_the_one_before(interrupted):
    """RES-06: the newest checkpoint is cut; the one before is used, and events say so."""
    states = sorted(interrupted.glob("*.l2b/work/agent/*"))
    assert len(states) >= 2
    newest = states[-1] / "state"
    newest.unlink()
    newest.write_text("")
    run_suite(stubbed(Stops), probe_suite(2), "stub", interrupted, resume=True)
    bundle = only(interrupted)
    assert bundle.manifest.status == "complete"
    events = [json.loads(t) for t in (bundle.folder / "events.jsonl").read_text().splitlines()]
    assert any(event["event"] == "state_damaged" for event in events)


def test_res_08_the_finished_run_is_never_passed_over_in_silence(registry, tmp_path):
    """RES-08: beside an unfinished bundle, the finished one is not taken for the whole."""
    run_suite(registry, probe_suite(1, seeds=[0, 1]), "perfect", tmp_path / "run")
    newer = find_bundles(tmp_path / "run")[1]
    data = read_json(newer / "manifest.json")
    (newer / "manifest.json").write_text(json.dumps({**data, "status": "running"}))
    from l2bench.scoring import summarise

    with pytest.raises(Incomplete, match=f"{newer.name} is running"):
        summarise(find_bundles(tmp_path / "run"))
    (tmp_path / "run" / "empty.l2b").mkdir()
    assert len(find_bundles(tmp_path / "run")) == 2  # an empty folder is no run


def test_res_09_a_block_counts_once_however_often_the_journal_has_it(interrupted, tmp_path):
    """RES-09: lines that come again are cut and reported; the result is that of a clean run."""
    (journal,) = interrupted.glob("*.l2b/work/journal.jsonl")
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([*lines, *lines[-2:]]))
    run_suite(stubbed(Stops), probe_suite(2), "stub", interrupted, resume=True)
    events = (only(interrupted).folder / "events.jsonl").read_text()
    assert f'"event": "journal_cut", "kept_blocks": {len(lines)}' in events
    run_suite(stubbed(Stub), probe_suite(2), "stub", tmp_path / "clean")
    ours, clean = content_hashes(interrupted), content_hashes(tmp_path / "clean")
    assert ours == clean


def test_a_run_that_goes_on_with_other_code_says_so(interrupted, monkeypatch, caplog):
    from l2bench import records

    before = records.software("l2bench", "l2bench")
    changed = before._replace(record_sha256="0" * 64)
    monkeypatch.setattr(records, "software", lambda name, package: changed)
    run_suite(stubbed(Stops), probe_suite(2), "stub", interrupted, resume=True)
    bundle = only(interrupted)
    codes = [segment.code["l2bench"] for segment in bundle.provenance.segments]
    assert codes == [before.record_sha256, "0" * 64]
    assert (
        '"event": "drift", "distributions": ["l2bench"]'
        in (bundle.folder / "events.jsonl").read_text()
    )
    assert "goes on with other code than it began with: l2bench" in caplog.text


# -- results and records


def test_log_01_results_are_where_they_were_asked_for(cli, tmp_path):
    """LOG-01: a second run into the same place is refused, the first intact, the path printed."""
    arguments = (*SMOKE, f"execution.data={tmp_path / 'data'}", "-o", tmp_path / "run")
    code, output, errors = cli(*arguments)
    assert code == 0, errors
    assert output.splitlines()[-1].split()[-1] == str(tmp_path / "run")
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    code, output, errors = cli(*arguments)
    assert (code, output) == (2, "")
    assert {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()} == before


def test_log_03_undefined_values_are_null_with_a_reason(registry, tmp_path):
    """LOG-03: every document is strict JSON, and what is undefined says why."""
    run_suite(registry, probe_suite(1), "perfect", tmp_path / "run")
    for path in (tmp_path / "run").rglob("*.json"):
        read_json(path)
    metrics = scores_in(tmp_path / "run")["metrics"]
    undefined = [metric for metric in metrics if metric["value"] is None]
    assert undefined
    assert all(metric["undefined_reason"] for metric in undefined)


def test_log_04_experts_are_reused_by_content_and_the_log_says_so(registry, tmp_path):
    """LOG-04: the same protocol and agent: reused; another budget: run anew."""
    said = []
    for name, suite in (
        ("a", probe_suite(1, experts=True)), ("b", probe_suite(1, experts=True, title="Again")),
        ("c", probe_suite(1, experts=True, amount=8)),
    ):  # fmt: skip
        run_suite(registry, suite, "perfect", tmp_path / name)
        text = (only(tmp_path / name).folder / "events.jsonl").read_text()
        events = [json.loads(line) for line in text.splitlines()]
        said += [event["reused"] for event in events if event["event"] == "expert"]
    assert said == [False, True, False]


def test_log_06_everything_can_be_loaded_as_one_table(registry, cli, tmp_path):
    """LOG-06: one row per lifetime, task, block and metric, and as many as were scored."""
    import csv

    run_suite(registry, probe_suite(3, seeds=[0, 1]), "forgetter", tmp_path / "run")
    code, _, errors = cli("export", "csv", tmp_path / "run", "-o", tmp_path / "x.csv")
    assert code == 0, errors
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    scored = [read_bundle(path).scores["metrics"] for path in find_bundles(tmp_path / "run")]
    for metric in ("libero.FWT_k", "libero.AUC"):
        expected = sorted(m["value"] for each in scored for m in each if m["id"] == metric)
        found = sorted(float(row["value"]) for row in rows if row["metric"] == metric)
        assert found == pytest.approx(expected)


def test_log_07_a_null_stays_with_its_task(registry, tmp_path):
    """LOG-07: with experts for two of three tasks, the mean is over those two."""
    suite = probe_suite(3, experts=True, amount=20, metrics=["l2bench/l2m"])
    run_suite(registry, suite, "perfect", tmp_path / "all")
    experts = [e.folder for e in only(tmp_path / "all").experts if e.suite.tasks[0].id != "task-2"]
    cast = Cast.gather(registry, suite, AgentSpec(name="perfect"), Execution(data=tmp_path / "d"))
    from l2bench.lifetimes import Run

    Run(registry, cast).execute(
        tmp_path / "some", resume=False, progress=lambda *_: None, experts=experts
    )
    scores = scores_in(tmp_path / "some")
    each = [value(scores, "l2m.relative_performance_k", f"task-{k}") for k in (1, 2, 3)]
    assert each[1] is None
    assert value(scores, "l2m.relative_performance") == pytest.approx((each[0] + each[2]) / 2)
    whole = next(m for m in scores["metrics"] if m["id"] == "l2m.relative_performance")
    assert whole["n"] == 2


def test_log_10_nothing_needs_a_network_or_a_tracker(registry, tmp_path, monkeypatch):
    """LOG-10: a run, its scores and its report with the network blocked."""

    def refuse(*_, **__):
        raise AssertionError("the network was used")

    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse, raising=False)
    run_suite(registry, probe_suite(1), "perfect", tmp_path / "run")
    assert only(tmp_path / "run").scores["metrics"]
    assert not {"wandb", "tensorboard", "mlflow"} & set(sys.modules)


def test_log_12_only_numbers_are_recorded(tmp_path):
    """LOG-12: text is an error at the call; numpy numbers are accepted; NaN becomes null."""

    class Reports(Stub):
        loss: object = 0.0

        def learn(self, lesson, task):
            lesson.record(loss=self.loss, norm=np.int64(1))
            super().learn(lesson, task)

    for odd in ("oops", "1", None, [1.0]):
        Reports.loss = odd
        folder = tmp_path / f"run-{odd!r:.3}"
        with pytest.raises(RunFailed, match=r"record\(loss=.*not a number"):
            run_suite(stubbed(Reports), probe_suite(1), "stub", folder)
    Reports.loss = float("nan")
    run_suite(stubbed(Reports), probe_suite(1), "stub", tmp_path / "run")
    rows = only(tmp_path / "run").series.to_pylist()
    assert {(row["name"], row["value"]) for row in rows} == {("loss", None), ("norm", 1.0)}


def test_log_13_bundles_are_named_after_suite_agent_and_seed(registry, tmp_path):
    """LOG-13: two agents on one suite in one second: other names, the right agent in each."""
    found = {}
    for agent in ("perfect", "frozen"):
        run_suite(registry, probe_suite(1), agent, tmp_path / agent)
        bundle = only(tmp_path / agent)
        assert bundle.manifest.agent.name == f"l2bench/{agent}"
        assert bundle.folder.name.startswith(f"probe__l2bench-{agent}__s0__")
        assert bundle.folder.name.removesuffix(".l2b").endswith(bundle.manifest.bundle_id[:8])
        found[agent] = bundle.folder.name
    assert len(set(found.values())) == 2


# -- packing


def test_sub_02_an_empty_folder_is_not_a_result(cli, tmp_path):
    """SUB-02: nothing found is a failure, for every command that reads."""
    for command in (("score", tmp_path), ("bundle", "show", tmp_path), ("report", tmp_path)):
        code, output, errors = cli(*command)
        assert code == 1
        assert "0 bundles found" in errors
        assert output == ""


def test_sub_16_one_folder_around_a_packed_bundle_is_no_fault(registry, tmp_path):
    """SUB-16: an archive with an extra top folder, and one with files at the root, both read."""
    import zipfile

    run_suite(registry, probe_suite(1), "perfect", tmp_path / "run")
    bundle = only(tmp_path / "run")
    plain = tmp_path / "plain.l2b.zip"
    pack(bundle, plain)
    wrapped = tmp_path / "wrapped.l2b.zip"
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(wrapped, "w") as target:
        for name in source.namelist():
            target.writestr(f"some-folder/{name}", source.read(name))
    for path in (plain, wrapped):
        with_names = open_archive(path)
        assert "manifest.json" in with_names.names
        with_names.close()
        assert read_bundle(path).manifest == bundle.manifest
        assert read_bundle(path).folder == unpacked(path)
        assert read_bundle(path).scores == bundle.scores
    shutil.rmtree(unpacked(wrapped).parent)
    assert os.path.exists(plain)  # noqa: PTH110
