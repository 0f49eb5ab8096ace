"""The lesson of learning from interaction: an environment that counts and stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from l2bench.environment import Observation, close_quietly
from l2bench.errors import BudgetExceeded, RunFailed
from l2bench.lesson import OLD_API, Lesson, finite, flag, measured
from l2bench.seeding import reseed
from l2bench.suite import Learning

if TYPE_CHECKING:
    import gymnasium

StepResult = tuple[Observation, float, bool, bool, Mapping[str, Any]]


class InteractionLesson(Lesson):
    """A live environment that counts steps and episodes and stops at the budget.

    Call `reset` to begin an episode and `step` while `remaining`; an episode is over when `step`
    returns terminated or truncated. Every segment of a task begins with a fresh episode.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        learning: Learning,
        start: int,
        stop: int,
        *,
        horizon: int | None,
        measure: str,
        seed_of: Callable[[int], int],
    ) -> None:
        super().__init__(learning, start, stop)
        self._env = env
        self._env_step = env.step
        self._env_reset = env.reset
        self._seed_of = seed_of
        self._measure = measure
        self._horizon = horizon or 0
        self._by_steps = learning.unit == "steps"
        self._budget = stop - start
        self._episodes = 0
        self._resets = 0
        self._settled = 0  # steps up to the last event
        self._stretch = 0  # steps from the last event to the next planned one
        self._until = 0
        self._row_steps = 0  # steps of the open row up to the last event
        self._episode_steps = 0
        self._reward = 0.0
        self._success: bool | None = None
        self._live = False

    @property
    def steps(self) -> int:
        """Environment steps taken in this lesson."""
        return self._settled + self._stretch - self._until

    @property
    def used(self) -> int:
        """Units used so far of this lesson."""
        return self.steps if self._by_steps else self._episodes

    def reset(self) -> Observation:
        """Begin the next episode and return its first observation.

        Raises:
            BudgetExceeded: if the budget is used up.
        """
        if self._live:
            self._advance()
            if self._row_steps:
                self._close_row(None, "abandoned")
            if self._episode_steps:  # an episode that no step was taken in is none
                self._end_episode()
        if not self.remaining:
            raise BudgetExceeded(f"the lesson's {self._budget} {self.learning.unit} are used up")
        seed = self._seed_of(self._resets)
        self._resets += 1
        reseed(seed)  # for environments that draw from the global generators
        result = self._env_reset(seed=seed)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise RunFailed(f"reset() returned no (observation, info): {OLD_API}")
        observation, info = result
        self._live = True
        self._success = False if "success" in info else None
        self._plan()
        return observation

    def step(self, action: Any) -> StepResult:
        """Take one step and return (observation, reward, terminated, truncated, info).

        Raises:
            BudgetExceeded: if the budget is used up.
            RunFailed: if the episode is over and `reset` was not called.
        """
        if not self._until:
            self._refuse()
        result = self._env_step(action)
        try:
            _, reward, terminated, truncated, info = result
        except (TypeError, ValueError):
            found = len(result) if isinstance(result, tuple | list) else "no"
            raise RunFailed(f"step() returned {found} values: {OLD_API}") from None
        self._reward += reward  # type: ignore[operator]
        self._until -= 1
        if info and "success" in info:
            self._success = bool(self._success) or flag(info["success"], "info['success']")
        if terminated or truncated or not self._until:
            return self._event(result)
        return result  # type: ignore[return-value]

    def close(self) -> None:
        """End the lesson and the environment; an unfinished episode stays, as incomplete."""
        close_quietly(self._env)
        if self._live and (self._row_steps or self._until < self._stretch):
            self._advance()
            self._close_row(None, "incomplete")
        self._live = False
        super().close()

    def _plan(self) -> None:
        """Set the number of steps to the next event: window, horizon or budget."""
        edges = [self._budget - self._settled] if self._by_steps else []
        if self._horizon:
            edges.append(self._horizon - self._episode_steps)
        if self.learning.experience:
            edges.append(self.learning.experience - self._row_steps)
        self._stretch = self._until = min(edges) if edges else 1 << 62

    def _advance(self) -> None:
        taken = self._stretch - self._until
        self._settled += taken
        self._row_steps += taken
        self._episode_steps += taken
        self._stretch = self._until = 0

    def _event(self, result: Any) -> StepResult:
        observation, reward, terminated, truncated, info = result
        self._advance()
        if self._horizon and self._episode_steps >= self._horizon and not terminated:
            truncated = True
        if terminated or truncated:
            self._close_row(info, "ok")
            self._end_episode()
        elif self._by_steps and self._settled == self._budget:
            self._close_row(info, "ok" if self._window_full() else "incomplete")
            self._live = False
        else:
            if self._window_full():
                self._close_row(info, "ok")
            self._plan()
        return observation, float(reward), bool(terminated), bool(truncated), info

    def _window_full(self) -> bool:
        return self.learning.experience is not None and (
            self._row_steps == self.learning.experience
        )

    def _end_episode(self) -> None:
        self._episodes += 1
        self._episode_steps = 0
        self._live = False

    def _close_row(self, info: Mapping[str, Any] | None, status: str) -> None:
        reward = finite(self._reward)
        score = measured(self._measure, info, reward, self._success)
        self._experience(score, self._success, reward, self._row_steps, status)
        self._reward, self._row_steps = 0.0, 0
        self._success = None if self._success is None else False

    def _refuse(self) -> None:
        if self.remaining:
            raise RunFailed("the episode is over: call reset() before the next step()")
        raise BudgetExceeded(f"the lesson's {self._budget} {self.learning.unit} are used up")
