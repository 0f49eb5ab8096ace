"""What lies at a path: bundles, or results of another tool."""

from __future__ import annotations

import contextlib
import importlib
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from l2bench.bundle.archive import SUFFIX as ARCHIVE
from l2bench.bundle.lifetime import Lifetime
from l2bench.bundle.reader import SUFFIX, Bundle, find_bundles, read_bundle
from l2bench.errors import RunFailed, Unsupported, UsageError, choices, nearest
from l2bench.interop.forms import FORMS
from l2bench.interop.several import ASSUMED, common_ranges, together
from l2bench.interop.source import Imported, Options, Source, imported
from l2bench.plugins import Registry
from l2bench.scoring import MetricSettings, metric_sets
from l2bench.suite import Suite, Task, WrittenBlock

#: What follows ``l2bench import KIND PATH -o`` where several sources are to lie together.
IMPORTED_TO = f"FOLDER/NAME{SUFFIX} --suite NAME --agent NAME --seed N"


@dataclass(frozen=True)
class Importer:
    """A kind of source: what it looks like, and how it is read."""

    kind: str
    looks_like: str
    matches: Callable[[Path], bool]

    def read(self, path: Path, options: Options) -> Source:
        """Return the source at a path; the module that reads it is imported now.

        Raises:
            Unsupported: if it is damaged or malformed.
            UsageError: if it is not clear which part of it is meant.
        """
        read: Callable[[Path, Options], Source] = self._module.read
        return read(path, options)

    def places(self, path: Path) -> list[Path]:
        """Return where the sources are that lie at a path: most kinds have one there."""
        find: Callable[[Path], list[Path]] | None = getattr(self._module, "places", None)
        return [path] if find is None else find(path)

    @property
    def _module(self) -> Any:
        return importlib.import_module(f"l2bench.interop.{self.kind}")


IMPORTERS = {kind: Importer(kind, form.looks_like, form.matches) for kind, form in FORMS.items()}


def importer(kind: str) -> Importer:
    """Return the importer of this kind.

    Raises:
        UsageError: if there is none.
    """
    if kind not in IMPORTERS:
        raise UsageError(f"unknown kind '{kind}'{nearest(kind, IMPORTERS)}; known: {_known()}")
    return IMPORTERS[kind]


