"""Each rule is broken on its own and gives exactly its code; what is sound gives nothing."""

from __future__ import annotations

import errno
import shutil
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from check import mutations
from check.corpus import Edit, another, pack, tiny_suite
from check.mutations import BUNDLE, SUBMISSION, edit_document, other_agent
from support import probe_suite, run_suite

from l2bench.bundle.reader import find_bundles
from l2bench.bundle.tables import SCHEMAS
from l2bench.check import tables
from l2bench.check.build import build_submission
from l2bench.check.bundle import Limits, check_bundle
from l2bench.check.codes import RULES
from l2bench.check.contribution import check_changes
from l2bench.check.paths import check_runs
from l2bench.check.submission import check_submission

ARCHIVES = {"A01", "A02", "A04", "A05", "A06", "A07"}  # in test_archives.py
BOARD = {"S02", "P01", "P02", "P03", "P04"}
RUNS = {"M05", "Q03", "Q04"}
FOLDERS = {"L02", "L04", "L05", "L06", "L08", "N01", "N02", "N05", "N06", "Q05", "I01"}


def codes(checked) -> set[str]:
    return {finding.code for finding in checked.findings}


def only(checked, code: str) -> None:
    """Exactly this code, with the exit code of its severity, and complete findings."""
    assert codes(checked) == {code}, [(f.code, f.path, f.message) for f in checked.findings]
    expected = 3 if code == "M02" else 1 if RULES[code].severity == "error" else 0
    assert checked.exit_code == expected
    for finding in checked.findings:
        assert finding.message and finding.hint and finding.title
        assert finding.severity == RULES[code].severity


def test_every_rule_has_a_mutation(capsys):
    covered = {*BUNDLE, *SUBMISSION} | ARCHIVES | BOARD | RUNS | FOLDERS
    assert covered == set(RULES)
    with capsys.disabled():
        print(f"\n{len(covered)} rules, each broken by a mutation of its own")  # noqa: T201
    assert len(RULES) >= 60


def test_what_is_sound_has_no_findings(sound, sound_submission, board):
    for bundle in find_bundles(sound):
        checked = check_bundle(bundle)
        assert (checked.findings, checked.exit_code, checked.tier) == ((), 0, "consistent")
    assert check_runs(sound, isolated=False).findings == ()
    for against in (None, board()):
        checked = check_submission(sound_submission, against)
        assert (checked.findings, checked.exit_code, checked.tier) == ((), 0, "consistent")
        assert checked.summary["n_lifetimes"] == len(checked.bundles) == 2


def test_the_tools_of_the_mutations_break_nothing_by_themselves(edit):
    edit.recount()
    edit.reseed()
    edit.seal()
    assert check_bundle(edit.folder, isolated=False).findings == ()


@pytest.mark.parametrize("code", sorted(BUNDLE))
def test_a_spoilt_bundle_gives_its_code_alone(edit, code):
    BUNDLE[code](edit)
    only(check_bundle(edit.folder, isolated=False), code)


@pytest.mark.parametrize("code", sorted(SUBMISSION))
def test_a_spoilt_document_gives_its_code_alone(submission, code):
    edit_document(submission, SUBMISSION[code])
    only(check_submission(submission, isolated=False), code)


def test_traces_are_those_of_the_lot_R08(edit):
    rows = edit.rows("traces")
    first = tuple(rows[0][key] for key in ("block_index", "task_index", "episode_index"))
    own = [row for row in rows if tuple(row.values())[:3] == first]
    rest = [row for row in rows if tuple(row.values())[:3] != first]
    assert own and rest
    taken = {tuple(row.values())[:3] for row in rows}
    free = next(key for key in ((0, 0, at) for at in range(4)) if key not in taken)
    keys = dict(zip(("block_index", "task_index", "episode_index"), free, strict=True))
    more = sorted(
        [*rows, *({**row, **keys} for row in own)], key=lambda row: tuple(row.values())[:4]
    )
    changed = [{**own[0], "reward": own[0]["reward"] + 0.5}, *own[1:], *rest]
    for spoilt in (rest, more, changed, [{**rows[0], "step": 999}, *rows[1:]]):
        edit.put("traces", sorted(spoilt, key=lambda row: tuple(row.values())[:4]))
        edit.seal()
        only(check_bundle(edit.folder, isolated=False), "R08")
    edit.untrace()
    edit.seal()
    assert check_bundle(edit.folder, isolated=False).findings == ()


