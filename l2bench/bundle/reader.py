"""Reading bundles: the documents checked, the tables as one lifetime."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from l2bench.bundle import archive
from l2bench.bundle.files import read_json
from l2bench.bundle.hashing import file_hash
from l2bench.bundle.lifetime import Lifetime
from l2bench.bundle.model import FORMAT_VERSION, AgentCard, Manifest, Provenance, Role, TableRef
from l2bench.bundle.tables import OPTIONAL, SCHEMAS
from l2bench.bundle.versions import is_newer, known_part
from l2bench.errors import Incomplete, RunFailed, Unsupported, UsageError
from l2bench.suite import Suite, judge, suite_hash

SUFFIX = ".l2b"


@dataclass(frozen=True)
class Bundle:
    """One lifetime on disk. Its tables are read when first asked for."""

    folder: Path
    manifest: Manifest
    suite: Suite
    agent: AgentCard
    provenance: Provenance
    settled: bool = True

    @cached_property
    def lifetime(self) -> Lifetime:
        """The raw tables.

        Raises:
            Incomplete: if the run has not finished.
            Unsupported: if a table is missing, damaged or of another schema.
        """
        self._refuse_unfinished()
        names = ["blocks", "episodes", "learning"]
        if self.manifest.fidelity == "aggregate":
            names.append("cells")
        return Lifetime(
            self.suite,
            self.manifest.seed.lifetime,
            complete=self.manifest.status != "incomplete",
            **{name: self._table(name) for name in names},
        )

    @cached_property
    def experts(self) -> tuple[Bundle, ...]:
        """The single-task experts that belong to this lifetime.

        Raises:
            Unsupported: if one is missing or is not the one that was recorded.
        """
        return self._beside("expert")

    @cached_property
    def bound(self) -> Bundle | None:
        """The multitask bound of this lifetime, if it has one.

        Raises:
            Unsupported: if it is missing or is not the one that was recorded.
        """
        return next(iter(self._beside("multitask")), None)

    def _beside(self, role: Role) -> tuple[Bundle, ...]:
        """Return the lifetimes inside the bundle that have this role."""
        found = []
        for reference in self.manifest.references:
            if reference.role != role:
                continue
            folder = self.folder / reference.path
            document = folder / "manifest.json"
            if not document.is_file() or file_hash(document) != reference.manifest_sha256:
                what = reference.name
                raise Unsupported(f"{folder} is missing or not the {what} that was recorded")
            found.append(read_bundle(folder))
        return tuple(found)

    @cached_property
    def series(self) -> pa.Table:
        """The scalars that the agent reported."""
        return self._table("series")

    @cached_property
    def traces(self) -> pa.Table | None:
        """The steps of the evaluation episodes that keep a trace; None if none does."""
        return self._table("traces") if "traces" in self.manifest.tables else None

    @cached_property
    def scores(self) -> dict[str, Any]:
        """The stored scores as plain data.

        Raises:
            Incomplete: if the run has not finished.
        """
        self._refuse_unfinished()
        path = self.folder / "scores.json"
        recorded = self.manifest.files.get("scores.json")
        if recorded is not None and path.is_file() and file_hash(path) != recorded.sha256:
            raise Unsupported(
                f"{path} is not the file that the manifest records; score the bundle anew with: "
                f"l2bench score {self.folder}"
            )
        return read_json(path)

    def _table(self, name: str) -> pa.Table:
        return read_table(self.folder, name, self.manifest.tables.get(name))

    def _refuse_unfinished(self) -> None:
        if self.settled and self.manifest.status not in ("complete", "incomplete"):
            counts = self.manifest.counts
            raise Incomplete(
                f"{self.folder} is {self.manifest.status} ({counts.blocks_sealed} of "
                f"{counts.blocks_planned} blocks recorded in its manifest); finish it with the "
                f"command that began it and: -o {self.folder.parent} --resume"
            )


def read_bundle(folder: Path, *, tables_only: bool = False) -> Bundle:
    """Read the documents of a bundle.

    ``folder`` may be an archive NAME.l2b.zip, which is unpacked for as long as the process runs.
    ``tables_only`` admits a bundle that is being finalised, whose tables are there already. Of a
    newer minor version of the format what is known is read, with a warning.

    Raises:
        Unsupported: if it is no bundle, of a newer format, or a document is missing or invalid.
    """
    if folder.name.endswith(archive.SUFFIX) and folder.is_file():
        folder = archive.unpacked(folder)
    if not (folder / "manifest.json").is_file():
        raise Unsupported(f"{folder} is not a bundle: it has no manifest.json")
    data = read_json(folder / "manifest.json")
    version = data.get("format_version", "?")
    newer = is_newer(version, FORMAT_VERSION, f"{folder} has bundle format")
    if newer:
        logging.getLogger("l2bench").warning(
            "%s has bundle format %s, newer than %s: what is new in it is not read",
            folder, version, FORMAT_VERSION,
        )  # fmt: skip
    manifest = _document(Manifest, folder, "manifest.json", newer)
    suite = _document(Suite, folder, "suite.json", newer)
    if suite_hash(read_json(folder / "suite.json")) != manifest.suite.suite_hash:
        raise Unsupported(
            f"{folder / 'suite.json'} is not the suite that the manifest records (another hash); "
            f"restore it from a copy"
        )
    agent = _document(AgentCard, folder, "agent.json", newer)
    provenance = Provenance()
    if (folder / "provenance.json").exists():
        provenance = _document(Provenance, folder, "provenance.json", newer)
    return Bundle(folder, manifest, suite, agent, provenance, not tables_only)


def find_bundles(path: Path) -> list[Path]:
    """Return the bundle folders at or directly below a path, in name order.

    Archives NAME.l2b.zip are unpacked for as long as the process runs, unless the folder NAME.l2b
    lies beside them.

    Raises:
        UsageError: if the path does not exist.
        RunFailed: if there are none.
        Unsupported: if an archive cannot be trusted.
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist")
    if path.is_file() and path.name.endswith(archive.SUFFIX):
        return [archive.unpacked(path)]
    if (path / "manifest.json").is_file():
        return [path]
    folders = [p for p in path.glob(f"*{SUFFIX}") if (p / "manifest.json").is_file()]
    names = {folder.name for folder in folders}
    packed = [p for p in sorted(path.glob(f"*{archive.SUFFIX}")) if p.stem not in names]
    found = sorted([*folders, *map(archive.unpacked, packed)], key=lambda folder: folder.name)
    if not found:
        raise RunFailed(
            f"0 bundles found at {path}; expected a folder NAME{SUFFIX}, an archive "
            f"NAME{archive.SUFFIX}, or a folder of them"
        )
    return found