def detect(path: Path) -> Importer:
    """Return the importer whose kind of source lies at a path.

    Raises:
        UsageError: if the path does not exist, or several kinds fit.
        RunFailed: if no kind fits.
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist")
    fitting = [importer for importer in IMPORTERS.values() if importer.matches(path)]
    if len(fitting) > 1:
        kinds = choices(importer.kind for importer in fitting)
        raise UsageError(f"{path} looks like several kinds of source; choose with --kind: {kinds}")
    if not fitting:
        if told := sources_there(path):
            raise RunFailed(f"0 bundles found at {path}, but {told}; or give one of them by itself")
        forms = "; ".join(f"{kind}: {known.looks_like}" for kind, known in IMPORTERS.items())
        raise RunFailed(
            f"0 bundles found at {path}, and no source of a known kind; expected a folder "
            f"NAME{SUFFIX}, one of them, or {forms}"
        )
    return fitting[0]


def sources_there(path: Path) -> str:
    """Say which sources lie at a path, or directly in the folder it is, and how to make bundles.

    Empty where there are none.
    """
    fitting: list[tuple[str, Path]] = []
    with contextlib.suppress(OSError):  # what cannot be looked into is none
        for place in (path, *(sorted(path.iterdir()) if path.is_dir() else ())):
            if not place.name.startswith("."):
                fitting += [(kind, place) for kind, form in FORMS.items() if form.matches(place)]
    if not fitting:
        return ""
    kind, first = fitting[0]
    places = IMPORTERS[kind].places(first)
    if first != path:
        places = [place for found, place in fitting if found == kind]
    command = shlex.join(["l2bench", "import", kind, str(places[0]), "-o"])
    count = "a source" if len(places) == 1 else f"{len(places)} sources"
    return (
        f"{count} of the kind {kind}; make a bundle of each in one folder, and give that folder: "
        f"{command} {IMPORTED_TO}"
    )


def holds_bundles(path: Path) -> bool:
    """Return whether a path is a bundle or a folder of bundles, packed or not."""
    if path.is_file():
        return path.name.endswith(ARCHIVE)
    return (path / "manifest.json").is_file() or any(
        next(path.glob(pattern), None) for pattern in (f"*{SUFFIX}/manifest.json", f"*{ARCHIVE}")
    )


def open_bundles(
    registry: Registry,
    path: Path,
    *,
    kind: str | None = None,
    options: Options | None = None,
    experts: Sequence[Path] = (),
    metrics: Sequence[str] = (),
    settings: MetricSettings | None = None,
) -> list[Bundle]:
    """Return the bundles at a path, or the sources there as such; scores of sources are fresh.

    ``experts`` are paths of the same forms that go with a source. ``metrics`` are the metric sets
    that score it, by default those of its kind, and ``settings`` values of their settings.

    Raises:
        UsageError: if the path or the kind does not exist, or it is not clear what lies there.
        RunFailed: if nothing lies there.
        Unsupported: if it is damaged or malformed.
    """
    if kind is None and holds_bundles(path):
        return [read_bundle(folder) for folder in find_bundles(path)]
    chosen = importer(kind) if kind else detect(path)
    options = options or Options()
    if path.exists() and len(places := chosen.places(path)) > 1:
        sources = _lifetimes(chosen, path, places, options)
    else:
        sources, places = [_found(chosen, path, options)], [path]
    return [
        _opened(registry, source, place, options, experts, metrics, settings)
        for source, place in zip(sources, places, strict=True)
    ]


def _lifetimes(
    chosen: Importer, path: Path, places: Sequence[Path], options: Options
) -> list[Source]:
    """Return the sources at several places as the lifetimes of one agent on one suite."""
    if options.seed is not None:
        raise UsageError(f"--seed is that of one lifetime; {path} holds {len(places)}")
    sources = [_read_one(chosen, place, options) for place in places]
    ranges = common_ranges(sources)
    if ranges is not None:
        options = replace(options, ranges={**ranges, **options.ranges})
        again = [_read_one(chosen, place, options) for place in places]
        sources = [replace(each, warnings=(*each.warnings, ASSUMED)) for each in again]
    return together(sources, places, path.resolve().name)


def open_source(
    registry: Registry,
    chosen: Importer,
    path: Path,
    options: Options,
    experts: Sequence[Path] = (),
    metrics: Sequence[str] = (),
    settings: MetricSettings | None = None,
) -> Imported:
    """Return a source and its experts as a bundle in memory.

    Raises:
        UsageError: if the path does not exist.
        Unsupported: if it is damaged or malformed.
    """
    source = _found(chosen, path, options)
    return _opened(registry, source, path, options, experts, metrics, settings)


def _found(chosen: Importer, path: Path, options: Options) -> Source:
    if not path.exists():
        raise UsageError(f"{path} does not exist")
    return _read(chosen, path, options)


def _opened(
    registry: Registry,
    source: Source,
    path: Path,
    options: Options,
    experts: Sequence[Path],
    metrics: Sequence[str],
    settings: MetricSettings | None,
) -> Imported:
    if options.suite is not None:
        source = source.named(options.suite)
    companions = open_experts(registry, experts, source.lifetime, source.kind, options)
    lives = [bundle.lifetime for bundle in companions]
    sets = metric_sets(registry, metrics or source.lifetime.suite.metrics, lives, settings)
    return imported(source, path.resolve().name, sets, companions)


def _read(chosen: Importer, path: Path, options: Options) -> Source:
    try:
        return chosen.read(path, options)
    except ValidationError as error:  # what no importer foresaw, but the suite model refuses
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise Unsupported(f"{path} makes no suite: {where} {fault['msg']}") from None


def _read_one(chosen: Importer, place: Path, options: Options) -> Source:
    """Return one source among several; an error says in which of them it is."""
    try:
        return _read(chosen, place, options)
    except (Unsupported, UsageError) as error:
        if str(place) in str(error):
            raise
        raise type(error)(f"{place}: {error}") from None


def open_experts(
    registry: Registry,
    paths: Sequence[Path],
    learner: Lifetime,
    kind: str | None = None,
    options: Options | None = None,
) -> list[Bundle]:
    """Return the single-task experts at these paths, bundles or sources of the learner's kind.

    A task that comes again under a name with a number gets the experts of its first coming.
    """
    found: list[Bundle] = []
    ranges = {task.task: task.score_range for task in learner.suite.tasks}
    plain = replace(options or Options(), agent=None, seed=None, ranges=ranges)
    for path in paths:
        if holds_bundles(path):
            found += [read_bundle(folder) for folder in find_bundles(path)]
            continue
        fits = kind is not None and IMPORTERS[kind].matches(path)
        chosen = IMPORTERS[kind] if kind and fits else detect(path)
        for place in chosen.places(path):
            found.append(imported(_read_one(chosen, place, plain), place.resolve().name))
    repeated = [copy for bundle in found for copy in _copies(bundle, learner)]
    return [*found, *repeated]


def _copies(expert: Bundle, learner: Lifetime) -> list[Bundle]:
    """Return an imported expert under the names with numbers that its task has later on."""
    if not isinstance(expert, Imported) or len(expert.suite.tasks) != 1:
        return []
    own = expert.suite.tasks[0]
    copies: list[Bundle] = []
    kind = expert.manifest.source.kind if expert.manifest.source else ""
    for task in learner.suite.tasks:
        first, _, number = task.task.rpartition(".")
        if first == own.task and number.isdecimal() and task.id != own.id:
            again = own.model_copy(update={"id": task.id, "task": task.task})
            suite = _renamed(expert.suite, again)
            source = Source(kind, replace(expert.lifetime, suite=suite), expert.files)
            copies.append(imported(source, expert.folder.name))
    return copies


def _renamed(suite: Suite, task: Task) -> Suite:
    """Return a suite of one task with this one instead."""
    blocks = tuple(
        WrittenBlock(learn=task.id, amount=block.amount)
        if block.learn
        else WrittenBlock(evaluate=(task.id,))
        for block in suite.scenario.blocks
    )
    scenario = suite.scenario.model_copy(update={"blocks": blocks})
    return suite.model_copy(update={"tasks": (task,), "scenario": scenario})


def _known() -> str:
    return choices(IMPORTERS)
