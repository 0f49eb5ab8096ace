"""Lifelong algorithms by name."""

from __future__ import annotations

from collections.abc import Mapping

from l2bench_agents.algorithms.agem import Agem
from l2bench_agents.algorithms.base import Algorithm, TaskFacts
from l2bench_agents.algorithms.ewc import Ewc
from l2bench_agents.algorithms.packnet import PackNet
from l2bench_agents.algorithms.replay import Multitask, Replay
from l2bench_agents.algorithms.single import SingleTask

ALGORITHMS: Mapping[str, type[Algorithm]] = {
    "sequential": Algorithm,
    "replay": Replay,
    "agem": Agem,
    "ewc": Ewc,
    "packnet": PackNet,
    "multitask": Multitask,
    "single_task": SingleTask,
}

__all__ = ["ALGORITHMS", "Algorithm", "TaskFacts"]