BOARDS = {
    "P01": {"plugins": [{"distribution": "l2bench", "version": "0.0.9"}]},
    "P02": {"plugins": [{"distribution": "l2bench", "version": "0.1.0",
                         "record_sha256": ["0" * 64]}]},
    "P03": {"accept_editable": False},
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(BOARDS))
def test_plugins_are_those_of_the_board(edit, board, code):
    changes = dict(BOARDS[code])
    for plugin in edit.manifest["plugins"]:
        plugin |= {"editable": code == "P03", "git": None, "record_sha256": "1" * 64}
        plugin["version"] = "0.1.0"
    edit.refile()
    if code == "P03":
        changes["plugins"] = [{"distribution": "l2bench", "version": "0.1.0"}]
    checked = check_bundle(edit.folder, board(**changes), isolated=False)
    only(checked, code)


def test_PLG_04_files_changed_after_installation_are_P02(edit, board):
    edit.manifest["plugins"][0] |= {"modified_files": 2, "editable": False, "git": None}
    edit.refile()
    only(check_bundle(edit.folder, board(), isolated=False), "P02")


def test_an_agent_from_elsewhere_is_P04(edit, board):
    for plugin in edit.manifest["plugins"]:
        if plugin["kind"] == "agent":
            plugin["distribution"] = "their-agents"
    edit.refile()
    only(check_bundle(edit.folder, board(), isolated=False), "P04")


def test_a_suite_that_is_not_the_registered_one_is_S02(bundle, board, tmp_path):
    from check.corpus import board_document, write_board

    from l2bench.check.board import Board

    other = tiny_suite(scenario={**tiny_suite().scenario.model_dump(mode="json"), "episodes": 5})
    document = board_document(other, Edit(bundle).manifest)
    against = Board.load(write_board(tmp_path / "other", other, document))
    checked = check_bundle(bundle, against, isolated=False)
    only(checked, "S02")
    assert "scenario.episodes" in checked.findings[0].message
    unknown = board_document(other, Edit(bundle).manifest)
    unknown["suites"][0]["version"] = "2.0"
    against = Board.load(write_board(tmp_path / "unknown", other, unknown))
    only(check_bundle(bundle, against, isolated=False), "S02")


def test_a_bundle_twice_is_M05(runs):
    first = find_bundles(runs)[0]
    shutil.copytree(first, runs / f"copy-{first.name}")
    (runs / "summary.json").unlink()
    only(check_runs(runs, isolated=False), "M05")


def test_a_copied_lifetime_is_Q03(runs):
    first, second = find_bundles(runs)
    shutil.rmtree(second)
    (runs / "summary.json").unlink()
    another(first, second, seed=1)
    only(check_runs(runs, isolated=False), "Q03")


def test_a_lifetime_much_like_another_is_Q04(runs):
    first, second = find_bundles(runs)
    shutil.rmtree(second)
    (runs / "summary.json").unlink()
    another(first, second, seed=1, jitter=True)
    edit = Edit(second)
    mutations.change_row(edit, "episodes", 0, **{"return": edit.rows("episodes")[0]["return"] + 1})
    edit.seal()
    only(check_runs(runs, isolated=False), "Q04")


def test_a_submission_without_runs_is_L02(submission):
    shutil.rmtree(submission / "runs")
    edit_document(submission, lambda data: data.update(runs=[], metrics=[]))
    checked = check_submission(submission)
    only(checked, "L02")
    assert "0 bundles found" in checked.findings[0].message


def test_a_large_file_is_L04(submission):
    (submission / "README.md").write_text("x" * (2 << 20))
    only(check_submission(submission, isolated=False), "L04")


def test_files_that_are_not_listed_or_missing_are_L08(submission):
    (submission / "notes.txt").write_text("hello")
    only(check_submission(submission, isolated=False), "L08")
    (submission / "notes.txt").unlink()
    (submission / "README.md").unlink()
    only(check_submission(submission, isolated=False), "L08")


def drop_run(data) -> None:
    data["runs"].pop()
    data["metrics"] = []


