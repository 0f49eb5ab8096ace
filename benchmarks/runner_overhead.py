"""What the runner costs a step, against a bare loop on the same environment, in one run.

    python benchmarks/runner_overhead.py

For CartPole-v1 and Catch: a bare Gymnasium loop, a lesson's loop and the evaluation loop, each
with the same precomputed actions, interleaved in rounds; the medians of the paired ratios are
printed. For labelled samples: a plain loop over shuffled batches against a lesson's. Times are of
the process's CPU.
"""

import statistics
import time
from pathlib import Path

import gymnasium
import numpy as np

from l2bench.agent import TaskContext
from l2bench.batches import SampleLesson
from l2bench.builtin.catch import CatchEnvironment
from l2bench.builtin.digits import DigitsEnvironment
from l2bench.builtin.gym import GymnasiumEnvironment
from l2bench.cast import Execution
from l2bench.environment import Spaces
from l2bench.evaluation import Episode, LocalPool
from l2bench.interaction import InteractionLesson
from l2bench.suite import Learning, Task

STEPS = 20_000
ROUNDS = 15
HORIZON = 500


def bare(env: gymnasium.Env, actions: list[int]) -> float:
    began = time.process_time()
    env.reset(seed=0)
    total, length = 0.0, 0
    for action in actions:
        _, reward, terminated, truncated, _ = env.step(action)
        total += reward
        length += 1
        if terminated or truncated or length == HORIZON:
            env.reset(seed=1)
            length = 0
    return time.process_time() - began


def lesson(env: gymnasium.Env, task: Task, actions: list[int]) -> float:
    learning = Learning(source="interaction", unit="steps", amount=len(actions))
    began = time.process_time()
    taught = InteractionLesson(
        env, learning, 0, len(actions), horizon=HORIZON, measure=task.measure, seed_of=lambda e: 1
    )
    taught.reset()
    for action in actions:
        _, _, terminated, truncated, _ = taught.step(action)
        if (terminated or truncated) and taught.remaining:
            taught.reset()
    spent = time.process_time() - began
    assert taught.steps == len(actions)
    return spent


def evaluation(pool: LocalPool, task: Task, context: TaskContext, actions: list[int]) -> float:
    """Time per step of the evaluation loop, scaled to the number of actions."""
    answers = [np.array([action]) for action in actions]
    at = -1

    def act(observations, acting):
        nonlocal at
        at += 1
        return answers[at % len(answers)]

    began = time.process_time()
    steps = 0
    episodes = [Episode(index, 1, 1, None) for index in range(20)]  # as many as a suite asks for
    while steps < len(actions):
        steps += sum(outcome.length for _, outcome in pool.run(task, context, episodes, act))
    return (time.process_time() - began) * len(actions) / steps


def stream(name: str, environment, task: Task) -> None:
    rng = np.random.default_rng(0)
    env = environment.make(task)
    context = TaskContext(Spaces(env.observation_space, env.action_space))
    pool = LocalPool({task.environment: environment}, Execution(keep_environments=1))
    actions = [int(a) for a in rng.integers(env.action_space.n, size=STEPS)]
    rows: list[tuple[float, float, float]] = []
    for _ in range(ROUNDS):
        plain = bare(env, actions)
        rows.append((plain, lesson(env, task, actions), evaluation(pool, task, context, actions)))
    plain = statistics.median(row[0] for row in rows)
    print(f"{name}: bare loop {plain / STEPS * 1e6:.2f} us a step")
    for column, what in ((1, "lesson"), (2, "evaluation")):
        ratio = statistics.median(row[column] / row[0] for row in rows)
        extra = statistics.median((row[column] - row[0]) / STEPS * 1e6 for row in rows)
        print(f"  {what:10} {ratio:.3f} of the bare loop, {extra:+.2f} us a step")


def samples() -> None:
    task = Task(id="digits", environment="l2bench/digits", task="digits_all")
    data = DigitsEnvironment().samples(task, Path())
    epochs, size = 20, 16
    weights = np.zeros((64, 10))

    def work(inputs: np.ndarray, labels: np.ndarray) -> None:
        scores = inputs @ weights
        scores[np.arange(len(labels)), labels] -= 1.0
        np.subtract(weights, 1e-6 * (inputs.T @ scores), out=weights)

    ratios, plain_times = [], []
    for _ in range(ROUNDS):
        began = time.process_time()
        rng = np.random.default_rng(0)
        for _ in range(epochs):
            order = rng.permutation(len(data.train_inputs))
            for at in range(0, len(order), size):
                rows = order[at : at + size]
                work(data.train_inputs[rows], data.train_labels[rows])
        plain = time.process_time() - began
        learning = Learning(source="samples", unit="epochs", amount=epochs)
        began = time.process_time()
        taught = SampleLesson(data, learning, 0, epochs)
        for batch in taught.batches(size, np.random.default_rng(0)):
            work(batch.inputs, batch.labels)
        ratios.append((time.process_time() - began) / plain)
        plain_times.append(plain)
    print(f"samples: plain loop {statistics.median(plain_times):.3f} s for {epochs} epochs")
    print(f"  lesson     {statistics.median(ratios):.3f} of the plain loop")


if __name__ == "__main__":
    stream(
        "CartPole-v1",
        GymnasiumEnvironment(),
        Task(id="cartpole", environment="gym", task="CartPole-v1", measure="return", horizon=500),
    )
    stream(
        "Catch",
        CatchEnvironment(),
        Task(id="catch", environment="catch", task="catch", measure="catch_rate", horizon=500),
    )
    samples()
