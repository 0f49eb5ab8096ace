"""Behaviour cloning: a policy network learns to act as the demonstrations do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from l2bench.agent import Acting, Agent, AgentSettings, Life, TaskContext
from l2bench.batches import DemonstrationLesson, WindowBatch
from l2bench.environment import Observation
from l2bench.errors import Unsupported, UsageError
from l2bench.lesson import Lesson
from l2bench.seeding import generator, pack, unpack
from l2bench.suite import Source
from l2bench_agents import rows, state
from l2bench_agents.algorithms import ALGORITHMS, TaskFacts
from l2bench_agents.device import choose_device, set_threads
from l2bench_agents.embeddings import make_embedding
from l2bench_agents.heads import make_head
from l2bench_agents.learner import Learner, torch_seeded
from l2bench_agents.observations import Layout, describe
from l2bench_agents.policies import make_policy
from l2bench_agents.prefetch import prefetched
from l2bench_agents.rows import Rows
from l2bench_agents.settings import CloningSettings, RnnSettings, TemporalSettings, ViltSettings

#: Version of the saved state.
STATE = 2


class BehaviourCloning(Agent):
    """Learns from demonstrations by regression, likelihood, or classification.

    One network serves all tasks, told apart by a vector made from their position or instruction.
    The optimiser starts anew with every task; vectors are standardised with the statistics of the
    first one.
    """

    sources: ClassVar[frozenset[Source]] = frozenset({"demonstrations"})
    devices: ClassVar[frozenset[str]] = frozenset({"cpu", "cuda"})
    Settings: ClassVar[type[AgentSettings]] = CloningSettings
    version: ClassVar[str] = "2"
    multitask: ClassVar[Mapping[str, Any] | None] = {"algorithm": "multitask"}

    def __init__(self, settings: AgentSettings, life: Life) -> None:
        super().__init__(settings, life)
        self.chunk = self.settings.chunk
        self.device = choose_device(life.device)
        first = life.tasks[0]
        self._layout = self._layout_of(first)
        head = make_head(first.spaces.action, self.settings, _name(first))
        self._check_equal_spaces()
        self._check_identity()
        set_threads(life.threads, light=not self._layout.images)
        weights, self._shuffle, choices, self._noise = (
            _stream(life.seed, number) for number in range(4)
        )
        self._embedding = make_embedding(self.settings.embedding, life.tasks)
        policy = make_policy(self._layout, self._embedding.width, head, self.settings, weights)
        self._learner = Learner(policy.to(self.device), head, self.settings, self.device)
        self._algorithm = ALGORITHMS[self.settings.algorithm](self._learner, choices)
        self._histories: dict[int, Any] = {}
        self._told = False

    def _layout_of(self, task: TaskContext) -> Layout:
        return Layout.of(task.spaces.observation, _name(task), self.settings.vectors)

    def _check_equal_spaces(self) -> None:
        first, *others = self.life.tasks
        for task in others:
            if self._layout_of(task) != self._layout:
                what, spaces = "observations", (first.spaces.observation, task.spaces.observation)
            elif task.spaces.action != first.spaces.action:
                what, spaces = "actions", (first.spaces.action, task.spaces.action)
            else:
                continue
            raise UsageError(
                f"agent 'bc' needs the same {what} in all tasks: {_name(first)} has "
                f"{describe(spaces[0])}, {_name(task)} has {describe(spaces[1])}"
            )

    def _check_identity(self) -> None:
        name = self.settings.algorithm
        hidden = any(task.index is None for task in self.life.tasks)
        if ALGORITHMS[name].needs_identity and hidden:
            raise UsageError(
                f"algorithm '{name}' acts in each task with weights of its own, and this suite "
                f"hides which task it is; add task to scenario.reveal, or choose another algorithm"
            )

    def start_task(self, task: TaskContext) -> None:
        """Note that the suite tells where tasks begin and end."""
        self._told = True

    def learn(self, lesson: Lesson, task: TaskContext) -> None:
        """Go through the demonstrations until the lesson is over."""
        assert isinstance(lesson, DemonstrationLesson)
        self._histories.clear()
        if lesson.start == 0:
            self._begin_task(lesson, task)
        policy = self._learner.policy
        if policy.standardise.wants:
            policy.standardise.fit(*self._layout.statistics(lesson.statistics()))
        policy.train()
        with torch_seeded(int(self._noise.integers(2**63)), self.device):
            self._go_through(lesson, task)
        policy.eval()
        if lesson.stop == lesson.learning.amount and not self._told:
            self._algorithm.end_task()

    def _begin_task(self, lesson: DemonstrationLesson, task: TaskContext) -> None:
        name = self.settings.algorithm
        if ALGORITHMS[name].needs_boundaries and not self._told:
            raise UsageError(
                f"algorithm '{name}' must know where tasks begin and end, and this suite hides it; "
                f"add boundaries to scenario.reveal, or choose another algorithm"
            )
        vector = self._embedding.vector(task)
        self._algorithm.begin_task(TaskFacts(_key(task), vector, lesson.starts))
        self._learner.optimiser = None

    def _go_through(self, lesson: DemonstrationLesson, task: TaskContext) -> None:
        seen, total = 0, torch.zeros((), device=self.device)
        for windows, new, done in prefetched(self._batches(lesson, task), self.settings.prefetch):
            self._learner.set_rate(done, lesson.learning.amount)
            total += self._algorithm.update(windows) * new
            seen += new
            if seen == lesson.size:
                lesson.record(loss=float(total) / seen)
                seen, total = 0, torch.zeros((), device=self.device)

    def _batches(
        self, lesson: DemonstrationLesson, task: TaskContext
    ) -> Iterator[tuple[Rows, int, float]]:
        """Yield what each update is computed on, how much of it is new, and the budget used."""
        algorithm, settings = self._algorithm, self.settings
        done = lesson.progress
        for batch in lesson.windows(
            settings.length, algorithm.new_windows, self._shuffle, settings.predict - 1
        ):
            new = self._windows(batch, task)
            algorithm.see(new, batch.positions)
            windows = algorithm.extend(new)
            if self.device.type == "cuda":
                windows = rows.pinned(windows)
            yield windows, rows.count(new), done
            done = lesson.progress

    def _windows(self, batch: WindowBatch, task: TaskContext) -> Rows:
        number = len(batch.positions)
        inputs = self._layout.rows(batch.observations, (number, self.settings.length))
        targets = self._learner.head.targets(batch.actions)
        self._learner.head.settle(targets)
        beside = {"task": self._embedding.rows(task, number), "real": torch.from_numpy(batch.real)}
        return {**inputs, **beside, "target": targets}

    @torch.inference_mode()
    def act(self, observations: Observation, acting: Acting) -> Any:
        """Return B actions, or (B, chunk, ...) of them.

        On the CPU an action does not depend on the rest of its batch.
        """
        number = len(acting.slots)
        frames = self._layout.rows(observations, (number,))
        frames["task"] = self._embedding.rows(acting.task, number)
        policy = self._algorithm.network(_key(acting.task))
        slots = [int(slot) for slot in acting.slots]
        memories = [
            None if first else self._histories.get(slot)
            for slot, first in zip(slots, acting.first, strict=True)
        ]
        if self.device.type == "cpu":
            each = [
                policy.step(row, [memory])
                for row, memory in zip(rows.split(frames), memories, strict=True)
            ]
            outputs = torch.cat([output for output, _ in each])
            memories = [remembered[0] for _, remembered in each]
        else:
            outputs, memories = policy.step(rows.to(frames, self.device), memories)
        self._histories.update(zip(slots, memories, strict=True))
        actions = self._learner.head.actions(outputs, acting.generators)
        return actions[:, : self.chunk] if self.chunk > 1 else actions[:, 0]

    def end_task(self, task: TaskContext) -> None:
        """Let the algorithm finish the task."""
        self._algorithm.end_task()

    def save(self, folder: Path) -> None:
        """Write policy, optimiser, algorithm and generators.

        What does not change from state to state, such as the memory of a finished task, is in
        files of its own that keep name and bytes.
        """
        learner = self._learner
        state.save_tensors(folder / "policy.safetensors", learner.policy.state_dict())
        state.save_plain(folder / "policy.json", learner.head.save())
        plain, files = self._algorithm.save()
        for name, tensors in files.items():
            state.save_tensors(folder / f"{name}.safetensors", tensors)
        if learner.optimiser is not None:
            moments = state.optimiser_tensors(learner.optimiser, learner.policy)
            state.save_tensors(folder / "optimiser.safetensors", moments)
        facts = {
            "version": STATE,
            "shuffle": pack(self._shuffle),
            "noise": pack(self._noise),
            "algorithm": plain,
            "told": self._told,
            "updates": learner.updates,
            "optimiser": learner.optimiser is not None,
        }
        state.save_plain(folder / "agent.json", facts)

    def load(self, folder: Path) -> None:
        """Read them back; what is learned next is the same, bit for bit, on the CPU."""
        facts = _facts(folder)
        self._load_policy(folder)
        unpack(self._shuffle, facts["shuffle"])
        unpack(self._noise, facts["noise"])
        self._told = facts["told"]

        def read(name: str) -> dict[str, Tensor]:
            return state.load_tensors(folder / f"{name}.safetensors")

        self._algorithm.load(facts["algorithm"], read)
        self._learner.updates = facts["updates"]
        if facts["optimiser"]:
            state.load_optimiser(
                self._learner.resume_optimiser(), self._learner.policy, read("optimiser")
            )

    def select(self, folder: Path) -> None:
        """Go on with the policy of a checkpoint; the memory stays, the optimiser starts anew."""
        self._load_policy(folder)
        self._algorithm.select(_facts(folder)["algorithm"])

    def _load_policy(self, folder: Path) -> None:
        state.load_network(self._learner.policy, folder / "policy.safetensors")
        self._learner.head.load(state.load_plain(folder / "policy.json"))
        self._learner.optimiser = None

    def fingerprint(self) -> str:
        """Return a digest of all parameters that act, and of the input statistics."""
        return state.digest({**self._learner.policy.state_dict(), **self._algorithm.learned()})

    def details(self) -> dict[str, Any]:
        """Return the device, sizes, and what else the numbers depend on."""
        memory = self._algorithm.memory
        on_gpu = self.device.type == "cuda"
        gpu = {"gpu": torch.cuda.get_device_name(self.device)} if on_gpu else {}
        vectors, images = (
            dict(zip(self._layout.vectors, self._layout.widths, strict=True)),
            {key: list(shape) for key, shape in self._layout.images.items()},
        )
        return {
            "device": str(self.device),
            **gpu,
            "parameters": sum(p.numel() for p in self._learner.policy.parameters()),
            "inputs": {**vectors, **images, "task": self._embedding.width},
            "memory_pairs": len(memory),
            "memory_bytes": memory.bytes,
            "updates": self._learner.updates,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        }


class BcRnn(BehaviourCloning):
    """LIBERO's BC-RNN as published."""

    Settings: ClassVar[type[AgentSettings]] = RnnSettings


class BcTransformer(BehaviourCloning):
    """LIBERO's BC-Transformer as published."""

    Settings: ClassVar[type[AgentSettings]] = TemporalSettings


class BcVilt(BehaviourCloning):
    """LIBERO's BC-ViLT as published."""

    Settings: ClassVar[type[AgentSettings]] = ViltSettings


def _facts(folder: Path) -> dict[str, Any]:
    facts = state.load_plain(folder / "agent.json")
    if facts.get("version") != STATE:
        raise Unsupported(
            f"{folder} holds a state of version {facts.get('version')}; this l2bench-agents "
            f"reads version {STATE}"
        )
    return facts


def _key(task: TaskContext) -> str | None:
    return None if task.index is None else f"task {task.index}"


def _name(task: TaskContext) -> str:
    return "a task" if task.id is None else f"task '{task.id}'"


def _stream(seed: int, number: int) -> np.random.Generator:
    """Return one of several independent generators that a life has."""
    return generator(int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0]))
