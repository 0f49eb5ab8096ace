"""The choices of the L2M metrics, with the two profiles that name a whole set of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, get_args, get_type_hints

from l2bench.errors import UsageError, choices, nearest

#: Smallest and largest performance of each task.
DataRange = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Settings:
    """How a log is read, processed and scored; the defaults are those of the package l2metrics.

    ``variants``: ``agnostic`` merges the tasks ``name_variant`` of one name.
    ``smoothing``, ``smooth_evaluation``, ``window_length``, ``clamp``, ``scaling``, ``data_range``
    describe the preprocessing, in this order.
    ``experts``: metrics of several experts are averaged, or the experts point by point (``time``).
    ``sleep_rule``: wake evaluations are ignored as soon as a row is marked sleep.
    ``direct_references``: a maintenance reference must follow its learning without the learning of
    another task in between; otherwise the first evaluation afterwards is taken.
    ``pool_maintenance``: the lifetime value is the mean of all maintenance values, not of tasks.
    ``mean_over``: mean performance over the rows of a task, or over the means of its blocks.
    ``transfer_sources``: with several tasks learned between two evaluations, keep the ``last``
    pair, ``all`` pairs, or only changes with a ``single`` source.
    ``exclude_own_learning``: no transfer where the target itself was learned in between.
    ``first_transfer``: a pair's value is its first ``defined`` one, or its ``earliest`` whether
    defined or not.
    ``learned_targets``: only tasks that get learned count as targets in the lifetime value.
    ``nonnegative``: transfer between negative performances is undefined.
    ``first_experience``: the number of the first experience in experiences to saturation.
    ``tie_tolerance``: smoothed values this close (relative) to the largest are equal to it.
    ``eligible_only``: sample efficiency only for curves that rise and saturate.

    Raises:
        UsageError: for a choice or a window that does not exist.
    """

    profile: str = "l2metrics"
    variants: Literal["aware", "agnostic"] = "aware"
    smoothing: Literal["flat", "hanning", "hamming", "bartlett", "blackman", "none"] = "flat"
    smooth_evaluation: bool = False
    window_length: int | None = None
    clamp: bool = False
    scaling: Literal["task", "run", "none"] = "task"
    data_range: DataRange | None = None
    aggregate: Literal["mean", "median"] = "mean"
    experts: Literal["metrics", "time"] = "metrics"
    sleep_rule: bool = True
    direct_references: bool = False
    pool_maintenance: bool = False
    mean_over: Literal["blocks", "rows"] = "blocks"
    transfer_sources: Literal["last", "all", "single"] = "last"
    exclude_own_learning: bool = False
    first_transfer: Literal["defined", "earliest"] = "defined"
    learned_targets: bool = False
    nonnegative: bool = False
    first_experience: Literal[0, 1] = 0
    tie_tolerance: float = 0.0
    eligible_only: bool = False

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in fields(self):
            allowed = get_args(hints[field.name])
            value = getattr(self, field.name)
            if allowed and all(isinstance(a, str) for a in allowed) and value not in allowed:
                raise UsageError(
                    f"{field.name}={value!r} is unknown{nearest(str(value), allowed)}; "
                    f"choose {choices(allowed)}"
                )
        if self.first_experience not in (0, 1):
            raise UsageError(f"first_experience={self.first_experience} must be 0 or 1")
        if self.window_length is not None and self.window_length < 1:
            raise UsageError(f"window_length={self.window_length} must be at least 1")


#: The package l2metrics 3.1.0, value for value (its default transfer method is the ratio).
L2METRICS = Settings()

#: The published specification, New et al. 2022, on the measure as the application records it.
TEXT = Settings(
    profile="text",
    smoothing="none",
    scaling="none",
    sleep_rule=False,
    direct_references=True,
    pool_maintenance=True,
    mean_over="rows",
    transfer_sources="single",
    exclude_own_learning=True,
    first_transfer="earliest",
    learned_targets=True,
    nonnegative=True,
    first_experience=1,
    tie_tolerance=1e-12,
    eligible_only=True,
)
