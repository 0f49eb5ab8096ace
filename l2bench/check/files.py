"""The files of a bundle: those that are listed, unchanged, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from l2bench.bundle.hashing import document_hash, file_hash
from l2bench.bundle.tables import SCHEMAS
from l2bench.check.evidence import Evidence
from l2bench.check.findings import Finding, broken, first_few

#: Names of files that a bundle may hold, beside those of its companions.
NAMES = frozenset(
    {
        "suite.json",
        "agent.json",
        "provenance.json",
        "scores.json",
        "events.jsonl",
        "checksums.sha256",
        *(f"tables/{name}.parquet" for name in SCHEMAS),
    }
)
NEEDED = ("suite.json", "agent.json", "scores.json", "checksums.sha256")
_VIDEO = re.compile(r"^videos/[A-Za-z0-9._-]+\.mp4$")
_COMPANION = re.compile(r"^experts/[^/]+/(.+)$")

#: Folders with more entries than this are no bundles.
MOST_FILES = 5000


def present(folder: Path) -> tuple[set[str], list[Finding]]:
    """Return the names of the plain files in a folder, and A03 for what is neither file nor folder.

    Links are not followed.
    """
    names: set[str] = set()
    odd: list[Finding] = []
    open_folders = [folder]
    while open_folders:
        for path in sorted(open_folders.pop().iterdir()):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                odd.append(broken("A03", name, "neither a plain file nor a folder"))
            elif path.is_dir():
                open_folders.append(path)
            else:
                names.add(name)
            if len(names) + len(odd) > MOST_FILES:
                return names, [broken("A05", "", f"more than {MOST_FILES} files")]
    return names, odd


def listed(evidence: Evidence) -> Iterator[Finding]:
    """M04, A03, A05: the files are those that the manifest lists."""
    names, odd = present(evidence.folder)
    yield from odd
    recorded = set(evidence.manifest.files)
    here = names - {"manifest.json"}
    for name in sorted(here - recorded):
        yield broken("M04", name, "the manifest does not list this file")
    for name in sorted(recorded - here):
        yield broken("M04", name, "the manifest lists this file, but it is missing")
    for name in sorted(here & recorded):
        inner = _COMPANION.match(name)
        known = {*NAMES, "manifest.json"} if inner else NAMES
        own = inner.group(1) if inner else name
        if own not in known and not _VIDEO.match(own):
            yield broken("M04", name, "a bundle has no file of this name")
    for name in NEEDED:
        if name not in here | recorded:
            yield broken("M04", name, "a bundle needs this file")


def unchanged(evidence: Evidence) -> Iterator[Finding]:
    """H01: each file has its recorded size and digest."""
    for name, recorded in sorted(evidence.manifest.files.items()):
        path = evidence.folder / name
        size = path.stat().st_size
        if size != recorded.bytes:
            yield broken(
                "H01",
                name,
                "the file has another size than the manifest records",
                expected=recorded.bytes,
                found=size,
            )
        elif (digest := file_hash(path)) != recorded.sha256:
            yield broken(
                "H01",
                name,
                "the file is not the one that the manifest records",
                expected=recorded.sha256,
                found=digest,
            )
    for name, table in sorted(evidence.manifest.tables.items()):
        listed = evidence.manifest.files.get(f"tables/{name}.parquet")
        if listed is not None and listed.sha256 != table.bytes_sha256:
            yield broken(
                "H01",
                f"tables/{name}.parquet",
                "the manifest gives two digests for this table",
                expected=listed.sha256,
                found=table.bytes_sha256,
            )


def checksums(evidence: Evidence) -> Iterator[Finding]:
    """H03: checksums.sha256 says the same as the manifest, for every file but itself."""
    path = "checksums.sha256"
    expected = {name: ref.sha256 for name, ref in evidence.manifest.files.items() if name != path}
    found: dict[str, str] = {}
    faults = []
    text = (evidence.folder / path).read_bytes().decode("utf-8", "replace")
    for row, line in enumerate(text.splitlines()):
        digest, gap, name = line[:64], line[64:66], line[66:]
        if gap != "  " or name in found:
            faults.append(broken("H03", path, "not a line of sha256sum, or a name twice", row=row))
            continue
        found[name] = digest
        if expected.get(name) != digest:
            faults.append(
                broken(
                    "H03",
                    path,
                    f"another digest for {name} than in the manifest",
                    expected=expected.get(name),
                    found=digest,
                    row=row,
                )
            )
    missing = sorted(expected.keys() - found.keys())
    faults += [broken("H03", path, f"{name} is missing in it") for name in missing]
    yield from first_few(faults)


def agent(evidence: Evidence) -> Iterator[Finding]:
    """H05: the agent's card is the one that the manifest records."""
    card, ref = evidence.agent, evidence.manifest.agent
    digest = document_hash("l2bench.agent.v1", card.model_dump(mode="json"))
    if digest != ref.agent_hash:
        yield broken(
            "H05",
            "agent.json",
            "another agent, or other settings, than in the manifest",
            expected=ref.agent_hash,
            found=digest,
        )
        return
    if (card.name, card.version) != (ref.name, ref.version):
        yield broken(
            "H05",
            "manifest.json",
            "the agent's name or version is not that of its card",
            expected=[card.name, card.version],
            found=[ref.name, ref.version],
        )


def status(evidence: Evidence) -> Iterator[Finding]:
    """M03, M07: the lifetime is complete; an import may lack parts."""
    found = evidence.manifest.status
    if found == "complete":
        return
    if found == "incomplete" and evidence.imported:
        yield broken(
            "M07",
            "manifest.json",
            "parts of the source are missing; values of the lifetime as a whole are withheld",
            expected="complete",
            found=found,
        )
        return
    yield broken(
        "M03", "manifest.json", f"the lifetime is {found}", expected="complete", found=found
    )