def refuse_mixture(bundles: Sequence[Bundle]) -> None:
    """Refuse bundles that are not lifetimes of one agent on one suite, each seed once.

    Raises:
        UsageError: naming the two that do not go together.
    """
    if not bundles:
        raise UsageError("at least one bundle is needed, got none")
    first = bundles[0]
    seeds: dict[int, str] = {}
    for bundle in bundles:
        for what, theirs, ours in (
            ("suite", bundle.manifest.suite.suite_hash, first.manifest.suite.suite_hash),
            ("agent", bundle.manifest.agent.agent_hash, first.manifest.agent.agent_hash),
        ):
            if theirs != ours:
                raise UsageError(
                    f"{bundle.folder.name} is of another {what} than {first.folder.name}; "
                    f"keep the lifetimes of one agent on one suite in a folder of their own"
                )
        seed = bundle.manifest.seed.lifetime
        if seed in seeds:
            raise UsageError(
                f"{bundle.folder.name} and {seeds[seed]} are both of seed {seed}; remove one"
            )
        seeds[seed] = bundle.folder.name


def read_table(folder: Path, name: str, recorded: TableRef | None = None) -> pa.Table:
    """Read one table and check its bytes, where a digest is recorded, and its schema.

    Raises:
        Unsupported: naming the file and the first column that is wrong.
    """
    import pyarrow.parquet as pq  # takes long to import

    path = folder / "tables" / f"{name}.parquet"
    try:
        if recorded is not None and file_hash(path) != recorded.bytes_sha256:
            raise Unsupported(
                f"{path} is not the table that the manifest records (another SHA-256); restore it "
                f"from a copy, or run this lifetime again"
            )
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read()
    except FileNotFoundError:
        raise Unsupported(f"{path} is missing") from None
    except (OSError, pa.ArrowException) as error:
        raise Unsupported(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    for expected in SCHEMAS[name]:
        at = table.schema.get_field_index(expected.name)
        found = None if at < 0 else table.schema.field(at).type
        if found is None and expected.name in OPTIONAL:
            table = table.append_column(expected, pa.nulls(table.num_rows, expected.type))
            continue
        if found != expected.type:
            raise Unsupported(
                f"{path}: column '{expected.name}' should be {expected.type}, found {found}"
            )
    return table


def _document(model: type[Any], folder: Path, name: str, newer: bool) -> Any:
    data = read_json(folder / name)
    try:
        return judge(model, known_part(model, data) if newer else data, str(folder / name))
    except UsageError as error:
        raise Unsupported(str(error)) from None
