"""The page on metrics: it names every metric, and its example is a working metric set."""

import importlib.util
import inspect
import re
from pathlib import Path

from support import probe_suite

from l2bench.bundle.lifetime import synthetic
from l2bench.metrics import aggregates, gem, plasticity, statistics
from l2bench.metrics.bound import BoundMetrics
from l2bench.metrics.continual_sets import ContinualWorldMetrics, GemMetrics, KemkerMetrics
from l2bench.metrics.meanings import MEANINGS
from l2bench.metrics.sets import L2MetricsMetrics, L2MMetrics, LiberoMetrics

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
CODE = set(re.findall(r"`[^`\n]+`", PAGE))


def test_every_metric_is_on_the_page():
    """By its id, or by that of the lifetime value or task value it belongs to."""
    for cls in (LiberoMetrics, GemMetrics, ContinualWorldMetrics, KemkerMetrics, BoundMetrics):
        for metric in cls.metrics:
            assert {f"`{metric.id}`", f"`{metric.id.removesuffix('_k')}`"} & CODE, metric.id
    for cls in (L2MMetrics, L2MetricsMetrics):
        for metric in cls.metrics:
            base = metric.id.split(".")[1].removesuffix("_pair").removesuffix("_k")
            assert f"`{base}`" in CODE, metric.id


def test_every_headline_metric_has_its_sentence_and_the_page_holds_it():
    sets = (LiberoMetrics, L2MMetrics, L2MetricsMetrics, GemMetrics, ContinualWorldMetrics)
    headline = {m.id for cls in (*sets, KemkerMetrics) for m in cls.metrics if m.headline}
    assert set(MEANINGS) == headline
    for id, sentence in MEANINGS.items():
        assert f"| `{id}` | {sentence} |" in PAGE
        assert re.fullmatch(r"[A-Z][^|]*[a-z]\.", sentence), sentence


def test_options_and_functions_are_on_the_page():
    names = [f"`{rows}`" for rows in gem.ROWS] + ["`per_observation`", "`all_zero_over_batch`"]
    names += [f"`{name}`" for name in aggregates.STATISTICS]
    for module in (aggregates, plasticity, statistics):
        public = [
            name
            for name, item in vars(module).items()
            if inspect.isfunction(item) and item.__module__ == module.__name__
        ]
        names += [f"`{name}`" for name in public if not name.startswith("_")]
    assert [name for name in names if name not in CODE] == []


def test_the_example_scores(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    path = tmp_path / "final.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location("final_example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    scores = module.Final().score(synthetic(probe_suite(2), 0))
    assert [(value.task, value.value) for value in scores.values] == [
        ("task-1", 0.5),
        ("task-2", 0.5),
    ]
