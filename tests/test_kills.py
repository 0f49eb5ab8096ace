"""Two hundred kills: real processes, stopped for good at random moments, over all three sources."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from stubs import stubbed
from support import ROOT, content_hashes, probe_suite, run_suite
from wanderer import Wanderer

from l2bench.bundle.reader import read_bundle
from l2bench.cli.main import invoke
from l2bench.plugins import Registry

#: Kills per case; the sum is checked at the end.
CASES = {
    "interaction": 55,
    "demonstrations": 55,
    "samples": 55,
    "workers": 10,
    "experts": 20,
    "quickstart": 20,
    "libero_object_cpu": 6,
}
#: Cases that are a suite of the project, run by the command line in its smoke profile.
SUITES = ("quickstart", "libero_object_cpu")
WANTED = 200

killed: dict[str, int] = {}


def suite_of(case: str):
    """A lifetime of a few dozen blocks in a fraction of a second."""
    source = case if case in ("interaction", "demonstrations", "samples") else "interaction"
    unit = "episodes" if source == "interaction" else "epochs"
    experts = {"experts": True} if case == "experts" else {}
    return probe_suite(3, source=source, unit=unit, amount=6, every=2, seeds=[0, 1], **experts)


def live(case: str, folder: Path) -> None:
    """Run, or go on with, one case: the body of the process that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if case in SUITES:
        suite = str(ROOT / "suites" / f"{case}.yaml")
        data = f"execution.data={folder.parent.parent / 'data'}"
        resume = ["--resume"] if folder.is_dir() else []
        code = invoke(["run", suite, "profile=smoke", data, "-o", str(folder), "--json", *resume])
        raise SystemExit(code)
    workers = 2 if case == "workers" else 0
    seeds = suite_of(case).seeds
    agent = "perfect" if workers else "stub"  # workers know registered agents only
    registry = Registry() if workers else stubbed(Wanderer)
    run_suite(registry, suite_of(case), agent, folder, resume=True, workers=workers, seeds=seeds)


@pytest.fixture(scope="module")
def start():
    """A function that starts a case in a process of its own, with everything imported already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["test_kills", "l2bench.cli.run", "l2bench.builtin.catch",
                                    "l2bench.builtin.tabular", "l2bench.metrics.sets"])  # fmt: skip

    def begin(case: str, folder: Path) -> multiprocessing.Process:
        process = context.Process(target=live, args=(case, folder))
        process.start()
        return process

    return begin


def finish(start, case: str, folder: Path) -> float:
    """Run a case to its end and return how long that took, in seconds."""
    began = time.monotonic()
    process = start(case, folder)
    process.join(500)
    assert process.exitcode == 0
    return time.monotonic() - began


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=[pytest.mark.sim] if c.startswith("libero") else []) for c in CASES],
)
def test_killed_at_random_and_resumed_equals_unbroken(case, start, tmp_path):
    """RES-01, RES-07: no sealed block is lost, and no row differs from an unbroken run."""
    moments = random.Random(case)
    for name in ("unbroken", "again"):  # the second finds its data made, as the killed ones do
        (tmp_path / name).mkdir()
        whole = finish(start, case, tmp_path / name / "run")
    expected = content_hashes(tmp_path / "unbroken" / "run")
    assert content_hashes(tmp_path / "again" / "run") == expected
    kills, rounds = 0, 0
    while kills < CASES[case]:
        rounds += 1
        here = tmp_path / f"round-{rounds}"
        here.mkdir()
        folder = here / "run"
        sealed: dict[str, int] = {}
        for _ in range(6):
            process = start(case, folder)
            time.sleep(moments.uniform(0, whole / 4))
            process.kill()
            process.join(60)
            kills += process.exitcode == -signal.SIGKILL
            check_what_is_left(folder, sealed)
            if process.exitcode == 0:
                break
        finish(start, case, folder)
        assert content_hashes(folder) == expected
        assert not list(folder.glob("*.l2b/work")) + list(folder.glob("*.new"))
        shutil.rmtree(here)
    killed[case] = kills


def check_what_is_left(folder: Path, sealed: dict[str, int]) -> None:
    """Every bundle is whole or says that it is not, and no sealed block is ever lost."""
    for bundle in folder.glob("*.l2b"):
        manifest = json.loads((bundle / "manifest.json").read_text())
        assert manifest["status"] in ("running", "interrupted", "failed", "complete")
        journal = bundle / "work" / "journal.jsonl"
        if manifest["status"] == "complete":
            assert (
                read_bundle(bundle).lifetime.blocks.num_rows == manifest["counts"]["blocks_sealed"]
            )
            sealed[bundle.name] = manifest["counts"]["blocks_sealed"]
            continue
        blocks = journal.read_bytes().count(b"\n") if journal.exists() else 0
        assert blocks >= sealed.get(bundle.name, 0)
        sealed[bundle.name] = blocks


def test_the_kills_add_up(capsys):
    """Counted over the cases above; each has to have had its share."""
    missing = set(CASES) - set(killed) - {"libero_object_cpu"}  # left out without simulators
    if missing:
        pytest.fail(f"{sorted(missing)} did not run before this test")
    with capsys.disabled():
        print(f"\n{sum(killed.values())} kills: {killed}")  # noqa: T201
    assert sum(killed.values()) >= WANTED


class Forgetful(Wanderer):
    """Resumes without its state."""

    def load(self, folder):
        pass


def test_a_wrong_resumption_would_show(tmp_path):
    """The comparison above can fail: without its state the agent's rows differ."""
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    run_suite(stubbed(Wanderer), suite_of("samples"), "stub", straight)

    class Stops(Forgetful):
        lessons = 0

        def learn(self, lesson, task):
            type(self).lessons += 1
            if self.lessons == 4:
                raise KeyboardInterrupt
            super().learn(lesson, task)

    for _ in range(2):
        with contextlib.suppress(KeyboardInterrupt):
            run_suite(stubbed(Stops), suite_of("samples"), "stub", broken, resume=True)
    assert content_hashes(straight) != content_hashes(broken)
