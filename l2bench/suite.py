"""The suite model: tasks, scenario, seeds and rules as data, checked key by key."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

import rfc8785
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    field_validator,
    model_validator,
)

from l2bench.errors import UsageError, choices, nearest

Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Source = Literal["interaction", "demonstrations", "samples"]
Unit = Literal["steps", "episodes", "epochs", "samples"]

#: The units in which each source can be metered.
UNITS: Mapping[str, tuple[str, ...]] = {
    "interaction": ("steps", "episodes"),
    "demonstrations": ("epochs",),
    "samples": ("epochs", "samples"),
}

MOST_CHECKPOINTS = 10_000
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seed = Annotated[int, Field(ge=0, lt=2**53)]
Steps = Annotated[int, Field(ge=1, lt=2**53)]

#: The metric set that compares a lifetime with its multitask bound, under both its names.
BOUND_METRICS = ("l2bench/bound", "bound")

#: How the environments of imported suites begin, which no plugin brings.
IMPORTED = "import/"

#: Parts of a suite that cannot change a score; they stay out of the suite hash.
PRESENTATION = frozenset({"title", "description"})


class Model(BaseModel):
    """Base of everything stored on disk: frozen, strict about keys and numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """Refuse what JSON cannot hold, or would silently change."""
    try:
        rfc8785.dumps(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not plain data: {error}") from None
    return value


#: Settings of a task or an agent: texts, numbers below 2**53, booleans, lists and mappings.
Settings = Annotated[dict[str, Any], AfterValidator(_plain)]


class Learning(Model):
    """How much is learned of a task, from which source, and where the agent is measured.

    ``checkpoints`` are positions in ``unit`` from 0 to ``amount``; ``every`` is the short form for
    0, every, 2 * every, ..., amount. ``experience`` is the number of units in one row of the
    learning table: steps per row for a metered stream (None: one row an episode), samples a row
    for labelled samples; epochs always have one row each.
    """

    source: Source
    unit: Unit
    amount: Steps
    every: Steps | None = None
    checkpoints: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...], Field(max_length=MOST_CHECKPOINTS + 1)
    ] = ()
    experience: Steps | None = None
    test_then_train: bool = False

    @model_validator(mode="before")
    @classmethod
    def _fill_checkpoints(cls, data: Any) -> Any:
        every, amount = (
            (data.get(k) for k in ("every", "amount")) if isinstance(data, Mapping) else (0, 0)
        )
        if type(every) is int and type(amount) is int and every > 0:
            if amount % every:
                raise ValueError(f"every ({every}) must divide amount ({amount})")
            if amount // every > MOST_CHECKPOINTS:
                raise ValueError(f"more than {MOST_CHECKPOINTS} checkpoints; raise every ({every})")
            checkpoints = tuple(range(0, amount + 1, every))
            given = data.get("checkpoints")
            if given and (not isinstance(given, list | tuple) or tuple(given) != checkpoints):
                raise ValueError("give either every or checkpoints, not both")
            return {**data, "checkpoints": checkpoints}
        return data

    @model_validator(mode="after")
    def _check(self) -> Learning:
        if self.unit not in UNITS[self.source]:
            known = " or ".join(UNITS[self.source])
            raise ValueError(f"learning from {self.source} is metered in {known}, not {self.unit}")
        if list(self.checkpoints) != sorted(set(self.checkpoints)):
            raise ValueError("checkpoints must ascend without repeats")
        if self.checkpoints and self.checkpoints[-1] > self.amount:
            raise ValueError(f"checkpoint {self.checkpoints[-1]} lies beyond amount {self.amount}")
        return self


class Task(Model):
    """One thing to learn.

    ``measure`` names what an episode is scored by: ``success``, ``return``, or a key of the last
    step's ``info``; for samples, ``accuracy``. ``score_range`` holds its smallest and largest
    value. ``horizon`` is in environment steps and excludes settling.
    """

    id: Slug
    environment: str
    task: str
    variant: str | None = None
    language: str | None = None
    horizon: Steps | None = None
    measure: str = "success"
    score_range: tuple[float, float] = (0.0, 1.0)
    learning: Learning | None = None
    settings: Settings = Field(default_factory=dict)

    @field_validator("score_range")
    @classmethod
    def _ascending(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] < value[1]:
            raise ValueError(f"score_range must ascend, got {list(value)}")
        return value

    @model_validator(mode="after")
    def _check(self) -> Task:
        if self.measure in ("success", "accuracy") and self.score_range != (0.0, 1.0):
            raise ValueError(f"the score_range of {self.measure} is [0, 1]")
        sampled = self.learning is not None and self.learning.source == "samples"
        if sampled and self.measure != "accuracy":
            raise ValueError("a task learned from samples is measured by accuracy")
        return self


