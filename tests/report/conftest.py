"""Lifetimes that look like real ones, without running anything."""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from l2bench.bundle.lifetime import synthetic
from l2bench.bundle.model import (
    AgentCard,
    AgentRef,
    Budget,
    Counts,
    Manifest,
    PluginRef,
    Provenance,
    SeedRef,
    Segment,
    SoftwareRef,
    SuiteRef,
    TableRef,
)
from l2bench.bundle.reader import Bundle
from l2bench.metrics.statistics import estimate
from l2bench.report.page import render
from l2bench.suite import Suite

VERBS = ("open", "close", "push", "turn_on", "pick_up", "stack", "place", "slide", "lift", "rotate")
THINGS = ("the_top_drawer", "the_stove", "the_alphabet_soup_and_put_it_in_the_basket", "bowl")


def task_names(count):
    return [f"{VERBS[i % 10]}_{THINGS[i % 4]}" + (f"_{i}" if i >= 20 else "") for i in range(count)]


def make_suite(tasks=3, seeds=5, *, names=None, measure="success", score_range=(0, 1), **scenario):
    learning = {"source": "demonstrations", "unit": "epochs", "amount": 50, "every": 5}
    if scenario.get("kind") == "interleaved":
        learning = {"source": "interaction", "unit": "steps", "amount": 20000}
    return Suite.model_validate(
        {
            "id": "example-suite",
            "version": "1.2",
            "title": "Example suite",
            "tasks": [
                {
                    "id": name,
                    "environment": "example/env",
                    "task": name,
                    "horizon": 100,
                    "measure": measure,
                    "score_range": score_range,
                    "learning": learning,
                }
                for name in names or task_names(tasks)
            ],
            "scenario": {"kind": "sequential", "keep": "best", "episodes": 20} | scenario,
            "seeds": list(range(seeds)),
        }
    )


def lived(suite, seed):
    """Return the plan's lifetime with scores of an agent that learns, and then forgets."""
    life = synthetic(suite, seed)
    rng = np.random.default_rng([seed, len(suite.tasks)])
    blocks = life.blocks.to_pylist()
    skill = rng.uniform(0.5, 1.0, len(suite.tasks))
    chances = {}
    state = np.zeros(len(suite.tasks))
    for block in blocks:
        task = block["learn_task"]
        if block["kind"] == "learn":
            state *= np.where(np.arange(len(state)) == task, 1, rng.uniform(0.96, 1, len(state)))
            amount = suite.tasks[task].learning.amount
            state[task] = skill[task] * (1 - np.exp(-4 * block["checkpoint"] / amount))
        chances[block["block_index"]] = state.copy()
    rows = life.episodes.to_pylist()
    scores = np.array([rng.random() < chances[r["block_index"]][r["task_index"]] for r in rows])
    return with_scores(life, rows, scores)


def with_scores(life, rows, scores):
    suite, episodes = life.suite, life.episodes
    measure = suite.tasks[0].measure
    low, high = suite.tasks[0].score_range
    raw = [None if np.isnan(float(s)) else low + float(s) * (high - low) for s in scores]
    success = [None if r is None or measure != "success" else bool(r) for r in raw]
    for name, values, dtype in (("score", raw, pa.float64()), ("success", success, pa.bool_())):
        at = episodes.schema.get_field_index(name)
        episodes = episodes.set_column(at, episodes.schema.field(at), pa.array(values, dtype))
    return replace(life, episodes=episodes, blocks=with_kept(life, rows, scores))


def with_kept(life, rows, scores):
    """Return the blocks with the earliest best checkpoint of each task, as the runner keeps it."""
    if life.suite.scenario.keep != "best":
        return life.blocks
    means = {}
    for row, score in zip(rows, scores, strict=True):
        means.setdefault(row["block_index"], []).append(float(score))
    blocks = life.blocks.to_pylist()
    kept = []
    for block in blocks:
        curve = [
            (-np.mean(means[b["block_index"]]), b["checkpoint"])
            for b in blocks
            if b["role"] == "curve"
            and (b["learn_task"], b["exposure"]) == (block["learn_task"], block["exposure"])
        ]
        kept.append(min(curve)[1] if block["role"] == "post" and curve else None)
    at = life.blocks.schema.get_field_index("selected_checkpoint")
    field = life.blocks.schema.field(at)
    return life.blocks.set_column(at, field, pa.array(kept, field.type))


