"""The registry: every environment, agent, metric set and suite by its name ``plugin/name``."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import (
    EntryPoint,
    PackageNotFoundError,
    distributions,
    packages_distributions,
    requires,
    version,
)
from pathlib import Path
from typing import Any, Literal, get_args

import pluggy

from l2bench import hookspecs
from l2bench.errors import FOREIGN, Unsupported, UsageError, choices, nearest

Kind = Literal[
    "environments", "agents", "metric_sets", "suites", "configs", "observers", "commands"
]
KINDS: tuple[Kind, ...] = get_args(Kind)

#: Plugins of the house that may not be installed, and what to install for them.
KNOWN_PLUGINS = {"agents": "l2bench-agents", "libero": "l2bench-libero"}


@dataclass
class Plugin:
    """One entry point: who brings it, what it registers, or why it is broken."""

    name: str
    distribution: str
    version: str
    entry_point: str
    broken: str | None = None
    names: dict[Kind, dict[str, Any]] = field(default_factory=dict)

    @property
    def package(self) -> str:
        """The top-level package that holds the plugin's code."""
        return self.entry_point.split(":")[0].split(".")[0]

    def summary(self) -> dict[str, Any]:
        """Return the plugin as plain data."""
        return {
            "name": self.name,
            "distribution": self.distribution,
            "version": self.version,
            "entry_point": self.entry_point,
            "broken": self.broken,
            **{kind: sorted(self.names.get(kind, {})) for kind in KINDS},
        }


def how_to_install(package: str) -> str:
    """Return the commands that install one of the project's own plugins."""
    return (
        f"pip install {package}, or in a clone of the repository: "
        f"pip install -c plugins/constraints.txt -e plugins/{package}"
    )


class Registry:
    """All plugins found through the entry-point group ``l2bench``.

    A broken plugin is kept with its reason and is an error only when one of its names is used.
    Two distributions that claim one plugin name are an error when that name is used. A plugin is
    imported when one of its names, or the list of all, is asked for.
    """

    def __init__(self, entry_points: list[tuple[EntryPoint, str, str]] | None = None) -> None:
        self._hooks = pluggy.PluginManager(hookspecs.GROUP)
        self._hooks.add_hookspecs(hookspecs)
        found = list(_entry_points()) if entry_points is None else entry_points
        counts = Counter(entry_point.name for entry_point, _, _ in found)
        self._plugins: list[Plugin] = []
        self._unread: dict[str, Callable[[], Any]] = {}
        for entry_point, distribution, release in sorted(found, key=lambda item: item[0].name):
            plugin = Plugin(entry_point.name, distribution, release, entry_point.value)
            self._plugins.append(plugin)
            if not release:
                plugin.broken = "its distribution's metadata name no name or version; reinstall it"
            elif counts[entry_point.name] > 1:
                claims = sorted(d for e, d, _ in found if e.name == entry_point.name)
                plugin.broken = (
                    f"the plugin name '{entry_point.name}' is claimed by {' and '.join(claims)}; "
                    f"uninstall one of them"
                )
            else:
                self._unread[plugin.name] = entry_point.load

    @property
    def plugins(self) -> list[Plugin]:
        """All plugins by name."""
        for plugin in self._plugins:
            self._read(plugin)
        return self._plugins

    def _called(self, name: str) -> list[Plugin]:
        """Return the plugins of one name, without importing any other."""
        found = [plugin for plugin in self._plugins if plugin.name == name]
        for plugin in found:
            self._read(plugin)
        return found

    def _read(self, plugin: Plugin) -> None:
        load = self._unread.pop(plugin.name, None)
        if load is not None:
            self._load(plugin, load)

    def _load(self, plugin: Plugin, load: Callable[[], Any]) -> None:
        try:
            implementation = load()
            self._hooks.register(implementation, name=plugin.name)
            self._hooks.check_pending()
            for kind in KINDS:
                caller = getattr(self._hooks.hook, f"l2bench_{kind}")
                for hook in caller.get_hookimpls():
                    if hook.plugin_name == plugin.name:
                        plugin.names[kind] = dict(hook.function())
        except FOREIGN as error:
            plugin.broken = f"{type(error).__name__}: {error}{_wanted(plugin, error)}"
            plugin.names = {}
            if self._hooks.has_plugin(plugin.name):
                self._hooks.unregister(name=plugin.name)

    def names(self, kind: Kind) -> dict[str, Plugin]:
        """Return every qualified name of this kind and the plugin that brings it."""
        return {
            f"{plugin.name}/{name}": plugin
            for plugin in self.plugins
            for name in plugin.names.get(kind, {})
        }

    def qualify(self, kind: Kind, name: str) -> str:
        """Return the qualified form of a name; a bare one works where only one plugin has it.

        Raises:
            UsageError: unknown or ambiguous name, with the nearest one.
            Unsupported: the plugin is missing or broken, with the remedy.
        """
        prefix, slash, rest = name.partition("/")
        if slash and any(rest in plugin.names.get(kind, {}) for plugin in self._called(prefix)):
            return name
        known = self.names(kind)
        label = kind.replace("_", " ").removesuffix("s")
        if "/" not in name:
            matches = sorted(q for q in known if q.split("/", 1)[1] == name)
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise UsageError(
                    f"{label} '{name}' is offered by several plugins: {', '.join(matches)}; "
                    f"give the full name"
                )
        self._refuse_unusable_plugin(label, name)
        clash = next((p.broken for p in self.plugins if p.name == "l2bench" and p.broken), None)
        if clash:
            raise Unsupported(clash)
        bare = {q.split("/", 1)[1]: q for q in known}
        hint = nearest(name, known) or nearest(name, bare)
        listing = "l2bench suites" if kind == "suites" else "l2bench plugins"
        absent = [p for n, p in KNOWN_PLUGINS.items() if n not in {q.name for q in self.plugins}]
        more = f"; not installed: {', '.join(absent)}" if absent else ""
        raise UsageError(
            f"unknown {label} '{name}'{hint}; known: {choices(known)}. '{listing}' lists them all"
            f"{more}"
        )

    def refuse_repeats(self, kind: Kind, names: Sequence[str]) -> None:
        """Refuse a list that names one thing twice, be it with and without its plugin.

        Raises:
            UsageError: naming both, or where one of them is unknown.
            Unsupported: a plugin is missing or broken.
        """
        plain = Counter(name.rpartition("/")[2] for name in names)
        known: dict[str, str] = {}
        for name in names:
            if plain[name.rpartition("/")[2]] == 1:
                continue
            first = known.setdefault(self.qualify(kind, name), name)
            if first is not name or names.count(name) > 1:
                label = kind.replace("_", " ").removesuffix("s")
                also = "" if first == name else f", also as '{first}'"
                raise UsageError(f"{label} '{name}' is named twice{also}; name it once")

    def _refuse_unusable_plugin(self, label: str, name: str) -> None:
        prefix = name.split("/", 1)[0] if "/" in name else None
        for plugin in self.plugins:
            if plugin.broken and plugin.name == prefix:
                raise Unsupported(
                    f"{label} '{name}' needs the plugin '{plugin.name}' ({plugin.distribution} "
                    f"{plugin.version}), which cannot be loaded: {plugin.broken}"
                )
        if prefix in KNOWN_PLUGINS and prefix not in {plugin.name for plugin in self.plugins}:
            package = KNOWN_PLUGINS[prefix]
            raise Unsupported(
                f"{label} '{name}' needs the plugin '{prefix}', which is not installed; "
                f"install it with: {how_to_install(package)}"
            )

    def resolve(self, kind: Kind, name: str) -> Any:
        """Return the registered object of this name, importing it if it is named by a string.

        Raises:
            UsageError: unknown or ambiguous name.
            Unsupported: the plugin or something it needs is missing or broken.
        """
        qualified = self.qualify(kind, name)
        prefix, _, rest = qualified.partition("/")
        plugin = next(p for p in self._called(prefix) if rest in p.names.get(kind, {}))
        target = plugin.names[kind][rest]
        if kind in ("suites", "configs"):
            return Path(target)
        if not isinstance(target, str):
            return target
        module, _, attribute = target.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except FOREIGN as error:
            raise Unsupported(
                f"'{qualified}' of {plugin.distribution} {plugin.version} cannot be imported: "
                f"{type(error).__name__}: {error}{_wanted(plugin, error)}"
            ) from error

    def plugin_of(self, kind: Kind, name: str) -> Plugin:
        """Return the plugin that brings a name."""
        return self.names(kind)[self.qualify(kind, name)]


