"""What importers share: a source that was read, as a bundle in memory and on disk."""

from __future__ import annotations

import hashlib
import re
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import l2bench
from l2bench.bundle.files import new_folder, why, write_json
from l2bench.bundle.hashing import document_hash, file_hash
from l2bench.bundle.lifetime import Lifetime, block_row
from l2bench.bundle.model import (
    AgentCard,
    AgentRef,
    Budget,
    Counts,
    Manifest,
    Provenance,
    Reference,
    SeedRef,
    SoftwareRef,
    SourceRef,
    SuiteRef,
)
from l2bench.bundle.reader import Bundle
from l2bench.bundle.store import file_refs, write_checksums, write_manifest, write_table
from l2bench.bundle.tables import NUMBERING, SCHEMAS, table
from l2bench.bundle.writer import GENESIS, now
from l2bench.errors import RunFailed, UsageError
from l2bench.metrics.base import MetricSet
from l2bench.scenario import Block
from l2bench.scoring import score_bundle
from l2bench.seeding import DERIVATION
from l2bench.suite import Suite

#: Values of (block, task): the mean, and over how many episodes or items where that is known.
Means = Mapping[tuple[int, int], tuple[float, int | None]]


#: The name of an agent that neither source nor user names.
UNKNOWN_AGENT = "unknown agent"


@dataclass(frozen=True)
class Options:
    """What the user says about a source that does not say it itself.

    ``measure`` chooses among several; ``score_range`` are the smallest and largest score, and
    ``ranges`` those of single tasks by name. ``suite`` names what was run, which otherwise is
    called after the source.
    """

    measure: str | None = None
    score_range: tuple[float, float] | None = None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    agent: str | None = None
    seed: int | None = None
    suite: str | None = None


@dataclass(frozen=True)
class Source:
    """A lifetime that was read from files of another tool, and the words that go with it.

    ``settings`` say how it was read, ``warnings`` what was odd; ``files`` are what it came from.
    """

    kind: str
    lifetime: Lifetime
    files: tuple[Path, ...]
    agent: str = UNKNOWN_AGENT
    settings: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def named(self, name: str) -> Source:
        """Return the same source as one of a suite of this name."""
        suite = self.lifetime.suite.model_copy(
            update={"id": slug(name), "title": f"{name} (imported)"}
        )
        return replace(self, lifetime=replace(self.lifetime, suite=suite))


@dataclass(frozen=True)
class Imported(Bundle):
    """A source as a bundle in memory, scored by ``sets`` when its scores are asked for."""

    content: Lifetime | None = None
    sets: tuple[MetricSet, ...] = ()
    companions: tuple[Bundle, ...] = ()
    files: tuple[Path, ...] = ()

    @cached_property
    def lifetime(self) -> Lifetime:
        """The tables that were read."""
        assert self.content is not None
        return self.content

    @cached_property
    def series(self) -> pa.Table:
        """Nothing: no source has them."""
        return table("series", [])

    @cached_property
    def experts(self) -> tuple[Bundle, ...]:
        """The single-task experts that were given with the source."""
        return self.companions

    @cached_property
    def scores(self) -> dict[str, Any]:
        """The scores by the metric sets it was opened with."""
        return score_bundle(self, self.sets)


