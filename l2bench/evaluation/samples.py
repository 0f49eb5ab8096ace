"""Evaluation on labelled samples, in place of episodes."""

from __future__ import annotations

import time

import numpy as np

from l2bench.agent import Acting, Agent, TaskContext
from l2bench.batches import count_right
from l2bench.environment import Samples
from l2bench.evaluation.episodes import Episode, Outcome
from l2bench.seeding import generator

#: Samples are labelled this many at a time.
TEST_BATCH = 1024


def test_samples(samples: Samples, context: TaskContext, agent: Agent, episode: Episode) -> Outcome:
    """Return the accuracy on the test samples; ``length`` is their number."""
    began = time.perf_counter()
    rng = generator(episode.agent_seed)
    right = 0
    for start in range(0, len(samples.test_inputs), TEST_BATCH):
        inputs = samples.test_inputs[start : start + TEST_BATCH]
        rows = np.arange(len(inputs))
        acting = Acting(context, rows, np.ones(len(rows), dtype=bool), [rng] * len(rows))
        labels = samples.test_labels[start : start + len(inputs)]
        right += count_right(agent.act(inputs, acting), labels)
    total = len(samples.test_labels)
    seconds = time.perf_counter() - began
    return Outcome(right / total, None, None, total, True, False, seconds)
