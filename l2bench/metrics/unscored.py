"""Tasks that were evaluated without a score: why their metrics have no value."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from l2bench.bundle.lifetime import Lifetime

#: What metric sets, which see scores only, say of a task that has none.
_TAKEN_FOR = r"(was (not|never) evaluated( [^(;]*[^(; ])?|has no own curve)"


def unscored(lifetime: Lifetime) -> dict[str, str]:
    """Return, by task id, why no evaluation episode of the task has a score."""
    if "score" not in lifetime.episodes.column_names:
        return {}
    tasks = lifetime.episodes["task_index"].to_numpy()
    missing = np.isnan(lifetime.performance())
    found = {}
    for index, task in enumerate(lifetime.suite.tasks):
        own = missing[tasks == index]
        if len(own) and own.all():
            found[task.id] = (
                f"task {task.id} was evaluated, but none of its {len(own)} episodes has a score: "
                f"no '{task.measure}' was reported"
            )
    return found


def explained(reason: str, unscored: Mapping[str, str]) -> str:
    """Return a reason that does not take such a task for one that was not evaluated."""
    for task, why in unscored.items():
        plain = why.replace("\\", r"\\")  # the name of a measure may be anything
        reason = re.sub(rf"task {re.escape(task)} {_TAKEN_FOR}", plain, reason)
    return reason
