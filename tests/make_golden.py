"""Make the golden bundles of the present format: ``python tests/make_golden.py``.

They are made once per version of the format, at its release, and stay as they are; later versions
add theirs. Each is an archive with the scores that it must give for ever beside it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from support import probe_suite, run_suite

from l2bench.bundle.copies import pack
from l2bench.bundle.model import FORMAT_VERSION
from l2bench.bundle.reader import Bundle, find_bundles, read_bundle
from l2bench.cli.main import invoke
from l2bench.plugins import Registry
from l2bench.scoring import metric_sets, score_bundle

PLACE = Path(__file__).parent / "data" / "bundles"

#: R[i][j]: the result on task j after learning task i.
MATRIX = {"R": [[0.9, 0.1, 0.3], [0.7, 0.8, 0.2], [0.6, 0.7, 0.9]], "n": 50}


def values(bundle: Bundle) -> dict[str, Any]:
    """Return what a bundle scores today: every metric, the matrix, and the tables' digests."""
    experts = [expert.lifetime for expert in bundle.experts]
    scores = score_bundle(bundle, metric_sets(Registry(), bundle.suite.metrics, experts))
    return {
        "metrics": {
            " ".join(str(m[key]) for key in ("id", "task", "source") if m[key] is not None): [
                m["value"], m["n"]
            ]
            for m in scores["metrics"]
        },
        "matrix": scores["matrix"],
        "tables": {n: ref.content_sha256 for n, ref in sorted(bundle.manifest.tables.items())},
    }  # fmt: skip


def quickstart(place: Path) -> Path:
    """The suite of the documentation, at its smallest."""
    root = Path(__file__).parent.parent
    options = ["profile=smoke", "experts=false", "execution.traces=0.2"]
    places = [f"execution.data={place}", "-o", str(place / "run")]
    arguments = ["run", str(root / "suites" / "quickstart.yaml"), *options, *places]
    assert invoke(arguments) == 0
    return find_bundles(place / "run")[0]


def samples(place: Path) -> Path:
    """Labelled samples, where the best checkpoint goes on."""
    suite = probe_suite(3, source="samples", unit="epochs", scenario={"pretest": True})
    run_suite(Registry(), suite, "forgetter", place / "run")
    return find_bundles(place / "run")[0]


def with_experts(place: Path) -> Path:
    """Interaction, with single-task experts inside."""
    suite = probe_suite(2, amount=20, every=20, experts=True)
    run_suite(Registry(), suite, "late_bloomer", place / "run")
    return find_bundles(place / "run")[0]


def aggregate(place: Path) -> Path:
    """Means without rows, from another tool."""
    (place / "results.json").write_text(json.dumps(MATRIX))
    assert (
        invoke(["import", "matrix", str(place / "results.json"), "-o", str(place / "x.l2b")]) == 0
    )
    return place / "x.l2b"


MAKERS = {
    "quickstart": quickstart,
    "samples": samples,
    "experts": with_experts,
    "aggregate": aggregate,
}


def make(name: str) -> None:
    """Make one golden bundle and its expected scores."""
    stem = f"{name}-{FORMAT_VERSION}"
    with tempfile.TemporaryDirectory() as folder:
        bundle = read_bundle(MAKERS[name](Path(folder)))
        (PLACE / f"{stem}.l2b.zip").unlink(missing_ok=True)
        pack(bundle, PLACE / f"{stem}.l2b.zip")
        text = json.dumps(values(bundle), indent=1, sort_keys=True, allow_nan=False)
        (PLACE / f"{stem}.expected.json").write_text(text + "\n")


if __name__ == "__main__":
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    for each in MAKERS:
        make(each)