def imported(
    source: Source,
    name: str,
    sets: Sequence[MetricSet] = (),
    experts: Sequence[Bundle] = (),
) -> Imported:
    """Return a source as a bundle of this name that lies nowhere on disk yet."""
    lifetime = source.lifetime
    card = AgentCard(
        name=source.agent, version="", distribution="", distribution_version="", sources=()
    )
    sealed = [status != "missing" for status in lifetime.blocks["status"].to_pylist()]
    manifest = Manifest(
        bundle_id=str(uuid.uuid4()),
        status="complete" if lifetime.complete else "incomplete",
        fidelity="raw" if lifetime.cells is None else "aggregate",
        created_at=now(),
        finished_at=now(),
        l2bench=SoftwareRef(version=l2bench.__version__),
        suite=SuiteRef(
            id=lifetime.suite.id,
            version=lifetime.suite.version,
            suite_hash=lifetime.suite.hash,
            division="open",
        ),
        seed=SeedRef(lifetime=lifetime.seed, derivation=DERIVATION),
        agent=AgentRef(
            name=card.name,
            version=card.version,
            distribution=card.distribution,
            agent_hash=document_hash("l2bench.agent.v1", card.model_dump(mode="json")),
        ),
        counts=Counts(
            blocks_planned=len(sealed),
            blocks_sealed=sum(sealed),
            episodes_planned=lifetime.episodes.num_rows,
            episodes_done=lifetime.episodes.num_rows,
        ),
        budget=Budget(lx_done=lifetime.learning.num_rows),
        source=SourceRef(
            kind=source.kind, settings=dict(source.settings), warnings=source.warnings
        ),
        journal_head=GENESIS,
    )
    return Imported(
        Path(name), manifest, lifetime.suite, card, Provenance(),
        content=lifetime, sets=tuple(sets), companions=tuple(experts), files=source.files,
    )  # fmt: skip


def write(bundle: Imported, folder: Path, *, force: bool = False) -> None:
    """Write an imported bundle with its experts into a folder, all of it or nothing.

    Raises:
        UsageError: if the folder exists, unless ``force`` is on and it is a bundle.
        RunFailed: if it cannot be written.
    """
    if folder.exists() and not (force and (folder / "manifest.json").is_file()):
        remedy = "it is no bundle, so --force does not replace it" if force else "--force replaces"
        raise UsageError(f"{folder} exists already; choose another -o ({remedy})")
    try:
        with new_folder(folder) as inside:
            _write_into(bundle, inside)
    except OSError as error:
        raise RunFailed(f"cannot write {folder}: {why(error)}") from error


def _write_into(bundle: Imported, folder: Path) -> None:
    (folder / "tables").mkdir(parents=True)
    references = tuple(_write_experts(bundle, folder))
    write_json(folder / "suite.json", bundle.suite.resolved())
    write_json(folder / "agent.json", bundle.agent.model_dump(mode="json"))
    lifetime = bundle.lifetime
    tables = {
        "blocks": lifetime.blocks,
        "episodes": lifetime.episodes,
        "learning": lifetime.learning,
        "series": bundle.series,
    }
    if lifetime.cells is not None:
        tables["cells"] = lifetime.cells
    refs = {name: write_table(folder, name, whole) for name, whole in tables.items()}
    source = bundle.manifest.source
    if source is not None and bundle.files:
        digest = hashlib.sha256("".join(map(file_hash, bundle.files)).encode()).hexdigest()
        files = {"files": len(bundle.files), "files_sha256": digest}
        source = source.model_copy(update={"settings": {**source.settings, **files}})
    changes = {"tables": refs, "references": references, "source": source}
    manifest = bundle.manifest.model_copy(update=changes)
    inputs = {name: ref.content_sha256 for name, ref in refs.items()}
    write_json(folder / "scores.json", {**bundle.scores, "inputs": inputs})
    write_checksums(folder)
    manifest = manifest.model_copy(update={"files": file_refs(folder)})
    write_manifest(folder, manifest)


def _write_experts(bundle: Imported, folder: Path) -> Iterable[Reference]:
    for place, expert in enumerate(bundle.companions):
        learned = expert.lifetime.blocks["learn_task"].drop_null().to_pylist()
        task = expert.suite.tasks[learned[0]].id if learned else "nothing"
        path = f"experts/{place:02d}-{task}.l2b"
        inside = folder / path
        if isinstance(expert, Imported):
            _write_into(expert, inside)
        else:
            shutil.copytree(expert.folder, inside)
        digest = file_hash(inside / "manifest.json")
        yield Reference(role="expert", task=task, path=path, manifest_sha256=digest)


