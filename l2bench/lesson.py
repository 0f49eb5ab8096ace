"""Lessons: the data of one learning block, metered so that no agent can go past its budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from l2bench.environment import Demonstrations, Observation, Samples
from l2bench.errors import BudgetExceeded, RunFailed
from l2bench.suite import Learning

if TYPE_CHECKING:
    import gymnasium

Array = np.ndarray[Any, Any]
StepResult = tuple[Observation, float, bool, bool, Mapping[str, Any]]


class Experience(NamedTuple):
    """One row of the learning table: an episode, an epoch or a fixed window.

    ``score`` is in the task's raw units, ``length`` in environment steps or samples. ``status`` is
    ``incomplete`` where the budget ended inside the episode.
    """

    score: float | None
    success: bool | None
    reward: float | None
    length: int
    status: str
    seconds: float


class Lesson:
    """What an agent is handed in a learning block.

    ``start`` and ``stop`` are positions in the whole task's budget ``learning.amount``, in
    ``learning.unit``; ``experiences`` fills up while the agent learns.
    """

    def __init__(self, learning: Learning, start: int, stop: int) -> None:
        self.learning = learning
        self.start = start
        self.stop = stop
        self.experiences: list[Experience] = []
        self.series: list[tuple[int, str, float]] = []
        self._since = time.perf_counter()

    @property
    def used(self) -> int:
        """Units used so far of this lesson."""
        raise NotImplementedError

    @property
    def remaining(self) -> int:
        """Units left in this lesson."""
        return self.stop - self.start - self.used

    @property
    def progress(self) -> float:
        """The fraction of the whole task's budget that is used, in [0, 1]."""
        return (self.start + self.used) / self.learning.amount

    def record(self, **scalars: float) -> None:
        """Store scalars the agent reports (a loss, a norm); they are never scored."""
        at = len(self.experiences)
        self.series += [(at, name, float(value)) for name, value in scalars.items()]

    def close(self) -> None:
        """End the lesson; called by the runner.

        Raises:
            RunFailed: if the agent left some of its budget unused.
        """
        if self.remaining:
            raise RunFailed(
                f"the agent stopped learning with {self.remaining} of "
                f"{self.stop - self.start} {self.learning.unit} unused"
            )

    def _experience(
        self,
        score: float | None,
        success: bool | None,
        reward: float | None,
        length: int,
        status: str = "ok",
    ) -> None:
        now = time.perf_counter()
        row = Experience(score, success, reward, length, status, now - self._since)
        self.experiences.append(row)
        self._since = now


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
            self._close_row(None, "abandoned")
            self._end_episode()
        if not self.remaining:
            raise BudgetExceeded(f"the lesson's {self._budget} {self.learning.unit} are used up")
        observation, info = self._env_reset(seed=self._seed_of(self._episodes))
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
        _, reward, terminated, truncated, info = result
        self._reward += reward  # type: ignore[operator]
        self._until -= 1
        if info and "success" in info:
            self._success = bool(self._success) or bool(info["success"])
        if terminated or truncated or not self._until:
            return self._event(result)
        return result  # type: ignore[return-value]

    def close(self) -> None:
        """End the lesson and the environment; an unfinished episode stays, as incomplete."""
        self._env.close()
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
        score = measured(self._measure, info, self._reward, self._success)
        self._experience(score, self._success, self._reward, self._row_steps, status)
        self._reward, self._row_steps = 0.0, 0

    def _refuse(self) -> None:
        if self.remaining:
            raise RunFailed("the episode is over: call reset() before the next step()")
        raise BudgetExceeded(f"the lesson's {self._budget} {self.learning.unit} are used up")


def measured(
    measure: str, info: Mapping[str, Any] | None, reward: float, success: bool | None
) -> float | None:
    """Return an episode's score by the task's measure, None where it is not known."""
    if measure == "return":
        return float(reward)
    if measure == "success":
        return None if success is None else float(success)
    value = (info or {}).get(measure)
    return None if value is None or not np.isfinite(value) else float(value)


