"""The definitions of GEM's, Continual World's and Kemker's metrics."""

from __future__ import annotations

from l2bench.metrics.definitions import CHANGE, POSITIVE, RATE
from l2bench.metrics.scores import Metric, Range

_PERFORMANCE = "performance"
AT_MOST_ONE: Range = (None, 1.0)


def _whole(
    id: str,
    name: str,
    range: Range,
    formula: str,
    *,
    unit: str = _PERFORMANCE,
    higher: bool = True,
    headline: bool = False,
) -> Metric:
    return Metric(id, name, unit, higher, range, "lifetime", formula, headline)


def _task(
    id: str,
    name: str,
    range: Range,
    formula: str,
    *,
    unit: str = _PERFORMANCE,
    higher: bool = True,
) -> Metric:
    return Metric(id, name, unit, higher, range, "task", formula)


_BWT = "performance after the last task minus that right after the own task"
_FWT = "performance after the task before minus that of the untrained learner"
_LOST = (
    "best performance on a task in {} minus that after the last task; mean over all but the last"
)

#: Lopez-Paz and Ranzato 2017, Chaudhry et al. 2018.
GEM: tuple[Metric, ...] = (
    _whole(
        "gem.ACC",
        "average accuracy",
        RATE,
        "mean over tasks of the performance after the last task",
        headline=True,
    ),
    _whole(
        "gem.BWT", "backward transfer", CHANGE, f"{_BWT}; mean over all but the last", headline=True
    ),
    _whole(
        "gem.FWT",
        "forward transfer (zero-shot gain)",
        CHANGE,
        f"{_FWT}; mean over all but the first",
        headline=True,
    ),
    _whole(
        "gem.forgetting",
        "forgetting",
        CHANGE,
        _LOST.format("any earlier row"),
        higher=False,
        headline=True,
    ),
    _whole(
        "gem.BWT_divided_by_T",
        "backward transfer over all tasks",
        CHANGE,
        f"{_BWT}; sum over all but the last, divided by the number of all tasks",
    ),
    _whole(
        "gem.FWT_divided_by_T",
        "forward transfer over all tasks",
        CHANGE,
        f"{_FWT}; sum over all but the first, divided by the number of all tasks",
    ),
    _whole(
        "gem.forgetting_from_own_task",
        "forgetting from the own task on",
        CHANGE,
        _LOST.format("the rows from its own up to the last but one"),
        higher=False,
    ),
    _whole(
        "gem.forgetting_including_last",
        "forgetting with the last row",
        RATE,
        _LOST.format("any row, the last too"),
        higher=False,
    ),
    _whole(
        "gem.forgetting_own_evaluation",
        "forgetting from the own evaluation",
        CHANGE,
        _LOST.format("its own row"),
        higher=False,
    ),
    _task("gem.ACC_k", "final accuracy of a task", RATE, "performance after the last task"),
    _task("gem.BWT_k", "backward transfer of a task", CHANGE, _BWT),
    _task("gem.FWT_k", "forward transfer to a task", CHANGE, _FWT),
    _task(
        "gem.average_accuracy_k",
        "average accuracy after a task",
        RATE,
        "mean performance on the tasks up to this one, after it",
    ),
    _task(
        "gem.forgetting_k",
        "forgetting of a task",
        CHANGE,
        "best performance in any earlier row minus that after the last task",
        higher=False,
    ),
    _task(
        "gem.forgetting_after_k",
        "forgetting after a task",
        CHANGE,
        "mean over the tasks before: best performance in an earlier row minus that after this one",
        higher=False,
    ),
)

_END = "mean of its last points in the segment of the last task"
_FT = "(AUC - baseline AUC) / (1 - baseline AUC)"
_AUC = "mean performance at the points of the own segment"

#: Wolczyk et al. 2021.
CONTINUAL_WORLD: tuple[Metric, ...] = (
    _whole(
        "cw.performance", "average performance", RATE, f"mean over tasks: {_END}", headline=True
    ),
    _whole(
        "cw.forgetting",
        "forgetting",
        CHANGE,
        "mean over all tasks: last points in the own segment minus those in the last one",
        higher=False,
        headline=True,
    ),
    _whole(
        "cw.forward_transfer",
        "forward transfer (AUC gain)",
        AT_MOST_ONE,
        f"mean over tasks: {_FT}",
        unit="share of the room to gain",
        headline=True,
    ),
    _whole(
        "cw.forward_transfer_unnormalised",
        "forward transfer (AUC difference)",
        CHANGE,
        "mean over tasks: AUC - baseline AUC",
    ),
    _task("cw.performance_k", "final performance of a task", RATE, _END),
    _task(
        "cw.forgetting_k",
        "forgetting of a task",
        CHANGE,
        "last points in the own segment minus those in the last one",
        higher=False,
    ),
    _task(
        "cw.forward_transfer_k",
        "forward transfer to a task (AUC gain)",
        AT_MOST_ONE,
        _FT,
        unit="share of the room to gain",
    ),
    _task(
        "cw.forward_transfer_unnormalised_k",
        "forward transfer to a task (AUC difference)",
        CHANGE,
        "AUC - baseline AUC",
    ),
    _task("cw.AUC_k", "area under the own curve", RATE, _AUC),
    _task("cw.baseline_AUC_k", "area under the experts' curve", RATE, f"{_AUC}, of the experts"),
)

#: Kemker et al. 2018.
KEMKER: tuple[Metric, ...] = (
    _whole(
        "kemker.omega_base",
        "base session kept (Omega base)",
        POSITIVE,
        "mean over sessions after the first: accuracy on the base session / offline accuracy on it",
        unit="ratio",
        headline=True,
    ),
    _whole(
        "kemker.omega_new",
        "new sessions learned (Omega new)",
        RATE,
        "mean over sessions after the first: accuracy on the session right after it",
        unit="accuracy",
        headline=True,
    ),
    _whole(
        "kemker.omega_all",
        "all sessions so far (Omega all)",
        POSITIVE,
        "mean over sessions after the first: accuracy on all test items so far / offline accuracy "
        "on the base session",
        unit="ratio",
        headline=True,
    ),
    _whole(
        "kemker.omega_all_session_mean",
        "all sessions so far, each counting the same",
        POSITIVE,
        "mean over sessions after the first: mean accuracy of the sessions so far / offline "
        "accuracy on the base session",
        unit="ratio",
    ),
    _task(
        "kemker.base_accuracy_k",
        "accuracy on the base session after a session",
        RATE,
        "accuracy on the base session's test items",
        unit="accuracy",
    ),
    _task(
        "kemker.new_accuracy_k",
        "accuracy on a session right after it",
        RATE,
        "accuracy on the session's own test items",
        unit="accuracy",
    ),
    _task(
        "kemker.all_accuracy_k",
        "accuracy on all sessions so far",
        RATE,
        "share of right answers on the test items of all sessions so far",
        unit="accuracy",
    ),
)
