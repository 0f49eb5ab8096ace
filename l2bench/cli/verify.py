"""``l2bench verify``: do again what a bundle says was done, and compare."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from l2bench.bundle.reader import Bundle, find_bundles, read_bundle
from l2bench.cast import Cast, Execution
from l2bench.cli.main import print_json
from l2bench.cli.options import as_json
from l2bench.cli.sources import rescored
from l2bench.difference import difference
from l2bench.errors import RunFailed, UsageError
from l2bench.lifetimes import Run
from l2bench.plugins import Registry
from l2bench.report.text import plural, printable
from l2bench.verification import (
    Verified,
    again,
    cast_of,
    changed_versions,
    draw,
    nothing,
    recorded,
    replay,
    traced,
    untraced,
)


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--episodes", type=click.IntRange(1), help="How many to draw; default: all traced.")
@click.option(
    "--kept-agents",
    "agents",
    type=click.Path(path_type=Path),
    help="Play with the agents that execution.keep_agents=true left, not from traces.",
)
@click.option("--rerun", is_flag=True, help="Run the whole lifetime again, and compare every row.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("l2bench-data"),
    show_default=True,
    help="The folder that demonstrations and data sets are kept in.",
)
@as_json
def verify(
    path: Path,
    episodes: int | None,
    agents: Path | None,
    rerun: bool,
    data: Path,
    as_json: bool,
) -> None:
    """Play episodes of the bundles at PATH again, and compare how they went.

    From their traces, without the agent; with the agents that were kept; or by running the whole
    lifetime again. Bundles that keep no traces are named and left out. Ends with exit code 1 if
    anything comes out otherwise, or nothing can be played again.
    """
    if rerun and (agents or episodes):
        raise UsageError(
            "--rerun runs everything again; it goes without --kept-agents and --episodes"
        )
    registry = Registry()
    found = []
    bundles = [read_bundle(place) for place in find_bundles(path)]
    from_traces = not rerun and agents is None
    for bundle in bundles:
        cast = cast_of(registry, bundle, Execution(data=data))
        with contextlib.redirect_stdout(sys.stderr):
            changed = changed_versions(cast, bundle)
            if rerun:
                result = _rerun(registry, cast, bundle)
            elif from_traces and not traced(bundle):
                result = {"episodes": [], "equal": None, "reason": untraced(bundle)}
            else:
                played = list(_played(cast, bundle, episodes, agents))
                result = {
                    "episodes": [{**asdict(each), "equal": each.equal} for each in played],
                    "recorded_episodes": bundle.lifetime.episodes.num_rows,
                    "equal": all(each.equal for each in played),
                }
        found.append({"bundle": bundle.folder.name, "changed_versions": changed, **result})
    if all(each["equal"] is None for each in found):
        raise nothing(path, bundles)
    equal = all(each["equal"] in (True, None) for each in found)
    if as_json:
        print_json({"equal": equal, "bundles": found})
    else:
        for each in found:
            _show(each)
        click.echo(_total(found))
    if not equal:
        raise click.exceptions.Exit(RunFailed.exit_code)


def _played(
    cast: Cast, bundle: Bundle, episodes: int | None, agents: Path | None
) -> Iterator[Verified]:
    if agents is None:
        return replay(cast, bundle, draw(traced(bundle), episodes, bundle))
    own = agents / bundle.folder.name
    place = own if own.is_dir() else agents
    return again(cast, bundle, place, draw(recorded(bundle), episodes, bundle))


def _rerun(registry: Registry, cast: Cast, bundle: Bundle) -> dict[str, Any]:
    """Run the lifetime again in a folder that is thrown away; return where the two part."""
    seed = bundle.manifest.seed.lifetime
    cast.execution = cast.execution.model_copy(update={"seeds": (seed,)})
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "run"
        Run(registry, cast).execute(place, resume=False, progress=lambda *_: None)
        (new,) = find_bundles(place)
        pair = [bundle, read_bundle(new)]
        found = difference(pair[0], pair[1], rescored(registry, pair, (), ()))
    return {"equal": found["identical"], "difference": found}


def _total(found: Sequence[dict[str, Any]]) -> str:
    """Return one line on all bundles."""
    tried = [each for each in found if each["equal"] is not None]
    bundles = plural(len(tried), "bundle")
    if "difference" in found[0]:
        same = sum(each["equal"] for each in found)
        return f"verified {same} of {bundles} in a second run"
    played = [episode for each in found for episode in each["episodes"]]
    same = sum(episode["equal"] for episode in played)
    rest = len(found) - len(tried)
    more = f"; {plural(rest, 'bundle')} without traces" if rest else ""
    return f"verified {same} of {plural(len(played), 'episode')} of {bundles}{more}"


def _show(found: dict[str, Any]) -> None:
    click.echo(printable(found["bundle"]))
    for text in found["changed_versions"]:
        click.echo(printable(f"  {text}"))
    if "difference" in found:
        at = found["difference"]["parts_at"]
        where = "every row came out again" if at is None else f"parts at {at['table']}, {at['key']}"
        click.echo(printable(f"  run again: {where}"))
        return
    if found["equal"] is None:
        click.echo(printable(f"  not verified: {found['reason']}"))
        return
    played = found["episodes"]
    wrong = [each for each in played if not each["equal"]]
    for each in wrong:
        what = "; ".join(f"{k} was {was}, now {now}" for k, (was, now) in each["differs"].items())
        step = "" if each["step"] is None else f"from step {each['step']} on; "
        click.echo(
            printable(
                f"  block {each['block']}, {each['task']}, episode {each['episode']}: "
                f"{step}{what or 'same outcome'}"
            )
        )
    how = {"trace": "their traces", "agent": "the kept agent"}[played[0]["how"]]
    click.echo(
        f"  {len(played) - len(wrong)} of {len(played)} episodes came out again from {how}; "
        f"the bundle records {found['recorded_episodes']}"
    )
