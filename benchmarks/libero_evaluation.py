"""One evaluation of a LIBERO task: L2bench's against LIBERO's own loop, same task, same starts.

    python benchmarks/libero_evaluation.py [--episodes 20] [--failing] [--pixels] [--floor]

LIBERO evaluates a policy by building one environment per episode, resetting each the hard way,
setting the initial states, settling for five steps, and stepping all of them in lock step until
all have succeeded or 600 steps are over. Here its environments are played one after the other for
as many steps as the lock step would take them, which costs the same and needs the memory of one.
What its twenty processes spend on starting and on passing messages is left out, in its favour.

The policy is the scripted expert, which solves every episode; both sides take the same actions.
With --failing, the last episode's policy does nothing, so that all twenty are stepped 600 times.
With --pixels both cameras are rendered (``OffScreenRenderEnv``), and L2bench is also timed with
plans of 8 actions. Times are of the process's CPU; imports and the compiling of numerics are done
before on both sides.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from l2bench.agent import TaskContext
from l2bench.cast import Execution
from l2bench.evaluation import Episode, LocalPool
from l2bench.suite import Task
from l2bench_libero import environment as suites
from l2bench_libero.experts import make_expert
from l2bench_libero.reference import ReferenceEnv
from l2bench_libero.simulator import LiberoEnv
from l2bench_libero.tasks import find

HORIZON, CHUNK, SIZE = 600, 8, 128


class Ours:
    """The evaluation of one task as a lifetime's pool makes it."""

    def __init__(self, task: int, pixels: bool) -> None:
        self.environment = suites.Object()
        settings = {"observation": "both" if pixels else "state", "settle_steps": 5}
        name = find("libero_object", task).name
        self.task = Task(
            id="task", environment="libero/libero_object", task=name, horizon=HORIZON,
            settings=settings,
        )  # fmt: skip
        execution = Execution(episode_seconds=None)
        self.pool = LocalPool({self.task.environment: self.environment}, execution)
        self.context = TaskContext(self.environment.spaces(self.task))
        self.env: LiberoEnv = self.pool._live.get(self.environment, self.task)  # type: ignore[assignment]

    def evaluate(self, episodes, act, chunk=1):
        """Return CPU seconds and outcomes."""
        began = time.process_time()
        played = self.pool.run(self.task, self.context, episodes, act, chunk)
        outcomes = [outcome for _, outcome in played]
        return time.process_time() - began, outcomes


def expert_policy(env: LiberoEnv, failing: set[int], actions: list[list[np.ndarray]]):
    """Return the scripted expert as a policy that also notes what it did, episode by episode."""
    expert = make_expert(env)

    def act(observations, acting):
        if acting.first[0]:
            expert.restart()
            actions.append([])
        idle = len(actions) - 1 in failing
        action = np.zeros(7) if idle else expert.act(env.snapshot).action
        actions[-1].append(action)
        return action[None]

    return act


def replayed(actions: list[list[np.ndarray]], chunk: int):
    """Return the noted actions as a policy that plans ``chunk`` of them at once."""
    at = [-1, 0]

    def act(observations, acting):
        if acting.first[0]:
            at[:] = [at[0] + 1, 0]
        plan = actions[at[0]][at[1] : at[1] + chunk]
        at[1] += len(plan)
        return np.array(plan)[None] if chunk > 1 else np.array(plan)

    return act


def theirs(task: int, pixels: bool, actions: list[list[np.ndarray]]) -> tuple[float, list[int]]:
    """Return CPU seconds of LIBERO's loop, and the step at which each episode succeeded."""
    steps = max(len(episode) for episode in actions)
    succeeded, spent = [], 0.0
    for index, episode in enumerate(actions):
        began = time.process_time()
        # Builds the wrapper, which resets once by itself; then as the loop does: a hard reset, the
        # initial state, five idle steps.
        env = ReferenceEnv(
            "libero_object", task, "both" if pixels else "state", image_size=SIZE, settle_steps=5
        )
        env.reset(seed=index, options={"initial_state": index})
        first = 0
        for step in range(steps):
            action = episode[min(step, len(episode) - 1)]
            env._wrapper.step(action)
            if not first and env._wrapper.check_success():
                first = step + 1
        env.close()
        spent += time.process_time() - began
        succeeded.append(first)
    return spent, succeeded


def compare(task: int, count: int, failing: bool, pixels: bool) -> None:
    ours = Ours(task, pixels)
    episodes = [Episode(index, index, index, index) for index in range(count)]
    ours.evaluate(episodes[:1], expert_policy(ours.env, set(), []))  # warm
    actions: list[list[np.ndarray]] = []
    bad = {count - 1} if failing else set()
    spent, outcomes = ours.evaluate(episodes, expert_policy(ours.env, bad, actions))
    lengths = [outcome.length for outcome in outcomes]
    good = sum(bool(outcome.success) for outcome in outcomes)
    print(f"libero_object/{task}, {count} episodes, {good} succeed, {sum(lengths)} steps")
    print(f"  L2bench                {spent:8.2f} s")
    chunked = None
    if pixels:
        chunked, again = ours.evaluate(episodes, replayed(actions, CHUNK), CHUNK)
        assert [outcome.length for outcome in again] == lengths
        print(f"  L2bench, plans of {CHUNK}    {chunked:8.2f} s")
    began = time.process_time()
    ReferenceEnv("libero_object", task, image_size=SIZE).build()
    print(f"  (one building of the simulator in LIBERO's way: {time.process_time() - began:.2f} s)")
    reference, succeeded = theirs(task, pixels, actions)
    for outcome, at in zip(outcomes, succeeded, strict=True):
        assert at == (outcome.length if outcome.success else 0), "the two sides disagree"
    print(f"  LIBERO's loop          {reference:8.2f} s, {reference / spent:.1f} times as much")
    if chunked is not None:
        print(f"    against plans of {CHUNK}: {reference / chunked:.1f} times as much")


def floor() -> None:
    """Print what a step costs against its 25 bare physics steps, on the same states."""
    import copy

    import mujoco

    for suite, task in (
        ("libero_object", 0), ("libero_spatial", 0), ("libero_goal", 6), ("libero_10", 2),
    ):  # fmt: skip
        env = LiberoEnv(suite, task)
        env.reset(seed=0, options={"initial_state": 0})
        mine, bare = [], []
        for action in np.random.default_rng(0).uniform(-0.5, 0.5, (150, 7)):
            data = copy.copy(env._data)
            began = time.process_time()
            mujoco.mj_step(env._model, data, 25)
            between = time.process_time()
            env.step(action)
            bare.append(between - began)
            mine.append(time.process_time() - between)
        ratio = statistics.median(a / b for a, b in zip(mine, bare, strict=True))
        print(
            f"{suite}/{task}: step {statistics.median(mine) * 1e3:.2f} ms, 25 x mj_step "
            f"{statistics.median(bare) * 1e3:.2f} ms, median of the ratios {ratio:.2f}"
        )
        env.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--task", type=int, default=0)
    parser.add_argument("--failing", action="store_true")
    parser.add_argument("--pixels", action="store_true")
    parser.add_argument("--floor", action="store_true")
    chosen = parser.parse_args()
    if chosen.floor:
        floor()
    else:
        compare(chosen.task, chosen.episodes, chosen.failing, chosen.pixels)


if __name__ == "__main__":
    main()
