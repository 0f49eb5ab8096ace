"""C06 on the multitask bound: missing, too many, another's, and of other tasks or budgets."""

from __future__ import annotations

import shutil

import pytest
from check.corpus import Edit
from stubs import Joint, asking, stubbed
from support import run_suite

from l2bench.bundle.hashing import document_hash, file_hash
from l2bench.bundle.reader import find_bundles
from l2bench.check.evidence import Evidence
from l2bench.check.stages import examine
from l2bench.suite import Suite, judge


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    base = tmp_path_factory.mktemp("checked-bound")
    run_suite(stubbed(Joint), asking(2, seeds=[0, 1]), "stub", base / "run")
    return find_bundles(base / "run")


@pytest.fixture
def edit(sound, tmp_path):
    copy = tmp_path / sound[0].name
    shutil.copytree(sound[0], copy)
    return Edit(copy)


def inner(edit):
    return Edit(edit.folder / edit.manifest["references"][0]["path"])


def found(edit):
    """Seal the bundle with what is in it, and return the errors that are found."""
    for reference in edit.manifest["references"]:
        document = edit.folder / reference["path"] / "manifest.json"
        if document.is_file():
            reference["manifest_sha256"] = file_hash(document)
    edit.seal(rescore=False)
    findings = examine(Evidence(edit.folder))
    return [(f.code, f.message) for f in findings if f.severity == "error"]


def test_a_bundle_with_a_bound_is_sound(sound, edit):
    for path in sound:
        assert {f.code for f in examine(Evidence(path))} == {"Q07"}  # it knows everything
    assert found(edit) == []


def test_a_missing_bound(edit):
    shutil.rmtree(edit.folder / edit.manifest["references"].pop()["path"])
    assert found(edit) == [("C06", "the suite asks for one multitask bound")]


def test_a_bound_that_was_taken_away(edit):
    shutil.rmtree(edit.folder / edit.manifest["references"][0]["path"])
    assert ("C06", "the multitask bound is missing") in found(edit)


def test_two_bounds(edit):
    (reference,) = edit.manifest["references"]
    again = reference["path"].replace(".l2b", "x.l2b")
    shutil.copytree(edit.folder / reference["path"], edit.folder / again)
    edit.manifest["references"].append({**reference, "path": again})
    assert found(edit) == [("C06", "the suite asks for one multitask bound")]


def test_the_bound_of_another_seed(sound, edit):
    place = edit.folder / edit.manifest["references"][0]["path"]
    (other,) = (sound[1] / "experts").iterdir()
    shutil.rmtree(place)
    shutil.copytree(other, place)
    assert [code for code, _ in found(edit)] == ["C06"]
    assert "of another seed" in found(edit)[0][1]


def test_a_bound_of_another_release_of_the_agent(edit):
    bound = inner(edit)
    card = {**bound.document("agent.json"), "distribution_version": "9"}
    bound.write("agent.json", card)
    bound.manifest["agent"]["agent_hash"] = document_hash("l2bench.agent.v1", card)
    bound.seal(rescore=False)
    assert [code for code, _ in found(edit)] == ["C06"]


def test_a_bound_of_other_budgets(edit):
    bound = inner(edit)
    data = bound.suite.resolved()
    data["tasks"][0]["learning"] |= {"amount": 6, "checkpoints": [0, 2, 4, 6]}
    bound.resuite(judge(Suite, data, "x"))
    bound.seal(rescore=False)
    assert ("C06", "the multitask bound learned other tasks, budgets or in another scenario") in (
        found(edit)
    )
