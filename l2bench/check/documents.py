"""Reading the documents of a bundle: strict JSON of the right form, of a version that is known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from l2bench.bundle.files import read_json
from l2bench.bundle.model import FORMAT_VERSION, AgentCard, Manifest, Provenance
from l2bench.bundle.store import manifest_digest
from l2bench.bundle.versions import is_newer
from l2bench.check.evidence import Evidence
from l2bench.check.findings import Finding, broken
from l2bench.errors import L2benchError, Unsupported
from l2bench.suite import Suite, judge

#: Documents larger or deeper than this are not read.
MOST_BYTES = 64 << 20
MOST_DEPTH = 32


class Refused(Exception):
    """A document that cannot be used; carries the finding that says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def load_manifest(evidence: Evidence) -> Iterator[Finding]:
    """M01, M02: read the manifest."""
    path = "manifest.json"
    try:
        data = read_document(evidence.folder, path)
        check_version(path, data, "l2bench.bundle", FORMAT_VERSION)
        evidence.manifest = judged(Manifest, data, path)
    except Refused as refused:
        yield refused.finding
        return
    yield from _moments(evidence.manifest)
    yield from _seal(evidence, data)


def check_version(path: str, data: dict[str, Any], form: str, version: str) -> None:
    """Refuse a document of another format, of another major version or a newer one.

    Raises:
        Refused: with the finding M01 or M02.
    """
    found = data.get("format")
    if found != form:
        text = f"this is no document of the format {form}"
        raise Refused(broken("M01", path, text, expected=form, found=found))
    given = data.get("format_version")
    try:
        newer = is_newer(given, version, "format version")
    except Unsupported:
        newer = True
    if newer:  # a newer minor one can be read in part, but not vouched for
        text = f"format version {given} cannot be checked; this release reads {version}"
        raise Refused(broken("M02", path, text, expected=version, found=given))


def _moments(manifest: Manifest) -> Iterator[Finding]:
    """M01: times are RFC 3339 in UTC."""
    for name in ("created_at", "finished_at"):
        text = getattr(manifest, name)
        if text is not None and moment(text) is None:
            yield broken(
                "M01",
                "manifest.json",
                f"{name} is not a time in UTC",
                expected="2026-01-31T12:00:00.000000Z",
                found=text,
            )
    if manifest.status in ("complete", "incomplete") and manifest.finished_at is None:
        yield broken("M01", "manifest.json", "finished_at is missing", expected="a time in UTC")


def moment(text: str) -> datetime | None:
    """Return an RFC 3339 time in UTC, None for any other text."""
    try:
        return datetime.fromisoformat(text) if text.endswith("Z") else None
    except ValueError:
        return None


def _seal(evidence: Evidence, data: dict[str, Any]) -> Iterator[Finding]:
    """H04: the manifest's own digest, and the form in which it was written."""
    try:
        digest = manifest_digest(data)
    except ValueError as error:  # numbers beyond what the canonical form can hold
        yield broken("M01", "manifest.json", f"not plain data: {error}")
        return
    stored = evidence.manifest.manifest_digest
    if stored != digest:
        yield broken(
            "H04",
            "manifest.json",
            "the manifest was changed after it was sealed",
            expected=digest,
            found=stored,
        )
        return
    written = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if (evidence.folder / "manifest.json").read_bytes() != written.encode():
        yield broken(
            "H04",
            "manifest.json",
            "its content is right, but not the form in which L2bench writes it",
            expected="one space of indent a level",
        )


def load_documents(evidence: Evidence) -> Iterator[Finding]:
    """M01: read suite, agent, provenance and scores."""
    needed: list[tuple[str, type[Any]]] = [("suite", Suite), ("agent", AgentCard)]
    if not evidence.imported or (evidence.folder / "provenance.json").exists():
        needed.append(("provenance", Provenance))
    for name, model in needed:
        path = f"{name}.json"
        try:
            data = read_document(evidence.folder, path)
            setattr(evidence, name, judged(model, data, path))
        except Refused as refused:
            yield refused.finding
            continue
        if name == "suite" and data != evidence.suite.resolved():
            yield broken("S01", path, "the suite is not in resolved form, every default filled in")
        if name == "provenance" and not evidence.imported and not evidence.provenance.segments:
            text = "segments is empty: every start of a run leaves one"
            yield broken("M01", path, text, expected="one or more")
    try:
        evidence.scores = read_document(evidence.folder, "scores.json")
        check_version("scores.json", evidence.scores, "l2bench.scores", "1.0")
    except Refused as refused:
        yield refused.finding
    yield from _events(evidence.folder / "events.jsonl")


def _events(path: Path) -> Iterator[Finding]:
    """M01: each line of events.jsonl is a JSON object."""
    if not path.exists():
        return
    for row, line in enumerate(path.read_bytes().splitlines()):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            yield broken("M01", "events.jsonl", "this line is no JSON object", row=row)
            return


def read_document(folder: Path, name: str) -> dict[str, Any]:
    """Read strict JSON of bounded size and depth.

    Raises:
        Refused: with the finding M01.
    """
    path = folder / name
    try:
        if path.stat().st_size > MOST_BYTES:
            raise Refused(
                broken(
                    "M01", name, f"larger than {MOST_BYTES >> 20} MiB", found=path.stat().st_size
                )
            )
        data = read_json(path)
    except FileNotFoundError:
        raise Refused(broken("M01", name, "the file is missing")) from None
    except Unsupported as error:
        text = str(error).removeprefix(f"{path} ")
        raise Refused(broken("M01", name, text)) from None
    except OSError as error:
        raise Refused(broken("M01", name, f"cannot be read: {error.strerror}")) from None
    if _deeper(data, MOST_DEPTH):
        raise Refused(broken("M01", name, f"nested more than {MOST_DEPTH} levels deep"))
    return data


def _deeper(data: Any, levels: int) -> bool:
    """Return whether data is nested more than this deep; asked level by level."""
    layer = [data]
    for _ in range(levels):
        inner: list[Any] = []
        for item in layer:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        layer = [item for item in inner if isinstance(item, dict | list)]
        if not layer:
            return False
    return True


def judged(model: type[Any], data: dict[str, Any], path: str) -> Any:
    """Return data as a model.

    Raises:
        Refused: with the finding M01.
    """
    try:
        return judge(model, data, path)
    except (L2benchError, ValueError, TypeError, RecursionError) as error:
        text = str(error).removeprefix(f"{path}: ")
        raise Refused(broken("M01", path, text)) from None
