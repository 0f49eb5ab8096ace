"""Whole lifetimes of the agent, run in this process."""

import threading

import numpy as np
import pytest
import torch

from l2bench.bundle.reader import read_bundle
from l2bench.cast import AgentSpec, Cast, Execution
from l2bench.lifetimes import Run
from l2bench.plugins import Registry
from l2bench.suite import Suite
from l2bench_agents.algorithms import ALGORITHMS
from l2bench_agents.serve import Server


def suite(**scenario) -> Suite:
    learning = {"source": "demonstrations", "unit": "epochs", "amount": 40, "every": 20}
    tasks = [
        {"id": f"t{n}", "environment": "l2bench/probe", "task": f"probe_{n}", "learning": learning}
        for n in (1, 2)
    ]
    return Suite.model_validate(
        {
            "id": "probe-demonstrations",
            "version": "1",
            "title": "Probe",
            "tasks": tasks,
            "scenario": {"kind": "sequential", "episodes": 5, **scenario},
            "seeds": [3],
        }
    )


def cast_for(folder, algorithm, **scenario) -> Cast:
    settings = {
        "algorithm": algorithm, "hidden": [32], "learning_rate": 0.01, "batch_size": 8,
        "ewc": {"strength": 1.0}, "packnet": {"epochs": 20, "prune": 0.5},
    }  # fmt: skip
    execution = Execution(device="cpu", data=folder / "data")
    spec = AgentSpec(name="agents/bc", settings=settings)
    return Cast.gather(Registry(), suite(**scenario), spec, execution)


def live(cast, folder, stop_before=None, resume=False):
    """Run the lifetime, interrupted before a block if asked for, and return its bundle."""

    def progress(done, planned, block, blocks, text, share):
        if block == stop_before:
            raise KeyboardInterrupt

    try:
        Run(Registry(), cast).execute(folder, resume=resume, progress=progress)
    except KeyboardInterrupt:
        assert stop_before is not None
    (path,) = folder.glob("*/manifest.json")
    return read_bundle(path.parent)


KNOWN = ["task", "boundaries"]


@pytest.mark.parametrize(
    "algorithm, reveal, keep",
    [(name, KNOWN, "best") for name in ALGORITHMS]
    + [("sequential", [], "last"), ("replay", [], "best"), ("agem", [], "last")]
    + [("ewc", [], "last"), ("single_task", ["task"], "last")],
)
def test_a_lifetime_of_probes_is_learned_from_demonstrations(tmp_path, algorithm, reveal, keep):
    bundle = live(cast_for(tmp_path, algorithm, keep=keep, reveal=reveal), tmp_path / "run")
    assert bundle.manifest.status == "complete"
    assert list((tmp_path / "run").glob("*/scores.json"))
    (segment,) = bundle.provenance.segments
    assert segment.agent["device"] == "cpu"
    assert segment.agent["torch"] == torch.__version__
    series = bundle.series.to_pydict()
    assert len(series["value"]) == 80
    assert set(series["name"]) == {"loss"}
    final = bundle.lifetime.episodes.column("score").to_pylist()[-10:]
    assert final == [1.0] * 10


def test_a_policy_of_another_process_is_evaluated_in_a_lifetime(tmp_path):
    def always_first(request):
        return np.zeros(len(request.slots), np.int64)

    server = Server(always_first, "tcp://127.0.0.1:0")
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        spec = AgentSpec(name="agents/remote", settings={"address": server.address})
        execution = Execution(data=tmp_path / "data")
        cast = Cast.gather(Registry(), suite(), spec, execution)
        bundle = live(cast, tmp_path / "run")
    finally:
        server.close()
        thread.join()
    assert bundle.manifest.status == "complete"
    assert bundle.provenance.segments[0].agent["policy"] == "always_first"
    assert len(bundle.lifetime.episodes) == 5 * (2 * 3 + 1 + 2)


@pytest.mark.parametrize(
    "algorithm, stop_before",
    [("replay", 2), ("multitask", 8), ("packnet", 5), ("single_task", 6), ("ewc", 8)],
)
def test_an_interrupted_lifetime_goes_on_as_if_nothing_had_been(tmp_path, algorithm, stop_before):
    cast = cast_for(tmp_path, algorithm, keep="best")
    unbroken = live(cast, tmp_path / "unbroken")
    stopped = live(cast, tmp_path / "broken", stop_before)
    assert stopped.manifest.status == "interrupted"
    broken = live(cast, tmp_path / "broken", resume=True)
    assert broken.manifest.status == "complete"
    for name, table in unbroken.manifest.tables.items():
        assert broken.manifest.tables[name].content_sha256 == table.content_sha256, name
