"""The one writer of a bundle: blocks are sealed as a whole, and nothing is edited afterwards."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from l2bench.bundle.files import (
    claim,
    guard_writes,
    lock,
    new_folder,
    read_json,
    write_atomically,
    write_json,
)
from l2bench.bundle.hashing import file_hash
from l2bench.bundle.model import AgentCard, Manifest, Provenance, Reference, Segment, TableRef
from l2bench.bundle.store import file_refs, write_checksums, write_table
from l2bench.bundle.tables import RUN_TABLES, concatenate, table
from l2bench.suite import Suite

GENESIS = "0" * 64


@dataclass
class Sealed:
    """A sealed block as the journal has it: its row, its agent state, and its tables."""

    block: int
    row: dict[str, Any]
    state: str | None
    state_sha256: str | None
    tables: dict[str, str]
    line: str = ""


@dataclass
class BundleWriter:
    """Writes one lifetime into a folder that it alone holds the lock of.

    While running, ``work/`` holds the journal, the sealed segments and the agent's states; when
    the lifetime is over, `finalise` turns them into the tables and removes it.
    """

    folder: Path
    manifest: Manifest
    sealed: list[Sealed] = field(default_factory=list)
    head: str = GENESIS
    discarded: int = 0
    _lock: IO[bytes] | None = None

    @classmethod
    def create(
        cls, folder: Path, manifest: Manifest, suite: Suite, agent: AgentCard
    ) -> BundleWriter:
        """Start a new bundle in a folder that must not exist.

        Raises:
            UsageError: if it exists.
        """
        claim(folder)
        for part in ("work/segments", "work/agent", "tables"):
            (folder / part).mkdir(parents=True)
        writer = cls(folder, manifest)
        writer._lock = lock(folder / "work" / "lock")
        write_json(folder / "suite.json", suite.resolved())
        write_json(folder / "agent.json", agent.model_dump(mode="json"))
        writer._write_manifest()
        writer.event("start")
        return writer

    @classmethod
    def reopen(cls, folder: Path) -> BundleWriter:
        """Open an unfinished bundle and find its last sealed block whose state is intact.

        Raises:
            UsageError: if another process is writing it.
            Unsupported: if its manifest cannot be read.
        """
        manifest = Manifest.model_validate(read_json(folder / "manifest.json"), strict=False)
        writer = cls(folder, manifest)
        writer._lock = lock(folder / "work" / "lock")
        writer._read_journal()
        if manifest.status != "complete" and len(writer.sealed) < manifest.counts.blocks_planned:
            writer._update(status="running")
            writer._count_discarded()
        return writer

    def seal(
        self,
        row: Mapping[str, Any],
        tables: Mapping[str, Sequence[Mapping[str, Any]]],
        save_state: Callable[[Path], None] | None,
    ) -> None:
        """Commit one block: its rows, and the agent's state if it changed.

        The journal line written last makes it count; until then the block does not exist.

        Raises:
            RunFailed: if anything cannot be written.
        """
        index = int(row["block_index"])
        refuse = guard_writes(f"block {index} of {self.folder.name}")
        try:
            written = {name: self._segment(index, name, rows) for name, rows in tables.items()}
            state = self.sealed[-1].state if self.sealed else None
            digest = self.sealed[-1].state_sha256 if self.sealed else None
            if save_state is not None:
                state = f"block-{index:06d}"
                with new_folder(self.folder / "work" / "agent" / state) as temporary:
                    save_state(temporary)
                digest = folder_hash(self.folder / "work" / "agent" / state)
            self._append(Sealed(index, dict(row), state, digest, written))
        except OSError as error:
            raise refuse(error) from error

    def state_folder(self, name: str) -> Path:
        """Return the folder of a saved agent state."""
        return self.folder / "work" / "agent" / name

    def keep_states(self, names: set[str]) -> None:
        """Remove the agent states that nothing needs any more."""
        for folder in (self.folder / "work" / "agent").iterdir():
            if folder.name not in names:
                shutil.rmtree(folder, ignore_errors=True)

    def rows(self, name: str, block: int) -> pa.Table:
        """Return the sealed rows of one block."""
        path = self._segment_path(block, name)
        return pq.read_table(path) if path.exists() else table(name, [])

    def segment(self, segment: Segment) -> None:
        """Record the conditions of this start or resumption."""
        path = self.folder / "provenance.json"
        known = Provenance.model_validate(read_json(path)) if path.exists() else Provenance()
        grown = Provenance(segments=(*known.segments, segment))
        write_json(path, grown.model_dump(mode="json"))

    def amend_segment(self, **changes: Any) -> None:
        """Replace parts of the last segment: where data came from, what the agent says."""
        path = self.folder / "provenance.json"
        *earlier, last = Provenance.model_validate(read_json(path)).segments
        last = last.model_copy(update=changes)
        write_json(path, Provenance(segments=(*earlier, last)).model_dump(mode="json"))

    def event(self, kind: str, **facts: Any) -> None:
        """Append one line to events.jsonl."""
        line = json.dumps({"at": now(), "event": kind, **facts}, allow_nan=False)
        with (self.folder / "events.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def set_status(self, status: str) -> None:
        """Replace the manifest with one of this status and the counts of the journal.

        The journal is read again, since an interrupt may come between its line and our count.
        """
        self._read_journal()
        self._update(status=status)
        self._write_manifest()

    def adopt(self, experts: Sequence[tuple[str, Path]]) -> None:
        """Copy single-task experts, given as (task, bundle), and refer to them by digest.

        Raises:
            RunFailed: if anything cannot be written.
        """
        refuse = guard_writes(f"the experts of {self.folder.name}")
        references = []
        try:
            for task, bundle in experts:
                place = self.folder / "experts" / bundle.name
                shutil.rmtree(place, ignore_errors=True)
                shutil.copytree(bundle, place)
                digest = file_hash(place / "manifest.json")
                path = f"experts/{bundle.name}"
                references.append(
                    Reference(role="expert", task=task, path=path, manifest_sha256=digest)
                )
        except OSError as error:
            raise refuse(error) from error
        self._update(references=tuple(references))

    def finalise(self, scores: Callable[[Path], Mapping[str, Any]]) -> None:
        """Turn the sealed blocks into tables, score them, and declare the bundle complete.

        ``scores`` is called with the folder once its tables are there. The manifest is written
        last; until then the bundle can be resumed.

        Raises:
            RunFailed: if anything cannot be written.
        """
        refuse = guard_writes(f"the tables of {self.folder.name}")
        try:
            tables = {name: self._write_table(name) for name in RUN_TABLES}
            self._update(tables=tables)
            self._write_manifest()  # the scores name the tables they come from
            write_json(self.folder / "scores.json", scores(self.folder))
            self.event("finalise")
            write_checksums(self.folder)
            self._update(status="complete", finished_at=now(), files=file_refs(self.folder))
            self._write_manifest()
        except OSError as error:
            raise refuse(error) from error
        self.close()
        shutil.rmtree(self.folder / "work")

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()

    def _count_discarded(self) -> None:
        """Record that the block after the last sealed one was begun and lost, once more."""
        self.event("resume", sealed_blocks=len(self.sealed))
        events = (self.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
        here = f'"event": "resume", "sealed_blocks": {len(self.sealed)}}}'
        self.discarded = sum(line.endswith(here) for line in events)
        counts = self.manifest.counts
        more = {"discarded_attempts": counts.discarded_attempts + 1}
        self.manifest = self.manifest.model_copy(update={"counts": counts.model_copy(update=more)})
        self._write_manifest()

    def _segment_path(self, block: int, name: str) -> Path:
        return self.folder / "work" / "segments" / f"block-{block:06d}.{name}.parquet"

    def _segment(self, block: int, name: str, rows: Sequence[Mapping[str, Any]]) -> str:
        sink = pa.BufferOutputStream()
        pq.write_table(table(name, rows), sink, compression="zstd", compression_level=3)
        data = sink.getvalue().to_pybytes()
        write_atomically(self._segment_path(block, name), data)
        return hashlib.sha256(data).hexdigest()

    def _append(self, sealed: Sealed) -> None:
        body = {
            "block": sealed.block,
            "row": sealed.row,
            "state": sealed.state,
            "state_sha256": sealed.state_sha256,
            "tables": sealed.tables,
        }
        line = json.dumps(body, sort_keys=True, allow_nan=False) + "\n"
        path = self.folder / "work" / "journal.jsonl"
        with path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        sealed.line = line
        self.sealed.append(sealed)
        self.head = hashlib.sha256((self.head + line).encode()).hexdigest()

    def _read_journal(self) -> None:
        """Read every sealed block whose files are intact; cut off what follows the first fault."""
        path = self.folder / "work" / "journal.jsonl"
        text = path.read_bytes().decode("utf-8", "replace") if path.exists() else ""
        found: list[Sealed] = []
        for line in text.splitlines(keepends=True):
            sealed = _parse(line)
            if sealed is None or sealed.block != len(found) or not self._intact(sealed):
                break
            found.append(sealed)
        while found and not self._state_intact(found[-1]):
            dropped = found.pop()
            self.event("state_damaged", block=dropped.block, state=dropped.state)
        kept = "".join(sealed.line for sealed in found)
        if kept != text:
            self.event("journal_cut", kept_blocks=len(found))
            write_atomically(path, kept.encode())
        self.sealed, self.head = found, GENESIS
        for sealed in found:
            self.head = hashlib.sha256((self.head + sealed.line).encode()).hexdigest()

    def _intact(self, sealed: Sealed) -> bool:
        paths = {n: self._segment_path(sealed.block, n) for n in sealed.tables}
        return all(
            paths[name].is_file() and file_hash(paths[name]) == digest
            for name, digest in sealed.tables.items()
        )

    def _state_intact(self, sealed: Sealed) -> bool:
        if sealed.state is None:
            return True
        folder = self.state_folder(sealed.state)
        return folder.is_dir() and folder_hash(folder) == sealed.state_sha256

    def _write_table(self, name: str) -> TableRef:
        if name == "blocks":
            whole = table(name, [sealed.row for sealed in self.sealed])
        else:
            whole = concatenate(name, [self.rows(name, sealed.block) for sealed in self.sealed])
        return write_table(self.folder, name, whole)

    def _update(self, **changes: Any) -> None:
        rows = [sealed.row for sealed in self.sealed]
        done = {
            "blocks_sealed": len(rows),
            "episodes_done": sum(row["episodes_done"] for row in rows),
        }
        budget = {
            "lx_done": max((row["lx_end"] or 0 for row in rows), default=0),
            "env_steps_total": max((row["env_steps_end"] or 0 for row in rows), default=0),
            "wall_s": float(sum(row["wall_s"] for row in rows)),
            "cpu_s": float(sum(row["cpu_s"] for row in rows)),
        }
        counts = self.manifest.counts.model_copy(update=done)
        spent = self.manifest.budget.model_copy(update=budget)
        changes |= {"counts": counts, "budget": spent, "journal_head": self.head}
        self.manifest = self.manifest.model_copy(update=changes)

    def _write_manifest(self) -> None:
        write_json(self.folder / "manifest.json", self.manifest.model_dump(mode="json"))


def _parse(line: str) -> Sealed | None:
    """Return a journal line as a sealed block, or None where it is torn."""
    try:
        body = json.loads(line) if line.endswith("\n") else None
        return Sealed(**body, line=line) if body is not None else None
    except (ValueError, TypeError):
        return None


def folder_hash(folder: Path) -> str:
    """Return a digest of all files in a folder: names and contents."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(folder).as_posix()}\0{file_hash(path)}\n".encode())
    return digest.hexdigest()


def now() -> str:
    """Return the present time, RFC 3339 in UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