def test_a_missing_seed_is_N01(submission):
    edit_document(submission, drop_run)
    sorted((submission / "runs").iterdir())[1].unlink()
    only(check_submission(submission, isolated=False), "N01")


def add_run(folder: Path, bundle: Path, seed: int) -> None:
    from l2bench.bundle.hashing import file_hash

    pack(bundle, folder / "runs" / f"{bundle.name}.zip")
    entry = {
        "path": f"runs/{bundle.name}.zip",
        "seed": seed,
        "manifest_sha256": file_hash(bundle / "manifest.json"),
    }
    edit_document(folder, lambda d: (d["runs"].append(entry), d.update(metrics=[])))


def test_a_seed_twice_is_N02(submission, sound, tmp_path):
    again = another(find_bundles(sound)[0], tmp_path / "again.l2b", jitter=True)
    add_run(submission, again, 0)
    only(check_submission(submission, isolated=False), "N02")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (pa.ArrowException("Unknown error: Failed to launch worker thread: Resource ..."), "I01"),
        (pa.ArrowMemoryError("malloc of size 64 failed"), "I01"),
        (OSError(errno.EMFILE, "Too many open files"), "I01"),
        (OSError(errno.EAGAIN, "Resource temporarily unavailable"), "I01"),
        (pa.ArrowInvalid("Parquet magic bytes not found in footer"), "R01"),
        (OSError("Couldn't deserialize thrift"), "R01"),
    ],
)
def test_what_the_check_lacks_is_not_held_against_the_table(bundle, monkeypatch, error, code):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(tables.pq, "ParquetFile", fail)
    checked = check_bundle(bundle, isolated=False)
    assert {finding.code for finding in checked.errors} == {code}
    assert str(error).split(":")[0] in checked.errors[0].message


def test_a_seed_beyond_the_suite_is_N06_unless_it_is_declared(registry, tmp_path):
    suite, runs = probe_suite(2, seeds=[0], metrics=["l2bench/libero"]), tmp_path / "runs"
    run_suite(registry, suite, "late_bloomer", runs, seeds=[0, 66])
    within, beyond = find_bundles(runs)
    assert check_bundle(within, isolated=False).findings == ()
    checked = check_bundle(beyond, isolated=False)
    only(checked, "N06")
    assert "seed 66 is not one of the suite" in checked.findings[0].message
    about = {"name": "x", "submitter": "lab", "tuning": {"protocol": "none"}}
    for number, extra in enumerate(([66], [])):
        place = tmp_path / f"submission-{number}"
        built = build_submission([runs], place, {**about, "extra_seeds": extra}, isolated=False)
        assert ("N06" in codes(built.checked)) is (not extra)
        assert built.kept is bool(extra), built.checked.errors


def test_runs_of_two_agents_are_N05(submission, runs):
    edit_document(submission, drop_run)
    sorted((submission / "runs").iterdir())[1].unlink()
    second = find_bundles(runs)[1]
    other_agent(second)
    add_run(submission, second, 1)
    only(check_submission(submission, isolated=False), "N05")


def test_runs_of_two_major_releases_are_N05(submission, runs):
    edit_document(submission, drop_run)
    sorted((submission / "runs").iterdir())[1].unlink()
    edit = Edit(find_bundles(runs)[1])
    edit.manifest["l2bench"]["version"] = "7.0.0"
    edit.refile()
    add_run(submission, edit.folder, 1)
    only(check_submission(submission, isolated=False), "N05")


def accepted(board, submission: Path, submitter: str = "others", day: str = "2026-01-30") -> Path:
    """Put a copy of a submission onto the board as somebody's."""
    name = f"{day.replace('-', '')}_{submitter}_l2bench-tabular"
    place = board.submissions / "tiny" / "1.0" / name
    shutil.copytree(submission, place)
    edit_document(place, lambda data: data.update(submitter=submitter, date=day))
    return place


def test_somebody_elses_runs_are_Q05(submission, board):
    against = board()
    accepted(against, submission)
    checked = check_submission(submission, against, isolated=False)
    only(checked, "Q05")
    assert "others" in checked.findings[0].message


