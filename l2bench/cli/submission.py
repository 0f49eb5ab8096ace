"""``l2bench submission``: make a submission from runs, and check it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from l2bench.cli.check import opened, show
from l2bench.cli.options import as_json

#: Options that go into submission.json by their own name, and those of its agent.
PLAIN = ("name", "submitter", "data_disclosure", "compute", "note", "supersedes", "date")
LARGEST = 100_000
OF_AGENT = ("name", "version", "code_url", "commit", "paper_url", "licence")


@click.group()
def submission() -> None:
    """Make or check a submission to a leaderboard."""


@submission.command("build")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", "out", required=True, type=click.Path(path_type=Path),
              help="The submission's folder; it must not exist.")  # fmt: skip
@click.option(
    "--from", "source", type=click.Path(path_type=Path), help="A YAML file of the options."
)
@click.option("--name", help="The submission's title.")
@click.option("--submitter", help="Who submits: lower-case letters, digits, hyphens.")
@click.option("--agent-name", help="Default: the agent's name in the bundles.")
@click.option("--agent-version", help="Default: the agent's version in the bundles.")
@click.option("--agent-code-url", help="Where the agent's code is.")
@click.option("--agent-commit", help="Its commit.")
@click.option("--agent-paper-url", help="Where it is described.")
@click.option("--agent-licence", help="Its licence.")
@click.option("--data-disclosure", help="What data or pretraining the agent had.")
@click.option("--compute", help="What it was run on.")
@click.option("--note", help="Anything else a reader should know.")
@click.option("--supersedes", help="An older submission of yours that this one replaces.")
@click.option("--extra-seed", "extra_seeds", type=int, multiple=True,
              help="A seed beyond the prescribed ones; repeatable.")  # fmt: skip
@click.option("--date", "date", help="The day of the submission. Default: today.")
@click.option("--readme", type=click.Path(path_type=Path), help="A README.md to include.")
@click.option("--valid-only", is_flag=True, help="Leave out runs with errors; ends with code 4.")
@click.option("--board", type=click.Path(path_type=Path), help="Check against this board's rules.")
@click.option("--plugins", is_flag=True, help="Also use metric sets of installed plugins.")
@as_json
def build(
    runs: tuple[Path, ...],
    out: Path,
    source: Path | None,
    readme: Path | None,
    valid_only: bool,
    board: Path | None,
    plugins: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Write a submission of the bundles at RUNS and check it.

    It holds every prescribed seed's bundle as an archive, the numbers that they give, and what
    you say about them.
    """
    from l2bench.check.build import build_submission

    about = _about(source, given)
    text = None if readme is None else _text(readme)
    built = build_submission(
        runs, out, about, board=opened(board), plugins=plugins, valid_only=valid_only, readme=text
    )
    left_out = {str(path): [f.data() for f in found] for path, found in built.left_out.items()}
    for path in left_out:
        click.echo(f"left out: {path}", err=True)
    folder = str(out.absolute()) if built.kept else None
    code = show([built.checked], as_json, {"folder": folder, "left_out": left_out})
    if not as_json:
        click.echo(f"submission  {folder or 'not written: put the errors right, then build again'}")
    return 4 if left_out and code in (0, 1) else code


@submission.command("check")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--board", type=click.Path(path_type=Path), help="Check against this board's rules.")
@click.option("--plugins", is_flag=True, help="Also use metric sets of installed plugins.")
@as_json
def check(path: Path, board: Path | None, plugins: bool, as_json: bool) -> int:
    """Check the submission at PATH as the board's own check does."""
    from l2bench.check.models import DOCUMENT
    from l2bench.check.submission import check_submission, unwrapped
    from l2bench.errors import RunFailed, UsageError

    if not path.exists():
        raise UsageError(f"{path} does not exist")
    if not (unwrapped(path) / DOCUMENT).exists():
        raise RunFailed(
            f"0 submissions found at {path}; expected {DOCUMENT}, README.md and runs/*.l2b.zip"
        )
    return show([check_submission(path, opened(board), plugins=plugins)], as_json)


def _about(source: Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the authors say: the file's words, and over them those of the options."""
    about = _document(source) if source is not None else {}
    about |= {key: given[key] for key in PLAIN if given.get(key) is not None}
    if given["extra_seeds"]:
        about["extra_seeds"] = list(given["extra_seeds"])
    agent = dict(about.get("agent") or {})
    agent |= {key: given[f"agent_{key}"] for key in OF_AGENT if given[f"agent_{key}"] is not None}
    return {**about, "agent": agent} if agent else about


def _document(path: Path) -> dict[str, Any]:
    """Read a plain YAML mapping: no tags, no aliases, no name twice."""
    import yaml

    from l2bench.errors import UsageError

    text = _text(path)
    if len(text) > LARGEST:
        raise UsageError(f"{path} holds more than {LARGEST:,} characters")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise UsageError(f"{path} holds YAML aliases; write the values out")
        _refuse_repeated(yaml.compose(text, yaml.SafeLoader), path)
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{path} cannot be read as YAML: {first}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path} should hold names and values, found {type(data).__name__}")
    return {str(key): value for key, value in data.items()}


def _refuse_repeated(node: Any, path: Path) -> None:
    from yaml import MappingNode

    from l2bench.errors import UsageError

    if not isinstance(node, MappingNode):
        return
    names = [str(key.value) for key, _ in node.value]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{path}: '{name}' is given twice")
    for _, value in node.value:
        _refuse_repeated(value, path)


def _text(path: Path) -> str:
    from l2bench.errors import UsageError

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as text: {error}") from None
