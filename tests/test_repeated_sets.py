"""A metric set that is named twice, under any of its names, counts once or is refused."""

from __future__ import annotations

from copy import deepcopy

import pytest
from stubs import stubbed
from support import probe_suite, run_suite
from wanderer import Wanderer

from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.errors import UsageError
from l2bench.scoring import metric_sets, score_bundle, summarise_bundles


def test_one_that_is_asked_for_again_scores_once(registry):
    sets = metric_sets(registry, ["l2m", "libero", "l2bench/l2m", "l2m"])
    assert [each.name for each in sets] == ["l2m", "libero"]
    names = ["kemker", "l2bench/kemker"]
    (one,) = metric_sets(registry, names, settings={"l2bench/kemker": {"ideal": 0.5}})
    assert one.ideal == 0.5


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ("[l2m,l2bench/l2m]", "metric set 'l2bench/l2m' is named twice, also as 'l2m'"),
        ("[bound,l2bench/bound]", "'l2bench/bound' is named twice, also as 'bound'"),
        ("[l2m,libero,l2m]", "metric set 'l2m' is named twice; name it once"),
    ],
)
def test_a_suite_that_names_one_twice_is_refused(cli, metrics, words):
    code, _, err = cli("plan", "l2bench/quickstart", f"metrics={metrics}")
    assert code == 2
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_lifetime_with_an_entry_twice_is_not_summarised(registry, tmp_path):
    suite = probe_suite(2, every=None, amount=4, scenario={"pretest": True})
    run_suite(stubbed(Wanderer), suite, "stub", tmp_path / "runs")
    bundle = read_bundle(find_bundles(tmp_path / "runs")[0])
    scores = score_bundle(bundle, metric_sets(registry, ["l2m"]))
    summarise_bundles([bundle], [scores])
    scores = deepcopy(scores)
    scores["metrics"] += scores["metrics"][:1]
    with pytest.raises(UsageError, match=r"twice for one task; score it anew with: l2bench score"):
        summarise_bundles([bundle], [scores])
