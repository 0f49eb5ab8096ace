"""The commands: what they accept, print and end with, and what users of checkers run into."""

from __future__ import annotations

import json
import shutil
import zipfile

import pytest
from check.corpus import Edit, pack, tiny_suite
from check.mutations import BUNDLE, SUBMISSION, edit_document
from interop.builders import l2logger_folder, log_rows
from support import ROOT, probe_suite, run_suite

from l2bench.bundle.reader import find_bundles
from l2bench.check.build import build_submission
from l2bench.check.bundle import check_bundle
from l2bench.check.submission import check_submission
from l2bench.errors import RunFailed


def build(cli, *arguments):
    return cli("submission", "build", *arguments)


def test_a_folder_of_runs_an_archive_and_a_submission_are_accepted(
    cli, sound, sound_submission, tmp_path
):
    archive = pack(find_bundles(sound)[0], tmp_path / "x.l2b.zip")
    code, out, _ = cli("check", sound, archive, sound_submission)
    assert code == 0
    assert out.splitlines() == [
        f"{sound}: 0 errors, 0 warnings, 2 bundles scored, consistent",
        f"{archive}: 0 errors, 0 warnings, 1 bundle scored, consistent",
        f"{sound_submission}: 0 errors, 0 warnings, 2 bundles scored, consistent",
    ]


@pytest.mark.parametrize("code", ["M02", "R04", "C05", "X01", "S03"])
def test_a_finding_says_where_what_and_what_to_do(cli, edit, code):
    """SUB-05: code, path, expected, found and a hint; warnings apart from errors; JSON too."""
    BUNDLE[code](edit)
    exit_code, out, _ = cli("check", edit.folder)
    first, hint, *_ = out.splitlines()
    severity = "warning" if code == "C05" else "error"
    assert first.startswith(f"{code} {severity} {edit.folder}/")
    assert "expected: " in first and "found: " in first
    assert hint.startswith("    ")
    assert exit_code == {"M02": 3, "C05": 0}.get(code, 1)
    again, out, _ = cli("check", edit.folder, "--json")
    document = json.loads(out)
    assert (again, document["exit_code"], document["ok"]) == (exit_code, exit_code, not exit_code)
    (finding,) = document["checked"][0]["findings"]
    assert set(finding) == {"code", "severity", "path", "row", "message", "expected", "found",
                            "hint"}  # fmt: skip


def test_SUB_01_and_SUB_08_one_checker_whose_version_is_in_the_verdict(cli, submission):
    edit_document(submission, SUBMISSION["X02"])
    _, one, _ = cli("check", submission, "--json")
    _, other, _ = cli("submission", "check", submission, "--json")
    assert one == other
    import l2bench

    assert json.loads(one)["l2bench"] == l2bench.__version__
    direct = check_submission(submission)
    assert [f.data() for f in direct.findings] == json.loads(one)["checked"][0]["findings"]
    for version in ("99.0", "0.9"):
        edit_document(submission, lambda data, v=version: data.update(format_version=v))
        code, out, _ = cli("check", submission)
        assert code == 3 and "this release reads 1.0" in out


def test_SUB_02_and_CFG_01_nothing_found_fails(cli, tmp_path):
    code, _, errors = cli("check", tmp_path)
    assert (code, "0 bundles found" in errors) == (1, True)
    code, _, errors = cli("check")
    assert (code, "0 bundles found" in errors) == (1, True)
    code, _, errors = cli("check", tmp_path / "missing")
    assert (code, "does not exist" in errors) == (2, True)
    code, _, errors = cli("submission", "check", tmp_path)
    assert code == 1 and "expected submission.json, README.md and runs/*.l2b.zip" in errors


@pytest.mark.parametrize(
    ("source", "unit", "scenario"),
    [
        ("interaction", "steps", {}),
        ("interaction", "episodes", {"kind": "interleaved", "rounds": 2}),
        ("samples", "epochs", {}),
        ("samples", "samples", {"pretest": True, "evaluate": "all"}),
        ("demonstrations", "epochs", {"keep": "last", "rounds": 2, "order": "shuffled"}),
        ("interaction", "episodes", {"kind": "blocks", "blocks": [
            {"evaluate": "all"}, {"learn": "task-2"}, {"evaluate": ["task-1"]}]}),
        ("interaction", "episodes", {"reveal": []}),
    ],
)  # fmt: skip
def test_SUB_04_a_bundle_of_any_suite_is_sound(registry, tmp_path, source, unit, scenario):
    every = None if "blocks" in scenario or scenario.get("kind") == "interleaved" else 2
    suite = probe_suite(3, source=source, unit=unit, every=every, scenario=scenario)
    run_suite(registry, suite, "late_bloomer", tmp_path / "runs")
    for bundle in find_bundles(tmp_path / "runs"):
        assert check_bundle(bundle, isolated=False).findings == ()


