"""Helpers of the tests: a suite with known answers, and short ways to run and read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from l2bench.cast import AgentSpec, Cast, Execution
from l2bench.lifetimes import Run
from l2bench.plugins import Registry
from l2bench.suite import Suite, judge

ROOT = Path(__file__).parent.parent


def probe_suite(
    tasks: int = 3,
    *,
    source: str = "interaction",
    unit: str = "episodes",
    amount: int = 4,
    every: int | None = 2,
    scenario: dict[str, Any] | None = None,
    **more: Any,
) -> Suite:
    """A suite of probe tasks, on which every metric is known in closed form."""
    learning = {"source": source, "unit": unit, "amount": amount, "every": every}
    data = {
        "id": "probe",
        "version": "1.0",
        "title": "Probe",
        "tasks": [
            {
                "id": f"task-{number}",
                "environment": "l2bench/probe",
                "task": f"probe_{number}",
                "horizon": 1,
                "measure": "accuracy" if source == "samples" else "success",
                "learning": learning,
            }
            for number in range(1, tasks + 1)
        ],
        "scenario": _scenario(every, scenario or {}),
        "seeds": [0],
        **more,
    }
    return judge(Suite, data, "probe suite")


def _scenario(every: int | None, given: dict[str, Any]) -> dict[str, Any]:
    kind = given.get("kind", "sequential")
    best = {"keep": "best"} if every and kind == "sequential" else {}
    return {"kind": kind, "episodes": 5, **best, **given}


def run_suite(
    registry: Registry,
    suite: Suite,
    agent: str,
    folder: Path,
    *,
    settings: dict[str, Any] | None = None,
    resume: bool = False,
    **execution: Any,
) -> dict[str, Any]:
    """Run a suite into a folder and return the first lifetime's scores."""
    spec = AgentSpec(name=agent, settings=settings or {})
    how = Execution(data=folder.parent / "data", **execution)
    cast = Cast.gather(registry, suite, spec, how)
    Run(registry, cast).execute(folder, resume=resume, progress=lambda *_: None)
    return scores_in(folder)


def scores_in(folder: Path) -> dict[str, Any]:
    """The scores of the first bundle in a folder."""
    first = sorted(folder.glob("*.l2b"))[0]
    return json.loads((first / "scores.json").read_text())


def value(scores: dict[str, Any], id: str, task: str | None = None, source: str | None = None):
    """One metric's value in scores."""
    found = [
        metric["value"]
        for metric in scores["metrics"]
        if (metric["id"], metric["task"], metric["source"]) == (id, task, source)
    ]
    assert len(found) == 1, f"{id} ({task}, {source}): {len(found)} entries"
    return found[0]


def content_hashes(folder: Path) -> dict[str, dict[str, str]]:
    """The content hashes of all tables of all bundles in a folder, by seed."""
    hashes = {}
    for bundle in folder.glob("*.l2b"):
        manifest = json.loads((bundle / "manifest.json").read_text())
        seed = manifest["seed"]["lifetime"]
        hashes[seed] = {name: ref["content_sha256"] for name, ref in manifest["tables"].items()}
    return hashes
