"""Policy networks by name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from l2bench_agents.heads import ActionHead
from l2bench_agents.observations import Layout
from l2bench_agents.policies.base import Policy
from l2bench_agents.policies.mlp import MlpPolicy
from l2bench_agents.policies.rnn import RnnPolicy
from l2bench_agents.policies.temporal import TemporalPolicy
from l2bench_agents.policies.vilt import ViltPolicy
from l2bench_agents.policies.weights import built
from l2bench_agents.settings import CloningSettings

POLICIES: Mapping[str, type[Policy]] = {
    "mlp": MlpPolicy,
    "rnn": RnnPolicy,
    "transformer": TemporalPolicy,
    "vilt": ViltPolicy,
}

__all__ = ["POLICIES", "Policy", "make_policy"]


def make_policy(
    layout: Layout,
    task_width: int,
    head: ActionHead,
    settings: CloningSettings,
    rng: np.random.Generator,
) -> Policy:
    """Return a policy with weights drawn from ``rng``, ready to act.

    Raises:
        UsageError: if the policy cannot see such observations.
    """
    make = POLICIES[settings.policy]
    return built(lambda: make(layout, task_width, head, settings), rng).eval()