def test_SUB_06_blank_fields_and_an_empty_readme_are_refused(submission):
    for field, text in (("name", "  "), ("submitter", ""), ("compute", "x" * 3000)):
        copy = json.loads((submission / "submission.json").read_text())
        edit_document(submission, lambda data, f=field, t=text: data.update({f: t}))
        checked = check_submission(submission, isolated=False)
        assert {f.code for f in checked.errors} == {"L07"}
        assert checked.runs == {}
        (submission / "submission.json").write_text(json.dumps(copy))
    (submission / "README.md").write_text(" \n")
    assert {f.code for f in check_submission(submission, isolated=False).errors} == {"L07"}


def test_SUB_07_one_bad_run_does_not_spoil_the_others(cli, runs, tmp_path):
    BUNDLE["X01"](Edit(find_bundles(runs)[0]))
    about = ("--name", "Mine", "--submitter", "lab")
    code, _, errors = build(cli, runs, "-o", tmp_path / "x", *about)
    assert code == 1 and "1 bundles have errors" in errors and "--valid-only" in errors
    assert [p.name for p in tmp_path.iterdir()] == ["runs"]
    code, out, errors = build(cli, runs, "-o", tmp_path / "x", *about, "--valid-only")
    assert code == 4 and "left out:" in errors and "N01" in out
    assert len(list((tmp_path / "x" / "runs").iterdir())) == 1


def test_nothing_is_left_of_a_submission_with_errors(cli, runs, tmp_path):
    first, *_ = find_bundles(runs)
    about = ("-o", tmp_path / "x", "--name", "Mine", "--submitter", "lab")
    code, out, _ = build(cli, first, *about)
    assert code == 1 and "N01" in out and "submission  not written" in out
    code, out, _ = build(cli, first, *about, "--json")
    assert code == 1 and json.loads(out)["folder"] is None
    assert [p.name for p in tmp_path.iterdir()] == ["runs"]
    code, out, _ = build(cli, runs, *about)
    assert code == 0 and f"submission  {tmp_path / 'x'}" in out


def test_SUB_12_perfect_scores_and_declared_tuning(edit, submission):
    BUNDLE["Q07"](edit)
    checked = check_bundle(edit.folder, isolated=False)
    assert {f.code for f in checked.warnings} == {"Q07"} and not checked.errors
    edit_document(submission, SUBMISSION["N04"])
    assert {f.code for f in check_submission(submission, isolated=False).errors} == {"N04"}


def test_SUB_14_a_headline_without_a_value_is_an_error_not_a_blank(submission):
    edit_document(submission, lambda data: data["metrics"][0].update(value=None))
    assert {f.code for f in check_submission(submission, isolated=False).errors} == {"X02"}
    edit_document(submission, lambda data: data["metrics"][0].update(id="libero.FWT2"))
    assert {f.code for f in check_submission(submission, isolated=False).errors} == {"X03"}


def test_SUB_16_one_folder_too_many_is_accepted(submission, tmp_path):
    wrapped = tmp_path / "wrapped"
    wrapped.mkdir()
    submission.rename(wrapped / "inner")
    assert check_submission(wrapped, isolated=False).findings == ()
    (wrapped / "inner" / "submission.json").unlink()
    codes = {f.code for f in check_submission(wrapped, isolated=False).errors}
    assert codes == {"L07"}


def test_EVAL_01_initial_states_follow_from_the_episode(edit):
    rows = edit.rows("episodes")
    for row in rows:
        row["init_state"] = row["episode_index"]
    edit.put("episodes", rows)
    edit.seal()
    assert check_bundle(edit.folder, isolated=False).findings == ()
    rows[0]["init_state"] = 2
    edit.put("episodes", rows)
    edit.seal()
    assert {f.code for f in check_bundle(edit.folder, isolated=False).findings} == {"R04"}


def test_EVAL_02_another_horizon_is_a_deviation_and_not_the_registered_suite(bundle, board):
    tasks = [{**task, "horizon": 100} for task in tiny_suite().resolved()["tasks"]]
    edit = Edit(bundle)
    edit.resuite(tiny_suite(tasks=tasks))
    edit.manifest["suite"] |= {"division": "open", "deviations": ["tasks.*.horizon"]}
    edit.refile()
    checked = check_bundle(bundle, board(), isolated=False)
    assert not {f.code for f in checked.findings} & {"S01", "S02", "S06"}
    edit.manifest["suite"] |= {"division": "closed", "deviations": []}
    edit.refile()
    assert "S02" in {f.code for f in check_bundle(bundle, board(), isolated=False).findings}


