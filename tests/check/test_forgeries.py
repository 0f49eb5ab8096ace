"""Forgeries in which every digest, count and score agrees, and which no run leaves behind."""

from __future__ import annotations

from check.corpus import Edit

from l2bench.bundle.hashing import file_hash
from l2bench.check.bundle import check_bundle


def found(edit: Edit) -> set[tuple[str, str]]:
    edit.seal()
    checked = check_bundle(edit.folder, isolated=False)
    assert checked.tier is None
    return {(finding.code, finding.path) for finding in checked.errors}


def test_means_without_rows_are_no_scores_of_a_run(edit):
    keys = {(row["block_index"], row["task_index"]) for row in edit.rows("episodes")}
    cells = [{"block_index": b, "task_index": t, "mean": 1.0, "n": 4} for b, t in sorted(keys)]
    edit.put("cells", [{"checkpoint": None, **cell} for cell in cells])
    assert found(edit) == {("R01", "manifest.json")}
    edit.manifest["fidelity"] = "aggregate"
    assert found(edit) == {("R01", "manifest.json")}


def test_bad_episodes_cannot_be_called_failed(edit):
    rows, gone = edit.rows("episodes"), set()
    for row in rows:
        if row["episode_index"] == 0:
            row.update(score=None, success=None, status="env_error")
            gone.add((row["block_index"], row["task_index"]))
    edit.put("episodes", rows)
    traces = edit.rows("traces")
    edit.put("traces", [row for row in traces if row["episode_index"] != 0])
    assert gone
    assert ("R01", "tables/episodes.parquet") in found(edit)


def test_a_run_says_where_it_was_started(edit):
    edit.untrace()
    edit.write("provenance.json", {**edit.document("provenance.json"), "segments": []})
    assert found(edit) == {("M01", "provenance.json")}


def test_an_imported_expert_does_not_stand_beside_a_run(edit):
    reference = edit.manifest["references"][0]
    expert = Edit(edit.folder / reference["path"])
    expert.manifest["source"] = {"kind": "l2logger"}
    expert.seal()
    reference["manifest_sha256"] = file_hash(expert.folder / "manifest.json")
    assert ("C06", f"{reference['path']}/manifest.json") in found(edit)
