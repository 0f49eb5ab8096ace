"""``l2bench plugins`` and ``l2bench suites``: what there is, by name."""

from __future__ import annotations

import click

from l2bench.cli.main import print_json
from l2bench.cli.options import as_json
from l2bench.errors import Unsupported
from l2bench.plugins import KINDS, KNOWN_PLUGINS, Registry, how_to_install
from l2bench.report.text import printable


@click.command()
@click.option("--strict", is_flag=True, help="End with exit code 3 if a plugin is broken.")
@as_json
def plugins(strict: bool, as_json: bool) -> None:
    """List the plugins and every name they bring; a broken one is listed with its reason."""
    registry = Registry()
    if as_json:
        print_json({"plugins": [plugin.summary() for plugin in registry.plugins]})
    else:
        _show(registry)
    if strict and any(plugin.broken for plugin in registry.plugins):
        raise click.exceptions.Exit(Unsupported.exit_code)


def _show(registry: Registry) -> None:
    for plugin in registry.plugins:
        click.echo(printable(f"{plugin.name}  ({plugin.distribution} {plugin.version})"))
        if plugin.broken:
            click.echo(printable(f"  broken: {plugin.broken}"))
        for kind in KINDS:
            names = sorted(plugin.names.get(kind, {}))
            if names:
                click.echo(f"  {kind.replace('_', ' '):13} {', '.join(names)}")
    missing = sorted(set(KNOWN_PLUGINS) - {plugin.name for plugin in registry.plugins})
    for name in missing:
        click.echo(f"{name}  not installed: {how_to_install(KNOWN_PLUGINS[name])}")


@click.command()
@as_json
def suites(as_json: bool) -> None:
    """List the suites that can be run by name."""
    from l2bench.cli.compose import header

    registry = Registry()
    rows = [{"name": name, **header(registry, name)} for name in sorted(registry.names("suites"))]
    if as_json:
        print_json({"suites": rows})
        return
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        click.echo(printable(f"{row['name']:{width}}  {row['title']}"))