def test_the_same_agent_run_again_by_others_is_no_copy(registry, submission, board, tmp_path):
    from support import run_suite

    run_suite(registry, tiny_suite(), "tabular", tmp_path / "again")
    about = {"name": "Again", "submitter": "others", "date": "2026-01-30"}
    against = board()
    place = against.submissions / "tiny" / "1.0" / "20260130_others_l2bench-tabular"
    assert (
        build_submission([tmp_path / "again"], place, about, isolated=False).checked.findings == ()
    )
    assert check_submission(submission, against, isolated=False).findings == ()


def test_accepted_entries_stay_as_they_are_L06(submission, board):
    against = board()
    place = accepted(against, submission, "lab", "2026-01-31")
    only(check_submission(submission, against, isolated=False), "L06")
    assert check_submission(place, against, isolated=False).findings == ()
    lines = [f"M\tboard/submissions/{place.relative_to(against.submissions)}/README.md"]
    assert [f.code for f in check_changes(lines, against)] == ["L06"]


def test_only_ones_own_entries_are_superseded_L06(submission, board):
    against = board()
    mine = accepted(against, submission, "lab", "2026-01-01").name
    theirs = against.submissions / "tiny" / "1.0" / "20260130_others_l2bench-tabular"
    theirs.mkdir()
    edit_document(submission, lambda data: data.update(supersedes=mine))
    assert check_submission(submission, against, isolated=False).findings == ()
    edit_document(submission, lambda data: data.update(supersedes=theirs.name))
    only(check_submission(submission, against, isolated=False), "L06")


def test_a_contribution_changes_one_folder_L05(board):
    against = board()
    fine = ["A\tx/submissions/tiny/1.0/a/submission.json", "A\tx/submissions/tiny/1.0/a/runs/r.zip"]
    assert check_changes(fine, against) == []
    for more in (
        "M\tl2bench/scoring.py",
        "A\tx/submissions/tiny/1.0/b/README.md",
        "R100\tx/submissions/tiny/1.0/a/x\tMakefile",
        "A\tsubmissions/../../x/y/z",
    ):
        assert [f.code for f in check_changes([*fine, more], against)] == ["L05"]


def test_the_place_of_a_submission_is_what_it_says_L01(submission, board):
    against = board()
    place = accepted(against, submission, "lab", "2026-01-31")
    moved = place.rename(place.with_name("20260131_somebody_else"))
    only(check_submission(moved, against, isolated=False), "L01")


def test_what_takes_too_much_or_crashes_is_I01(edit, monkeypatch):
    only(check_bundle(edit.folder, limits=Limits(seconds=0.01)), "I01")
    monkeypatch.setattr("l2bench.check.isolation.BODY", "import os; os.abort()")
    crashed = check_bundle(edit.folder)
    only(crashed, "I01")
    assert "crashed with signal 6" in crashed.findings[0].message


def test_a_table_that_fills_the_memory_is_I01(edit):
    limits = Limits(memory=640 << 20)  # enough without that table
    assert check_bundle(edit.folder, limits=limits).findings == ()
    count = 4_900_000
    index = pa.array(np.zeros(count, dtype=np.int32))
    words = pa.DictionaryArray.from_arrays(index, ["loss"])
    zeros = pa.array(np.zeros(count, dtype=np.int64))
    columns = [index, zeros, words, pa.array(np.zeros(count))]
    edit.replace_table("series", pa.Table.from_arrays(columns, schema=SCHEMAS["series"]))
    edit.refile()
    size = (edit.folder / "tables" / "series.parquet").stat().st_size
    assert size < 100_000
    only(check_bundle(edit.folder, limits=limits), "I01")


def test_waivers_come_from_the_board_alone_and_run_out(submission, board):
    waiver = {"code": "N04", "submission": "tiny/1.0/20260131_lab_l2bench-tabular",
              "reason": "before the rule", "by": "maintainer", "until": "2026-06-30"}  # fmt: skip
    edit_document(submission, SUBMISSION["N04"])
    against = board(waivers=[waiver])
    checked = check_submission(submission, against, today=date(2026, 6, 30), isolated=False)
    assert (checked.findings, checked.exit_code) == ((), 0)
    assert [each.finding.code for each in checked.waived] == ["N04"]
    late = check_submission(submission, against, today=date(2026, 7, 1), isolated=False)
    only(late, "N04")
    edit_document(submission, lambda data: data.update(waivers=[waiver]))
    only(check_submission(submission, against, today=date(2026, 6, 1), isolated=False), "L07")
