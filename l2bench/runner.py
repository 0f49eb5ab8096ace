"""The runner: takes an agent through the blocks of one lifetime and seals them one by one."""

from __future__ import annotations

import logging
import math
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from l2bench.agent import Acting, Agent
from l2bench.batches import DemonstrationLesson, SampleLesson
from l2bench.bookkeeping import (
    Row,
    episode_row,
    episodes_of,
    microseconds,
    peak_memory,
    trace_rows,
    weight,
)
from l2bench.bundle.lifetime import block_row
from l2bench.bundle.privacy import anonymous
from l2bench.bundle.writer import BundleWriter, now
from l2bench.cast import Cast
from l2bench.errors import FOREIGN, ActionRefused, BudgetExceeded, L2benchError, RunFailed
from l2bench.evaluation import Episode, LocalPool, Outcome, WorkerPool, test_samples
from l2bench.interaction import InteractionLesson
from l2bench.lesson import Lesson
from l2bench.scenario import Block, learning_of, plan
from l2bench.seeding import derive, generator, isolated

#: Called with (blocks done, blocks planned, what is going on, fraction of the work done).
Report = Callable[[int, int, str, float], None]


@dataclass
class Totals:
    """Counters that run through the whole lifetime."""

    lx: int = 0
    env_steps: int = 0
    episode_rows: int = 0
    worker_cpu: float = 0.0  # of the present block, in other processes
    eval_steps: int = 0  # of the present block
    updates: int | None = None  # of the present block


