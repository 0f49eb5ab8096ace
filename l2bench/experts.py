"""Single-task experts: the lifetimes that tell what an agent learns of a task on its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from l2bench.bundle.hashing import document_hash
from l2bench.suite import Scenario, Suite


def expert_suite(suite: Suite, task: int) -> Suite:
    """Return the suite of one task's expert: the same budget, checkpoints, episodes and seeds.

    It depends on nothing else of the suite, so that suites that share a task share its experts.
    """
    scenario = suite.scenario
    return Suite(
        id="single-task-expert",
        version="1",
        title=f"Single-task expert of {suite.tasks[task].id}",
        tasks=(suite.tasks[task],),
        scenario=Scenario(
            kind="sequential",
            keep=scenario.keep,
            episodes=scenario.episodes,
            checkpoint_episodes=scenario.checkpoint_episodes,
            reveal=scenario.reveal,
        ),
        seeds=suite.seeds,
        metrics=(),
    )


def content_key(
    suite: Suite, agent_hash: str, environments: Mapping[str, Any], code: Mapping[str, str]
) -> str:
    """Return the name by which experts are kept and found again: 16 hexadecimal digits.

    It covers the expert's suite, the agent as configured, the simulators' versions, and ``code``,
    the digest of each distribution that takes part.
    """
    facts = {"suite": suite.hash, "agent": agent_hash, "environments": dict(environments),
             "code": dict(code)}  # fmt: skip
    return document_hash("l2bench.experts.v2", facts).removeprefix("sha256:")[:16]
