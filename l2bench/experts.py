"""The lifetimes that a lifetime is compared with: single-task experts and the multitask bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from l2bench.bundle.hashing import document_hash
from l2bench.scenario import learned_tasks, plan
from l2bench.suite import Scenario, Suite, WrittenBlock

#: The id of the suite of a multitask bound.
BOUND = "multitask-bound"


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


def bound_suite(suite: Suite) -> Suite:
    """Return the suite of the multitask bound: all tasks are met, then all evaluated once.

    A joint learner starts anew with every task, so that only the last stage counts. That task is
    the one with the largest budget (the last listed of several), which it keeps; those before it
    get one unit each, for their data to be known. The policy of the end is evaluated, whatever the
    suite keeps: the best checkpoint would be the best at one task alone. Where tasks end is always
    revealed, since a joint learner has to know.
    """
    blocks = plan(suite, suite.seeds[0])
    budgets = dict.fromkeys(learned_tasks(suite), 0)
    for block in blocks:
        if block.kind == "learn" and block.task is not None:
            budgets[block.task] += block.stop - block.start
    *before, last = sorted(budgets, key=lambda task: budgets[task])
    ids = {task: suite.tasks[task].id for task in budgets}
    reveal = suite.scenario.reveal
    return Suite(
        id=BOUND,
        version="1",
        title="Multitask bound",
        tasks=suite.tasks,
        scenario=Scenario(
            kind="blocks",
            blocks=(
                *(WrittenBlock(learn=ids[task], amount=1) for task in before),
                WrittenBlock(learn=ids[last], amount=budgets[last]),
                WrittenBlock(evaluate=tuple(ids.values())),
            ),
            episodes=suite.scenario.episodes,
            reveal=reveal if "boundaries" in reveal else (*reveal, "boundaries"),
        ),
        seeds=suite.seeds,
        metrics=(),
    )


def companion_suites(suite: Suite) -> tuple[Suite, ...]:
    """Return the suites of the experts and of the bound that a suite asks for."""
    tasks = learned_tasks(suite) if suite.experts else ()
    bound = (bound_suite(suite),) if suite.bound else ()
    return (*(expert_suite(suite, task) for task in tasks), *bound)


def content_key(
    suite: Suite, agent_hash: str, environments: Mapping[str, Any], code: Mapping[str, str]
) -> str:
    """Return the name by which companions are kept and found again: 16 hexadecimal digits.

    It covers the companion's suite, the agent as configured, the simulators' versions, and
    ``code``, the digest of each distribution that takes part.
    """
    facts = {"suite": suite.hash, "agent": agent_hash, "environments": dict(environments),
             "code": dict(code)}  # fmt: skip
    return document_hash("l2bench.experts.v2", facts).removeprefix("sha256:")[:16]