def aggregate(
    suite: Suite,
    seed: int,
    blocks: Sequence[Block],
    means: Means,
    *,
    missing: frozenset[int] = frozenset(),
    kept: Mapping[int, int] | None = None,
) -> Lifetime:
    """Return the lifetime of planned blocks with means instead of rows.

    ``missing`` are the blocks that never took place; ``kept`` maps evaluation blocks to the
    checkpoint whose policy they evaluate.
    """
    unknown = dict.fromkeys(("started_at", "ended_at", "wall_s", "cpu_s"))
    rows = []
    for block in blocks:
        row = {**block_row(block), **unknown, "episodes_planned": 0, "episodes_done": 0}
        row["status"] = "missing" if block.index in missing else "ok"
        rows.append({**row, "selected_checkpoint": (kept or {}).get(block.index)})
    cells = [
        {
            "block_index": block,
            "task_index": task,
            "checkpoint": rows[block]["checkpoint"],
            "n": n,
            "mean": mean,
        }
        for (block, task), (mean, n) in sorted(means.items())
    ]
    return Lifetime(
        suite,
        seed,
        table("blocks", rows),
        table("episodes", []),
        table("learning", []),
        complete=not missing,
        cells=table("cells", cells),
    )


def frame(name: str, rows: int, given: Mapping[str, Any], *, numbered: bool) -> pa.Table:
    """Return columns as a table of this name; what is not given is null.

    ``given`` holds arrays of numbers (NaN is null), Arrow arrays, or single words for all rows.
    """
    fields = [*SCHEMAS[name], *(NUMBERING if numbered else ())]
    columns = [_column(given.get(f.name), f.type, rows) for f in fields]
    schema = pa.schema(fields, metadata=SCHEMAS[name].metadata)
    return pa.Table.from_arrays(columns, schema=schema)


def _column(given: Any, dtype: pa.DataType, rows: int) -> pa.Array:
    if given is None:
        return _nulls(rows, dtype)
    if isinstance(given, str):
        codes = pa.array(np.zeros(rows, dtype=np.int32))
        return pa.DictionaryArray.from_arrays(codes, [given])
    return pa.array(given, type=dtype, from_pandas=True) if not _is_arrow(given) else given


def _nulls(rows: int, dtype: pa.DataType) -> pa.Array:
    """Return nulls in zeroed memory, which takes none until it is read."""
    if not pa.types.is_primitive(dtype):
        return pa.nulls(rows, dtype)
    buffers = [pa.py_buffer(np.zeros(rows * bits // 8 + 1, dtype=np.uint8)) for bits in
               (1, dtype.bit_width)]  # fmt: skip
    return pa.Array.from_buffers(dtype, rows, buffers, null_count=rows)


def _is_arrow(given: object) -> bool:
    return isinstance(given, pa.Array | pa.ChunkedArray)


def words(codes: Any, names: Sequence[str]) -> pa.Array:
    """Return one word per row, by its code."""
    return pa.DictionaryArray.from_arrays(pa.array(np.asarray(codes, dtype=np.int32)), list(names))


def taken(column: pa.Array, rows: Any) -> pa.Array:
    """Return some rows (n,) of a column of words or numbers, in this order."""
    if pa.types.is_dictionary(column.type):
        return words(column.indices.to_numpy()[rows], column.dictionary.to_pylist())
    values = column.to_numpy(zero_copy_only=False)[rows]
    return pa.array(values, type=column.type, from_pandas=True)


def slug(name: str) -> str:
    """Return a name as an id of a suite or task; equal names give equal ids.

    Where characters had to be replaced, a digest keeps different names apart.
    """
    lowered = name.strip().lower()
    if re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", lowered):
        return lowered
    digest = hashlib.sha256(lowered.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    plain = re.sub(r"[^a-z0-9._-]+", "-", lowered).strip("-._")[:50]
    return f"{plain or 'x'}-{digest}"
