"""The plugins that took part: releases that the board knows, unmodified."""

from __future__ import annotations

from collections.abc import Iterator

from l2bench.bundle.model import PluginRef
from l2bench.check.board import Board
from l2bench.check.evidence import Evidence
from l2bench.check.findings import Finding, broken


def locked(evidence: Evidence) -> Iterator[Finding]:
    """P01, P02, P03, P04: what took part is what the board has locked."""
    board = evidence.board
    if board is None or evidence.imported:
        return
    for plugin in _distinct(evidence.manifest.plugins):
        release = f"{plugin.distribution} {plugin.version}"
        if plugin.kind == "agent":
            if not board.knows(plugin.distribution) and evidence.companion_of is None:
                yield broken(
                    "P04",
                    "manifest.json",
                    f"agent {plugin.name} comes from {release}, which the board does not know",
                    found=release,
                )
            continue
        entry = board.locked(plugin.distribution, plugin.version)
        if entry is None:
            known = [f"{p.distribution} {p.version}" for p in board.files.plugins]
            yield broken(
                "P01",
                "manifest.json",
                f"{plugin.kind.replace('_', ' ')} {plugin.name} "
                f"comes from {release}, which the board does not know",
                expected=known,
                found=release,
            )
            continue
        yield from _unmodified(plugin, release, board, entry.record_sha256)


def _distinct(plugins: tuple[PluginRef, ...]) -> list[PluginRef]:
    """Return plugins with each release named once per kind."""
    seen = {(p.kind, p.distribution, p.version): p for p in reversed(plugins)}
    return list(reversed(seen.values()))


def _unmodified(
    plugin: PluginRef, release: str, board: Board, digests: tuple[str, ...]
) -> Iterator[Finding]:
    in_place = plugin.editable or (plugin.git is not None and plugin.git.dirty)
    if in_place and not board.files.accept_editable:
        yield broken(
            "P03",
            "manifest.json",
            f"{release} ran from a working copy, not from an installed release",
            expected="an installed release",
            found="editable" if plugin.editable else "changed since its commit",
        )
    elif plugin.modified_files:
        yield broken(
            "P02",
            "manifest.json",
            f"{plugin.modified_files} files of {release} are not what was installed",
            expected=0,
            found=plugin.modified_files,
        )
    elif digests and not in_place and plugin.record_sha256 not in digests:
        yield broken(
            "P02",
            "manifest.json",
            f"the files of {release} are not those of its release",
            expected=list(digests),
            found=plugin.record_sha256,
        )


def rendered(evidence: Evidence) -> Iterator[Finding]:
    """P06: tasks that show images say what drew them."""
    for at, segment in enumerate(evidence.provenance.segments):
        for task, probe in sorted(segment.probes.items()):
            if probe.frames and not probe.render_backend:
                yield broken(
                    "P06",
                    "provenance.json",
                    f"task {task} shows images, but not what renders them (segment {at})",
                    expected="a backend such as egl",
                )