def make_bundle(suite, seed, *, agent="example/replay", life=None, warnings=(), **changes):
    life = life or lived(suite, seed)
    manifest = Manifest(
        bundle_id=f"00000000-0000-4000-8000-{seed:012d}",
        status="complete",
        created_at="2026-01-01T00:00:00Z",
        l2bench=SoftwareRef(version="0.1.0"),
        suite=SuiteRef(
            id=suite.id,
            version=suite.version,
            suite_hash=changes.pop("suite_hash", None) or suite.hash,
            division=changes.pop("division", "closed"),
            deviations=changes.pop("deviations", ()),
        ),
        seed=SeedRef(lifetime=seed, derivation="l2b-seed-1"),
        agent=AgentRef(
            name=agent, version="1", distribution="l2bench 0.1.0", agent_hash="sha256:" + "a" * 64
        ),
        plugins=tuple(
            PluginRef(
                kind=kind,
                name=f"example/{kind}",
                entry_point="example",
                distribution="l2bench-example",
                version="0.1.0",
            )
            for kind in ("environment", "agent", "metric_set")
        ),
        tables={
            name: TableRef(
                rows=getattr(life, name).num_rows,
                schema_id=f"l2bench.{name}.v1",
                bytes_sha256="b" * 64,
                content_sha256="sha256:" + "c" * 64,
            )
            for name in ("blocks", "episodes", "learning")
        },
        counts=Counts(
            blocks_planned=life.blocks.num_rows,
            blocks_sealed=life.blocks.num_rows,
            episodes_planned=life.episodes.num_rows,
            episodes_done=life.episodes.num_rows,
            discarded_attempts=changes.pop("discarded", 0),
        ),
        budget=Budget(lx_done=500, env_steps_total=123456, wall_s=5025.5 + seed, cpu_s=9000.0),
        journal_head="0" * 64,
    )
    settings = changes.pop("settings", {"learning_rate": 0.0003, "memory": 1000, "policy": "mlp"})
    card = AgentCard(
        name=agent,
        version="1",
        distribution="l2bench",
        distribution_version="0.1.0",
        sources=("demonstrations",),
        settings=settings,
    )
    segment = Segment(
        started_at="2026-01-01T00:00:00Z",
        python="3.12.4",
        platform="linux-x86_64",
        cpus=16,
        packages={"numpy": "2.3.5" if seed else "2.2.0", "mujoco": "3.3.2"},
        environments={"example/env": {"robosuite": "1.4.1"}},
        agent={"device": "cuda:0", "parameters": 1234567},
        execution={"workers": 4, "device": "auto"},
        data={suite.tasks[0].id: {"kind": "demonstrations", "episodes": 50, "sha256": "d" * 64}},
    )
    bundle = Bundle(
        Path("/home/someone/results") / f"{suite.id}__s{seed}__00000000.l2b",
        manifest,
        suite,
        card,
        Provenance(segments=(segment,)),
    )
    bundle.__dict__["lifetime"] = life
    bundle.__dict__["scores"] = {"warnings": list(warnings)}
    return bundle


def metric(id, name, points, rng, *, higher=True, range=(0, 1), scope="lifetime", **more):
    known = [p for p in points if p is not None]
    guess = estimate(known, rng)
    return {
        "id": id,
        "name": name,
        "task": None,
        "source": None,
        "unit": "fraction",
        "higher_is_better": higher,
        "range": list(range),
        "scope": scope,
        "headline": scope == "lifetime",
        "mean": guess.mean,
        "low": guess.low,
        "high": guess.high,
        "points": list(guess.points),
        "note": guess.note,
        "n_lifetimes": len(known),
        "undefined_reasons": [] if len(known) == len(points) else ["no pretest of the task"],
    } | more


