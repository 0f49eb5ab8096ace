"""The workflow for boards on GitHub: a pull request is data, and nothing in it is run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import ROOT

from l2bench.check.board import Board

FOLDER = ROOT / "leaderboards" / "workflow"
FILES = sorted(FOLDER.glob("*.yml"))

#: What of an event a stranger cannot choose.
TRUSTED = {
    "github.event.pull_request.base.sha",
    "github.event.pull_request.number",
    "github.event.workflow_run.id",
    "github.token",
}


def read(path):
    return yaml.safe_load(path.read_text())


def events(workflow):
    return workflow[True]  # YAML 1.1 reads "on" as true


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def named(path, name):
    return next(step for step in steps(read(path)) if step["name"] == name)


def test_there_are_two(tmp_path):
    assert [path.name for path in FILES] == ["check-submission.yml", "comment-findings.yml"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_workflow_runs_a_stranger_with_rights(path):
    workflow = read(path)
    assert "pull_request_target" not in path.read_text()
    assert "issue_comment" not in events(workflow)
    assert "secrets." not in path.read_text()
    assert workflow["permissions"] != "write-all"
    for job in workflow["jobs"].values():
        assert "permissions" not in job
        assert job["timeout-minutes"] <= 30
        assert "self-hosted" not in str(job["runs-on"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_that_strangers_write_is_put_into_a_command_or_script(path):
    for step in steps(read(path)):
        assert "${{" not in step.get("run", "")
        assert "${{" not in step.get("with", {}).get("script", "")
    for used in re.findall(r"\$\{\{\s*(.*?)\s*\}\}", path.read_text()):
        assert used in TRUSTED, used


def test_the_check_can_only_read():
    workflow = read(FOLDER / "check-submission.yml")
    assert set(events(workflow)) == {"pull_request"}
    assert workflow["permissions"] == {"contents": "read"}
    checkouts = [s for s in steps(workflow) if s.get("uses", "").startswith("actions/checkout")]
    assert len(checkouts) == 2
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    assert {step["with"]["path"] for step in checkouts} == {"board", "proposed"}
    assert checkouts[0]["with"]["ref"] == "${{ github.event.pull_request.base.sha }}"


def test_the_checker_is_a_release_and_nothing_proposed_is_run_or_installed():
    workflow = read(FOLDER / "check-submission.yml")
    assert re.fullmatch(r"l2bench==\d+\.\d+\.\d+", workflow["env"]["CHECKER"])
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    installs = [c for c in commands if "pip install" in c]
    assert installs == ['python -m pip install --disable-pip-version-check "$CHECKER"']
    for command in commands:
        for line in command.splitlines():
            first = line.split()[0] if line.split() else ""
            assert not first.startswith(("proposed", "board", "./")), line
            assert not re.search(r"\b(sh|bash|python|node|source|eval)\b.*proposed", line), line
    assert not [s for s in steps(workflow) if str(s.get("uses", "")).startswith("./")]


def test_the_comment_never_fetches_the_pull_request():
    workflow = read(FOLDER / "comment-findings.yml")
    assert set(events(workflow)) == {"workflow_run"}
    assert events(workflow)["workflow_run"]["workflows"] == ["check-submission"]
    assert workflow["permissions"] == {"actions": "read", "pull-requests": "write"}
    assert "checkout" not in str(steps(workflow))
    assert not [step for step in steps(workflow) if "run" in step]


def git(folder, *words):
    done = subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(folder), *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.fixture
def proposal(made, board, tmp_path):
    """A repository of the board, and a way to check a change to it as the workflow does."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copytree(board.folder, home / "board")
    shutil.copytree(board.folder, home / "proposed")
    git(home, "init", "-q", "proposed")
    git(home / "proposed", "add", "-A")
    git(home / "proposed", "commit", "-qm", "base")

    def check():
        git(home / "proposed", "add", "-A")
        git(home / "proposed", "commit", "-qm", "change")
        script = named(FOLDER / "check-submission.yml", "Check")["run"]
        paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-e", "-c", script], cwd=home, env={**os.environ, "PATH": paths},
            capture_output=True, text=True,
        )  # fmt: skip
        documents = [json.loads(path.read_text()) for path in (home / "findings").glob("*.json")]
        codes = [
            finding["code"]
            for document in documents
            for outcome in document["checked"]
            for finding in outcome["findings"]
        ]
        return done.returncode, codes, done.stderr

    return home / "proposed" / "submissions" / "probe" / "1.0", check


def test_a_good_submission_passes_the_step_of_the_workflow(made, proposal):
    place, check = proposal
    shutil.rmtree(place / "20260504_team-late-bloomer_late_bloomer")
    git(place, "commit", "-qam", "as if it had never been there")
    folder = place / "20260701_team-good_late_bloomer"
    made.submission(folder, "late_bloomer", submitter="team-late-bloomer", date="2026-07-01")
    folder.rename(place / "20260701_team-late-bloomer_late_bloomer")
    code, codes, errors = check()
    assert (code, codes) == (0, []), errors


def test_l05_l06_the_step_refuses_changes_elsewhere(made, proposal):
    place, check = proposal
    (place.parents[2] / "board.json").write_text("{}")
    (place / "20260504_team-perfect_perfect" / "README.md").write_text("better than ever")
    code, codes, _ = check()
    assert code != 0
    assert codes == ["L05", "L06"]


def test_a_folder_that_says_another_name_is_found(made, proposal):
    place, check = proposal
    made.submission(
        place / "20260701_a-great-name_x", "late_bloomer", submitter="team-late-bloomer"
    )
    code, codes, _ = check()
    assert code != 0
    assert "L01" in codes


def test_a_link_in_a_proposal_is_not_followed(made, proposal):
    place, check = proposal
    folder = place / "20260701_team-late-bloomer_late_bloomer"
    made.submission(folder, "late_bloomer", submitter="team-late-bloomer", date="2026-07-01")
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to("/etc/hostname")
    code, codes, _ = check()
    assert code != 0
    assert "A03" in codes


def test_the_board_of_the_repository_is_a_board():
    board = Board.load(ROOT / "leaderboards")
    assert {suite.id for suite in board.files.suites} >= {"quickstart"}
