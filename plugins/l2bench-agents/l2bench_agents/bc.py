"""Behaviour cloning: a policy network learns to act as the demonstrations do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, optim

from l2bench.agent import Acting, Agent, AgentSettings, Life, TaskContext
from l2bench.batches import DemonstrationBatch, DemonstrationLesson
from l2bench.environment import Observation
from l2bench.errors import Unsupported, UsageError
from l2bench.lesson import Lesson
from l2bench.seeding import generator, pack, unpack
from l2bench.suite import Source
from l2bench_agents import rows, state
from l2bench_agents.actions import make_head
from l2bench_agents.algorithms import ALGORITHMS
from l2bench_agents.device import choose_device, set_threads
from l2bench_agents.observations import Layout, describe
from l2bench_agents.policies import make_policy
from l2bench_agents.rows import Rows
from l2bench_agents.settings import CloningSettings

#: Version of the saved state.
STATE = 1

#: torch has the fused optimiser on the CPU from this version on.
FUSED_ON_CPU = (2, 4)


class BehaviourCloning(Agent):
    """Learns from demonstrations by regression (or classification, for discrete actions).

    One network serves all tasks, told apart by a one-hot input where the suite reveals them. The
    optimiser starts anew with every task; inputs are standardised with the statistics of the
    first one.
    """

    sources: ClassVar[frozenset[Source]] = frozenset({"demonstrations"})
    Settings: ClassVar[type[AgentSettings]] = CloningSettings

    def __init__(self, settings: AgentSettings, life: Life) -> None:
        super().__init__(settings, life)
        self.device = choose_device(life.device)
        first = life.tasks[0]
        self._layout = Layout.of(first.spaces.observation, _name(first))
        self._head = make_head(first.spaces.action, self.settings, _name(first))
        self._check_equal_spaces()
        set_threads(life.threads, light=not self._layout.images)
        weights, self._shuffle, choices = (_stream(life.seed, number) for number in range(3))
        self._tasks = _one_hot_width(life) if self.settings.conditioning == "task" else 0
        policy = make_policy(self._layout, self._tasks, self._head.outputs, self.settings, weights)
        self._policy = policy.to(self.device)
        self._algorithm = ALGORITHMS[self.settings.algorithm](self.settings, choices)
        self._optimiser: optim.AdamW | None = None

    def _check_equal_spaces(self) -> None:
        first, *others = self.life.tasks
        for task in others:
            if Layout.of(task.spaces.observation, _name(task)) != self._layout:
                what, spaces = "observations", (first.spaces.observation, task.spaces.observation)
            elif task.spaces.action != first.spaces.action:
                what, spaces = "actions", (first.spaces.action, task.spaces.action)
            else:
                continue
            raise UsageError(
                f"agent 'bc' needs the same {what} in all tasks: {_name(first)} has "
                f"{describe(spaces[0])}, {_name(task)} has {describe(spaces[1])}"
            )

    def learn(self, lesson: Lesson, task: TaskContext) -> None:
        """Go through the demonstrations until the lesson is over."""
        assert isinstance(lesson, DemonstrationLesson)
        if lesson.start == 0:
            self._begin_task(lesson, task)
        if not self._policy.standardise.fitted:
            self._policy.standardise.fit(*self._layout.statistics(lesson.statistics()))
        self._policy.train()
        seen, total = 0, torch.zeros((), device=self.device)
        done = lesson.progress
        for batch in lesson.batches(self._algorithm.new_pairs, self._shuffle):
            new = self._pairs(batch, task)
            total += self._update(self._algorithm.batch(new), done) * rows.count(new)
            done = lesson.progress
            seen += rows.count(new)
            if seen == lesson.size:
                lesson.record(loss=float(total) / seen)
                seen, total = 0, torch.zeros((), device=self.device)
        self._policy.eval()
        if lesson.stop == lesson.learning.amount:
            self._algorithm.end_task()

    def _begin_task(self, lesson: DemonstrationLesson, task: TaskContext) -> None:
        key = None if task.index is None else f"task {task.index}"
        self._algorithm.begin_task(key, lesson.size)
        self._optimiser = None

    def _pairs(self, batch: DemonstrationBatch, task: TaskContext) -> Rows:
        inputs = self._layout.rows(batch.observations, task.index)
        targets = self._head.targets(batch.actions)
        self._head.settle(targets)
        return {**inputs, "target": targets}

    def _update(self, pairs: Rows, done: float) -> Tensor:
        """Take one step of gradient descent, ``done`` of the task's budget being used up."""
        if self._optimiser is None:
            self._optimiser = self._new_optimiser()
        rate = self.settings.learning_rate
        if self.settings.schedule == "cosine":
            rate *= (1 + math.cos(math.pi * done)) / 2
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        pairs = rows.to(pairs, self.device)
        loss = self._head.loss(self._policy(pairs), pairs["target"])
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        return loss.detach()

    def _new_optimiser(self) -> optim.AdamW:
        version = tuple(int(part) for part in torch.__version__.split(".")[:2])
        return optim.AdamW(
            self._policy.parameters(),
            lr=self.settings.learning_rate,
            weight_decay=self.settings.weight_decay,
            fused=True if self.device.type == "cuda" or version >= FUSED_ON_CPU else None,
        )

    @torch.inference_mode()
    def act(self, observations: Observation, acting: Acting) -> Any:
        """Return B actions; on the CPU an action does not depend on the rest of its batch."""
        batch = self._layout.rows(observations, acting.task.index)
        if self.device.type == "cpu":
            outputs = torch.cat([self._policy(row) for row in rows.split(batch)])
        else:
            outputs = self._policy(rows.to(batch, self.device))
        return self._head.actions(outputs)

    def end_task(self, task: TaskContext) -> None:
        """Let the algorithm finish the task."""
        self._algorithm.end_task()

    def save(self, folder: Path) -> None:
        """Write policy, optimiser, algorithm and generators."""
        state.save_tensors(folder / "policy.safetensors", self._policy.state_dict())
        state.save_plain(folder / "policy.json", self._head.save())
        plain, tensors = self._algorithm.save()
        for name, part in tensors.items():
            state.save_tensors(folder / f"{name}.safetensors", part)
        learning = self._optimiser is not None
        if self._optimiser is not None:
            moments = state.optimiser_tensors(self._optimiser, self._policy)
            state.save_tensors(folder / "optimiser.safetensors", moments)
        facts = {
            "version": STATE,
            "shuffle": pack(self._shuffle),
            "algorithm": plain,
            "tensors": sorted(tensors),
            "optimiser": learning,
        }
        state.save_plain(folder / "agent.json", facts)

    def load(self, folder: Path) -> None:
        """Read them back; what is learned next is the same, bit for bit, on the CPU."""
        facts = state.load_plain(folder / "agent.json")
        if facts.get("version") != STATE:
            raise Unsupported(
                f"{folder} holds a state of version {facts.get('version')}; this l2bench-agents "
                f"reads version {STATE}"
            )
        self.select(folder)
        unpack(self._shuffle, facts["shuffle"])
        files = {name: folder / f"{name}.safetensors" for name in facts["tensors"]}
        tensors: Mapping[str, Rows] = {n: state.load_tensors(path) for n, path in files.items()}
        self._algorithm.load(facts["algorithm"], tensors)
        if facts["optimiser"]:
            moments = state.load_tensors(folder / "optimiser.safetensors")
            self._optimiser = self._new_optimiser()
            state.load_optimiser(self._optimiser, self._policy, moments)

    def select(self, folder: Path) -> None:
        """Go on with the policy of a checkpoint; the memory stays, the optimiser starts anew."""
        state.load_network(self._policy, folder / "policy.safetensors")
        self._head.load(state.load_plain(folder / "policy.json"))
        self._optimiser = None

    def fingerprint(self) -> str:
        """Return a digest of the policy's parameters and input statistics."""
        return state.digest(self._policy.state_dict())

    def details(self) -> dict[str, Any]:
        """Return the device, sizes, and what else the numbers depend on."""
        memory = self._algorithm.memory
        on_gpu = self.device.type == "cuda"
        gpu = {"gpu": torch.cuda.get_device_name(self.device)} if on_gpu else {}
        return {
            "device": str(self.device),
            **gpu,
            "parameters": sum(p.numel() for p in self._policy.parameters()),
            "inputs": {**self._layout.vectors, **self._layout.images, "task": self._tasks},
            "memory_pairs": len(memory),
            "memory_bytes": memory.bytes,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        }


def _name(task: TaskContext) -> str:
    return "a task" if task.id is None else f"task '{task.id}'"


def _one_hot_width(life: Life) -> int:
    """Return how many inputs tell the tasks apart, 0 where they are hidden."""
    indices = [task.index for task in life.tasks if task.index is not None]
    return max(indices) + 1 if indices else 0


def _stream(seed: int, number: int) -> np.random.Generator:
    """Return one of several independent generators that a life has."""
    return generator(int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0]))
