"""``l2bench bundle``: look into bundles, pack them, and make copies without what is personal."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from l2bench.bundle.reader import Bundle, find_bundles, read_bundle
from l2bench.cli.main import print_json
from l2bench.cli.options import as_json
from l2bench.errors import UsageError, choices, nearest
from l2bench.report.text import printable

_IN = click.argument("path", metavar="BUNDLE", type=click.Path(path_type=Path))
_OUT = click.option("-o", "--out", type=click.Path(path_type=Path), help="Where to write it.")


@click.group()
def bundle() -> None:
    """Look into bundles, pack them into one file, and copy them."""


@bundle.command()
@_IN
@click.option("--privacy", is_flag=True, help="List the fields that look personal.")
@as_json
def show(path: Path, privacy: bool, as_json: bool) -> None:
    """Show what is in BUNDLE: who, on what, how far, at what cost, and with which code."""
    from l2bench.bundle.copies import looks_personal

    one = _one(path)
    if privacy:
        found = [{"file": file, **field._asdict()} for file, field in looks_personal(one)]
        if as_json:
            print_json({"bundle": one.folder.name, "personal": found})
            return
        for each in found:
            click.echo(printable(f"{each['file']}  {each['place']}  {each['why']}: {each['text']}"))
        click.echo(f"{len(found)} fields look personal")
        return
    if as_json:
        print_json(_documents(one))
        return
    for name, value in _facts(one):
        click.echo(printable(f"{name:12}{value}"))


@bundle.command()
@_IN
@_OUT
@as_json
def pack(path: Path, out: Path | None, as_json: bool) -> None:
    """Pack BUNDLE into one file, NAME.l2b.zip: the same bytes every time."""
    from l2bench.bundle import copies

    one = _one(path)
    target = out or Path(f"{one.folder.name}.zip")
    copies.pack(one, target)
    _written(target, as_json)


@bundle.command()
@click.argument("path", metavar="ARCHIVE", type=click.Path(path_type=Path))
@_OUT
@as_json
def unpack(path: Path, out: Path | None, as_json: bool) -> None:
    """Unpack ARCHIVE, if nothing about it is suspicious."""
    from l2bench.bundle.archive import extract_archive

    if not path.exists():
        raise UsageError(f"{path} does not exist")
    target = out or Path(path.name.removesuffix(".zip"))
    extract_archive(path, target)
    _written(target, as_json)


@bundle.command()
@_IN
@_OUT
@as_json
def scrub(path: Path, out: Path | None, as_json: bool) -> None:
    """Copy BUNDLE without what looks personal, for publishing; tables and scores are the same."""
    from l2bench.bundle import copies

    copies.scrub(_one(path), _needed(out))
    _written(_needed(out), as_json)


@bundle.command()
@_IN
@click.argument("out", type=click.Path(path_type=Path))
@as_json
def migrate(path: Path, out: Path, as_json: bool) -> None:
    """Copy BUNDLE to OUT in the present version of the format."""
    from l2bench.bundle import copies

    copies.migrate(_one(path), out)
    _written(out, as_json)


@bundle.command()
@click.argument("name", required=False)
@as_json
def schema(name: str | None, as_json: bool) -> None:
    """Print the JSON Schema of the document NAME, or the names there are."""
    folder = files("l2bench") / "bundle" / "schemas"
    known = sorted(
        entry.name.removesuffix(".json")
        for entry in folder.iterdir()
        if entry.name.endswith(".json")
    )
    if name is None:
        print_json({"schemas": known}) if as_json else click.echo("\n".join(known))
        return
    if name not in known:
        raise UsageError(f"unknown schema '{name}'{nearest(name, known)}; known: {choices(known)}")
    print_json(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))


def _one(path: Path) -> Bundle:
    found = find_bundles(path)
    if len(found) > 1:
        names = choices(each.name for each in found)
        raise UsageError(f"{path} holds {len(found)} bundles; give one of them: {names}")
    return read_bundle(found[0])


def _needed(out: Path | None) -> Path:
    if out is None:
        raise UsageError("give the folder to write with -o")
    return out


def _written(target: Path, as_json: bool) -> None:
    place = target.absolute()
    if as_json:
        print_json({"written": str(place)})
    else:
        click.echo(f"written  {place}")


def _documents(one: Bundle) -> dict[str, Any]:
    return {
        "bundle": one.folder.name,
        "manifest": one.manifest.model_dump(mode="json"),
        "agent": one.agent.model_dump(mode="json"),
        "provenance": one.provenance.model_dump(mode="json"),
    }


def _facts(one: Bundle) -> list[tuple[str, str]]:
    manifest, counts, budget = one.manifest, one.manifest.counts, one.manifest.budget
    code = manifest.l2bench
    facts = [
        ("bundle", one.folder.name),
        ("id", manifest.bundle_id),
        ("format", f"{manifest.format_version}, {manifest.fidelity}"),
        ("status", f"{manifest.status}, {counts.blocks_sealed} of {counts.blocks_planned} blocks"),
        ("suite", f"{manifest.suite.id} {manifest.suite.version}, {manifest.suite.division}"),
        ("suite hash", manifest.suite.suite_hash),
        ("agent", f"{manifest.agent.name} {manifest.agent.version}"),
        ("agent hash", manifest.agent.agent_hash),
        ("seed", str(manifest.seed.lifetime)),
        ("tuning", manifest.tuning.protocol),
        ("episodes", f"{counts.episodes_done} of {counts.episodes_planned}"),
        ("attempts", f"{counts.discarded_attempts} discarded, {counts.errors} errors"),
        ("cost", f"{budget.wall_s:.1f} s, {budget.cpu_s:.1f} s of CPU, {budget.lx_done} "
                 f"experiences, {budget.env_steps_total} steps"),
        ("l2bench", f"{code.version}{_code(code)}"),
    ]  # fmt: skip
    for plugin in manifest.plugins:
        place = ", in place" if plugin.editable else ""
        about = f"{plugin.name} ({plugin.distribution} {plugin.version}{place}{_code(plugin)})"
        facts.append((plugin.kind.replace("_", " "), about))
    for name, table in sorted(manifest.tables.items()):
        facts.append((name, f"{table.rows} rows, {table.content_sha256}"))
    for segment in one.provenance.segments:
        for task, probe in segment.probes.items():
            told = {True: "honours its seed", False: "DOES NOT honour its seed", None: "not tried"}
            facts.append(("task", f"{task}: {told[probe.seed_honoured]}"))
    facts.append(("files", f"{len(manifest.files)}, {_size(one)} bytes"))
    return facts


def _size(one: Bundle) -> int:
    return sum(each.bytes for each in one.manifest.files.values())


def _code(software: Any) -> str:
    words = []
    if software.git is not None:
        words.append(f"commit {software.git.commit[:12]}{' changed' if software.git.dirty else ''}")
    if software.modified_files:
        words.append(f"{software.modified_files} files modified")
    if software.record_sha256:
        words.append(f"files {software.record_sha256[:12]}")
    return "".join(f", {word}" for word in words)