#: Keys of a scenario that its kind has no use for.
IGNORED: Mapping[str, tuple[str, ...]] = {
    "sequential": (),
    "interleaved": ("keep", "evaluate", "pretest", "checkpoint_episodes"),
    "blocks": ("order", "rounds", "keep", "evaluate", "pretest", "checkpoint_episodes"),
}


class WrittenBlock(Model):
    """One block of a written-out scenario: either a task to learn or tasks to evaluate."""

    learn: Slug | None = None
    amount: Steps | None = None
    evaluate: tuple[Slug, ...] | Literal["all"] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> WrittenBlock:
        if (self.learn is None) == (self.evaluate is None):
            raise ValueError("a block either learns a task or evaluates tasks")
        if isinstance(self.evaluate, tuple) and len({*self.evaluate}) < len(self.evaluate):
            raise ValueError(f"evaluate names a task twice: {', '.join(self.evaluate)}")
        return self


class Scenario(Model):
    """How the tasks follow each other.

    ``sequential``: each task of ``order`` is learned with evaluations of it at its checkpoints,
    then the ``evaluate`` tasks ("seen" or "all") are evaluated. ``interleaved``: every task is
    evaluated before, between and after the learning blocks, ``rounds`` times over. ``blocks``:
    written out. ``keep`` decides which policy goes on after a task: the last one, or the best of
    its checkpoints (the earliest if several are equal). ``reveal`` lists what the agent is told.
    """

    kind: Literal["sequential", "interleaved", "blocks"]
    order: tuple[Slug, ...] | Literal["listed", "shuffled"] = "listed"
    rounds: Annotated[int, Field(ge=1, le=1000)] = 1
    keep: Literal["last", "best"] = "last"
    evaluate: Literal["seen", "all"] = "seen"
    pretest: bool = False
    episodes: Count = 20
    checkpoint_episodes: Count | None = None
    reveal: tuple[Literal["task", "language", "boundaries"], ...] = (
        "task",
        "language",
        "boundaries",
    )
    blocks: tuple[WrittenBlock, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Scenario:
        if (self.kind == "blocks") != bool(self.blocks):
            raise ValueError("blocks belong to scenarios of kind 'blocks', and those need some")
        for key in IGNORED[self.kind]:
            if getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(f"'{key}' means nothing in a scenario of kind '{self.kind}'")
        return self


class Suite(Model):
    """Tasks, scenario, seeds and metric sets, versioned; its resolved form is hashed.

    ``experts`` asks for single-task experts: lifetimes of the same agent that learn one task each
    at the same budget, for the metrics that compare with them. ``bound`` asks for the multitask
    bound, the same agent learning all tasks together, and adds the metric set on it.
    """

    id: Slug
    version: str
    title: str
    description: str = ""
    tasks: Annotated[tuple[Task, ...], Field(min_length=1)]
    scenario: Scenario
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1, max_length=10_000)]
    metrics: tuple[str, ...] = ("l2bench/libero", "l2bench/l2m")
    experts: bool = False
    bound: StrictBool = False

    @model_validator(mode="before")
    @classmethod
    def _measure_bound(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("bound") is not True:
            return data
        metrics = data.get("metrics", cls.model_fields["metrics"].default)
        if not isinstance(metrics, list | tuple) or any(name in BOUND_METRICS for name in metrics):
            return data
        return {**data, "metrics": (*metrics, BOUND_METRICS[0])}

    @model_validator(mode="after")
    def _check(self) -> Suite:
        _plain(self.resolved())
        ids = [task.id for task in self.tasks]
        if len(set(ids)) < len(ids):
            twice = sorted({id for id in ids if ids.count(id) > 1})
            raise ValueError(f"task ids must be unique; given twice: {', '.join(twice)}")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds must be unique, got {list(self.seeds)}")
        for name in self._named_tasks():
            if name not in ids:
                raise ValueError(
                    f"unknown task '{name}'{nearest(name, ids)}; this suite has {choices(ids)}"
                )
        if self.bound and not self._learned_tasks():
            raise ValueError("bound: true needs a task that is learned, and none is")
        for task in self.tasks:
            if task.id not in self._learned_tasks():
                continue
            if task.learning is None:
                raise ValueError(f"task '{task.id}' is learned but has no learning section")
            if self.scenario.keep == "best" and not task.learning.checkpoints:
                raise ValueError(f"keep: best needs checkpoints, and task '{task.id}' has none")
        return self

    def _named_tasks(self) -> Iterator[str]:
        order = self.scenario.order
        yield from order if isinstance(order, tuple) else ()
        for block in self.scenario.blocks:
            yield from (block.learn,) if block.learn else ()
            yield from block.evaluate if isinstance(block.evaluate, tuple) else ()

    def _learned_tasks(self) -> set[str]:
        if self.scenario.kind == "blocks":
            return {block.learn for block in self.scenario.blocks if block.learn}
        order = self.scenario.order
        return set(order) if isinstance(order, tuple) else {task.id for task in self.tasks}

    def index(self, task_id: str) -> int:
        """Return the position of a task in ``tasks``.

        Raises:
            UsageError: if there is no task of this id.
        """
        ids = [task.id for task in self.tasks]
        if task_id not in ids:
            raise UsageError(
                f"unknown task '{task_id}'{nearest(task_id, ids)}; {self.id} has {choices(ids)}"
            )
        return ids.index(task_id)

    def resolved(self) -> dict[str, Any]:
        """Return the suite as plain data with every default filled in."""
        data = self.model_dump(mode="json")
        if not self.bound:
            del data["bound"]  # it came later: suites without one keep their hash and their seeds
        return data

    @property
    def hash(self) -> str:
        """The suite hash, ``"sha256:<hex>"``, over everything that can change a score."""
        return suite_hash(self.resolved())


def suite_hash(resolved: Mapping[str, Any]) -> str:
    """Return the hash of a suite as stored, which keys that came later do not change."""
    canonical = rfc8785.dumps({k: v for k, v in resolved.items() if k not in PRESENTATION})
    return "sha256:" + hashlib.sha256(b"l2bench.suite.v1\n" + canonical).hexdigest()


ModelT = TypeVar("ModelT", bound=BaseModel)
Place = tuple[int | str, ...]
Written = Callable[[Place], tuple[str, Place]]


def judge(model: type[ModelT], data: Mapping[str, Any], what: str | Written) -> ModelT:
    """Return ``data`` as a model, or refuse it in one line that names the first faults.

    ``what`` names the data, or says of the place of a fault what holds it and where in there its
    author wrote it.

    Raises:
        UsageError: naming the key path, what was found and the nearest known key.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        named = (lambda place: (what, place)) if isinstance(what, str) else what
        raise UsageError(_refusal(model, error, named)) from None


def _refusal(model: type[BaseModel], error: ValidationError, written: Written) -> str:
    found = error.errors()
    inner = [fault for fault in found if fault["type"] != "too_short"] or found
    texts: dict[str, list[str]] = {}
    for fault in inner:
        holder, place = written(fault["loc"])
        texts.setdefault(holder, []).append(_explain(model, fault, place))
    faults = [(holder, text) for holder, own in texts.items() for text in _together(own)]
    more = f" (and {len(faults) - 3} more)" if len(faults) > 3 else ""
    parts = [
        f"{holder}: {'; '.join(text for _, text in own)}"
        for holder, own in itertools.groupby(faults[:3], key=lambda fault: fault[0])
    ]
    return f"{'; '.join(parts)}{more}"


def _together(faults: list[str]) -> list[str]:
    """Return faults with those that differ only in the item of a list given once, as ``*``."""
    groups: dict[str, list[str]] = {}
    for fault in faults:
        groups.setdefault(re.sub(r"\.\d+\.", ".*.", fault), []).append(fault)
    return [whole if len(each) > 1 else each[0] for whole, each in groups.items()]


def _explain(model: type[BaseModel], fault: Any, place: Place) -> str:
    path = ".".join(str(part) for part in place) or "it"
    if fault["type"] == "extra_forbidden":
        known = _keys_at(model, fault["loc"][:-1])
        hint = nearest(str(fault["loc"][-1]), known)
        return f"unknown key '{path}'{hint}; known here: {choices(known)}"
    if fault["type"] == "missing":
        return f"'{path}' is required but missing"
    message = str(fault["msg"]).removeprefix("Value error, ")
    found = fault.get("input")
    shown = "" if isinstance(found, Mapping | BaseModel) else f" (found {found!r:.80})"
    return f"'{path}': {message[:1].lower()}{message[1:]}{shown}"


def _keys_at(model: type[BaseModel], path: tuple[Any, ...]) -> list[str]:
    """Return the field names of the model reached by walking ``path`` through annotations."""
    current: Any = model
    for part in path:
        if isinstance(part, int):
            continue
        field = current.model_fields.get(part) if hasattr(current, "model_fields") else None
        inner = _inner_model(field.annotation) if field else None
        current = inner or current
    return list(current.model_fields)


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _inner_model(argument)
        if found:
            return found
    return None
