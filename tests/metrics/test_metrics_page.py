"""The page on metrics: it names every metric, and its example is a working metric set."""

import importlib.util
import re
from pathlib import Path

from support import probe_suite

from l2bench.bundle.lifetime import synthetic
from l2bench.metrics.sets import L2MetricsMetrics, L2MMetrics, LiberoMetrics

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()


def test_every_metric_is_on_the_page():
    for cls in (LiberoMetrics, L2MMetrics, L2MetricsMetrics):
        for metric in cls.metrics:
            id = metric.id if cls is LiberoMetrics else metric.id.split(".")[1]
            base = id.removesuffix("_pair")
            if base not in ("libero.best_k", "libero.reevaluated_k"):
                base = base.removesuffix("_k")
            assert f"`{base}`" in PAGE, metric.id


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
