"""The commands that plugins bring: listed by name, imported when used, never in place of ours."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import click

from l2bench.errors import Unsupported, UsageError
from l2bench.plugins import Registry
from l2bench.report.text import printable


@dataclass(frozen=True)
class Offer:
    """A command name and the qualified names (``plugin/name``) of those that claim it."""

    claims: tuple[str, ...]
    distributions: tuple[str, ...]
    taken: bool

    @property
    def refusal(self) -> str:
        """Why the name cannot be used, "" if it can."""
        who = " and ".join(self.distributions)
        if self.taken:
            return f"refused: {who} claims a name of L2bench's own"
        return f"refused: claimed by {who}" if len(self.claims) > 1 else ""


def offers(registry: Registry, own: Collection[str]) -> dict[str, Offer]:
    """Return every command of a plugin by its name; ``own`` are the names that are taken."""
    found: dict[str, Offer] = {}
    for qualified, plugin in sorted(registry.names("commands").items()):
        name = qualified.split("/", 1)[1]
        before = found.get(name, Offer((), (), name in own))
        whose = f"{plugin.distribution} {plugin.version}"
        found[name] = Offer(
            (*before.claims, qualified), (*before.distributions, whose), before.taken
        )
    return found


def overview(own: Collection[str]) -> list[tuple[str, str]]:
    """Return name and one line for each command of a plugin, without importing any."""
    rows = []
    for name, offer in offers(Registry(), own).items():
        rows.append(
            (printable(name), printable(offer.refusal or f"From {offer.distributions[0]}."))
        )
    return rows


def load(name: str, own: Collection[str]) -> click.Command | None:
    """Import and return a plugin's command; None if no plugin has one of this name.

    Raises:
        UsageError: several plugins claim the name.
        Unsupported: it cannot be imported, or is no command.
    """
    registry = Registry()
    offer = offers(registry, own).get(name)
    if offer is None:
        return None
    if offer.refusal:
        raise UsageError(f"command '{name}' is {offer.refusal}; uninstall one of them")
    command = registry.resolve("commands", offer.claims[0])
    if not isinstance(command, click.Command):
        raise Unsupported(
            f"command '{name}' of {offer.distributions[0]} is {type(command).__name__}, not a "
            f"command; a plugin has to name a click command or group"
        )
    return command


def names(own: Collection[str]) -> list[str]:
    """Return the names of the commands of plugins."""
    return list(offers(Registry(), own))
