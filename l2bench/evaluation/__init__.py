"""Evaluation: a queue of episodes over live environments, in this process or in workers."""

from l2bench.evaluation.episodes import (
    Act,
    Episode,
    Outcome,
    Rollout,
    TraceStep,
    batch,
    digest,
    plain,
    rows,
)
from l2bench.evaluation.pools import LiveEnvironments, LocalPool
from l2bench.evaluation.samples import test_samples
from l2bench.evaluation.video import Film
from l2bench.evaluation.workers import WorkerError, WorkerPool

__all__ = [
    "Act",
    "Episode",
    "Film",
    "LiveEnvironments",
    "LocalPool",
    "Outcome",
    "Rollout",
    "TraceStep",
    "WorkerError",
    "WorkerPool",
    "batch",
    "digest",
    "plain",
    "rows",
    "test_samples",
]