class LifetimeRunner:
    """Runs one lifetime: one agent, one suite, one seed, into one bundle."""

    def __init__(self, cast: Cast, seed: int, writer: BundleWriter, report: Report) -> None:
        self.cast = cast
        self.seed = seed
        self.writer = writer
        self.report = report
        self.blocks = plan(cast.suite, seed)
        self.totals = Totals()
        self.agent = self._new_agent()
        self.pool: LocalPool | WorkerPool | None = None
        self._discarded = 0
        self._unseen: set[str] = set()  # tasks of which no video can be made
        self._origins: dict[str, Any] = {}

    def run(self) -> None:
        """Run every block that is not sealed yet; the bundle can be resumed from any point.

        Raises:
            L2benchError: naming block and cause if the agent or an environment fails.
        """
        self._catch_up()
        weights = [weight(self.cast, block) for block in self.blocks]
        whole = math.fsum(weights) or 1.0
        try:
            for block in self.blocks[len(self.writer.sealed) :]:
                done = math.fsum(weights[: block.index]) / whole
                self.report(block.index, len(self.blocks), self._describe(block), done)
                self._run_block(block)
        finally:
            if self.pool is not None:
                self.pool.close()
        self.report(len(self.blocks), len(self.blocks), "finished", 1.0)

    def _new_agent(self) -> Agent:
        with self._blame("setting up the agent"):
            return self.cast.new_agent(self.seed)

    def _catch_up(self) -> None:
        """Bring counters and agent to where the last sealed block left them."""
        self._discarded = self.writer.discarded
        if not self.writer.sealed:
            return
        last = self.writer.sealed[-1]
        self.totals.lx = last.row["lx_end"] or 0
        self.totals.env_steps = last.row["env_steps_end"] or 0
        self.totals.episode_rows = sum(s.row["episodes_done"] for s in self.writer.sealed)
        if last.state is not None:
            with self._blame("loading the agent's state"):
                self.agent.load(self.writer.state_folder(last.state))

    def _run_block(self, block: Block) -> None:
        began, cpu, started = time.perf_counter(), time.process_time(), now()
        changed = not self.writer.sealed  # the agent as born may turn out to be the best
        selected = None
        if block.closes is not None:
            selected = self._close_task(block)
            changed = True
        if block.opens is not None and self.cast.reveals("boundaries"):
            with self._blame(f"starting task '{self.cast.suite.tasks[block.opens].id}'"):
                self.agent.start_task(self.cast.context(block.opens))
        first_lx, first_step = self.totals.lx, self.totals.env_steps
        self.totals.worker_cpu, self.totals.eval_steps, self.totals.updates = 0.0, 0, None
        if block.kind == "learn":
            tables = self._learn(block)
            changed = True
        else:
            tables = self._evaluate(block)
        row = {
            **block_row(block),
            "selected_checkpoint": selected,
            "lx_start": first_lx,
            "lx_end": self.totals.lx,
            "env_steps_start": first_step,
            "env_steps_end": self.totals.env_steps,
            "episodes_done": len(tables.get("episodes", ())),
            "attempt": 1 + self._discarded,
            "discarded_attempts": self._discarded,
            "started_at": microseconds(started),
            "ended_at": microseconds(now()),
            "wall_s": time.perf_counter() - began,
            "cpu_s": time.process_time() - cpu + self.totals.worker_cpu,
            "env_steps_eval": self.totals.eval_steps if block.kind == "eval" else None,
            "updates": self.totals.updates,
            "peak_memory_bytes": peak_memory(self.pool),
            "buffer_bytes": self._usage().get("buffer_bytes"),
        }
        self.writer.seal(row, tables, self._save if changed else None)
        self._discarded = 0
        for observer in self.cast.observers:
            with self._blame(f"telling observer {observer!r} of block {block.index}"):
                observer(self.writer.sealed[-1].row, tables)
        self._forget_states(block)

    def _save(self, folder: Path) -> None:
        with self._blame("saving the agent's state", let_pass=OSError):  # the writer says more
            self.agent.save(folder)

    def _learn(self, block: Block) -> dict[str, list[Row]]:
        assert block.task is not None
        task, context = self.cast.suite.tasks[block.task], self.cast.context(block.task)
        with self._blame(f"learning task '{task.id}' (block {block.index})"):
            lesson = self._lesson(block)
            if self.cast.origins() != self._origins:
                self._origins = self.cast.origins()
                self.writer.amend_segment(data=self._origins)
            before = self._usage().get("updates", 0)
            with isolated(derive(self.cast.suite.hash, self.seed, "learning", block.index)):
                self.agent.learn(lesson, context)
            lesson.close()
            after = self._usage().get("updates")
            self.totals.updates = None if after is None else after - before
            if lesson.used != block.stop - block.start:
                raise RunFailed("the lesson's own limits were changed")
        rows: list[Row] = []
        base = self.totals.lx
        for experience in lesson.experiences:
            if isinstance(lesson, InteractionLesson):
                self.totals.env_steps += experience.length
            rows.append(
                {
                    "row_id": self.totals.lx,
                    "block_index": block.index,
                    "task_index": block.task,
                    "lx_index": self.totals.lx,
                    "score": experience.score,
                    "success": experience.success,
                    "return": experience.reward,
                    "length": experience.length,
                    "env_steps_total": self.totals.env_steps,
                    "status": experience.status,
                    "wall_s": experience.seconds,
                }
            )
            self.totals.lx += 1
        series = [
            {
                "block_index": block.index,
                "lx_index": base + at,
                "name": name,
                "value": value if math.isfinite(value) else None,
            }
            for at, name, value in lesson.series
        ]
        return {"learning": rows, "series": series}

    def _lesson(self, block: Block) -> Lesson:
        assert block.task is not None
        task, learning = self.cast.suite.tasks[block.task], learning_of(self.cast.suite, block.task)
        start, stop, amount = block.start, block.stop, block.amount
        if not self.cast.reveals("boundaries"):
            start, stop, amount = 0, stop - start, stop - start  # every lesson looks alike
        learning = learning.model_copy(update={"amount": amount, "every": None, "checkpoints": ()})
        environment = self.cast.environments[task.environment]
        if learning.source == "interaction":
            key = (block.index, block.task)
            suite_hash = self.cast.suite.hash  # made anew whenever it is asked for
            return InteractionLesson(
                environment.make(task),
                learning,
                start,
                stop,
                horizon=task.horizon,
                measure=task.measure,
                seed_of=lambda episode: derive(suite_hash, self.seed, "learning", *key, episode),
            )
        if learning.source == "demonstrations":
            data = self.cast.demonstrations(block.task)
            return DemonstrationLesson(data, learning, start, stop)
        data_set = self.cast.samples(block.task)
        return SampleLesson(data_set, learning, start, stop, self._predict(block))

    def _predict(self, block: Block) -> Callable[[Any], Any]:
        """Return what the agent answers before it is told: test-then-train."""
        assert block.task is not None
        context = self.cast.context(block.task)
        seed = derive(self.cast.suite.hash, self.seed, "test-then-train", block.index)
        rng = generator(seed)

        def predict(inputs: Any) -> Any:
            rows = np.arange(len(inputs))
            acting = Acting(context, rows, np.ones(len(rows), dtype=bool), [rng] * len(rows))
            return self.agent.act(inputs, acting)

        return predict

    def _evaluate(self, block: Block) -> dict[str, list[Row]]:
        tables: dict[str, list[Row]] = {"episodes": [], "traces": []}
        with self._blame(f"evaluating (block {block.index}, {block.role})"):
            before = self.agent.fingerprint()
            for task_index in block.tasks:
                self._evaluate_task(block, task_index, tables)
            if self.agent.fingerprint() != before:
                raise RunFailed(
                    f"the agent '{self.cast.agent_name}' changed during evaluation block "
                    f"{block.index}; act() must leave what was learned as it is"
                )
        return {name: rows for name, rows in tables.items() if rows or name == "episodes"}

    def _evaluate_task(self, block: Block, task_index: int, tables: dict[str, list[Row]]) -> None:
        task, context = self.cast.suite.tasks[task_index], self.cast.context(task_index)
        episodes = episodes_of(self.cast, self.seed, block, task_index)
        outcomes: dict[int, Outcome] = {}
        if self.cast.tested_on_samples(task_index):
            for episode in episodes:
                data = self.cast.samples(task_index)
                outcomes[episode.index] = test_samples(data, context, self.agent, episode)
        else:
            played = self._pool().run(task, context, episodes, self.agent.act, self.agent.chunk)
            for episode, outcome in played:
                outcomes[episode.index] = outcome
            self.totals.eval_steps += sum(outcome.length for outcome in outcomes.values())
        rows = [
            episode_row(self.totals.episode_rows + e.index, block, task_index, task.id, e, o)
            for e, o in ((episode, outcomes[episode.index]) for episode in episodes)
        ]
        self.totals.episode_rows += len(rows)
        self.totals.worker_cpu += math.fsum(o.worker_cpu for o in outcomes.values())
        tables["episodes"] += rows
        for episode in episodes:
            outcome = outcomes[episode.index]
            tables["traces"] += trace_rows(block, task_index, episode, outcome.trace or ())
            self._keep_video(block, task.id, episode, outcome)

    def _keep_video(self, block: Block, task_id: str, episode: Episode, outcome: Outcome) -> None:
        wanted = episode.film == "all" or (episode.film == "failed" and not outcome.success)
        if outcome.video is not None:
            name = f"block-{block.index:06d}__{task_id}__{episode.index:04d}.mp4"
            self.writer.attach(f"videos/{name}", outcome.video)
        elif wanted and task_id not in self._unseen:
            self._unseen.add(task_id)
            logging.getLogger("l2bench").warning(
                "no video of task '%s': its environment, as it is set, offers no rgb_array frames "
                "(see execution.videos in docs/suites.md)",
                task_id,
            )

    def _usage(self) -> dict[str, int]:
        with self._blame("asking the agent what it used"):
            return {name: int(number) for name, number in self.agent.usage().items()}

    def _pool(self) -> LocalPool | WorkerPool:
        if self.pool is None:
            execution, environments = self.cast.execution, self.cast.environments
            if execution.workers:
                acted = [
                    task
                    for index, task in enumerate(self.cast.suite.tasks)
                    if not self.cast.tested_on_samples(index)
                ]
                self.pool = WorkerPool(environments, execution, acted)
            else:
                self.pool = LocalPool(environments, execution)
            if facts := self.pool.facts():
                self.writer.amend_segment(execution={**self.cast.record(), **facts})
        return self.pool

    def _close_task(self, block: Block) -> int | None:
        """Pick the policy that goes on, and let the agent finish the task."""
        assert block.closes is not None
        selected = None
        if self.cast.suite.scenario.keep == "best":
            selected, state = self._best(block.closes)
            if state is not None:
                with self._blame("restoring the best checkpoint"):
                    self.agent.select(self.writer.state_folder(state))
        if self.cast.reveals("boundaries"):
            with self._blame(f"ending task '{self.cast.suite.tasks[block.closes].id}'"):
                self.agent.end_task(self.cast.context(block.closes))
        return selected

    def _best(self, task: int) -> tuple[int | None, str | None]:
        """Return checkpoint and state of the latest visit's best evaluation, earliest on ties."""
        best: tuple[float, int, str | None] | None = None
        for sealed in self._curve(task):
            scores = self.writer.rows("episodes", sealed.block)["score"].drop_null().to_numpy()
            if len(scores) == 0:
                continue  # nothing was measured here
            mean = float(np.mean(scores))
            if best is None or mean > best[0]:
                best = (mean, sealed.row["checkpoint"], sealed.state)
        return (best[1], best[2]) if best else (None, None)

    def _curve(self, task: int) -> list[Any]:
        rows = [
            s
            for s in self.writer.sealed
            if s.row["role"] == "curve" and s.row["learn_task"] == task
        ]
        latest = max((s.row["exposure"] for s in rows), default=0)
        return [s for s in rows if s.row["exposure"] == latest]

    def _forget_states(self, block: Block) -> None:
        """Keep the states a resumption or the choice of the best checkpoint may need."""
        if self.cast.execution.keep_agents:
            return
        states = dict.fromkeys(sealed.state for sealed in reversed(self.writer.sealed))
        needed = set(list(states)[:2])  # the newest may turn out to be damaged
        if self.cast.suite.scenario.keep == "best" and block.task is not None:
            needed |= {s.state for s in self._curve(block.task)}
        self.writer.keep_states({state for state in needed if state})

    def _describe(self, block: Block) -> str:
        names = [task.id for task in self.cast.suite.tasks]
        if block.kind == "learn":
            assert block.task is not None
            unit = learning_of(self.cast.suite, block.task).unit
            return f"learn {names[block.task]} ({unit} {block.start}-{block.stop})"
        where = f" at {block.checkpoint}" if block.role == "curve" else ""
        which = names[block.tasks[0]] if len(block.tasks) == 1 else f"{len(block.tasks)} tasks"
        return f"evaluate {which}{where}"

    @contextmanager
    def _blame(self, doing: str, let_pass: type[Exception] | tuple[()] = ()) -> Iterator[None]:
        """Turn whatever a plugin raises into one line; its traceback goes into events.jsonl."""
        try:
            yield
        except let_pass:
            raise
        except (BudgetExceeded, ActionRefused) as error:
            raise RunFailed(f"{doing} with agent '{self.cast.agent_name}': {error}") from None
        except L2benchError as error:
            cause = f"{error.__cause__}" if error.__cause__ else None
            if cause:
                self.writer.event("error", doing=doing, traceback=anonymous(cause))
            raise
        except FOREIGN as error:
            self.writer.event("error", doing=doing, traceback=anonymous(traceback.format_exc()))
            raise RunFailed(
                f"{doing} with agent '{self.cast.agent_name}' failed: {type(error).__name__}: "
                f"{error}; the traceback is in {self.writer.folder / 'events.jsonl'}"
            ) from error
