"""Comparisons: paired by seed, intervals, ranks as groups, and honest refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support import probe_suite, run_suite

from l2bench.comparison import Contender, compare, contender, paired_difference, ranks
from l2bench.errors import UsageError
from l2bench.outcomes import weighed
from l2bench.scoring import summarise

RNG = np.random.default_rng


@pytest.fixture(scope="module")
def folders(registry, tmp_path_factory):
    base = tmp_path_factory.mktemp("compare")
    suite = probe_suite(2, seeds=[0, 1, 2, 3, 4])
    for agent in ("perfect", "forgetter", "random"):
        run_suite(registry, suite, agent, base / agent)
    run_suite(registry, suite, "random", base / "random-again")
    run_suite(registry, probe_suite(2, scenario={"episodes": 4}), "perfect", base / "other")
    return base


def test_agents_far_apart_are_told_apart_with_ranks(folders):
    found = compare([contender(folders / n) for n in ("forgetter", "perfect", "random")])
    assert found["comparable"]
    auc = next(m for m in found["metrics"] if m["id"] == "libero.AUC")
    assert auc["ranks"]["perfect"] == [1, 1]
    assert all(pair["paired"] for pair in auc["pairs"])
    pair = auc["pairs"][0]
    assert pair["agents"] == ["forgetter", "perfect"]
    assert pair["difference"] == pytest.approx(-(1 - auc["estimates"][0]["mean"]))
    assert pair["probability_first_is_larger"] == 0.0
    assert pair["verdict"] == "apart"


def test_lower_is_better_where_the_metric_says_so(folders):
    found = compare([contender(folders / n) for n in ("forgetter", "perfect")], ["libero.NBT"])
    (nbt,) = found["metrics"]
    assert nbt["ranks"] == {"forgetter": [2, 2], "perfect": [1, 1]}


def test_an_agent_cannot_be_told_apart_from_itself(folders):
    found = compare([contender(folders / n) for n in ("random", "random-again")])
    assert found["settings"] == {}
    for metric in found["metrics"]:
        (pair,) = metric["pairs"]
        assert pair["verdict"] in ("identical", "undefined")
        if pair["verdict"] != "undefined":
            assert metric["ranks"] == {"random": [1, 2], "random-again": [1, 2]}


def test_what_differs_in_the_agents_comes_first(folders):
    found = compare([contender(folders / n) for n in ("perfect", "random")])
    assert found["settings"]["name"] == ["l2bench/perfect", "l2bench/random"]


def test_other_protocols_are_not_comparable(folders, cli):
    found = compare([contender(folders / n) for n in ("perfect", "other")])
    assert not found["comparable"]
    assert "scenario.episodes" in found["reasons"][0]
    code, _, errors = cli("compare", folders / "perfect", folders / "other")
    assert code == 1
    assert "not comparable" in errors
    code, output, _ = cli("compare", folders / "perfect", folders / "other", "--json")
    assert code == 1
    assert json.loads(output)["comparable"] is False


def test_other_simulators_are_not_comparable(folders, tmp_path):
    import shutil

    copy = tmp_path / "newer"
    shutil.copytree(folders / "perfect", copy)
    for path in copy.glob("*.l2b/provenance.json"):
        data = json.loads(path.read_text())
        data["segments"][0]["environments"]["l2bench/probe"] = {"engine": "9"}
        path.write_text(json.dumps(data))
    found = compare([contender(folders / "perfect"), contender(copy)])
    assert "l2bench/probe ran on {} and on {'engine': '9'}" in found["reasons"][0]


def test_two_folders_of_one_name_are_refused(folders, tmp_path):
    import shutil

    shutil.copytree(folders / "random", tmp_path / "perfect")
    with pytest.raises(UsageError, match="two folders are called 'perfect'"):
        compare([contender(folders / "perfect"), contender(tmp_path / "perfect")])


def test_an_interval_does_not_depend_on_what_else_is_asked(folders):
    both = [contender(folders / n) for n in ("forgetter", "random")]
    alone = compare(both, ["libero.AUC"])["metrics"][0]
    together = next(m for m in compare(both)["metrics"] if m["id"] == "libero.AUC")
    assert alone == together


def test_few_lifetimes_are_insufficient_and_have_no_winner():
    pair = paired_difference({0: 0.1, 1: 0.2}, {0: 0.8, 1: 0.9}, RNG(0))
    assert pair["verdict"] == "insufficient"
    assert pair["low"] is None
    assert ranks(["a", "b"], [{"agents": ["a", "b"], **pair}], True) == {"a": [1, 2], "b": [1, 2]}


def test_pairing_by_seed_tells_apart_what_the_spread_hides():
    base = {seed: seed / 10 for seed in range(10)}
    better = {seed: value + 0.02 + 0.001 * (seed % 3) for seed, value in base.items()}
    assert paired_difference(better, base, RNG(0))["verdict"] == "apart"
    shifted = {seed + 100: value for seed, value in better.items()}
    loose = paired_difference(shifted, base, RNG(0))
    assert loose["verdict"] == "not told apart"
    assert not loose["paired"]
    assert loose["more_lifetimes"] > 100


def test_three_lifetimes_each_can_be_told_apart_by_student_and_by_welch():
    base, better = {0: 0.1, 1: 0.2, 2: 0.3}, {0: 0.5, 1: 0.61, 2: 0.7}
    pair = paired_difference(better, base, RNG(0))
    half = 4.302653 * np.std([0.4, 0.41, 0.4], ddof=1) / np.sqrt(3)
    assert (pair["low"], pair["high"]) == pytest.approx(
        (0.403333 - half, 0.403333 + half), abs=1e-5
    )
    assert (pair["verdict"], pair["method"]) == ("apart", "t")
    others = {seed + 10: value for seed, value in better.items()}
    loose = paired_difference(others, base, RNG(0))
    half = 3.182446 * np.sqrt(0.01 / 3 + np.var([0.5, 0.61, 0.7], ddof=1) / 3)  # 3.99 degrees
    assert (loose["low"], loose["high"]) == pytest.approx(
        (0.403333 - half, 0.403333 + half), abs=1e-5
    )
    assert not loose["paired"]


def test_how_many_more_lifetimes_are_needed_goes_by_students_interval_while_they_are_few():
    """Normal quantiles would say 4 in all, of which Student's interval still holds 0."""
    gaps = (0.0, 1.0, 2.0)
    pair = paired_difference(dict(enumerate(gaps)), dict.fromkeys(range(3), 0.0), RNG(0))
    assert (pair["verdict"], pair["more_lifetimes"]) == ("not told apart", 4)
    assert 2.446912 / np.sqrt(7) < 1 < 2.570582 / np.sqrt(6)