class DemonstrationBatch(NamedTuple):
    """B pairs of observation and action: arrays (B, ...) by key, and actions (B, A)."""

    observations: Mapping[str, Array]
    actions: Array


class DemonstrationLesson(Lesson):
    """Demonstrations, metered in epochs: every pair is handed out once an epoch."""

    def __init__(self, data: Demonstrations, learning: Learning, start: int, stop: int) -> None:
        super().__init__(learning, start, stop)
        self._data = data
        self._epochs = 0

    @property
    def used(self) -> int:
        """Epochs finished in this lesson."""
        return self._epochs

    @property
    def size(self) -> int:
        """The number of pairs handed out in one epoch."""
        return len(self._data)

    def statistics(self) -> Mapping[str, tuple[Array, Array]]:
        """Return mean and standard deviation of each vector-valued observation key."""
        return {
            key: (values.mean(axis=0), values.std(axis=0))
            for key, values in self._data.observations.items()
            if values.ndim == 2
        }

    def batches(self, size: int, shuffle: np.random.Generator) -> Iterator[DemonstrationBatch]:
        """Yield batches of at most ``size`` pairs until the lesson is over."""
        while self.remaining:
            order = shuffle.permutation(len(self._data))
            for at in range(0, len(order), size):
                rows = order[at : at + size]
                observations = {key: a[rows] for key, a in self._data.observations.items()}
                yield DemonstrationBatch(observations, self._data.actions[rows])
            self._epochs += 1
            self._experience(None, None, None, len(self._data))


class SampleBatch(NamedTuple):
    """B labelled samples: inputs (B, ...) and labels (B,)."""

    inputs: Array
    labels: Array


class SampleLesson(Lesson):
    """Labelled samples, metered in epochs or samples.

    Where the suite asks for test-then-train accuracy, ``predict`` is asked for the labels of each
    batch before the agent sees them.
    """

    def __init__(
        self,
        data: Samples,
        learning: Learning,
        start: int,
        stop: int,
        predict: Callable[[Array], Array] | None = None,
    ) -> None:
        super().__init__(learning, start, stop)
        self._inputs = data.train_inputs
        self._labels = data.train_labels
        self._predict = predict if learning.test_then_train else None
        self._handed = 0
        self._by_epochs = learning.unit == "epochs"
        self._budget = (stop - start) * (len(self._inputs) if self._by_epochs else 1)
        self._row = len(self._inputs) if self._by_epochs else (learning.experience or 0)
        self._row_length = 0
        self._row_correct = 0

    @property
    def used(self) -> int:
        """Units used so far of this lesson."""
        return self._handed // len(self._inputs) if self._by_epochs else self._handed

    @property
    def size(self) -> int:
        """The number of training samples."""
        return len(self._inputs)

    def batches(self, size: int, shuffle: np.random.Generator) -> Iterator[SampleBatch]:
        """Yield batches of at most ``size`` samples until the lesson is over."""
        row = self._row or size
        all_inputs, all_labels, predict = self._inputs, self._labels, self._predict
        while self._handed < self._budget:
            order = shuffle.permutation(len(all_inputs))
            order = order[: self._budget - self._handed]
            at, end = 0, len(order)
            while at < end:
                stop = min(at + size, at + row - self._row_length, end)
                rows = order[at:stop]
                inputs, labels = all_inputs[rows], all_labels[rows]
                if predict is not None:
                    self._row_correct += int(np.sum(predict(inputs) == labels))
                yield SampleBatch(inputs, labels)
                self._handed += stop - at
                self._row_length += stop - at
                at = stop
                if self._row_length == row or self._handed == self._budget:
                    self._close_row(row)

    def _close_row(self, row: int) -> None:
        score = self._row_correct / self._row_length if self._predict else None
        status = "ok" if self._row_length == row else "incomplete"
        self._experience(score, None, None, self._row_length, status)
        self._row_length = self._row_correct = 0
