"""``l2bench plan``: the blocks of a lifetime, what they cost, and what they can measure."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import click

from l2bench.bundle.lifetime import synthetic
from l2bench.cast import Cast
from l2bench.cli.compose import Composed, compose
from l2bench.cli.main import print_json
from l2bench.cli.options import as_json, suite_and_overrides
from l2bench.deviations import flat
from l2bench.errors import Unsupported
from l2bench.experts import bound_suite, companion_suites, expert_suite
from l2bench.plugins import Registry
from l2bench.report.text import deviates, listing, plural, printable
from l2bench.scenario import Block, learned_tasks, learning_of
from l2bench.scenario import plan as plan_blocks
from l2bench.scoring import metric_sets
from l2bench.suite import Suite


@click.command()
@suite_and_overrides
@click.option("--blocks", "show_blocks", is_flag=True, help="List every block.")
@click.option("--why", is_flag=True, help="List every value that cannot be measured, and why.")
@as_json
def plan(
    suite: str, overrides: tuple[str, ...], show_blocks: bool, why: bool, as_json: bool
) -> None:
    """Show the blocks of SUITE and which metrics they can identify; nothing is run.

    OVERRIDES are key=value, such as profile=smoke or scenario.episodes=5.
    """
    registry = Registry()
    composed = compose(registry, suite, overrides)
    try:
        cast = Cast.gather(registry, composed.suite, composed.agent, composed.execution)
        missing = None
    except Unsupported as error:  # a plan needs no simulator
        cast, missing = None, str(error)
    described = {**describe(registry, composed, cast), "missing_here": missing}
    if missing and not as_json:
        click.echo(f"cannot be run here: {missing}")
    if as_json:
        print_json(described)
        return
    show(described, show_blocks=show_blocks, why=why)


def describe(registry: Registry, composed: Composed, cast: Cast | None) -> dict[str, Any]:
    """Return a plan as plain data: counts, blocks, and the lint of every metric.

    Without a cast, the horizons that environments have by themselves are not known.
    """
    suite, execution = composed.suite, composed.execution
    seeds = execution.seeds or suite.seeds
    blocks = plan_blocks(suite, seeds[0])
    lifetime = synthetic(suite, seeds[0], most=2)
    tasks = learned_tasks(suite) if suite.experts else ()
    experts = [synthetic(expert_suite(suite, task), seeds[0], most=2) for task in tasks]
    bound = synthetic(bound_suite(suite), seeds[0], most=2) if suite.bound else None
    findings = []
    for metric_set in metric_sets(registry, suite.metrics, experts, bound=bound):
        for value in metric_set.score(lifetime).values:
            findings.append(
                {
                    "metric": value.id,
                    "task": value.task,
                    "source": value.source,
                    "identifiable": value.value is not None,
                    "reason": value.reason,
                }
            )
    return {
        "suite": {"id": suite.id, "version": suite.version, "hash": suite.hash},
        "agent": _agent(composed, cast),
        "deviations": list(composed.deviations),
        "seeds": list(seeds),
        "tasks": [task.id for task in suite.tasks],
        **_counts(suite, blocks, cast),
        "blocks": [_block(suite, block) for block in blocks],
        "companions": [_companion(each, seeds[0], cast) for each in companion_suites(suite)],
        "metrics": findings,
    }


def _counts(suite: Suite, blocks: tuple[Block, ...], cast: Cast | None) -> dict[str, int]:
    return {
        "learning_segments": sum(block.kind == "learn" for block in blocks),
        "evaluation_blocks": sum(block.kind == "eval" for block in blocks),
        "evaluation_episodes": sum(block.planned_episodes for block in blocks),
        "evaluation_steps_at_most": _evaluation_steps(suite, blocks, cast),
    }


def _companion(suite: Suite, seed: int, cast: Cast | None) -> dict[str, Any]:
    """Return what a lifetime that the suite's own is compared with comes to."""
    blocks = plan_blocks(suite, seed)
    return {
        "kind": suite.id,
        "tasks": [suite.tasks[task].id for task in learned_tasks(suite)],
        **_counts(suite, blocks, cast),
        "blocks": [_block(suite, block) for block in blocks],
    }


def estimate(cast: Cast, described: dict[str, Any]) -> dict[str, Any]:
    """Return an upper bound of the simulation time of all lifetimes and companions, in seconds.

    It counts every episode to its horizon at each environment's documented cost per step, spread
    over the evaluation workers; what the agent computes comes on top.
    """
    costs = {
        task.id: cast.environments[task.environment].step_seconds(task) for task in cast.suite.tasks
    }
    unknown = [name for name, cost in costs.items() if cost is None]
    if unknown:
        return {"seconds": None, "note": f"the cost of a step of '{unknown[0]}' is not known"}
    seconds = 0.0
    companions = described["companions"]
    for block in (b for part in (described, *companions) for b in part["blocks"]):
        for task in block["tasks"]:
            steps = cast.horizon(cast.suite.index(task)) or 1
            seconds += block["episodes"] * steps * (costs[task] or 0.0)
        if block["unit"] in ("steps", "episodes"):
            at = cast.suite.index(block["task"])
            each = 1 if block["unit"] == "steps" else (cast.horizon(at) or 0)
            seconds += (block["stop"] - block["start"]) * each * (costs[block["task"]] or 0.0)
    workers = max(1, cast.execution.workers)
    seeds = len(described["seeds"])
    lifetimes = plural(seeds * (1 + len(companions)), "lifetime")
    return {
        "seconds": seconds * seeds / workers,
        "note": (
            f"at most, for {lifetimes} with every episode at its horizon on "
            f"{plural(workers, 'worker')} with a core each, at the documented cost of a step; "
            f"--calibrate measures it here; episodes end at "
            f"success, and the agent's own computing and the building of simulators come on top"
        ),
    }


