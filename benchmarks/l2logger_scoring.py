"""Scoring a large folder of l2logger: CPU time and peak memory, beside the package l2metrics.

    python benchmarks/l2logger_scoring.py [--peer PYTHON] [--rows N | --folder LOG] [--large N]

A log of 10 tasks, 100 learning blocks and 101 evaluation blocks is made in a temporary folder (or
taken as it is) and scored from the folder to the metrics, each time in a process of its own, its
start included. The CPU time is that of all threads, the least of five runs. PYTHON is an
interpreter that has l2metrics 3.1.0; it is run once. Without it only L2bench is measured. Also
measured are twice as many rows, and a large log where one is asked for.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

TASKS = 10
LEARNING_BLOCKS = 100
#: The share of rows that are evaluations.
EVALUATION = 0.1

PEER = """
import json, os, sys, tempfile
os.environ["L2DATA"] = tempfile.mkdtemp()
os.environ["MPLBACKEND"] = "Agg"
from pathlib import Path
from l2metrics.report import MetricsReport
report = MetricsReport(
    log_dir=Path(sys.argv[1]), perf_measure="performance", variant_mode="aware",
    ste_averaging_method="metrics", aggregation_method="mean", maintenance_method="both",
    transfer_method="both", normalization_method="task", smoothing_method="flat",
    window_length=None, clamp_outliers=False, data_range=None, do_smooth_eval_data=False,
)
report.calculate()
row = report.ll_metrics_df.iloc[0].to_dict()
print(json.dumps({k: v for k, v in row.items() if isinstance(v, float)}))
"""

SAME = {
    "avg_train_perf": "mean_training_performance",
    "avg_eval_perf": "mean_evaluation_performance",
    "perf_recovery": "performance_recovery",
    "perf_maintenance_mrlep": "performance_maintenance",
    "perf_maintenance_mrtlp": "performance_maintenance_from_learning",
    "forward_transfer_ratio": "forward_transfer_ratio",
    "backward_transfer_ratio": "backward_transfer_ratio",
    "forward_transfer_contrast": "forward_transfer_contrast",
    "backward_transfer_contrast": "backward_transfer_contrast",
}


@dataclass
class Cost:
    """What one process used, in seconds of CPU and mebibytes at its peak, and what it printed."""

    seconds: float
    memory: float
    output: str


def make(folder: Path, rows: int) -> int:
    """Write a log of about this many rows and return how many it has."""
    rng = np.random.default_rng(0)
    evaluations = max(1, round(rows * EVALUATION / ((LEARNING_BLOCKS + 1) * TASKS)))
    lessons = round(rows * (1 - EVALUATION) / LEARNING_BLOCKS)
    skill = np.full(TASKS, 0.1)
    block, experience = 0, 0
    for turn in range(LEARNING_BLOCKS + 1):
        tasks = np.repeat(np.arange(TASKS), evaluations)
        values = skill[tasks] + rng.normal(0, 0.05, len(tasks))
        experience = write(folder, block, "test", tasks, values, experience)
        block += 1
        if turn == LEARNING_BLOCKS:
            break
        task = turn % TASKS
        course = skill[task] + (1 - skill[task]) * 0.3 * np.linspace(0, 1, lessons)
        values = course + rng.normal(0, 0.1, lessons)
        experience = write(folder, block, "train", np.full(lessons, task), values, experience)
        block += 1
        skill *= 0.98
        skill[task] = course[-1]
    info = {"metrics_columns": ["performance"], "log_format_version": "1.1"}
    (folder / "logger_info.json").write_text(json.dumps(info))
    scenario = {"complexity": "1-low", "difficulty": "1-easy", "scenario_type": "custom"}
    (folder / "scenario_info.json").write_text(json.dumps(scenario))
    return experience


def write(folder: Path, block: int, kind: str, tasks, values, first: int) -> int:
    """Write one block and return the number of the experience that comes next."""
    count = len(tasks)
    inside = folder / "worker-default" / f"{block}-{kind}"
    inside.mkdir(parents=True)
    table = pa.table(
        {
            "block_num": np.full(count, block),
            "exp_num": np.arange(first, first + count),
            "worker_id": ["worker-default"] * count,
            "block_type": [kind] * count,
            "block_subtype": ["wake"] * count,
            "task_name": [f"task{task}_1" for task in tasks],
            "task_params": ["{}"] * count,
            "exp_status": ["complete"] * count,
            "timestamp": ["20240101T000000.000000"] * count,
            "performance": values,
        }
    )
    options = csv.WriteOptions(delimiter="\t", quoting_style="none")
    csv.write_csv(table, inside / "data-log.tsv", options)
    return first + count


def measure(command: list[str]) -> Cost:
    """Run a command to its end and return what it used."""
    # installed packages are compiled once; a shell that forbids it would have that measured too
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, env=kept)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode()
    if process.returncode:
        sys.exit(f"{' '.join(command[:4])} ... ended with exit code {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text)


def own(folder: Path, runs: int = 5) -> Cost:
    """Score a folder with L2bench and return the least time and the most memory."""
    arguments = ["score", str(folder), "--metrics", "l2bench/l2metrics", "--json"]
    found = [measure([sys.executable, "-m", "l2bench", *arguments]) for _ in range(runs)]
    seconds, memory = min(cost.seconds for cost in found), max(cost.memory for cost in found)
    return Cost(seconds, memory, found[0].output)


def scored_rows(cost: Cost) -> int:
    """Return how many rows were scored."""
    coverage = json.loads(cost.output)["bundles"][0]["coverage"]
    return coverage["evaluation_episodes"] + coverage["learning_experiences"]


def differences(ours: str, theirs: str) -> float:
    """Return the largest relative difference between the metrics of both."""
    metrics = json.loads(ours)["summary"]["metrics"]
    found = {m["id"].split(".")[1]: m["mean"] for m in metrics if m["task"] is None}
    values = json.loads(theirs.splitlines()[-1])
    gaps = []
    for name, id in SAME.items():
        if not math.isnan(values[name]):
            gaps.append(abs(found[id] - values[name]) / max(1.0, abs(values[name])))
    assert len(gaps) == len(SAME)
    return max(gaps)


def show(name: str, cost: Cost) -> None:
    print(
        f"{name:28} {cost.seconds:8.2f} s of CPU   {cost.memory:8.0f} MiB at the peak", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="a Python that has l2metrics 3.1.0")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="a log to score instead of one that is made")
    parser.add_argument("--large", type=int, default=0, help="also score a log of so many rows")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        once, twice = options.folder or Path(temporary) / "once", Path(temporary) / "twice"
        if options.folder is None:
            make(once, options.rows)
        rows = scored_rows(own(once, 1))
        make(twice, 2 * rows)
        ours, doubled = own(once), own(twice)
        show(f"L2bench, {rows:,} rows", ours)
        show(f"L2bench, {scored_rows(doubled):,} rows", doubled)
        time, space = doubled.seconds / ours.seconds, doubled.memory / ours.memory
        print(f"  twice the rows: {time:.2f} of the time, {space:.2f} of the memory")
        if options.large:
            large = Path(temporary) / "large"
            make(large, options.large)
            most = own(large, 1)
            show(f"L2bench, {scored_rows(most):,} rows", most)
        if options.peer:
            theirs = measure([options.peer, "-c", PEER, str(once)])
            show(f"l2metrics, {rows:,} rows", theirs)
            time, space = theirs.seconds / ours.seconds, theirs.memory / ours.memory
            print(f"  l2metrics / L2bench: {time:.1f} of the time, {space:.2f} of the memory")
            gap = differences(ours.output, theirs.output)
            print(f"  largest relative difference of a metric: {gap:.1e}")


if __name__ == "__main__":
    main()
