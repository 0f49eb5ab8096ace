"""A sound corpus of bundles, and ways to edit it so that exactly one rule breaks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from l2bench.bundle.archive import write_archive
from l2bench.bundle.files import read_json, write_json
from l2bench.bundle.hashing import content_hash, document_hash, file_hash
from l2bench.bundle.model import Manifest
from l2bench.bundle.reader import read_bundle
from l2bench.bundle.store import VOLATILE, file_refs, write_checksums, write_manifest, write_table
from l2bench.bundle.tables import KEYS, table
from l2bench.check.scores import own_registry
from l2bench.scoring import metric_sets, score_bundle
from l2bench.seeding import derive
from l2bench.suite import Suite, judge

TASKS = ("catch", "mirrored-catch")


def tiny_suite(**changes: Any) -> Suite:
    """Two games of Catch, a lifetime of a tenth of a second, with experts and varied returns."""
    learning = {"source": "interaction", "unit": "steps", "amount": 600, "every": 300}
    data = {
        "id": "tiny",
        "version": "1.0",
        "title": "Tiny",
        "tasks": [
            {
                "id": name,
                "environment": "l2bench/catch",
                "task": name.replace("-", "_"),
                "horizon": 200,
                "measure": "catch_rate",
                "learning": learning,
            }
            for name in TASKS
        ],
        "scenario": {
            "kind": "sequential",
            "keep": "best",
            "evaluate": "all",
            "pretest": True,
            "episodes": 4,
        },
        "seeds": [0, 1],
        "metrics": ["l2bench/libero", "l2bench/l2m"],
        "experts": True,
        **changes,
    }
    return judge(Suite, data, "tiny suite")


class Edit:
    """One bundle under the knife. `seal` makes every digest, count and score agree again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest: dict[str, Any] = read_json(folder / "manifest.json")
        self.suite = judge(Suite, read_json(folder / "suite.json"), "suite")

    def rows(self, name: str) -> list[dict[str, Any]]:
        return pq.read_table(self.folder / "tables" / f"{name}.parquet").to_pylist()

    def put(self, name: str, rows: list[dict[str, Any]] | pa.Table) -> None:
        whole = rows if isinstance(rows, pa.Table) else table(name, rows)
        ref = write_table(self.folder, name, whole)
        self.manifest["tables"][name] = ref.model_dump(mode="json")

    def document(self, name: str) -> dict[str, Any]:
        return read_json(self.folder / name)

    def write(self, name: str, data: dict[str, Any]) -> None:
        write_json(self.folder / name, data)

    def resuite(self, suite: Suite) -> None:
        """Put another suite in, with the seeds that follow from it."""
        self.suite = suite
        self.write("suite.json", suite.resolved())
        self.manifest["suite"]["suite_hash"] = suite.hash
        self.reseed()

    def reseed(self) -> None:
        seed, rows = self.manifest["seed"]["lifetime"], self.rows("episodes")
        for row in rows:
            key = [row[name] for name in KEYS["episodes"]]
            row["env_seed"] = derive(self.suite.hash, seed, "evaluation", *key)
        self.put("episodes", rows)
        self.untrace()

    def untrace(self) -> None:
        """Make it a lifetime of which no episode keeps a trace."""
        if self.manifest["tables"].pop("traces", None) is not None:
            (self.folder / "tables" / "traces.parquet").unlink()
        data = self.document("provenance.json")
        for segment in data["segments"]:
            segment["execution"]["traces"] = 0.0
        self.write("provenance.json", data)

    def recount(self) -> None:
        """Make row ids, counters of blocks and the manifest's counts follow from the rows."""
        blocks, episodes, learning = map(self.rows, ("blocks", "episodes", "learning"))
        for name, rows in (("episodes", episodes), ("learning", learning)):
            for at, row in enumerate(rows):
                row["row_id"] = at
                if name == "learning":
                    row["lx_index"] = at
        lx = steps = 0
        for block in blocks:
            own = [row for row in learning if row["block_index"] == block["block_index"]]
            block["lx_start"], block["env_steps_start"] = lx, steps
            lx, steps = lx + len(own), steps + sum(row["length"] for row in own)
            block["lx_end"], block["env_steps_end"] = lx, steps
            block["episodes_done"] = sum(
                row["block_index"] == block["block_index"] for row in episodes
            )
        for name, rows in (("blocks", blocks), ("episodes", episodes), ("learning", learning)):
            self.put(name, rows)
        self.manifest["counts"] |= {"blocks_sealed": len(blocks), "episodes_done": len(episodes)}
        self.manifest["budget"] |= {"lx_done": lx, "env_steps_total": steps}

    def seal(self, *, rescore: bool = True) -> None:
        if rescore:
            self._write_manifest()
            read = read_bundle(self.folder, tables_only=True)
            lives = [expert.lifetime for expert in read.experts]
            sets = metric_sets(own_registry(), read.suite.metrics, lives)
            self.write("scores.json", score_bundle(read, sets))
        self.refile()

    def refile(self) -> None:
        write_checksums(self.folder)
        self.manifest["files"] = {
            name: ref.model_dump(mode="json") for name, ref in file_refs(self.folder).items()
        }
        self._write_manifest()

    def _write_manifest(self) -> None:
        write_manifest(self.folder, Manifest.model_validate(self.manifest))

    def replace_table(self, name: str, whole: pa.Table) -> None:
        """Put any table in the place of this one, with digests that fit."""
        path = self.folder / "tables" / f"{name}.parquet"
        pq.write_table(whole, path, write_page_checksum=True, compression="zstd")
        self.manifest["tables"][name] |= {
            "rows": whole.num_rows,
            "bytes_sha256": file_hash(path),
            "content_sha256": content_hash(whole, VOLATILE) if whole.num_rows < 1e6 else "-",
        }


def another(bundle: Path, folder: Path, *, seed: int | None = None, jitter: bool = False) -> Path:
    """Copy a bundle under another id, of another seed, with other times where asked for."""
    shutil.copytree(bundle, folder)
    edit = Edit(folder)
    first = edit.manifest["bundle_id"]
    edit.manifest["bundle_id"] = ("0" if first[0] != "0" else "1") + first[1:]
    if seed is not None:
        edit.manifest["seed"]["lifetime"] = seed
        edit.reseed()
    if jitter:
        rows = edit.rows("episodes")
        for row in rows:
            row["wall_s"] *= 0.75
        edit.put("episodes", rows)
    edit.seal()
    return folder


def pack(bundle: Path, out: Path) -> Path:
    """Write a bundle as an archive."""
    names = [p.relative_to(bundle).as_posix() for p in bundle.rglob("*") if p.is_file()]
    out.parent.mkdir(parents=True, exist_ok=True)
    write_archive(bundle, names, out)
    return out


def board_document(suite: Suite, manifest: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The document of a board that takes this suite, run with these plugins."""
    releases = {(p["distribution"], p["version"]) for p in manifest["plugins"]}
    return {
        "title": "Board",
        "suites": [
            {
                "id": suite.id,
                "version": suite.version,
                "suite_hash": suite.hash,
                "file": "tiny.json",
                "seeds": list(suite.seeds),
                "headline": "libero.AUC",
            }
        ],
        "plugins": [{"distribution": d, "version": v} for d, v in sorted(releases)],
        "accept_editable": True,
        **changes,
    }


def write_board(folder: Path, suite: Suite, document: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny.json").write_text(json.dumps(suite.resolved()))
    (folder / "board.json").write_text(json.dumps(document))
    return folder


def agent_hash(card: dict[str, Any]) -> str:
    return document_hash("l2bench.agent.v1", card)