def _agent(composed: Composed, cast: Cast | None) -> dict[str, Any]:
    """Return the agent with the settings it would run with; without a cast those that are given."""
    agent = composed.agent.model_dump(mode="json")
    given = list(flat(agent["settings"]))
    if cast is not None:
        agent = {"name": cast.agent_name, "settings": cast.agent_settings.model_dump(mode="json")}
    return {**agent, "given": given}


def _evaluation_steps(suite: Suite, blocks: tuple[Block, ...], cast: Cast | None) -> int:
    steps = [
        (cast.horizon(cast.suite.index(task.id)) if cast else task.horizon) or 0
        for task in suite.tasks
    ]
    return sum(block.episodes * steps[task] for block in blocks for task in block.tasks)


def _block(suite: Suite, block: Block) -> dict[str, Any]:
    names = [task.id for task in suite.tasks]
    learning = learning_of(suite, block.task) if block.kind == "learn" else None  # type: ignore[arg-type]
    return {
        "index": block.index,
        "kind": block.kind,
        "role": block.role,
        "task": names[block.task] if block.task is not None else None,
        "unit": learning.unit if learning else None,
        "start": block.start if learning else None,
        "stop": block.stop if learning else None,
        "checkpoint": block.checkpoint,
        "tasks": [names[task] for task in block.tasks],
        "episodes": block.episodes,
        "policy": block.policy,
    }


def show(described: dict[str, Any], *, show_blocks: bool = False, why: bool = False) -> None:
    """Print a plan for people."""
    suite = described["suite"]
    click.echo(f"{suite['id']} {suite['version']}  {suite['hash']}")
    if line := deviates(described["deviations"]):
        click.echo(line)
    _show_agent(described["agent"])
    click.echo(f"seeds {listing(described['seeds'], 20)}")
    click.echo(
        f"per seed: {len(described['tasks'])} tasks, {described['learning_segments']} learning "
        f"segments, {described['evaluation_blocks']} evaluation blocks with "
        f"{described['evaluation_episodes']:,} evaluation episodes "
        f"(at most {described['evaluation_steps_at_most']:,} steps)"
    )
    if described["companions"]:
        click.echo(_beside(described["companions"]))
    if show_blocks:
        for block in described["blocks"]:
            click.echo(f"  {block['index']:4d}  {_line(block)}")
    _show_lint(described["metrics"], why)


def _show_agent(agent: dict[str, Any]) -> None:
    """Print the agent, the settings that are given, and those that are as its class has them."""
    click.echo(printable(f"agent {agent['name']}"))
    settings = flat(agent["settings"])
    rest = [key for key in settings if key not in agent["given"]]
    for head, keys in (("set", agent["given"]), ("default", rest)):
        texts = [f"{key}={_value(settings[key])}" for key in keys if key in settings]
        for line in textwrap.wrap(printable(", ".join(texts)), 88, break_on_hyphens=False):
            click.echo(f"  {head:9}{line}")
            head = ""


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _beside(companions: list[dict[str, Any]]) -> str:
    """Return the line on experts and bound, which are run once and then found again."""
    kinds = [each["kind"] for each in companions]
    counted = {kind: kinds.count(kind) for kind in kinds}
    parts = [plural(n, " ".join(kind.rsplit("-", 1))) for kind, n in counted.items()]
    episodes, steps = (
        sum(each[key] for each in companions)
        for key in ("evaluation_episodes", "evaluation_steps_at_most")
    )
    return (
        f"beside it, per seed: {', '.join(parts)} with {episodes:,} evaluation episodes "
        f"(at most {steps:,} steps), unless they are there already"
    )


def _line(block: dict[str, Any]) -> str:
    if block["kind"] == "learn":
        return f"learn     {block['task']}  {block['unit']} {block['start']}-{block['stop']}"
    at = f" at {block['checkpoint']}" if block["role"] == "curve" else ""
    tasks = ", ".join(block["tasks"])
    return f"evaluate  {tasks}{at}  ({block['role']}, {block['episodes']} episodes each)"


def _show_lint(findings: list[dict[str, Any]], why: bool) -> None:
    whole = [f for f in findings if f["task"] is None]
    known = [f["metric"] for f in whole if f["identifiable"]]
    click.echo(f"can be measured: {', '.join(known) or 'nothing'}")
    for finding in whole:
        if not finding["identifiable"]:
            click.echo(f"cannot: {finding['metric']}: {finding['reason']}")
    parts = [f for f in findings if f["task"] is not None and not f["identifiable"]]
    if not why:
        if parts:
            click.echo(
                f"{len(parts)} values of single tasks or pairs cannot be measured: see --why"
            )
        return
    for finding in parts:
        pair = f"{finding['source']} -> " if finding["source"] else ""
        click.echo(f"cannot: {finding['metric']}, {pair}{finding['task']}: {finding['reason']}")
