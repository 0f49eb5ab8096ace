"""Which code took part: a digest of each distribution's files, and its commit where it has one."""

from __future__ import annotations

import base64
import csv
import functools
import importlib.util
import json
import subprocess
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from l2bench.bundle.hashing import file_hash, listing_hash
from l2bench.bundle.model import GitRef

#: Files of a distribution that differ between installations of the same code.
PERSONAL = frozenset({"INSTALLER", "REQUESTED", "direct_url.json", "RECORD", "uv_cache.json"})


class Software(NamedTuple):
    """What identifies a distribution's code; see `l2bench.bundle.model.SoftwareRef`."""

    record_sha256: str | None
    modified_files: int
    editable: bool
    git: GitRef | None


@functools.cache
def software(name: str, package: str) -> Software:
    """Return what identifies the code of an installed distribution.

    ``package`` is the top-level package that it brings. Where that runs in place, from its
    sources, those are what is digested, and their commit is told too.
    """
    try:
        found = distribution(name)
    except PackageNotFoundError:
        found = None
    record = _record(found.read_text("RECORD") or "") if found is not None else {}
    if found is None or _editable(found) or not record:
        folder = _folder(package)
        if folder is None:
            return Software(None, 0, True, None)
        return Software(listing_hash(_sources(folder)), 0, True, git(folder))
    modified = sum(not _is(found.locate_file(path), sha) for path, sha in record.items())
    return Software(listing_hash(record), modified, False, None)


def wheel_digest(path: Path) -> str:
    """Return the digest that an installation of this wheel will have."""
    with zipfile.ZipFile(path) as wheel:
        (record,) = (n for n in wheel.namelist() if n.endswith(".dist-info/RECORD"))
        return listing_hash(_record(wheel.read(record).decode()))


def git(folder: Path) -> GitRef | None:
    """Return the commit that a folder is at, None where it is not under git."""
    commit = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--", ".")
    if not commit or changes is None:
        return None
    return GitRef(commit=commit, dirty=bool(changes))


def _record(text: str) -> dict[str, str]:
    """Return the hexadecimal digests of a RECORD by path, without what is personal."""
    found = {}
    for row in csv.reader(text.splitlines()):
        path, sha = [*row, "", ""][:2]
        in_place = not path.startswith(("..", "/")) and not path.endswith(".pyc")
        if sha.startswith("sha256=") and in_place and Path(path).name not in PERSONAL:
            raw = sha.removeprefix("sha256=")
            found[path] = base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)).hex()
    return found


def _editable(found: Distribution) -> bool:
    try:
        where = json.loads(found.read_text("direct_url.json") or "{}")
        return bool(where.get("dir_info", {}).get("editable", False))
    except (ValueError, AttributeError):
        return False


def _folder(package: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    origin = spec.origin if spec else None
    if origin is None:
        return None
    path = Path(origin)
    return path.parent if path.name == "__init__.py" else path


def _sources(folder: Path) -> dict[str, str]:
    """Return the digests of a package's own files; ``folder`` may be a single module."""
    files: Iterable[Path] = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    return {
        path.relative_to(folder.parent).as_posix(): file_hash(path)
        for path in files
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


def _is(path: object, sha: str) -> bool:
    try:
        return file_hash(Path(str(path))) == sha
    except OSError:
        return False


def _git(folder: Path, *words: str) -> str | None:
    place = folder if folder.is_dir() else folder.parent
    try:
        done = subprocess.run(
            ["git", "-C", str(place), *words],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
