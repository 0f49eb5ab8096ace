"""Checking one bundle: as a folder or an archive, in a process of its own or in this one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l2bench.bundle.archive import extract_archive, inspect_archive
from l2bench.bundle.hashing import file_hash
from l2bench.check.board import Board
from l2bench.check.evidence import Evidence
from l2bench.check.findings import Finding, broken, errors
from l2bench.check.fingerprints import fingerprints
from l2bench.check.results import Checked, Facts, distinct
from l2bench.check.stages import STAGES, examine
from l2bench.errors import L2benchError, RunFailed

ARCHIVE = ".zip"


@dataclass(frozen=True)
class Limits:
    """What a check of one bundle may use: bytes of address space, and seconds."""

    memory: int = 6 << 30
    seconds: float = 900.0


def check_bundle(
    path: Path,
    board: Board | None = None,
    *,
    plugins: bool = False,
    isolated: bool = True,
    limits: Limits | None = None,
) -> Checked:
    """Check one bundle, a folder or an archive; whatever is wrong with it is a finding.

    The files are read in a child process under ``limits``, unless ``isolated`` is off. Without
    ``plugins`` no plugin but L2bench's own is loaded, and no environment or agent ever is.
    """
    if isolated:
        from l2bench.check.isolation import in_child

        findings, facts = in_child(path, board, plugins, limits or Limits())
    else:
        findings, facts = look(path, board, plugins)
    runs = {path.name: facts} if facts is not None else {}
    return Checked(path, "bundle", distinct(findings), runs=runs)


def look(path: Path, board: Board | None, plugins: bool) -> tuple[list[Finding], Facts | None]:
    """Check a bundle in this process; returns the findings and, if it could be read, the facts.

    Raises:
        RunFailed: if an archive cannot be unpacked for want of space, which is no fault of its own.
    """
    if path.is_file() and not path.is_symlink():
        faults = inspect_archive(path)
        if faults:
            return [broken(fault.code, fault.path, fault.message) for fault in faults], None
    try:
        with _unpacked(path) as folder:
            return _folder(folder, board, plugins)
    except RunFailed:
        raise
    except L2benchError as error:
        return [broken("I01", "", f"the archive cannot be unpacked: {error}")], None


def prints(path: Path) -> dict[str, Any] | None:
    """Return fingerprints and agent hash of a bundle or archive, None if it cannot be read."""
    try:
        with _unpacked(path) as folder:
            evidence = Evidence(folder)
            if errors(examine(evidence, STAGES)):
                return None
            found = fingerprints(evidence)
            return {"fingerprints": found, "agent_hash": evidence.manifest.agent.agent_hash}
    except RunFailed:
        raise
    except L2benchError:
        return None


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """Yield the folder of a bundle: the path itself, or where its archive is unpacked."""
    if path.is_dir():
        yield path
        return
    temporary = Path(tempfile.mkdtemp(prefix="l2bench-check-"))
    try:
        extract_archive(path, temporary / "bundle")
        yield temporary / "bundle"
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _folder(folder: Path, board: Board | None, plugins: bool) -> tuple[list[Finding], Facts | None]:
    evidence = Evidence(folder, board, plugins)
    try:
        findings = examine(evidence)
    except RecursionError as error:
        return [broken("I01", "", f"nested too deeply: {error}")], None
    if not evidence.recomputed:
        return findings, None
    facts = Facts(
        evidence.manifest,
        evidence.suite,
        evidence.agent,
        evidence.provenance,
        file_hash(folder / "manifest.json"),
        evidence.recomputed,
        fingerprints(evidence),
    )
    return findings, facts
