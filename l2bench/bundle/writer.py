"""The one writer of a bundle: blocks are sealed as a whole, and nothing is edited afterwards."""

from __future__ import annotations

import contextlib
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

from l2bench.bundle import segments
from l2bench.bundle.files import (
    claim,
    exists_already,
    guard_writes,
    new_folder,
    read_json,
    sync_folder,
    write_atomically,
    write_json,
)
from l2bench.bundle.hashing import file_hash, listing_hash
from l2bench.bundle.journal import Sealed, parse
from l2bench.bundle.locks import lock
from l2bench.bundle.model import AgentCard, Manifest, Reference, Role, Segment, TableRef
from l2bench.bundle.states import share, size, state_digests
from l2bench.bundle.store import file_refs, write_checksums, write_manifest, write_table
from l2bench.bundle.tables import EXTRA_TABLES, RUN_TABLES, concatenate, table
from l2bench.errors import UsageError
from l2bench.suite import Suite

GENESIS = "0" * 64

#: What a bundle's folder is called while it is being created.
NEW = ".new"


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
    _errors: int = 0
    _digests: dict[str, str] = field(default_factory=dict)  # of the newest state's files

    @classmethod
    def create(
        cls, folder: Path, manifest: Manifest, suite: Suite, agent: AgentCard
    ) -> BundleWriter:
        """Start a new bundle in a folder that must not exist.

        Raises:
            UsageError: if it exists.
        """
        if os.path.lexists(folder):
            raise exists_already(folder)
        # it appears as a whole, manifest and all, or not at all
        new = claim(folder.with_name(folder.name + NEW))
        for part in ("work/segments", "work/agent", "tables"):
            (new / part).mkdir(parents=True)
        writer = cls(new, manifest)
        writer._lock = lock(new / "work" / "lock")
        write_json(new / "suite.json", suite.resolved())
        write_json(new / "agent.json", agent.model_dump(mode="json"))
        writer._write_manifest()
        writer.folder = new.rename(folder)
        sync_folder(folder.parent)
        writer.event("start")
        return writer

    @staticmethod
    def clear(folder: Path) -> None:
        """Remove what a process left that ended while it created or finalised a bundle here."""
        done = [
            path.parent
            for path in folder.glob("*/manifest.json")
            if (path.parent / "work").is_dir() and read_json(path).get("status") == "complete"
        ]
        for left in [*folder.glob(f"*.l2b{NEW}"), *(bundle / "work" for bundle in done)]:
            work = left / "work" if left.name.endswith(NEW) else left
            with contextlib.suppress(UsageError, OSError):  # being written right now
                work.mkdir(exist_ok=True)
                lock(work / "lock").close()
                shutil.rmtree(left)

    @classmethod
    def reopen(cls, folder: Path) -> BundleWriter:
        """Open an unfinished bundle and find its last sealed block whose state is intact.

        Raises:
            UsageError: if another process is writing it.
            Unsupported: if its manifest cannot be read.
        """
        held = lock(folder / "work" / "lock")
        manifest = Manifest.model_validate(read_json(folder / "manifest.json"), strict=False)
        if manifest.status == "complete":
            held.close()
            raise UsageError(f"{folder} was just finished by another process; ask again")
        writer = cls(folder, manifest, _lock=held)
        writer._read_journal()
        if len(writer.sealed) < manifest.counts.blocks_planned:
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
            agent_bytes = self.sealed[-1].row.get("agent_bytes") if self.sealed else None
            if save_state is not None:
                before, state = state, f"block-{index:06d}"
                with new_folder(self.state_folder(state)) as temporary:
                    save_state(temporary)
                    earlier = self.state_folder(before) if before else None
                    self._digests = share(temporary, earlier, self._digests)
                digest = listing_hash(self._digests)
                agent_bytes = size(self.state_folder(state))
            whole = {**row, "agent_bytes": agent_bytes}
            self._append(Sealed(index, whole, state, digest, written))
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

    def keep_agents(self, place: Path) -> None:
        """Copy every state of the agent out of the bundle, with a list of which belongs where."""
        refuse = guard_writes(f"the agents of {self.folder.name}")
        try:
            with new_folder(place) as new:
                for name in {sealed.state for sealed in self.sealed if sealed.state}:
                    shutil.copytree(self.state_folder(name), new / name)
                states = {str(sealed.block): sealed.state for sealed in self.sealed}
                write_json(new / "blocks.json", states)
        except OSError as error:
            raise refuse(error) from error

    def rows(self, name: str, block: int) -> pa.Table:
        """Return the sealed rows of one block."""
        import pyarrow.parquet as pq  # takes long to import

        path = self._segment_path(block, name)
        return pq.read_table(path) if path.exists() else table(name, [])

    def attach(self, place: str, content: bytes) -> None:
        """Write a file that no score comes from, such as a video, below the bundle.

        Raises:
            RunFailed: if it cannot be written.
        """
        try:
            path = self.folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)
        except OSError as error:
            raise guard_writes(f"{place} of {self.folder.name}")(error) from error

    def segment(self, segment: Segment) -> None:
        """Record the conditions of this start or resumption, without secrets and paths."""
        segments.add(self.folder / "provenance.json", segment)

    def amend_segment(self, **changes: Any) -> None:
        """Replace parts of the last segment: where data came from, what the agent says."""
        segments.amend(self.folder / "provenance.json", changes)

    def event(self, kind: str, **facts: Any) -> None:
        """Append one line to events.jsonl."""
        self._errors += kind == "error"
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

    def adopt(self, companions: Sequence[tuple[Role, str | None, Path]]) -> None:
        """Copy experts and bound, given as (role, task, bundle), and refer to them by digest.

        Raises:
            RunFailed: if anything cannot be written.
        """
        refuse = guard_writes(f"the experts and the bound of {self.folder.name}")
        references, wall, cpu = [], 0.0, 0.0
        try:
            for role, task, bundle in companions:
                place = self.folder / "experts" / bundle.name
                shutil.rmtree(place, ignore_errors=True)
                shutil.copytree(bundle, place)
                digest = file_hash(place / "manifest.json")
                path = f"experts/{bundle.name}"
                references.append(
                    Reference(role=role, task=task, path=path, manifest_sha256=digest)
                )
                spent = read_json(place / "manifest.json").get("budget", {})
                wall += spent.get("wall_s") or 0.0
                cpu += spent.get("cpu_s") or 0.0
        except OSError as error:
            raise refuse(error) from error
        if companions:
            cost = {"experts_wall_s": wall, "experts_cpu_s": cpu}
            budget = self.manifest.budget.model_copy(update=cost)
            self.manifest = self.manifest.model_copy(update={"budget": budget})
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
            filled = {name for sealed in self.sealed for name in sealed.tables}
            extra = [name for name in EXTRA_TABLES if name in filled]
            tables = {name: self._write_table(name) for name in (*RUN_TABLES, *extra)}
            self._update(tables=tables)
            self._write_manifest()  # the scores name the tables they come from
            write_json(self.folder / "scores.json", scores(self.folder))
            self.event("finalise")
            write_checksums(self.folder)
            self._update(status="complete", finished_at=now(), files=file_refs(self.folder))
            self._write_manifest()
        except OSError as error:
            raise refuse(error) from error
        shutil.rmtree(self.folder / "work", ignore_errors=True)  # `clear` takes what stays
        self.close()

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()

    def _count_discarded(self) -> None:
        """Record that the block after the last sealed one was begun and lost, once more."""
        begun = (self.folder / "provenance.json").exists()  # else its experts were being run
        kind = "resume" if begun else "resume_experts"
        self.event(kind, sealed_blocks=len(self.sealed))
        events = (self.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
        self._errors = sum('"event": "error"' in line for line in events)
        here = f'"event": "resume", "sealed_blocks": {len(self.sealed)}}}'
        self.discarded = sum(line.endswith(here) for line in events)
        counts = self.manifest.counts
        more = {"discarded_attempts": counts.discarded_attempts + begun}
        self.manifest = self.manifest.model_copy(update={"counts": counts.model_copy(update=more)})
        self._write_manifest()

    def _segment_path(self, block: int, name: str) -> Path:
        return self.folder / "work" / "segments" / f"block-{block:06d}.{name}.parquet"

    def _segment(self, block: int, name: str, rows: Sequence[Mapping[str, Any]]) -> str:
        import pyarrow.parquet as pq

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
            sealed = parse(line)
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
        self._digests = state_digests(folder) if folder.is_dir() else {}
        return folder.is_dir() and listing_hash(self._digests) == sealed.state_sha256

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
            "errors": self._errors,
        }
        budget = {
            "lx_done": max((row["lx_end"] or 0 for row in rows), default=0),
            "env_steps_total": max((row["env_steps_end"] or 0 for row in rows), default=0),
            "env_steps_eval": sum(row.get("env_steps_eval") or 0 for row in rows),
            "wall_s": float(sum(row["wall_s"] for row in rows)),
            "cpu_s": float(sum(row["cpu_s"] for row in rows)),
        }
        counts = self.manifest.counts.model_copy(update=done)
        spent = self.manifest.budget.model_copy(update=budget)
        changes |= {"counts": counts, "budget": spent, "journal_head": self.head}
        self.manifest = self.manifest.model_copy(update=changes)

    def _write_manifest(self) -> None:
        write_manifest(self.folder, self.manifest)


def now() -> str:
    """Return the present time, RFC 3339 in UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