def make_summary(bundles, *, defined=True, pairs=True):
    suite = bundles[0].suite
    rng = np.random.default_rng(7)

    def draw(low, high):
        if not defined:
            return [None] * len(bundles)
        return [float(v) for v in rng.uniform(low, high, len(bundles))]

    metrics = [
        metric("libero.FWT", "forward transfer (FWT)", draw(0.5, 0.62), rng),
        metric(
            "libero.NBT",
            "negative backward transfer (NBT)",
            draw(0.05, 0.2),
            rng,
            higher=False,
            range=(-1, 1),
        ),
        metric("libero.AUC", "area under the success curve (AUC)", draw(0.4, 0.5), rng),
        metric(
            "l2m.performance_maintenance",
            "performance maintenance (PM)",
            draw(-8, -2),
            rng,
            range=(None, None),
            unit="percentage points",
        ),
        metric(
            "l2m.forward_transfer_contrast",
            "forward transfer, contrast",
            [None] * len(bundles),
            rng,
            range=(-1, 1),
        ),
    ]
    for task in suite.tasks:
        for id, name in (("libero.FWT_k", "FWT"), ("libero.NBT_k", "NBT"), ("libero.AUC_k", "AUC")):
            metrics.append(metric(id, name, draw(0, 1), rng, scope="task", task=task.id))
    names = [task.id for task in suite.tasks] if pairs else []
    for source in names:
        for target in names:
            if source != target:
                more = {"scope": "pair", "task": target, "source": source}
                metrics.append(
                    metric("l2m.transfer_pair", "transfer", [None] * len(bundles), rng, **more)
                    | {"undefined_reasons": [f"{target} was not evaluated before {source}"]}
                    if (len(source) + len(target)) % 3
                    else metric("l2m.transfer_pair", "transfer", draw(-0.2, 0.3), rng, **more)
                )
    return {
        "format": "l2bench.summary",
        "format_version": "1.0",
        "suite": bundles[0].manifest.suite.model_dump(mode="json"),
        "agent": bundles[0].manifest.agent.model_dump(mode="json"),
        "seeds": [bundle.manifest.seed.lifetime for bundle in bundles],
        "bundles": [bundle.folder.name for bundle in bundles],
        "n_lifetimes": len(bundles),
        "n_tasks": len(suite.tasks),
        "metrics": metrics,
    }


class Node:
    """An element of a parsed page."""

    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.children = []

    def get(self, name):
        return self.attributes.get(name)

    def all(self, tag=None, **attributes):
        """Return the elements below this one, of this tag and with these attributes."""
        wanted = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
        found = []
        for child in self.children:
            if isinstance(child, Node):
                fits = all(child.get(key) == value for key, value in wanted.items())
                if tag in (None, child.tag) and fits:
                    found.append(child)
                found += child.all(tag, **attributes)
        return found

    def inside(self, tag):
        node = self.parent
        while node is not None and node.tag != tag:
            node = node.parent
        return node

    @property
    def text(self):
        return "".join(c.text if isinstance(c, Node) else c for c in self.children)


class Parser(HTMLParser):
    """Parse a page, and fail where a tag is not closed, closed twice, or closed across another."""

    VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = self.at = Node("root", {}, None)

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"<{tag}> repeats an attribute: {names}"
        assert all(value is not None for _, value in attrs), f"<{tag}> {attrs}"
        node = Node(tag, dict(attrs), self.at)
        self.at.children.append(node)
        if tag not in self.VOID:
            self.at = node

    def handle_startendtag(self, tag, attrs):
        assert self.at.inside("svg") or self.at.tag == "svg", f"<{tag}/> outside of SVG"
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.at = self.at.parent

    def handle_endtag(self, tag):
        assert tag == self.at.tag, f"</{tag}> closes <{self.at.tag}>"
        self.at = self.at.parent

    def handle_data(self, data):
        self.at.children.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data!r}")


def parse(page):
    """Return the root of a page whose tags all balance."""
    parser = Parser()
    parser.feed(page)
    parser.close()
    assert parser.at is parser.root, f"<{parser.at.tag}> is never closed"
    return parser.root


class Make:
    """What tests build their pages from."""

    suite = staticmethod(make_suite)
    bundle = staticmethod(make_bundle)
    summary = staticmethod(make_summary)
    lived = staticmethod(lived)
    with_scores = staticmethod(with_scores)
    parse = staticmethod(parse)

    @staticmethod
    def page(suite, **more):
        bundles = Make.bundles(suite, **more)
        return render(bundles, make_summary(bundles))

    @staticmethod
    def empty_page():
        """Return the page of two lifetimes in which nothing was measured."""
        suite = make_suite(2, 2)
        bundles = []
        for seed in suite.seeds:
            life = synthetic(suite, seed)
            rows = life.episodes.to_pylist()
            nothing = with_scores(life, rows, np.full(len(rows), np.nan))
            bundles.append(make_bundle(suite, seed, life=nothing))
        return render(bundles, make_summary(bundles, defined=False))

    @staticmethod
    def bundles(suite, seeds=None, **more):
        return [make_bundle(suite, seed, **more) for seed in seeds or suite.seeds]


@pytest.fixture(scope="session")
def make():
    return Make
