"""Catch: balls fall on a 10 x 5 board and a paddle in the bottom row has to be under them.

Rules and order of random draws follow the ``catch`` and ``dancing_catch`` environments of csuite;
Non-stationary Catch is the latter, as used in "Tuning for the Unknown" (arXiv 2404.02113).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from pydantic import Field

from l2bench.environment import Environment, Spaces, TaskInfo
from l2bench.suite import Model, Task, judge

ROWS, COLUMNS = 10, 5
_CELLS = ROWS * COLUMNS
_PADDLE_ROW = (ROWS - 1) * COLUMNS

#: Catch rates, measured: a uniformly random policy, and a planner that sees the true board.
RANDOM_RATE, PLANNER_RATE = 0.20, 0.93


class CatchSettings(Model):
    """What tells the variants apart.

    ``mirrored`` swaps left and right; ``wind`` moves every ball that many columns a step
    (around the edge); every ``swap_every`` steps two entries of the observation change places
    for good (None: never).
    """

    mirrored: bool = False
    wind: int = Field(0, ge=-2, le=2)
    swap_every: int | None = Field(None, ge=1)
    spawn_probability: float = Field(0.1, ge=0, le=1)


class Catch(gymnasium.Env[np.ndarray[Any, Any], int]):
    """One board, which never terminates.

    Observations are (50,) float32 zeros and ones, the board row by row (permuted in the
    non-stationary variant); actions 0, 1, 2 move the paddle left, not at all, right. The reward
    is +1 for a caught ball, -1 for a missed one. ``info["catch_rate"]`` is the fraction caught of
    the balls that landed since the reset, in [0, 1]; it is absent before the first lands.
    """

    def __init__(self, settings: CatchSettings) -> None:
        self.observation_space = Box(0.0, 1.0, (_CELLS,), np.float32)
        self.action_space = Discrete(3)  # type: ignore[assignment]
        self._moves = (1, 0, -1) if settings.mirrored else (-1, 0, 1)
        self._wind = settings.wind
        self._swap_every = settings.swap_every
        self._spawn = settings.spawn_probability
        self._rng = np.random.default_rng(0)
        self._paddle = COLUMNS // 2
        self._balls: list[tuple[int, int]] = []
        self._shown_at = list(range(_CELLS))  # where each cell stands in the observation
        self._since_swap = self._landed = self._caught = 0
        self._info: dict[str, Any] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        """Begin a new stream; the permutation starts as the identity."""
        self._start(np.random.default_rng(seed))
        return self._observe(), self._info

    def step(self, action: int) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        """Move the paddle, let the balls fall, then maybe drop a new one."""
        self._paddle = min(max(self._paddle + self._moves[action], 0), COLUMNS - 1)
        balls = self._balls = [
            (row + 1, (column + self._wind) % COLUMNS) for row, column in self._balls
        ]
        reward = 0.0
        if balls and balls[0][0] == ROWS - 1:
            reward = 1.0 if balls.pop(0)[1] == self._paddle else -1.0
            self._landed += 1
            self._caught += reward > 0
            self._info = {"catch_rate": self._caught / self._landed}
        if self._rng.random() < self._spawn:
            balls.append((0, int(self._rng.integers(COLUMNS))))
        if self._swap_every:
            self._count_swap(self._swap_every)
        return self._observe(), reward, False, False, self._info

    def _start(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._paddle = COLUMNS // 2
        self._balls = [(0, int(rng.integers(COLUMNS)))]
        self._shown_at = list(range(_CELLS))
        self._since_swap = self._landed = self._caught = 0
        self._info = {}

    def _count_swap(self, every: int) -> None:
        self._since_swap += 1
        if self._since_swap == every:
            self._since_swap = 0
            one, other = (int(i) for i in self._rng.integers(_CELLS, size=2))
            cells = self._shown_at
            here, there = cells.index(one), cells.index(other)
            cells[here], cells[there] = other, one

    def _observe(self) -> np.ndarray[Any, Any]:
        observation = np.zeros(_CELLS, np.float32)
        shown_at = self._shown_at
        observation[shown_at[_PADDLE_ROW + self._paddle]] = 1.0
        for row, column in self._balls:
            observation[shown_at[row * COLUMNS + column]] = 1.0
        return observation


class CatchEnvironment(Environment):
    """Non-stationary Catch and its stationary variants."""

    VARIANTS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "catch": {},
        "mirrored_catch": {"mirrored": True},
        "windy_catch": {"wind": 1},
        "nonstationary_catch": {"swap_every": 10_000},
    }

    def tasks(self) -> Mapping[str, TaskInfo]:
        """Return the variants; all are scored by their catch rate."""
        info = TaskInfo(frozenset({"interaction"}), measure="catch_rate", step_seconds=6e-6)
        return dict.fromkeys(self.VARIANTS, info)

    def spaces(self, task: Task) -> Spaces:
        """Return the spaces, the same for every variant."""
        return Spaces(Box(0.0, 1.0, (_CELLS,), np.float32), Discrete(3))

    def make(self, task: Task) -> Catch:
        """Return a board; ``settings`` override those of the variant."""
        return Catch(self._settings(task))

    def forks(self, task: Task) -> bool:
        """Return yes: nothing but numbers is held."""
        return True

    def check(self, task: Task) -> None:
        """Refuse unknown settings."""
        self._settings(task)

    def _settings(self, task: Task) -> CatchSettings:
        data = {**self.VARIANTS[task.task], **task.settings}
        return judge(CatchSettings, data, f"settings of task '{task.id}'")
