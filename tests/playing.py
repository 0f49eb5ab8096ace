"""Episodes of hostile environments, played in one process or in workers."""

from __future__ import annotations

from hostile import Line, Lines
from stubs import Stub, stubbed
from support import probe_suite

from l2bench.agent import TaskContext
from l2bench.cast import Execution
from l2bench.environment import Environment, Spaces
from l2bench.evaluation import Episode, LocalPool, WorkerPool
from l2bench.suite import Task

CONTEXT = TaskContext(Spaces(Line.observation_space, Line.action_space))
PLACES = [(0, "auto"), (1, "fork"), (2, "fork"), (4, "fork")]


def task_of(kind: str, horizon: int | None = 50) -> Task:
    return Task(id=kind, environment="l2bench/lines", task=kind, horizon=horizon)


def pool_of(workers: int = 0, kind: str = "line", **execution):
    how = Execution(workers=workers, **execution)
    environments: dict[str, Environment] = {"l2bench/lines": Lines()}
    if workers:
        return WorkerPool(environments, how, [task_of(kind)])
    return LocalPool(environments, how)


def play(
    workers: int = 0, kind: str = "line", act=None, count=7, chunk=1, traced=True, **execution
):
    """Return outcomes by episode index."""
    pool = pool_of(workers, kind, **execution)
    episodes = [Episode(i, 3 * i, i, None, traced=traced) for i in range(count)]
    try:
        played = pool.run(task_of(kind), CONTEXT, episodes, act or by_place, chunk)
        return {episode.index: outcome for episode, outcome in played}
    finally:
        pool.close()


class Walker(Stub):
    """Learns nothing, episode by episode."""

    def learn(self, lesson, task):
        while lesson.remaining:
            lesson.reset()
            while not any(lesson.step(0)[2:4]):
                pass


def lines(kind: str, agent=Walker, **more):
    """A registry with the hostile environments, and a suite of one of their tasks."""
    suite = probe_suite(1, every=None, amount=2, scenario={"pretest": True, "episodes": 3}, **more)
    task = suite.tasks[0].model_copy(
        update={"environment": "l2bench/lines", "task": kind, "horizon": 50}
    )
    return stubbed(agent, lines=Lines), suite.model_copy(update={"tasks": (task,)})


def by_place(observations, acting):
    return (observations[:, 0].astype(int) + [g.integers(2) for g in acting.generators]) % 2


def facts(outcomes):
    return {
        index: (o.score, o.success, o.reward, o.length, o.terminated, o.truncated, o.trace)
        for index, o in sorted(outcomes.items())
    }
