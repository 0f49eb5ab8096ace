"""The page that sets agents side by side, and the terminal's answer to the same question."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from browser import PHONE, browser, opened
from support import probe_suite, run_suite

from l2bench.comparison import contender
from l2bench.metrics.aggregates import RunScores
from l2bench.metrics.meanings import MEANINGS
from l2bench.metrics.statistics import MINIMUM_FOR_BOOTSTRAP, MINIMUM_FOR_INTERVAL
from l2bench.outcomes import TAUS, final, profile, unlearned, weighed
from l2bench.report.colours import looks
from l2bench.report.frame import word
from l2bench.report.versus import render, verdict


@pytest.fixture(scope="module")
def folders(registry, tmp_path_factory):
    base = tmp_path_factory.mktemp("versus")
    suite = probe_suite(2, seeds=[0, 1, 2, 3, 4])
    for agent in ("perfect", "forgetter", "random"):
        run_suite(registry, suite, agent, base / agent)
    run_suite(registry, probe_suite(2, scenario={"episodes": 4}), "perfect", base / "other")
    run_suite(registry, suite, "random", base / "few", seeds=(0, 1))
    for name, steps in (("patient", 1), ("hasty", 8)):
        shutil.copytree(base / "perfect", base / name)
        for path in (base / name).glob("*.l2b/agent.json"):
            card = json.loads(path.read_text())
            card["settings"]["n_action_steps"] = steps
            path.write_text(json.dumps(card))
    return base


def compared(folders, *names):
    return weighed([contender(folders / name) for name in names])


def test_eval_12_settings_stand_above_the_scores(folders, cli, make):
    """EVAL-12: bundles that differ in one setting: that comes first, on page and terminal."""
    found = compared(folders, "patient", "hasty")
    assert found["settings"] == {"settings.n_action_steps": [1, 8]}
    root = make.parse(render(found))
    ids = [part.get("id") for part in root.all("section")]
    assert ids.index("settings") < ids.index("metrics")
    rows = [
        [c.text for c in row.all("td")] for row in root.all("section", id="settings")[0].all("tr")
    ]
    assert rows[1:] == [["1", "8"]]
    code, output, _ = cli("compare", folders / "patient", folders / "hasty")
    lines = output.splitlines()
    assert code == 0
    assert lines[0] == "patient and hasty on probe 1.0"
    assert lines[1] == "settings.n_action_steps: 1 | 8"
    assert next(n for n, x in enumerate(lines) if "libero." in x) > 1


def test_eval_16_the_task_and_the_condition_that_part_are_named(folders, tmp_path):
    """EVAL-16: of two agents on equal tasks but one, the table names that one; so with software."""
    shutil.copytree(folders / "perfect", tmp_path / "newer")
    for path in (tmp_path / "newer").glob("*.l2b/provenance.json"):
        text = path.read_text()
        data = json.loads(text)
        data["segments"][0]["packages"]["numpy"] = "9.9"
        path.write_text(json.dumps(data))
    found = weighed([contender(folders / "forgetter"), contender(tmp_path / "newer")])
    (pair,) = found["outcomes"]["pairs"]
    parted = [row["task"] for row in pair["tasks"] if abs(row["difference"]) > 0.5]
    assert parted == ["task-1"]
    assert found["origin"]["numpy"][1] == "9.9"
    assert found["origin"].keys() <= {"numpy", "l2bench", "execution data"}


def test_sta_09_few_lifetimes_are_insufficient_and_nobody_wins(folders, make):
    """STA-09: 5 against 2 lifetimes: insufficient, no winner, and the points are there."""
    found = compared(folders, "perfect", "few")
    section = make.parse(render(found)).all("section", id="metrics")[0]
    assert "too few lifetimes: an interval needs 3 lifetimes of each" in section.text
    ranks = [m["ranks"]["perfect"] for m in found["metrics"] if m["ranks"]]
    assert ranks == [[1, 2]] * len(ranks)


def test_seed_08_a_comparison_tells_runs_tasks_and_episodes_apart(folders, make):
    """SEED-08: what n is stands with every agent."""
    text = make.parse(render(compared(folders, "perfect", "few"))).all("dl")[0].text
    assert "n_runs = 5 (seeds 0, 1, 2, 3, 4), n_tasks = 2" in text
    assert "n_runs = 2 (seeds 0, 1), n_tasks = 2" in text


def test_differences_intervals_and_groups(folders, make):
    found = compared(folders, "forgetter", "perfect", "random")
    root = make.parse(render(found))
    section = root.all("section", id="metrics")[0]
    names = [head.text for head in section.all("th", scope="row")]
    assert names.count("forgetter minus perfect") == len(found["metrics"]) > 0
    assert "by seed" in section.text
    assert "told apart" in section.text
    assert section.all("b") == section.all("strong") == []
    (lead,) = root.all("p", class_="lead")
    assert lead.text.startswith("forgetter, perfect and random on probe 1.0, 5 lifetimes each.")


def test_tasks_look_as_on_the_pages_of_their_agents(folders, make):
    """Colours are those of the whole suite, even where a task was not evaluated at the end."""
    found = compared(folders, "perfect", "random")
    assert found["suite"]["tasks"] == ["task-1", "task-2"]
    found["suite"]["tasks"] = ["close", *found["suite"]["tasks"], "open"]
    found["outcomes"]["pairs"][0]["tasks"][0]["task"] = "open"
    rows = make.parse(render(found)).all("section", id="tasks")[0].all("tbody")[0].all("tr")
    (mark,) = rows[0].all("th")[0].all("svg")
    assert mark.get("class") == f"swatch k{looks(found['suite']['tasks'])['open'].colour}"
    assert looks(found["suite"]["tasks"])["open"] != looks(["open"])["open"]
    text = make.parse(render(found)).all("section", id="metrics")[0].text
    few, many = word(MINIMUM_FOR_INTERVAL), word(MINIMUM_FOR_BOOTSTRAP)
    assert f"bootstrap from {many} on; with fewer than {few} there are points" in text


def test_the_profile_is_the_share_above_each_threshold():
    scores = RunScores.of(
        run=[0, 1, 2, 3, 4] * 2, task=["a"] * 5 + ["b"] * 5, score=[0.2] * 5 + [0.0, 0, 0, 1, 1]
    )
    found = profile(scores, np.random.default_rng(0))
    share = dict(zip(TAUS, found["share"], strict=True))
    assert share[0.0] == pytest.approx((1 + 0.4) / 2)
    assert share[0.2] == pytest.approx((0 + 0.4) / 2)
    assert share[1.0] == 0
    low, high = (dict(zip(TAUS, found[end], strict=True))[0.5] for end in ("low", "high"))
    assert (low, high) == (0.0, pytest.approx(0.4))
    two = RunScores.of(run=[0, 1], task=["a", "a"], score=[0.1, 0.9])
    assert profile(two, np.random.default_rng(0))["low"] is None


def test_the_probability_of_improvement_and_the_end_are_the_raw_rows(folders):
    found = compared(folders, "forgetter", "perfect")
    assert final([b for b in contender(folders / "forgetter").bundles])["task-1"] == {
        seed: 0.0 for seed in range(5)
    }
    (pair,) = found["outcomes"]["pairs"]
    assert pair["improvement"]["value"] == pytest.approx((0 + 0.5) / 2)
    means = {row["task"]: row["means"] for row in pair["tasks"]}
    assert means == {"task-1": [0.0, 1.0], "task-2": [1.0, 1.0]}


def test_incomparable_agents_get_reasons_and_no_scores(folders, cli, make, tmp_path):
    page = tmp_path / "page.html"
    code, _, errors = cli("compare", folders / "perfect", folders / "other", "-o", page)
    assert (code, "not comparable" in errors) == (1, True)
    root = make.parse(page.read_text())
    assert (
        "their protocols differ in scenario.episodes" in root.all("div", class_="warnings")[0].text
    )
    assert [part.get("id") for part in root.all("section")] == ["settings", "origin"]


def test_the_page_is_written_once_and_the_same_each_time(folders, cli, tmp_path):
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for page in pages:
        code, output, _ = cli("compare", folders / "perfect", folders / "random", "-o", page)
        assert (code, output.splitlines()[-1]) == (0, f"page     {page}")
    assert pages[0].read_bytes() == pages[1].read_bytes()
    code, _, errors = cli("compare", folders / "perfect", folders / "random", "-o", pages[0])
    assert (code, "exists already" in errors) == (2, True)
    code, output, _ = cli("compare", folders / "perfect", folders / "random", "--json")
    assert json.loads(output)["outcomes"]["n_runs"] == [5, 5]


def test_a_changed_suite_says_so_on_page_and_terminal(folders, cli, make, tmp_path):
    for name in ("perfect", "random"):
        shutil.copytree(folders / name, tmp_path / name)
        for path in (tmp_path / name).glob("*.l2b/manifest.json"):
            manifest = json.loads(path.read_text())
            manifest["suite"] |= {"division": "open", "deviations": ["scenario.episodes"]}
            path.write_text(json.dumps(manifest))
    root = make.parse(render(compared(tmp_path, "perfect", "random")))
    for tag in ("title", "h1"):
        assert root.all(tag)[0].text.endswith(" (changed: 1 key)")
    assert "1.0 (changed: 1 key), 5 lifetimes each" in root.all("p", class_="lead")[0].text
    assert "scenario.episodes" in root.all("dl", class_="facts")[0].text
    _, output, _ = cli("compare", tmp_path / "perfect", tmp_path / "random")
    first, second = output.splitlines()[:2]
    assert first.endswith(" 1.0 (changed: 1 key)")
    assert second == "deviates from the suite in: scenario.episodes"


def test_who_learned_less_and_therefore_kept_more_is_named(folders, cli):
    (warning,) = compared(folders, "forgetter", "random")["warnings"]
    assert warning.startswith("random keeps more than forgetter by libero.NBT, ")
    assert warning.endswith(" against 0.50. What was never learned cannot be forgotten.")
    assert f"warning: {warning}" in cli("compare", folders / "forgetter", folders / "random")[1]
    assert compared(folders, "perfect", "random")["warnings"] == []


def test_to_have_learned_less_is_to_end_with_four_fifths_or_less():
    ends = [{"agent": name, "statistics": [{"statistic": "mean", "value": value}]}
            for name, value in (("good", 0.8), ("idle", 0.6), ("less", 0.7))]  # fmt: skip

    def metric(id, name, means, higher):
        estimates = [{"mean": mean} for mean in means]
        return {"id": id, "name": name, "estimates": estimates, "higher_is_better": higher}

    kept = [
        metric("a.loss", "forgetting", (0.2, 0.0, 0.0), False),
        metric("a.gain", "backward transfer", (-0.2, None, 0.0), True),
        metric("a.rest", "accuracy", (0.2, 0.9, 0.9), True),
    ]
    assert unlearned(kept, ends) == [
        "idle keeps more than good by a.loss, but ends with a mean performance of 0.60 against "
        "0.80. What was never learned cannot be forgotten."
    ]
    assert unlearned(kept[2:], ends) == []
    worse = metric("a.loss", "forgetting", (0.0, 0.2, 0.2), False)
    assert unlearned([worse], ends) == []


def test_metrics_have_their_meaning_below_their_name(folders, make):
    root = make.parse(render(compared(folders, "perfect", "random")))
    assert MEANINGS["libero.NBT"] in [part.text for part in root.all("p", class_="soft")]


def test_verdicts_are_words():
    assert verdict({"verdict": "not told apart", "more_lifetimes": 12}) == (
        "not told apart; about 12 more lifetimes would, at this spread"
    )
    assert verdict({"verdict": "not told apart", "more_lifetimes": None}) == "not told apart"
    assert verdict({"verdict": "undefined", "note": "one of them has no value"}).startswith("one")


def test_hostile_labels_and_settings_are_texts(folders, make):
    found = compared(folders, "patient", "hasty")
    evil = "<script>alert(1)</script>\u202e"
    text = json.dumps(found).replace("patient", evil.replace('"', "")).replace("n_action", evil)
    root = make.parse(render(json.loads(text)))
    assert len(root.all("script")) == 1
    assert "\u202e" not in root.all("body")[0].text


@pytest.mark.timeout(300)
def test_comparisons_in_a_browser(folders, tmp_path):
    kinds = {
        "three": ("forgetter", "perfect", "random"),
        "few": ("perfect", "few"),
        "refused": ("perfect", "other"),
    }
    with browser() as chrome:
        for kind, names in kinds.items():
            path = tmp_path / f"{kind}.html"
            path.write_text(render(compared(folders, *names)), encoding="utf-8")
            for width in (1280, PHONE):
                with opened(chrome, path, width=width, dark=width == PHONE) as seen:
                    seen.open_all()
                    assert seen.violations() + seen.faint_texts() == []
                    assert seen.wider_than_the_window() == 0
