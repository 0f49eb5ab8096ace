"""``l2bench leaderboard``: from a suite's file to a site, by commands alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from l2bench import __version__
from l2bench.check.findings import broken

SUITE = """
id: short_probe
version: "2.0"
title: Two probes
task_defaults:
  environment: l2bench/probe
  horizon: 1
  learning: {source: interaction, unit: episodes, amount: 2, every: 1}
tasks:
  - {id: one, task: probe_1}
  - {id: two, task: probe_2}
scenario: {kind: sequential, keep: best, episodes: 2}
seeds: [0, 1]
metrics: [l2bench/libero]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a suite, a board for it, and a submission, made by commands."""
    from l2bench.cli.main import invoke

    folder = tmp_path_factory.mktemp("place")
    (folder / "suite.yaml").write_text(SUITE)
    for command in (
        ["leaderboard", "register", f"{folder}/suite.yaml", "--board", f"{folder}/board",
         "--title", "Probes", "--rank-by", "libero.AUC", "--accept-editable"],
        ["run", f"{folder}/suite.yaml", "agent=perfect", f"execution.data={folder}/data",
         "-o", f"{folder}/runs"],
        ["submission", "build", f"{folder}/runs", "-o", f"{folder}/submitted", "--submitter",
         "tester", "--name", "A tester", "--data-disclosure", "none", "--date", "2026-05-04"],
    ):  # fmt: skip
        assert invoke(command) == 0, command
    return folder


def test_log_01_cfg_08_accept_build_withdraw_and_build_again(cli, place):
    board, site = place / "board", place / "site"
    code, out, _ = cli("leaderboard", "accept", place / "submitted", "--board", board)
    key = "short_probe/2.0/20260504_tester_l2bench-perfect"
    assert code == 0
    assert f"accepted {key}" in out
    assert out.splitlines()[-1].endswith(str(board / "submissions" / key))
    code, out, err = cli("leaderboard", "accept", place / "submitted", "--board", board)
    assert (code, out) == (2, "")
    assert "accepted entries never change" in err

    code, out, err = cli("leaderboard", "build", board, "-o", site)
    assert code == 0, err
    assert out.splitlines() == [
        "accepted 1 = 1 shown + 0 excluded",
        f"site     {site / 'index.html'}",
    ]
    assert f"checking {key}" in err

    assert cli("leaderboard", "lock", "--board", board)[:2] == (
        0,
        f"l2bench {__version__}  0 digests\n",
    )
    before = (site / "index.html").read_bytes()
    code, _, err = cli("leaderboard", "build", board, "-o", site)
    assert code == 2
    assert "exists already; replace it with --force" in err
    assert (site / "index.html").read_bytes() == before

    code, out, _ = cli("leaderboard", "withdraw", key, "--board", board, "--reason", "a fault",
                       "--on", "2026-07-01")  # fmt: skip
    assert (code, out) == (0, f"withdrawn {key} on 2026-07-01: a fault\n")
    code, out, _ = cli("leaderboard", "build", board, "-o", site, "--force", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["site"] == str(site)
    assert (document["accepted"], document["shown"]) == (1, 1)
    assert document["suites"][0]["entries"][0]["withdrawal"]["reason"] == "a fault"
    assert not list(site.rglob("*.zip"))


@pytest.mark.parametrize(("finding", "expected"), [("I01", 1), ("R03", 0)])
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_entry_that_could_not_be_checked_is_a_failure(
    cli, tmp_path, monkeypatch, full, finding, expected, more
):
    from l2bench.leaderboard import reading

    check = reading.check_submission

    def broken_one(folder, *arguments, **options):
        checked = check(folder, *arguments, **{**options, "isolated": False})
        if "perfect" not in folder.name:
            return checked
        return replace(checked, findings=(*checked.findings, broken(finding, "", "it is said")))

    monkeypatch.setattr(reading, "check_submission", broken_one)
    code, out, err = cli("leaderboard", "build", full, "-o", tmp_path / "site", *more)
    assert code == expected
    assert "excluded" in out
    assert ("team-perfect_perfect could not be checked (I01)" in err) is (expected == 1)
    assert (tmp_path / "site" / "index.html").exists()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["build", "nowhere", "-o", "s"], 2, "nowhere is not a board"),
        (
            ["register", "quickstart", "--board", "nowhere", "--rank-by", "libero.AUC"],
            2,
            "no board",
        ),
        (
            ["register", "quikstart", "--board", "b", "--title", "x"],
            2,
            "did you mean 'l2bench/quickstart'",
        ),
        (["register", "quickstart", "--board", "b", "--title", "x"], 2, "--rank-by: "),
        (["register", "quickstart", "--board", "b", "--accept-editable"], 2, "give --title too"),
        (["accept", "nowhere", "--board", "BOARD"], 1, "no submission.json"),
        (["withdraw", "x", "--board", "BOARD", "--reason", "r"], 2, "there is no entry 'x'"),
        (["withdraw", "x", "--board", "BOARD", "--reason", "r", "--on", "soon"], 2, "no date"),
        (["wthdraw"], 2, "wthdraw"),
    ],
)
def test_cfg_01_what_is_wrong_ends_in_one_line_and_a_code(
    cli, place, tmp_path, monkeypatch, words, code, text
):
    monkeypatch.chdir(tmp_path)
    found = cli("leaderboard", *(str(place / "board") if w == "BOARD" else w for w in words))
    assert found[0] == code
    assert text in found[2]
    assert len(found[2].strip().splitlines()) == 1
    assert not list(Path().iterdir())  # and nothing is left behind


def test_the_date_comes_from_source_date_epoch(monkeypatch):
    from l2bench.cli.leaderboard import _today
    from l2bench.errors import UsageError

    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert _today().isoformat() == "2023-11-14"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "x")
    with pytest.raises(UsageError, match="no date"):
        _today()


def test_damage_of_a_board_is_named(cli, place, tmp_path):
    (tmp_path / "board.json").write_text('{"format": "l2bench.board", "title": "x", "suits": []}')
    code, _, err = cli("leaderboard", "build", tmp_path, "-o", tmp_path / "site")
    assert code == 2
    assert "unknown key 'suits'" in err