def test_EVAL_03_and_04_ends_and_success_are_told_apart(edit):
    for change in ({"terminated": True, "truncated": True},
                   {"terminated": False, "truncated": False}, {"score": 1.5}):  # fmt: skip
        rows = edit.rows("episodes")
        before = dict(rows[0])
        rows[0] |= change
        edit.put("episodes", rows)
        edit.seal()
        assert "Q01" in {f.code for f in check_bundle(edit.folder, isolated=False).findings}
        rows[0] = before
        edit.put("episodes", rows)


def test_EVAL_07_it_is_said_which_checkpoint_goes_on(edit):
    rows = edit.rows("blocks")
    for row in rows:
        row["selected_checkpoint"] = None
    edit.put("blocks", rows)
    edit.seal()
    assert {f.code for f in check_bundle(edit.folder, isolated=False).findings} == {"S05"}


def test_RES_04_an_unfinished_lifetime_is_not_complete(edit):
    for status in ("running", "interrupted", "failed"):
        edit.manifest["status"] = status
        edit.refile()
        checked = check_bundle(edit.folder, isolated=False)
        assert {f.code for f in checked.findings} == {"M03"} and checked.tier is None


def test_imports_are_reported_and_never_more(cli, tmp_path):
    out = tmp_path / "libero.l2b"
    assert cli("import", "libero", ROOT / "tests/interop/data/libero", "-o", out)[0] == 0
    rows = log_rows(("E", "a_1", [0.1]), ("L", "a_1", [0.2, 0.4]), ("E", "a_1", [0.6, 0.8]))
    log = l2logger_folder(tmp_path / "log", rows)
    raw = tmp_path / "log.l2b"
    assert cli("import", "l2logger", log, "-o", raw)[0] == 0
    for bundle in (out, raw):
        checked = check_bundle(bundle, isolated=False)
        assert (checked.findings, checked.tier) == ((), "reported")
        edit = Edit(bundle)
        scores = edit.document("scores.json")
        metric = next(m for m in scores["metrics"] if m["value"] is not None)
        metric["value"] += 0.1
        edit.write("scores.json", scores)
        edit.refile()
        assert {f.code for f in check_bundle(bundle, isolated=False).findings} == {"X01"}


def test_LOG_08_an_incomplete_import_is_remarked_on(cli, tmp_path):
    rows = log_rows(("E", "a_1", [0.1]), ("L", "a_1", [0.2, 0.4]), ("E", "a_1", [0.6, 0.8]))
    log = l2logger_folder(tmp_path / "log", rows)
    path = log / "worker-default" / "2-test" / "data-log.tsv"
    path.write_text(path.read_text()[:-5])
    assert cli("import", "l2logger", log, "-o", tmp_path / "x.l2b")[0] == 4
    checked = check_bundle(tmp_path / "x.l2b", isolated=False)
    assert {f.code for f in checked.findings} == {"M07"} and checked.exit_code == 0
    assert all(m["value"] is None for m in checked.bundles[0].scores["metrics"]
               if m["scope"] == "lifetime")  # fmt: skip


def test_an_edited_summary_is_X02(cli, runs):
    path = runs / "summary.json"
    summary = json.loads(path.read_text())
    metric = next(m for m in summary["metrics"] if m["mean"] is not None)
    metric["mean"] += 0.01
    path.write_text(json.dumps(summary))
    code, out, _ = cli("check", runs)
    assert code == 1 and out.startswith(f"X02 error {runs}/summary.json")


def test_submissions_are_the_same_bytes_each_time(cli, sound, tmp_path):
    about = tmp_path / "about.yaml"
    about.write_text("name: Mine\nsubmitter: lab\ndate: 2026-01-31\nagent: {licence: MIT}\n")
    for name in ("a", "b"):
        assert build(cli, sound, "-o", tmp_path / name, "--from", about)[0] == 0
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.*"))
    assert len(files) == 4
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    for archive in (tmp_path / "a" / "runs").iterdir():
        assert zipfile.ZipFile(archive).testzip() is None
    document = json.loads((tmp_path / "a" / "submission.json").read_text())
    assert document["agent"]["licence"] == "MIT" and document["agent"]["name"] == "l2bench/tabular"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: a\nname: b\n", "'name' is given twice"),
        ("a: &x [1]\nb: *x\n", "YAML aliases"),
        ("a: !!python/object:os.system []\n", "cannot be read as YAML"),
        ("- a\n", "should hold names and values"),
        ("nme: x\nsubmitter: lab\n", "unknown key 'nme' (did you mean 'name'?)"),
        ("name: x\nsubmitter: A B\n", "'submitter'"),
    ],
)
def test_CFG_09_what_is_said_of_a_submission_is_checked_before_anything_is_written(
    cli, sound, tmp_path, text, words
):
    (tmp_path / "about.yaml").write_text(text)
    out = tmp_path / "out"
    code, _, errors = build(cli, sound, "-o", out, "--from", tmp_path / "about.yaml")
    assert (code, words in errors) == (2, True), errors
    assert [p.name for p in tmp_path.iterdir()] == ["about.yaml"]