def test_gaps_that_differ_by_rounding_only_have_no_interval():
    base = {seed: 0.1 * seed for seed in range(5)}
    better = {seed: value + 0.1 for seed, value in base.items()}
    assert len({better[seed] - base[seed] for seed in base}) > 1
    pair = paired_difference(better, base, RNG(0))
    assert (pair["verdict"], pair["low"]) == ("apart", None)


def test_a_difference_by_rounding_only_is_none():
    pair = paired_difference(
        dict.fromkeys(range(4), 0.1 + 0.2), dict.fromkeys(range(4), 0.3), RNG(0)
    )
    assert (pair["verdict"], pair["low"]) == ("identical", None)


@pytest.mark.parametrize("shift", [0, 100])
@pytest.mark.parametrize("seed", range(20))
def test_the_other_way_round_the_difference_is_mirrored(seed, shift):
    draws = RNG(seed).normal(size=(2, 12))
    one, other = (dict(enumerate(own.tolist())) for own in draws)
    other = {key + shift: value for key, value in other.items()}
    pair = paired_difference(one, other, RNG(1))
    back = paired_difference(dict(reversed(other.items())), dict(reversed(one.items())), RNG(1))
    assert pair["method"] == "bootstrap"
    assert pair["paired"] == (shift == 0)
    assert (pair["low"], pair["high"]) == (-back["high"], -back["low"])
    assert pair["verdict"] == back["verdict"]


def test_the_order_of_the_agents_changes_no_number(registry, tmp_path):
    names = ("forgetter", "perfect", "random")
    suite = probe_suite(2, seeds=list(range(11)))
    for name in names:
        run_suite(registry, suite, name, tmp_path / name)
    there = weighed([contender(tmp_path / name) for name in names])
    back = weighed([contender(tmp_path / name) for name in reversed(names)])
    assert any(metric["estimates"][2]["method"] == "bootstrap" for metric in there["metrics"])
    for one, other in zip(there["metrics"], back["metrics"], strict=True):
        assert one["estimates"] == other["estimates"][::-1]
        assert one["ranks"] == other["ranks"]
        mirrored = {tuple(pair["agents"]): pair for pair in other["pairs"]}
        for pair in one["pairs"]:
            again = mirrored[tuple(reversed(pair["agents"]))]
            assert pair["verdict"] == again["verdict"]
            if pair.get("low") is not None:
                assert (pair["low"], pair["high"]) == (-again["high"], -again["low"])
    assert there["outcomes"]["agents"] == back["outcomes"]["agents"][::-1]
    summary = summarise(sorted((tmp_path / "random").glob("*.l2b")))
    alone = {metric["id"]: metric for metric in summary["metrics"] if metric["scope"] == "lifetime"}
    for metric in there["metrics"]:
        own = metric["estimates"][2]
        assert {key: alone[metric["id"]][key] for key in own} == own


def test_unequal_numbers_of_lifetimes_are_all_used():
    one = {seed: 0.5 for seed in range(5)}
    other = {seed: 0.5 + (seed == 7) for seed in range(8)}
    pair = paired_difference(one, other, RNG(0))
    assert pair["difference"] == pytest.approx(0.5 - np.mean(list(other.values())))


def test_one_folder_or_an_unknown_metric_is_a_usage_error(folders, cli):
    code, _, errors = cli("compare", folders / "perfect")
    assert (code, "at least two" in errors) == (2, True)
    with pytest.raises(UsageError, match=r"did you mean 'libero\.AUC'"):
        compare([contender(folders / n) for n in ("perfect", "random")], ["libero.AUX"])
    assert isinstance(contender(folders / "perfect"), Contender)


def test_the_comparison_is_the_same_every_time(folders, cli):
    arguments = ("compare", folders / "forgetter", folders / "random", "--json")
    assert cli(*arguments) == cli(*arguments)
    code, output, _ = cli(*arguments[:-1])
    assert code == 0
    assert "libero.AUC" in output
