"""Copies of bundles: packed into one file, without what is personal, in the present format."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from l2bench.bundle.archive import SUFFIX, inspect_archive, write_archive
from l2bench.bundle.files import new_folder, read_json, why, write_atomically, write_json
from l2bench.bundle.hashing import document_hash, file_hash
from l2bench.bundle.model import FORMAT_VERSION
from l2bench.bundle.privacy import Personal, personal, scrubbed
from l2bench.bundle.reader import Bundle
from l2bench.bundle.store import file_refs, manifest_digest, write_checksums
from l2bench.errors import Incomplete, RunFailed, Unsupported, UsageError

#: From each earlier version of this major one: how a copy is brought to the next.
MIGRATIONS: Mapping[str, Callable[[Path], None]] = {}

#: Documents that are looked through for what is personal, and those with one document a line.
_DOCUMENTS = ("manifest.json", "suite.json", "agent.json", "provenance.json", "scores.json")
_LINES = ("events.jsonl", "annotations.jsonl")


def pack(bundle: Bundle, out: Path) -> None:
    """Write a bundle as an archive, the same bytes every time.

    Raises:
        UsageError: if ``out`` exists or does not end in ``.l2b.zip``.
        Incomplete: if the run has not finished.
        Unsupported: if a file is not what the manifest records.
        RunFailed: if it cannot be written.
    """
    if not out.name.endswith(SUFFIX):
        raise UsageError(f"{out} should end in {SUFFIX}")
    _refuse_unfinished(bundle)
    names = ["manifest.json", *bundle.manifest.files]
    paths = {name: _inside(bundle.folder, name) for name in bundle.manifest.files}
    for name, path in paths.items():
        recorded = bundle.manifest.files[name]
        if not path.is_file() or file_hash(path) != recorded.sha256:
            raise Unsupported(f"{path} is missing or not the file that the manifest records")
    write_archive(bundle.folder, names, out)
    faults = inspect_archive(out)
    if faults:
        out.unlink()
        raise RunFailed(f"{bundle.folder} cannot be packed: {faults[0]}")


def scrub(bundle: Bundle, out: Path) -> None:
    """Write a copy without what looks personal, with fresh checksums; the bundle stays as it is.

    Tables, suite and scores are the same; tracebacks, paths, names of user and machine, addresses
    and secrets in the other documents are replaced.

    Raises:
        UsageError: if ``out`` exists.
        Incomplete: if the run has not finished.
        RunFailed: if it cannot be written.
    """
    _refuse_unfinished(bundle)
    with _copied(bundle, out) as folder:
        _scrub(folder)


def migrate(bundle: Bundle, out: Path) -> None:
    """Write a copy in the present version of the format; keys that are not known stay in it.

    Raises:
        UsageError: if ``out`` exists.
        RunFailed: if it cannot be written.
    """
    with _copied(bundle, out) as folder:
        version = bundle.manifest.format_version
        while version in MIGRATIONS and version != FORMAT_VERSION:
            MIGRATIONS[version](folder)
            version = str(read_json(folder / "manifest.json")["format_version"])


def looks_personal(bundle: Bundle) -> list[tuple[str, Personal]]:
    """Return every field that looks personal, with the file it is in; companions included."""
    found = []
    for name, data in _documents(bundle.folder):
        found += [(name, each) for each in personal(data)]
    bounds = (bundle.bound,) if bundle.bound else ()
    for inner in (*bundle.experts, *bounds):
        place = inner.folder.relative_to(bundle.folder).as_posix()
        found += [(f"{place}/{name}", each) for name, each in looks_personal(inner)]
    return found


def _documents(folder: Path) -> Iterator[tuple[str, Any]]:
    for name in _DOCUMENTS:
        if (folder / name).is_file():
            yield name, read_json(folder / name)
    for name in _LINES:
        for number, line in enumerate(_lines(folder / name), 1):
            yield f"{name}:{number}", line


def _lines(path: Path) -> list[Any]:
    if not path.is_file():
        return []
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except (ValueError, RecursionError) as error:
        raise Unsupported(f"{path} does not hold one JSON document a line: {error}") from None


def _scrub(folder: Path) -> None:
    """Scrub a copy in place, and seal it anew; keys of later versions stay."""
    for name in _LINES:
        if (folder / name).is_file():
            lines = [json.dumps(scrubbed(line)) + "\n" for line in _lines(folder / name)]
            write_atomically(folder / name, "".join(lines).encode())
    if (folder / "provenance.json").is_file():
        write_json(folder / "provenance.json", scrubbed(read_json(folder / "provenance.json")))
    manifest = read_json(folder / "manifest.json")
    for reference in manifest.get("references", []):
        place = _inside(folder, reference["path"])
        _scrub(place)
        reference["manifest_sha256"] = file_hash(place / "manifest.json")
    for part in ("source", "notes"):
        if part in manifest:
            manifest[part] = scrubbed(manifest[part])
    card = read_json(folder / "agent.json")
    clean = {**card, "settings": scrubbed(card.get("settings", {}))}
    if clean != card:
        write_json(folder / "agent.json", clean)
        manifest["agent"]["agent_hash"] = document_hash("l2bench.agent.v1", clean)
    write_checksums(folder)
    files = {name: ref.model_dump(mode="json") for name, ref in file_refs(folder).items()}
    manifest["files"] = files
    write_json(folder / "manifest.json", {**manifest, "manifest_digest": manifest_digest(manifest)})


@contextlib.contextmanager
def _copied(bundle: Bundle, out: Path) -> Iterator[Path]:
    """Yield a copy of a bundle, which is there as a whole once the block succeeds."""
    if out.exists():
        raise UsageError(f"{out} exists already; choose another folder")
    try:
        with new_folder(out, replace=False) as folder:
            shutil.copytree(bundle.folder, folder, dirs_exist_ok=True)
            yield folder
    except OSError as error:
        raise RunFailed(f"cannot write {out}: {why(error)}") from error


def _refuse_unfinished(bundle: Bundle) -> None:
    if bundle.manifest.status not in ("complete", "incomplete"):
        raise Incomplete(f"{bundle.folder} is {bundle.manifest.status}; finish it with --resume")


def _inside(folder: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or not parts:
        raise Unsupported(f"{folder} records the file '{name}', which does not lie in it")
    return folder.joinpath(*parts)