def _entry_points() -> Iterator[tuple[EntryPoint, str, str]]:
    """Yield (entry point, distribution, version); the version is "" where metadata are damaged."""
    seen: set[str | None] = set()
    for distribution in distributions():
        try:
            ours = [e for e in distribution.entry_points if e.group == hookspecs.GROUP]
        except Exception:  # broken third-party metadata must not stop everything else
            continue
        if not ours:
            continue
        try:
            name, release = distribution.metadata["Name"], distribution.version
        except Exception:
            name, release = None, None
        if name and name in seen:
            continue  # the first on the path shadows later copies, as in an import
        seen.add(name)
        if not name or not release:
            name, release = f"{name or 'unnamed'} in {distribution.locate_file('')}", ""
        for entry_point in ours:
            yield entry_point, name, release


def _wanted(plugin: Plugin, error: BaseException) -> str:
    """Return which releases of what cannot be imported a plugin declares, and which is here."""
    module = (getattr(error, "name", None) or "").split(".")[0]
    if not isinstance(error, ImportError) or not module:
        return ""
    packages = packages_distributions().get(module, [module])
    known = {re.sub(r"[-_.]+", "-", package).lower(): package for package in packages}
    try:
        declared = requires(plugin.distribution) or []
    except PackageNotFoundError:
        return ""
    for requirement in declared:
        wanted = requirement.partition(";")[0].strip()
        name = re.match(r"[A-Za-z0-9._-]*", wanted)
        package = known.get(re.sub(r"[-_.]+", "-", name[0]).lower()) if name else None
        if package:
            try:
                here = version(package)
            except PackageNotFoundError:
                here = "none"
            return f"; {plugin.distribution} needs {wanted}, found {here}"
    return ""


def make_environment(registry: Registry, name: str) -> Any:
    """Return the environment of this name, made if a class is registered."""
    target = registry.resolve("environments", name)
    return target() if isinstance(target, type) else target
