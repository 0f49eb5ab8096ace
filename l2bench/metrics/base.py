"""The interface of a metric set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from l2bench.bundle.lifetime import Lifetime
from l2bench.metrics.scores import Metric, Scores


class MetricSet(ABC):
    """A family of metrics computed from one lifetime's tables.

    ``metrics`` defines every id that `score` returns. ``version`` changes whenever a definition
    changes a number.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]]

    @abstractmethod
    def score(self, lifetime: Lifetime) -> Scores:
        """Return every metric's values, each defined or with the reason why not.

        The reasons name the block that is missing, so that scoring a plan's synthetic lifetime
        tells what the scenario can identify.
        """
