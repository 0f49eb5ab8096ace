"""Sources as bundles: what is written, what is refused, and commands that take either."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from interop.builders import l2logger_folder, log_rows
from support import ROOT

from l2bench.bundle.reader import read_bundle
from l2bench.errors import RunFailed, Unsupported, UsageError
from l2bench.interop.kinds import IMPORTERS, detect, open_bundles
from l2bench.metrics.sets import L2MetricsMetrics
from l2bench.scoring import summarise

LAYOUT = ROOT / "tests" / "oracle" / "l2m" / "example" / "l2logger_layout"
LOG = LAYOUT / "ll_logs" / "multi_task"
EXPERTS = [part for p in sorted((LAYOUT / "ste_logs").iterdir()) for part in ("--expert", str(p))]
LIBERO = Path(__file__).parent / "data" / "libero"


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> Path:
    from l2bench.cli.main import invoke

    out = tmp_path_factory.mktemp("imported") / "example.l2b"
    assert invoke(["import", "l2logger", str(LOG), "-o", str(out), *EXPERTS]) == 0
    return out


def whole(document) -> dict[str, float | None]:
    return {m["id"]: m["mean"] for m in document["summary"]["metrics"] if m["task"] is None}


def test_a_raw_import_is_a_bundle_like_any_other(imported):
    bundle = read_bundle(imported)
    manifest, lifetime = bundle.manifest, bundle.lifetime
    assert (manifest.status, manifest.fidelity, manifest.source.kind) == (
        "complete",
        "raw",
        "l2logger",
    )
    assert (lifetime.learning.num_rows, lifetime.episodes.num_rows) == (1200, 720)
    assert manifest.source.settings["files"] == 24
    assert {"exp_num", "block_num", "worker", "subtype"} <= set(lifetime.learning.column_names)
    done = subprocess.run(
        ["sha256sum", "-c", "checksums.sha256"], cwd=imported, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "experts/00-task1_1.l2b/manifest.json" in manifest.files
    assert not list(imported.parent.glob(".*"))


def test_a_bundle_scores_as_its_source_does(cli, imported):
    _, direct, _ = cli("score", LOG, *EXPERTS, "--json")
    _, stored, _ = cli("score", imported, "--json")
    assert whole(json.loads(direct)) == whole(json.loads(stored))
    assert len(read_bundle(imported).experts) == 4
    stored_scores = {m["id"]: m["value"] for m in read_bundle(imported).scores["metrics"]
                     if m["task"] is None}  # fmt: skip
    assert stored_scores == whole(json.loads(stored))
    assert stored_scores["l2metrics.relative_performance"] == pytest.approx(1.1050569622)


def test_the_rows_come_back_from_disk_unchanged(registry, imported):
    (source,) = open_bundles(registry, LOG)
    stored = read_bundle(imported).lifetime
    for name in ("blocks", "episodes", "learning"):
        assert getattr(source.lifetime, name).equals(getattr(stored, name)), name
    fresh = L2MetricsMetrics().score(source.lifetime)
    assert L2MetricsMetrics().score(stored).values == fresh.values


def test_an_expert_that_was_exchanged_is_refused(cli, imported, tmp_path):
    import shutil

    copy = tmp_path / "copy.l2b"
    shutil.copytree(imported, copy)
    manifest = copy / "experts" / "00-task1_1.l2b" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("imported", "improved"))
    with pytest.raises(Unsupported, match=r"not the expert of task .* that was recorded"):
        _ = read_bundle(copy).experts
    code, _, errors = cli("score", copy)
    assert code == 3
    assert "00-task1_1.l2b" in errors


def test_a_reference_cannot_leave_the_bundle(imported, tmp_path):
    import shutil

    copy = tmp_path / "copy.l2b"
    shutil.copytree(imported, copy)
    data = json.loads((copy / "manifest.json").read_text())
    data["references"][0]["path"] = "experts/../../other.l2b"
    (copy / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(Unsupported, match=r"references.0.path"):
        read_bundle(copy)


def test_aggregates_have_cells_and_no_rows(cli, tmp_path):
    out = tmp_path / "libero.l2b"
    code, output, errors = cli("import", "libero", LIBERO, "-o", out, "--json")
    assert (code, errors) == (0, "")
    assert json.loads(output)["cells"] == 15
    bundle = read_bundle(out)
    assert bundle.manifest.fidelity == "aggregate"
    assert bundle.manifest.tables["cells"].rows == 15
    assert bundle.lifetime.episodes.num_rows == 0
    _, direct, _ = cli("score", LIBERO, "--json")
    _, stored, _ = cli("score", out, "--json")
    assert whole(json.loads(direct)) == whole(json.loads(stored))


def test_nothing_is_overwritten_without_force(cli, tmp_path):
    out = tmp_path / "x.l2b"
    assert cli("import", "libero", LIBERO, "-o", out)[0] == 0
    before = (out / "manifest.json").read_bytes()
    code, _, errors = cli("import", "libero", LIBERO, "-o", out)
    assert (code, "exists already" in errors) == (2, True)
    assert (out / "manifest.json").read_bytes() == before
    assert cli("import", "libero", LIBERO, "-o", out, "--force")[0] == 0
    assert (out / "manifest.json").read_bytes() != before
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    code, _, errors = cli("import", "libero", LIBERO, "-o", precious, "--force")
    assert (code, "it is no bundle" in errors) == (2, True)
    assert (precious / "thesis.txt").read_text() == "years of work"


def test_a_refused_import_leaves_nothing(cli, tmp_path):
    rows = log_rows(("L", "a_1", ["x"]), ("E", "a_1", [1]))
    folder = l2logger_folder(tmp_path / "log", rows)
    code, _, errors = cli("import", "l2logger", folder, "-o", tmp_path / "x.l2b")
    assert code == 3
    assert "0-train/data-log.tsv, line 2, column performance" in errors
    assert [p.name for p in tmp_path.iterdir()] == ["log"]


def test_an_incomplete_import_says_so_everywhere(cli, tmp_path):
    rows = log_rows(("E", "a_1", [0.1]), ("L", "a_1", [0.2, 0.4]), ("E", "a_1", [0.6, 0.8, 0.9]))
    folder = l2logger_folder(tmp_path / "log", rows)
    path = folder / "worker-default" / "2-test" / "data-log.tsv"
    path.write_text(path.read_text()[:-5])
    out = tmp_path / "x.l2b"
    code, output, errors = cli("import", "l2logger", folder, "-o", out)
    assert code == 4
    assert "line 4 does not end" in errors
    assert "incomplete" in output
    bundle = read_bundle(out)
    assert bundle.manifest.status == "incomplete"
    assert not bundle.lifetime.complete
    code, output, errors = cli("score", out, "--all")
    assert code == 4
    assert "line 4 does not end" in errors
    for line in output.splitlines()[2:]:
        assert line.split()[1] == "-"
    assert "the record is incomplete" in output
    assert cli("report", out)[0] == 0
    assert "does not end" in (tmp_path / "x.l2b.report.html").read_text()


def test_the_kind_is_found_by_the_files(tmp_path):
    assert detect(LOG).kind == "l2logger"
    assert detect(LIBERO).kind == "libero"
    assert detect(LIBERO / "result.pt").kind == "libero"
    for name, kind in (
        ("m.csv", "matrix"), ("eval_results.csv", "avalanche"), ("progress.tsv", "continual_world"),
    ):  # fmt: skip
        (tmp_path / name).write_text("a,b\n")
        assert detect(tmp_path / name).kind == kind
    (tmp_path / "m.json").write_text('{"R": [[1]]}')
    assert detect(tmp_path / "m.json").kind == "matrix"


def test_what_cannot_be_told_is_an_error_with_the_kinds(cli, tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        detect(tmp_path / "nowhere")
    with pytest.raises(RunFailed) as caught:
        detect(tmp_path)
    for kind in IMPORTERS:
        assert kind in str(caught.value)
    (tmp_path / "progress.tsv").write_text("a\n")
    (tmp_path / "eval_results.csv").write_text("a\n")
    code, output, errors = cli("score", tmp_path)
    assert (code, output) == (2, "")
    assert "choose with --kind: avalanche, continual_world" in errors
    code, _, errors = cli("score", tmp_path, "--kind", "avalanch")
    assert code == 2
    assert "did you mean 'avalanche'" in errors
    code, _, errors = cli("score", tmp_path, "--kind", "avalanche")
    assert code == 3
    assert "eval_results.csv, line 1: column eval_exp is missing" in errors
    code, _, errors = cli("import", "l2loger", tmp_path, "-o", tmp_path / "x")
    assert (code, "did you mean 'l2logger'" in errors) == (2, True)


@pytest.mark.parametrize("kind", sorted(IMPORTERS))
def test_every_kind_refuses_what_is_not_there(cli, tmp_path, kind):
    code, output, errors = cli("import", kind, tmp_path / "nowhere", "-o", tmp_path / "x")
    assert (code, output) == (2, "")
    assert "nowhere does not exist" in errors
    empty = tmp_path / "empty"
    empty.mkdir()
    code, output, errors = cli("import", kind, empty, "-o", tmp_path / "x")
    assert (code, output) == (3, ""), errors
    assert errors.count("\n") == 1


def test_a_report_from_a_folder_by_one_command(cli, tmp_path):
    import shutil

    folder = tmp_path / "mine"
    shutil.copytree(LOG, folder)
    before = sorted(folder.rglob("*"))
    code, output, errors = cli("report", folder, *EXPERTS)
    assert code == 0, errors
    page = (tmp_path / "mine.report.html").read_text()
    assert "Imported from l2logger, not run by L2bench" in page
    assert "12.63" in page
    assert re.search(r"\bnan\b", page, re.IGNORECASE) is None
    assert sorted(folder.rglob("*")) == before
    assert str(tmp_path / "mine.report.html") in output


def test_reports_of_aggregates(cli, tmp_path):
    for kind, source in (("libero", LIBERO),):
        out = tmp_path / f"{kind}.html"
        code, _, errors = cli("report", source, "-o", out)
        assert code == 0, errors
        assert "imported as aggregates" in out.read_text()
    text = "after,a,b\na,.5,.25\nb,.5,.75\n"
    (tmp_path / "m.csv").write_text(text)
    code, _, errors = cli("report", tmp_path / "m.csv")
    assert code == 0, errors
    assert "n = unknown" in (tmp_path / "m.csv.report.html").read_text()


def test_seed_and_agent_can_be_told_and_lifetimes_summarised(cli, tmp_path):
    folders = []
    for seed, value in ((3, 0.5), (4, 0.75)):
        rows = log_rows(("E", "a_1", [0]), ("L", "a_1", [0.5]), ("E", "a_1", [value]))
        log = l2logger_folder(tmp_path / "log", rows)
        out = tmp_path / "all" / f"s{seed}.l2b"
        out.parent.mkdir(exist_ok=True)
        arguments = ("--seed", str(seed), "--agent", "mine", "-o", out)
        assert cli("import", "l2logger", log, *arguments)[0] == 0
        folders.append(out)
    summary = summarise(folders)
    assert (summary["agent"]["name"], summary["seeds"]) == ("mine", [3, 4])
    found = {m["id"]: m["mean"] for m in summary["metrics"] if m["task"] is None}
    assert found["l2m.mean_evaluation_performance"] == pytest.approx((0.25 + 0.375) / 2)
    assert cli("score", tmp_path / "all")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--range", "1", "0"], "--range 1 0 does not ascend"),
        (["--seed", "-1"], "-1"),
        (["--measure", "reward"], "has no measure 'reward'"),
        (["--metrics", "l2metric"], "did you mean 'l2bench/l2metrics'"),
        (["--expert", "/nonexistent"], "/nonexistent does not exist"),
    ],
)
def test_mistakes_give_one_clear_line(cli, arguments, words):
    code, output, errors = cli("score", LOG, *arguments)
    assert (code, output) == (2, "")
    assert words in errors
    assert errors.count("\n") == 1


def test_an_expert_must_have_learned_one_task(cli):
    code, _, errors = cli("score", LOG, "--expert", LOG, "--metrics", "l2metrics")
    assert code == 3
    assert "learns exactly one task; this lifetime learns 3" in errors


MATRIX = "after,a,b\nbefore,.1,.1\na,.9,.2\nb,{},.8\n"


def matrices(folder: Path) -> list[Path]:
    """Write three accuracy matrices, acc0.csv and so on, and return them."""
    files = [folder / f"acc{seed}.csv" for seed in range(3)]
    for file, rate in zip(files, (0.5, 0.6, 0.7), strict=True):
        file.write_text(MATRIX.format(rate))
    return files


def test_several_sources_are_made_bundles_first(cli, tmp_path):
    first, second, _ = matrices(tmp_path)
    example = f"l2bench import matrix {first} -o FOLDER/NAME.l2b --suite NAME --agent NAME --seed N"
    code, _, errors = cli("score", tmp_path)
    assert code == 1
    assert "3 sources of the kind matrix" in errors
    assert example in errors
    code, _, errors = cli("compare", first, second)
    assert code == 1
    assert f"0 bundles found at {first}, but a source of the kind matrix" in errors
    assert example in errors
    code, _, errors = cli("compare", LOG, LOG)
    assert (code, "l2bench import l2logger" in errors) == (1, True)
    code, _, errors = cli("score", first, second, "--metrics", "gem")
    assert code == 2
    assert "score takes one PATH, found 2" in errors
    assert "l2bench import KIND PATH -o FOLDER/NAME.l2b" in errors


def test_imported_lifetimes_reach_a_board_as_the_page_shows(cli, tmp_path, monkeypatch):
    """The commands of docs/submitting.md, one by one."""
    page = (ROOT / "docs" / "submitting.md").read_text()
    part = page[page.index("## Numbers of other tools") :]
    shown = re.search(r"^```text\n(.*?)^```$", part, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    matrices(tmp_path)
    for line in shown[1].splitlines():
        words = shlex.split(line)
        if words[0] == "cp":
            shutil.copy(words[1], words[2])
            continue
        assert words.pop(0) == "l2bench"
        if words[:2] == ["submission", "build"]:
            bare = [word for word in words if word not in ("--agent-version", "1.0")]
            code, _, errors = cli(*bare)
            assert code == 2
            assert "the bundles say no version of the agent" in errors
            assert "give it with --agent-version" in errors
        code, out, errors = cli(*words)
        assert code == 0, f"{line}: {out}{errors}"
    assert "accepted five-digits/imported/" in out
    code, out, errors = cli("leaderboard", "build", "reported", "-o", "site", "--json")
    assert code == 0, errors
    assert (json.loads(out)["shown"], json.loads(out)["excluded"]) == (1, 0)


def test_an_import_has_no_seeds_to_declare_as_extra(cli, tmp_path):
    about = ("--suite", "s", "--agent", "mine")
    for seed, file in enumerate(matrices(tmp_path), start=1):  # seed 0 is not among them
        out = tmp_path / "all" / f"{seed}.l2b"
        assert cli("import", "matrix", file, *about, "--seed", seed, "-o", out)[0] == 0
    build = ("submission", "build", tmp_path / "all", "--agent-version", "1", "--name", "x")
    build = (*build, "--submitter", "me", "--data-disclosure", "none")
    code, out, errors = cli(*build, "-o", tmp_path / "first")
    assert code == 0, out + errors
    assert "0 errors, 0 warnings, 3 bundles scored, reported" in out
    assert cli(*build, "--extra-seed", "1", "-o", tmp_path / "second")[0] == 0  # does no harm
    code, out, _ = cli(*build, "--extra-seed", "9", "-o", tmp_path / "third")
    assert (code, "N03 error" in out) == (1, True)
