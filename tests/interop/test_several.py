"""Several logs below one folder are the lifetimes of one agent, where they fit together."""

from __future__ import annotations

import json
import shutil

import pytest
from interop.builders import l2logger_folder, log_rows
from stubs import stubbed
from support import probe_suite, run_suite
from wanderer import Wanderer

from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.errors import Unsupported, UsageError
from l2bench.interop import l2logger
from l2bench.interop.kinds import open_bundles
from l2bench.interop.source import Options
from l2bench.plugins import Registry
from l2bench.scoring import metric_sets, score_bundle

ROWS = (("E", "a_1", [0, 1]), ("L", "a_1", [0.25, 0.5]), ("E", "a_1", [1, 1]))


def logs(folder, *values, **info):
    """One log for each list of learning values: evaluation, learning, evaluation."""
    for at, learned in enumerate(values):
        place = folder / f"log-{at}"
        blocks = (ROWS[0], ("L", "a_1", learned), ROWS[2])
        l2logger_folder(place, log_rows(*blocks))
        told = {key: seeds[at] for key, seeds in info.items()}
        (place / "scenario_info.json").write_text(json.dumps(told))
    return folder


def opened(folder, **options):
    return open_bundles(Registry(), folder, options=Options(**options))


def test_an_exported_run_is_scored_like_the_run(cli, tmp_path):
    suite = probe_suite(3, every=None, amount=6, scenario={"pretest": True}, seeds=[3, 5])
    run_suite(stubbed(Wanderer), suite, "stub", tmp_path / "runs")
    assert cli("export", "l2logger", tmp_path / "runs", "-o", tmp_path / "logs")[0] == 0
    code, out, err = cli("score", tmp_path / "logs", "--metrics", "l2m", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["summary"]["seeds"] == [3, 5]
    for bundle, scores in zip(find_bundles(tmp_path / "runs"), found["bundles"], strict=True):
        ours = score_bundle(read_bundle(bundle), metric_sets(Registry(), ["l2bench/l2m"]))
        values = {(m["id"], m["task"], m["source"]): m["value"] for m in ours["metrics"]}
        for metric in scores["metrics"]:
            key = (metric["id"], metric["task"], metric["source"])
            assert metric["value"] == pytest.approx(values[key], abs=1e-12), key
    code, out, _ = cli("report", tmp_path / "logs", "--json")
    assert code == 0
    assert json.loads(out)["report"] == str(tmp_path / "logs.report.html")


def test_logs_that_say_no_seeds_are_numbered(tmp_path):
    folder = logs(tmp_path / "run", [0.5], [1], [0])
    assert [b.manifest.seed.lifetime for b in opened(folder)] == [0, 1, 2]
    folder = logs(tmp_path / "equal", [0.5], [1], seed=[4, 4])
    one, two = opened(folder)
    assert [b.manifest.seed.lifetime for b in (one, two)] == [0, 1]
    assert "no seeds, or equal ones; they are numbered, this one is 1" in str(
        two.manifest.source.warnings
    )
    folder = logs(tmp_path / "told", [0.5], [1], seed=[7, 4])
    assert [(b.manifest.seed.lifetime, b.suite.seeds) for b in opened(folder)] == [
        (7, (7, 4)), (4, (7, 4)),
    ]  # fmt: skip
    assert "numbered" not in str([b.manifest.source.warnings for b in opened(folder)])
    assert l2logger.read(folder / "log-1", Options()).lifetime.seed == 4
    with pytest.raises(UsageError, match=r"--seed is that of one lifetime; .* holds 2"):
        opened(folder, seed=1)


@pytest.mark.parametrize("seed", [-1, "4", True, None, 1.0, 2**53])
def test_what_is_no_seed_is_not_taken_for_one(tmp_path, seed):
    folder = logs(tmp_path, [0.5], seed=[seed])
    assert l2logger.read(folder, Options()).lifetime.seed == 0


def test_they_share_score_ranges_and_amounts(tmp_path):
    folder = logs(tmp_path / "run", [0.5, 0.5], [500], [-20, 3, 4])
    one, two, three = opened(folder)
    assert one.suite.hash == two.suite.hash == three.suite.hash
    assert (one.suite.id, one.suite.title) == ("run", "run (imported)")
    (task,) = one.suite.tasks
    assert (task.score_range, task.learning.amount) == ((-20.0, 500.0), 3)
    assert "those of all logs together are assumed" in str(two.manifest.source.warnings)
    assert one.lifetime.learning.num_rows == 2
    given = opened(folder, score_range=(-100.0, 1000.0))
    assert given[0].suite.tasks[0].score_range == (-100, 1000)
    assert "assumed" not in str(given[0].manifest.source.warnings)


def test_logs_of_other_tasks_or_blocks_are_refused_by_name(tmp_path):
    logs(tmp_path, [0.5])
    other = log_rows(("L", "b_1", [1]), *ROWS)
    l2logger_folder(tmp_path / "other", other)
    with pytest.raises(UsageError, match=r"other and .*log-0 have other tasks or blocks than each"):
        opened(tmp_path)


def test_experts_may_lie_in_one_folder(tmp_path):
    folder = logs(tmp_path / "experts", [0.5, 1], [1, 1])
    life = l2logger_folder(tmp_path / "life", log_rows(*ROWS))
    (bundle,) = open_bundles(Registry(), life, experts=[folder])
    assert [expert.folder.name for expert in bundle.experts] == ["log-0", "log-1"]


def test_a_bundle_is_made_of_one_log(cli, tmp_path):
    logs(tmp_path / "run", [0.5], [1])
    code, _, err = cli("import", "l2logger", tmp_path / "run", "-o", tmp_path / "x.l2b")
    assert code == 2
    assert "holds 2 logs; give one of them: log-0, log-1 (score and report take all" in err


def test_a_copy_of_a_log_is_no_lifetime_more(tmp_path):
    folder = logs(tmp_path, [0.5], [1])
    shutil.copytree(folder / "log-0", folder / ".Trash" / "log-0")
    shutil.copytree(folder / "log-0", folder / "log-1" / "inner")
    assert [b.lifetime.learning["score"].to_pylist() for b in opened(folder)] == [[0.5], [1]]
    shutil.copytree(folder / "log-0", folder / "zcopy")
    with pytest.raises(UsageError, match=r"log-0 and .*zcopy are the same log, row by row"):
        opened(folder)


def test_a_log_without_its_info_is_not_left_out(tmp_path):
    folder = logs(tmp_path, [0.5], [1], [0])
    (folder / "log-1" / "logger_info.json").unlink()
    with pytest.raises(Unsupported, match=r"log-1 has data-log.tsv files but no logger_info.json"):
        opened(folder)


def test_the_log_that_is_cut_off_is_named(tmp_path):
    folder = logs(tmp_path, [0.5], [1])
    last = folder / "log-1" / "worker-default" / "2-test" / "data-log.tsv"
    whole = last.read_text()
    last.write_text(whole[: whole.index("\n") + 9])
    with pytest.raises(
        UsageError, match=r"log-1 is cut off \(.*2-test.* does not end.*log-0 has 3"
    ):
        opened(folder)
    last.unlink()
    with pytest.raises(
        UsageError, match=r"log-1 seems cut off: it has 2 blocks where .*log-0 has 3"
    ):
        opened(folder)


def test_an_error_says_in_which_log_it_is(tmp_path):
    folder = logs(tmp_path, [0.5], [1])
    (folder / "log-1" / "worker-default" / "1-train" / "data-log.tsv").write_bytes(b"\xff\n")
    with pytest.raises(Unsupported, match=r"log-1: worker-default/1-train/data-log.tsv, line 1"):
        opened(folder)
