"""One way to break each rule, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from check.corpus import Edit, agent_hash, tiny_suite

Mutation = Callable[[Edit], None]

#: Code -> the edit of one bundle that breaks it.
BUNDLE: dict[str, Mutation] = {}


def breaks(code: str) -> Callable[[Mutation], Mutation]:
    def register(mutation: Mutation) -> Mutation:
        BUNDLE[code] = mutation
        return mutation

    return register


def change_row(edit: Edit, name: str, at: int, **values: Any) -> None:
    rows = edit.rows(name)
    rows[at] |= values
    edit.put(name, rows)


@breaks("A03")
def _(edit: Edit) -> None:
    (edit.folder / "README.md").symlink_to("/etc/passwd")


@breaks("M01")
def _(edit: Edit) -> None:
    path = edit.folder / "suite.json"
    path.write_text(path.read_text().replace("{", '{"id": "tiny",', 1))
    edit.refile()


@breaks("M02")
def _(edit: Edit) -> None:
    edit.manifest["format_version"] = "2.0"
    edit.refile()


@breaks("M03")
def _(edit: Edit) -> None:
    edit.manifest["status"] = "failed"
    edit.refile()


@breaks("M04")
def _(edit: Edit) -> None:
    (edit.folder / "notes.json").write_text("{}")


@breaks("M06")
def _(edit: Edit) -> None:
    edit.manifest["budget"]["lx_done"] += 1
    edit.refile()


@breaks("M07")
def _(edit: Edit) -> None:
    edit.manifest["status"] = "incomplete"
    edit.manifest["source"] = {"kind": "l2logger"}
    edit.seal()


@breaks("H01")
def _(edit: Edit) -> None:
    path = edit.folder / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b"start", b"Start"))


@breaks("H02")
def _(edit: Edit) -> None:
    edit.manifest["tables"]["episodes"]["content_sha256"] = "sha256:" + "0" * 64
    edit.refile()


@breaks("H03")
def _(edit: Edit) -> None:
    edit.seal()
    path = edit.folder / "checksums.sha256"
    path.write_text(path.read_text().replace(path.read_text()[:8], "00000000", 1))
    from l2bench.bundle.model import Manifest
    from l2bench.bundle.store import file_refs, write_manifest

    files = {name: ref.model_dump(mode="json") for name, ref in file_refs(edit.folder).items()}
    edit.manifest["files"] = files
    write_manifest(edit.folder, Manifest.model_validate(edit.manifest))


@breaks("H04")
def _(edit: Edit) -> None:
    path = edit.folder / "manifest.json"
    path.write_text(path.read_text().replace('"notes": ""', '"notes": "x"'))


@breaks("H05")
def _(edit: Edit) -> None:
    card = edit.document("agent.json")
    edit.write("agent.json", {**card, "version": "9"})
    edit.refile()


@breaks("S01")
def _(edit: Edit) -> None:
    suite = edit.document("suite.json")
    suite["tasks"][0]["horizon"] += 1
    edit.write("suite.json", suite)
    edit.refile()


@breaks("S03")
def _(edit: Edit) -> None:
    change_row(edit, "blocks", 0, role="post")
    edit.seal()


@breaks("S04")
def _(edit: Edit) -> None:
    change_row(edit, "episodes", 0, task_id="mirrored-catch")
    edit.seal()


@breaks("S05")
def _(edit: Edit) -> None:
    last = len(edit.rows("blocks")) - 1
    change_row(edit, "blocks", last, policy_ref="current")
    edit.seal()


@breaks("S06")
def _(edit: Edit) -> None:
    edit.manifest["suite"]["deviations"] = ["scenario.episodes"]
    edit.refile()


@breaks("P05")
def _(edit: Edit) -> None:
    edit.resuite(tiny_suite(metrics=["elsewhere/metrics"]))
    edit.refile()


def probes(edit: Edit, **probe: Any) -> None:
    data = edit.document("provenance.json")
    data["segments"][-1]["probes"] = {"catch": {"seed_honoured": True, **probe}}
    edit.write("provenance.json", data)
    edit.refile()


@breaks("P06")
def _(edit: Edit) -> None:
    frame = {"shape": [2, 2, 3], "dtype": "uint8", "mean": 1.0, "std": 1.0, "sha256": "0" * 64}
    probes(edit, frames={"": frame})


@breaks("R01")
def _(edit: Edit) -> None:
    change_row(edit, "learning", 0, status="splendid")
    edit.seal()


@breaks("R02")
def _(edit: Edit) -> None:
    rows = pa.table({"value": pa.array(np.zeros(5_000_001, dtype=np.int8))})
    edit.replace_table("series", rows)
    edit.refile()


@breaks("R03")
def _(edit: Edit) -> None:
    rows = edit.rows("episodes")
    edit.put("episodes", [*rows, rows[-1]])
    edit.recount()
    edit.seal()


@breaks("R04")
def _(edit: Edit) -> None:
    change_row(edit, "episodes", 3, env_seed=7)
    edit.seal()


@breaks("R05")
def _(edit: Edit) -> None:
    change_row(edit, "learning", -1, task_index=0)
    edit.refile()


@breaks("R06")
def _(edit: Edit) -> None:
    change_row(edit, "episodes", -1, episode_index=9)
    edit.reseed()
    edit.seal()


@breaks("R07")
def _(edit: Edit) -> None:
    change_row(edit, "blocks", 0, episodes_done=3)
    edit.seal()


@breaks("R08")
def _(edit: Edit) -> None:
    edit.put("traces", edit.rows("traces")[:-1])
    edit.seal()


def unselected_curve(edit: Edit) -> int:
    """The index of a curve block whose checkpoint was not chosen."""
    blocks = edit.rows("blocks")
    chosen = {row["learn_task"]: row["selected_checkpoint"] for row in blocks
              if row["selected_checkpoint"] is not None}  # fmt: skip
    return next(
        row["block_index"]
        for row in blocks
        if row["role"] == "curve" and row["checkpoint"] != chosen[row["learn_task"]]
    )


@breaks("C01")
def _(edit: Edit) -> None:
    edit.untrace()
    index = unselected_curve(edit)
    for name in ("blocks", "episodes"):
        edit.put(name, [row for row in edit.rows(name) if row["block_index"] != index])
    edit.recount()
    edit.seal()


@breaks("C02")
def _(edit: Edit) -> None:
    edit.put("episodes", edit.rows("episodes")[:-1])
    edit.recount()
    edit.seal()


@breaks("C03")
def _(edit: Edit) -> None:
    edit.put("learning", edit.rows("learning")[:-1])
    edit.recount()
    edit.seal()


@breaks("C04")
def _(edit: Edit) -> None:
    change_row(edit, "blocks", 0, status="failed")
    edit.seal()


@breaks("C05")
def _(edit: Edit) -> None:
    change_row(edit, "blocks", 1, discarded_attempts=2, attempt=3)
    edit.manifest["counts"]["discarded_attempts"] = 2
    edit.seal()


@breaks("C06")
def _(edit: Edit) -> None:
    import shutil

    *kept, gone = edit.manifest["references"]
    edit.manifest["references"] = kept
    shutil.rmtree(edit.folder / gone["path"])
    edit.seal()


@breaks("X01")
def _(edit: Edit) -> None:
    scores = edit.document("scores.json")
    metric = next(m for m in scores["metrics"] if m["value"] is not None)
    metric["value"] += 1e-6
    edit.write("scores.json", scores)
    edit.refile()


@breaks("X04")
def _(edit: Edit) -> None:
    scores = edit.document("scores.json")
    scores["scorer"]["metric_sets"][0]["version"] = "0.9"
    edit.write("scores.json", scores)
    edit.refile()


@breaks("Q01")
def _(edit: Edit) -> None:
    change_row(edit, "episodes", 0, length=201)
    edit.seal()


@breaks("Q02")
def _(edit: Edit) -> None:
    rows = edit.rows("blocks")
    from datetime import timedelta

    rows[-1]["ended_at"] = rows[-1]["started_at"] - timedelta(hours=1)
    edit.put("blocks", rows)
    edit.seal()


@breaks("Q06")
def _(edit: Edit) -> None:
    rows = edit.rows("blocks")
    row = next(row for row in rows if row["selected_checkpoint"] is not None)
    row["selected_checkpoint"] = 300 if row["selected_checkpoint"] != 300 else 600
    edit.put("blocks", rows)
    edit.seal()


@breaks("Q07")
def _(edit: Edit) -> None:
    episodes, blocks = edit.rows("episodes"), edit.rows("blocks")
    for row in episodes:
        row["score"] = 1.0
    for row in blocks:
        if row["selected_checkpoint"] is not None:
            row["selected_checkpoint"] = 0
    edit.put("episodes", episodes)
    edit.put("blocks", blocks)
    edit.seal()


@breaks("Q08")
def _(edit: Edit) -> None:
    data = edit.document("provenance.json")
    data["segments"].append({**data["segments"][0], "python": "3.99.0"})
    edit.write("provenance.json", data)
    edit.refile()


@breaks("Q09")
def _(edit: Edit) -> None:
    rows = edit.rows("learning")
    for row in rows:
        row["wall_s"] = 0.0
    edit.put("learning", rows)
    edit.seal()


@breaks("Q10")
def _(edit: Edit) -> None:
    rows = edit.rows("episodes")
    for row in rows:
        row["init_state"] = 0
    edit.put("episodes", rows)
    edit.seal()


@breaks("Q11")
def _(edit: Edit) -> None:
    rows = edit.rows("episodes")
    row = next(row for row in rows if row["length"] > 1)
    row |= {"length": row["length"] - 1, "truncated": True, "terminated": False}
    edit.put("episodes", rows)
    edit.seal()


@breaks("Q12")
def _(edit: Edit) -> None:
    change_row(edit, "episodes", 0, score=None)
    edit.seal()


@breaks("Q13")
def _(edit: Edit) -> None:
    probes(edit, seed_honoured=False)


#: Code -> the edit of a submission's document that breaks it.
SUBMISSION: dict[str, Callable[[dict[str, Any]], None]] = {
    "H06": lambda data: data["runs"][0].update(manifest_sha256="0" * 64),
    "L01": lambda data: data.update(suite_version="9"),
    "L03": lambda data: data["agent"].update(code_url="javascript:alert(1)"),
    "L07": lambda data: data["agent"].update(name="   "),
    "N03": lambda data: data.update(extra_seeds=[7]),
    "N04": lambda data: data["tuning"].update(protocol="full", seeds=[1, 8]),
    "X02": lambda data: data["metrics"][0].update(value=0.999),
    "X03": lambda data: data["metrics"][0].update(id="libero.XYZ"),
}


def edit_document(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "submission.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def other_agent(bundle: Path) -> None:
    """Make a bundle and its experts those of an agent with other settings."""
    edit = Edit(bundle)
    for reference in edit.manifest["references"]:
        expert = Edit(edit.folder / reference["path"])
        _rename(expert)
        expert.seal()
        from l2bench.bundle.hashing import file_hash

        reference["manifest_sha256"] = file_hash(expert.folder / "manifest.json")
    _rename(edit)
    edit.seal()


def _rename(edit: Edit) -> None:
    card = edit.document("agent.json")
    card["settings"]["epsilon"] = 0.25
    edit.write("agent.json", card)
    edit.manifest["agent"]["agent_hash"] = agent_hash(card)
