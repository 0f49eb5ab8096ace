"""Who takes part in a run: suite, agent, environments and data, found and checked beforehand."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from l2bench.agent import Agent, AgentSettings, Life, TaskContext
from l2bench.environment import (
    Demonstrations,
    Environment,
    Progress,
    Samples,
    Spaces,
    TaskInfo,
    silent,
    task_info,
)
from l2bench.errors import L2benchError, Unsupported, UsageError, choices, guarded, nearest
from l2bench.plugins import Registry, make_environment
from l2bench.scenario import learned_tasks
from l2bench.seeding import derive
from l2bench.suite import Model, Seed, Settings, Suite, Task, judge

#: Called with a sealed block's row and its tables.
Observer = Callable[[Mapping[str, Any], Mapping[str, Sequence[Mapping[str, Any]]]], None]


class AgentSpec(Model):
    """Which agent, with which settings."""

    name: str
    settings: Settings = Field(default_factory=dict)


class Execution(Model):
    """How a run is carried out; nothing here may change a result.

    ``workers`` is the number of evaluation processes (0: in this one), started by
    ``start_method``; each keeps at most ``keep_environments`` simulators alive (None: as many as
    the memory holds) and is replaced by a new process after ``recycle`` episodes, which gives back
    what a simulator leaks (None: never). An evaluation episode that takes longer than
    ``episode_seconds`` of wall time ends the run (None: no limit). ``environments`` holds options
    by plugin or environment.
    ``traces`` is the fraction of evaluation episodes that keep a trace, ``videos`` which keep a
    video. ``keep_agents`` leaves the agent as it was at every block in ``agents/`` beside the
    bundle, so that ``l2bench verify`` can let it play again. ``data`` is the folder that
    demonstrations and data sets are kept in. ``threads`` limits the agent's CPU threads.
    ``seeds`` picks lifetimes to run (None: all that the suite prescribes). ``observers`` are
    handed the rows as they are sealed.
    """

    workers: Annotated[int, Field(ge=0, le=1024)] = 0
    start_method: Literal["auto", "fork", "spawn"] = "auto"
    keep_environments: Annotated[int, Field(ge=1)] | None = None
    recycle: Annotated[int, Field(ge=1)] | None = None
    episode_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = 3600.0
    environments: dict[str, Settings] = Field(default_factory=dict)
    traces: Annotated[float, Field(ge=0, le=1)] = 0.05
    videos: Literal["none", "first", "failed", "all"] = "none"
    keep_agents: bool = False
    device: str = "auto"
    threads: Annotated[int, Field(ge=1)] | None = None
    data: Annotated[Path, Field(validate_default=True)] = Path("l2bench-data")
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] | None = None
    observers: tuple[str, ...] = ()

    @field_validator("device")
    @classmethod
    def _known(cls, value: str) -> str:
        if not re.fullmatch(r"auto|cpu|cuda(:[0-9]+)?", value):
            hint = nearest(value, ("auto", "cpu", "cuda"))
            raise ValueError(f"expected auto, cpu, cuda or cuda:N, got '{value}'{hint}")
        return value

    @field_validator("seeds")
    @classmethod
    def _unique(cls, value: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if value is not None and len(set(value)) < len(value):
            raise ValueError(f"seeds must be unique, got {list(value)}")
        return value

    @model_validator(mode="after")
    def _recyclable(self) -> Execution:
        if self.recycle and not self.workers:
            raise ValueError("recycle replaces worker processes; set workers to 1 or more as well")
        return self

    @field_validator("data")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    def options(self, environment: str) -> dict[str, Any]:
        """Return the options for an environment: those of its plugin, then its own."""
        plugin = self.environments.get(environment.split("/", 1)[0], {})
        return {**plugin, **self.environments.get(environment, {})}


def made_environment(
    registry: Registry, name: str, execution: Execution, worker: int | None = None
) -> Environment:
    """Return the environment of this name, told how and where episodes are to be carried out.

    Raises:
        UsageError: an execution option that it does not have.
        Unsupported: what is registered is no environment.
    """
    environment = make_environment(registry, name)
    if not isinstance(environment, Environment):
        raise Unsupported(
            f"environment '{name}' is registered as {type(environment).__name__}; a plugin has to "
            f"register a class derived from l2bench.environment.Environment"
        )
    environment.configure(execution.options(registry.qualify("environments", name)))
    environment.assign(execution.device, worker)
    return environment


def _check_class(name: str, agent_class: type[Agent]) -> None:
    """Refuse an agent whose class states its devices or its joint form in no form known here."""
    devices: Any = agent_class.devices
    joint: Any = agent_class.multitask
    several = isinstance(devices, frozenset | set | tuple | list) and devices
    if not several or not all(each in ("cpu", "cuda") for each in devices):
        raise Unsupported(
            f"agent '{name}' states devices = {devices!r}; its class has to name a set of cpu "
            f'and cuda, such as frozenset({{"cpu", "cuda"}})'
        )
    if not (
        joint is None or (isinstance(joint, Mapping) and all(isinstance(k, str) for k in joint))
    ):
        raise Unsupported(
            f"agent '{name}' states multitask = {joint!r}; its class has to give the settings of "
            f"its joint form by name, such as {{'joint': True}}, or None"
        )


def _check_device(name: str, agent_class: type[Agent], device: str) -> None:
    """Refuse a device that the agent does not use, lest the record name one it never used."""
    if device != "auto" and device.partition(":")[0] not in agent_class.devices:
        raise Unsupported(
            f"execution.device={device}: agent '{name}' computes on "
            f"{choices(agent_class.devices)} only (the devices that its class names); "
            f"leave execution.device out, or set it to auto"
        )


def _check_joint(registry: Registry, name: str, agent_class: type[Agent]) -> None:
    """Refuse an agent that cannot learn tasks jointly where its multitask bound is asked for."""
    if agent_class.multitask is not None:
        return
    able = []
    for other in registry.names("agents"):
        with contextlib.suppress(L2benchError):  # what is not installed has no say
            if getattr(registry.resolve("agents", other), "multitask", None) is not None:
                able.append(other)
    raise Unsupported(
        f"agent '{name}' has no multitask form; run without bound=true, or with an agent that "
        f"declares one: {choices(able) if able else 'none is installed'}"
    )


def _check_execution(execution: Execution, environments: Sequence[str]) -> None:
    """Refuse options for environments that take no part, and videos that cannot be written."""
    known = {part for name in environments for part in (name, name.split("/", 1)[0])}
    for name in execution.environments:
        if name not in known:
            raise UsageError(
                f"execution.environments names '{name}'{nearest(name, known)}, which takes no "
                f"part in this suite; its environments are {choices(environments)}"
            )
    if execution.videos != "none" and find_spec("imageio_ffmpeg") is None:
        raise Unsupported(
            f"execution.videos={execution.videos} needs imageio-ffmpeg, which is not installed; "
            f"run: pip install 'l2bench[video]'"
        )


def _check_measure(task: Task, info: TaskInfo) -> None:
    """Refuse a measure that the task does not have, and episodes that never end or too soon."""
    offered = {info.measure, *info.measures}
    if "interaction" in info.sources:
        offered.add("return")
    if "samples" in info.sources:
        offered.add("accuracy")
    if task.measure not in offered:
        raise UsageError(
            f"task '{task.id}' ({task.environment}) cannot be measured by '{task.measure}'"
            f"{nearest(task.measure, offered)}; set measure to one of {choices(offered)}"
        )
    acted = info.sources != frozenset({"samples"}) and task.measure != "accuracy"
    if acted and task.horizon is None and info.horizon is None:
        raise UsageError(
            f"episodes of task '{task.id}' ({task.environment}) do not end by themselves; "
            f"give it a horizon, in steps"
        )
    if acted and task.horizon and info.horizon and task.horizon > info.horizon:
        raise UsageError(
            f"task '{task.id}' has a horizon of {task.horizon} steps, but its environment "
            f"({task.environment}) ends every episode after {info.horizon}; "
            f"give it a horizon of at most {info.horizon}"
        )


@dataclass
class Cast:
    """Everything a run needs, resolved and checked; nothing heavy is built yet."""

    suite: Suite
    agent_name: str
    agent_class: type[Agent]
    agent_settings: AgentSettings
    environments: Mapping[str, Environment]
    infos: tuple[TaskInfo, ...]
    execution: Execution
    observers: tuple[Observer, ...] = ()
    progress: Progress = silent
    _spaces: dict[int, Spaces] = field(default_factory=dict)
    _demonstrations: dict[int, Demonstrations] = field(default_factory=dict)
    _samples: dict[int, Samples] = field(default_factory=dict)

    @classmethod
    def gather(
        cls, registry: Registry, suite: Suite, agent: AgentSpec, execution: Execution
    ) -> Cast:
        """Resolve every name and refuse what cannot work, before anything runs.

        Raises:
            UsageError: an unknown name, a wrong setting, or tasks the agent cannot learn from.
            Unsupported: something that is not installed.
        """
        name = registry.qualify("agents", agent.name)
        agent_class = registry.resolve("agents", name)
        if not (isinstance(agent_class, type) and issubclass(agent_class, Agent)):
            raise Unsupported(
                f"agent '{name}' is registered as {type(agent_class).__name__}; a plugin has to "
                f"register a class derived from l2bench.agent.Agent"
            )
        _check_class(name, agent_class)
        _check_device(name, agent_class, execution.device)
        if suite.bound:
            _check_joint(registry, name, agent_class)
        environments: dict[str, Environment] = {}
        infos = []
        for task in suite.tasks:
            with guarded(f"environment '{task.environment}'"):
                if task.environment not in environments:
                    made = made_environment(registry, task.environment, execution)
                    environments[task.environment] = made
                infos.append(task_info(environments[task.environment], task))
        _check_execution(execution, [registry.qualify("environments", n) for n in environments])
        for task, info in zip(suite.tasks, infos, strict=True):
            _check_measure(task, info)
            with guarded(f"environment '{task.environment}', checking task '{task.id}'"):
                environments[task.environment].check(task)
        settings = judge(agent_class.Settings, agent.settings, f"settings of agent '{name}'")
        observers = tuple(registry.resolve("observers", name) for name in execution.observers)
        cast = cls(
            suite, name, agent_class, settings, environments, tuple(infos), execution, observers
        )
        cast._check_sources()
        if suite.bound:
            joint = cast.joint_agent().settings
            judge(agent_class.Settings, joint, f"settings of agent '{name}' as a joint learner")
        return cast

    def _check_sources(self) -> None:
        for index in learned_tasks(self.suite):
            task, info = self.suite.tasks[index], self.infos[index]
            assert task.learning is not None
            source = task.learning.source
            if source not in info.sources:
                raise UsageError(
                    f"task '{task.id}' ({task.environment}) cannot be learned from {source}; "
                    f"it offers {', '.join(sorted(info.sources))}"
                )
            if source not in self.agent_class.sources:
                raise UsageError(
                    f"agent '{self.agent_name}' learns from "
                    f"{', '.join(sorted(self.agent_class.sources))}, but task '{task.id}' of "
                    f"suite '{self.suite.id}' teaches by {source}; choose another agent "
                    f"('l2bench plugins' lists them)"
                )

    def check_data(self) -> None:
        """Refuse before a run if files that it learns from are missing.

        Raises:
            L2benchError: naming the file and how to get it.
        """
        for index in learned_tasks(self.suite):
            task = self.suite.tasks[index]
            with guarded(f"environment '{task.environment}', the data of task '{task.id}'"):
                self.environments[task.environment].check_data(task, self.execution.data)

    def joint_agent(self) -> AgentSpec:
        """Return the agent in the form that learns all tasks jointly."""
        own = self.agent_settings.model_dump(mode="json")
        changes = self.agent_class.multitask or {}
        return AgentSpec(name=self.agent_name, settings={**own, **changes})

    @property
    def seeds(self) -> tuple[int, ...]:
        """The lifetimes to run, by seed."""
        return self.execution.seeds or self.suite.seeds

    def horizon(self, index: int) -> int | None:
        """Return the steps after which episodes of a task end, None if they may go on for ever."""
        return self.suite.tasks[index].horizon or self.infos[index].horizon

    def reveals(self, what: str) -> bool:
        """Return whether the suite tells the agent this."""
        return what in self.suite.scenario.reveal

    def spaces(self, index: int) -> Spaces:
        """Return the spaces of a task."""
        if index not in self._spaces:
            task = self.suite.tasks[index]
            with guarded(f"environment '{task.environment}', the spaces of task '{task.id}'"):
                self._spaces[index] = self.environments[task.environment].spaces(task)
        return self._spaces[index]

    def context(self, index: int) -> TaskContext:
        """Return what the agent is told about a task."""
        task = self.suite.tasks[index]
        told = self.reveals("task")
        language = task.language or self.infos[index].language
        return TaskContext(
            self.spaces(index),
            index if told else None,
            task.id if told else None,
            language if self.reveals("language") else None,
        )

    def revealed(self) -> tuple[TaskContext, ...]:
        """Return the contexts an agent is born with; only distinct spaces if tasks are hidden."""
        contexts = [self.context(index) for index in range(len(self.suite.tasks))]
        if self.reveals("task"):
            return tuple(contexts)
        distinct: list[TaskContext] = []
        for context in contexts:
            if all(context.spaces != known.spaces for known in distinct):
                distinct.append(TaskContext(context.spaces))
        return tuple(distinct)

    def new_agent(self, seed: int) -> Agent:
        """Return the agent as it is born into the lifetime of this seed."""
        born = derive(self.suite.hash, seed, "agent")
        life = Life(self.revealed(), born, self.execution.device, self.execution.threads)
        return self.agent_class(self.agent_settings, life)

    def tested_on_samples(self, index: int) -> bool:
        """Return whether a task is evaluated on test samples instead of episodes."""
        return self.suite.tasks[index].measure == "accuracy"

    def demonstrations(self, index: int) -> Demonstrations:
        """Return a task's demonstrations, made or read once."""
        if index not in self._demonstrations:
            task = self.suite.tasks[index]
            environment = self.environments[task.environment]
            made = environment.demonstrations(task, self.execution.data, self.progress)
            self._demonstrations[index] = made
        return self._demonstrations[index]

    def samples(self, index: int) -> Samples:
        """Return a task's samples, read once."""
        if index not in self._samples:
            task = self.suite.tasks[index]
            environment = self.environments[task.environment]
            samples = environment.samples(task, self.execution.data)
            for array in (samples.train_inputs, samples.train_labels, samples.test_inputs,
                          samples.test_labels):  # fmt: skip
                array.flags.writeable = False  # agents are handed views of them
            self._samples[index] = samples
        return self._samples[index]

    def forget(self, index: int) -> None:
        """Let go of a task's data."""
        self._demonstrations.pop(index, None)
        self._samples.pop(index, None)

    def record(self) -> dict[str, Any]:
        """Return how the run is carried out, for the record, without paths of this machine."""
        settings = self.execution.model_dump(mode="json", exclude={"data", "seeds"})
        ways = {name: dict(made.conduct()) for name, made in self.environments.items()}
        return {**settings, "environments": {name: way for name, way in ways.items() if way}}

    def origins(self) -> dict[str, Any]:
        """Return where the data used so far came from, by task."""
        origins = {i: dict(data.origin) for i, data in self._demonstrations.items()}
        origins |= {i: dict(data.origin) for i, data in self._samples.items()}
        return {self.suite.tasks[index].id: origin for index, origin in origins.items()}