def test_an_existing_folder_stays_as_it_is(cli, sound, tmp_path):
    (tmp_path / "mine").mkdir()
    code, _, errors = build(cli, sound, "-o", tmp_path / "mine", "--name", "x", "--submitter", "y")
    assert code == 2 and "exists already" in errors
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_failed_write_leaves_nothing(sound, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("l2bench.check.build.write_json", full)
    from l2bench.errors import RunFailed

    with pytest.raises(RunFailed, match="No space left"):
        build_submission([sound], tmp_path / "x", {"name": "x", "submitter": "y"})
    assert list(tmp_path.iterdir()) == []


def test_hostile_words_reach_no_terminal(cli, edit, submission):
    edit_document(submission, lambda data: data["agent"].update(code_url="\x1b[2J\u202ejavascript"))
    _, out, _ = cli("check", submission)
    assert "\x1b" not in out and "\u202e" not in out
    edit.manifest["references"][0]["task"] = "\x1b[31m" + "x" * 5000
    shutil.rmtree(edit.folder / edit.manifest["references"][0]["path"])
    edit.refile()
    _, out, _ = cli("check", edit.folder)
    assert "\x1b" not in out and max(map(len, out.splitlines())) < 2000


def test_changes_are_read_from_a_file(cli, board, tmp_path):
    folder = board().folder
    (tmp_path / "changes").write_text("A\tsubmissions/tiny/1.0/x/README.md\nM\tl2bench/errors.py\n")
    code, out, _ = cli("check", "--board", folder, "--changes", tmp_path / "changes")
    assert code == 1 and out.startswith("L05 error ./l2bench/errors.py")
    assert cli("check", "--changes", tmp_path / "changes")[0] == 2
    (tmp_path / "changes").write_text("what is this")
    assert cli("check", "--board", folder, "--changes", tmp_path / "changes")[0] == 2


def test_a_board_that_is_none_is_a_usage_error(cli, sound, tmp_path):
    code, _, errors = cli("check", sound, "--board", tmp_path)
    assert code == 2 and "no board.json" in errors


def test_CFG_04_an_unknown_option_is_refused(cli, sound):
    code, _, errors = cli("check", "--bord", sound, sound)
    assert code == 2 and "--bord" in errors and "--board" in errors


def test_SEED_01_and_REN_08_what_the_probe_of_a_task_found_counts(edit):
    for code in ("Q13", "P06"):
        BUNDLE[code](edit)
        assert {f.code for f in check_bundle(edit.folder, isolated=False).findings} == {code}


def test_a_scrubbed_copy_is_as_sound_as_the_original(cli, sound, tmp_path):
    out = tmp_path / "scrubbed.l2b"
    assert cli("bundle", "scrub", find_bundles(sound)[0], "-o", out)[0] == 0
    assert check_bundle(out, isolated=False).findings == ()


def test_a_run_needs_a_plain_name_of_its_own(cli, sound, tmp_path):
    first = find_bundles(sound)[0]
    for place, name in (("a", "new\nline.l2b"), ("b", "same.l2b"), ("c", "same.l2b")):
        shutil.copytree(first, tmp_path / place / name)
    about = ("-o", tmp_path / "x", "--name", "x", "--submitter", "a")
    code, _, errors = build(cli, tmp_path / "a" / "new\nline.l2b", *about)
    assert (code, "rename its folder" in errors) == (2, True), errors
    code, _, errors = build(cli, tmp_path / "b", tmp_path / "c", *about)
    assert (code, "two bundles are called 'same.l2b'" in errors) == (2, True), errors
    assert not (tmp_path / "x").exists()


def test_a_full_disk_of_the_checker_is_no_fault_of_the_bundle(sound, tmp_path, monkeypatch):
    import l2bench.check.bundle as checking
    import l2bench.check.isolation as isolation

    archive = pack(find_bundles(sound)[0], tmp_path / "x.l2b.zip")

    def full(*_):
        raise RunFailed("cannot write x: no space left")

    with monkeypatch.context() as patch:
        patch.setattr(checking, "extract_archive", full)
        with pytest.raises(RunFailed, match="no space"):
            check_bundle(archive, isolated=False)
    body = 'import json, sys; json.load(sys.stdin); print(\'{"failed": "no space left"}\')'
    monkeypatch.setattr(isolation, "BODY", body)
    with pytest.raises(RunFailed, match="no space"):
        check_bundle(archive)
