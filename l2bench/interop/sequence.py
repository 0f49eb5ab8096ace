"""A lifetime of means from evaluations in a row, each after the learning of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from l2bench.bundle.lifetime import Lifetime
from l2bench.errors import Unsupported
from l2bench.interop.source import aggregate, slug
from l2bench.scenario import plan
from l2bench.suite import Learning, Scenario, Suite, Task, WrittenBlock

#: Measures that are fractions by their nature.
RATES = ("accuracy", "success")


@dataclass(frozen=True)
class Evaluation:
    """Means by task name, with their n; ``learned`` is the task learned just before, if any.

    ``amount`` is how much of it was learned since the evaluation before, where that is known.
    """

    learned: str | None
    means: Mapping[str, tuple[float, int | None]]
    amount: int | None = None


def sequence(
    name: str,
    tasks: Sequence[str],
    evaluations: Sequence[Evaluation],
    *,
    environment: str,
    measure: str,
    metrics: Sequence[str],
    score_range: tuple[float, float] | None = None,
    seed: int = 0,
    learning: Learning | None = None,
    ids: Sequence[str] | None = None,
) -> Lifetime:
    """Return the lifetime in which these evaluations took place, in the order given.

    Tasks without an evaluation after their learning are learned in a block that is missing.
    ``learning`` says how each task is learned: by default in one epoch of samples, or in an
    episode where the measure is no accuracy. Rates with a range become fractions.

    Raises:
        Unsupported: if a success or an accuracy is no fraction.
    """
    if learning is None and measure == "accuracy":
        learning = Learning(source="samples", unit="epochs", amount=1)
    learning = learning or Learning(source="interaction", unit="episodes", amount=1)
    low, high = score_range or (0.0, 1.0)
    if measure in RATES:
        _refuse_others(evaluations, measure, low, high)
        evaluations = [_fractions(evaluation, low, high) for evaluation in evaluations]
        low, high = 0.0, 1.0
    ids = list(ids or map(slug, tasks))
    written, means, done = _written(tasks, ids, evaluations)
    suite = Suite(
        id=slug(name),
        version="imported",
        title=f"{name} (imported)",
        tasks=tuple(
            Task(
                id=id,
                environment=environment,
                task=task,
                measure=measure,
                score_range=(low, high),
                learning=learning,
            )
            for id, task in zip(ids, tasks, strict=True)
        ),
        scenario=Scenario(kind="blocks", blocks=tuple(written)),
        seeds=(0,),
        metrics=tuple(metrics),
    )
    blocks = plan(suite, 0)
    return aggregate(suite, seed, blocks, means, missing=frozenset(range(done, len(blocks))))


def _written(
    tasks: Sequence[str], ids: Sequence[str], evaluations: Sequence[Evaluation]
) -> tuple[list[WrittenBlock], dict[tuple[int, int], tuple[float, int | None]], int]:
    """Return all blocks, the means by block and task, and how many blocks took place."""
    index = {task: position for position, task in enumerate(tasks)}
    written: list[WrittenBlock] = []
    means: dict[tuple[int, int], tuple[float, int | None]] = {}
    for evaluation in evaluations:
        if evaluation.learned is not None:
            learned = ids[index[evaluation.learned]]
            written.append(WrittenBlock(learn=learned, amount=evaluation.amount))
        for task, mean in evaluation.means.items():
            means[len(written), index[task]] = mean
        if evaluation.means:
            measured = sorted(index[task] for task in evaluation.means)
            written.append(WrittenBlock(evaluate=tuple(ids[at] for at in measured)))
    done = len(written)
    taught = {evaluation.learned for evaluation in evaluations}
    for task, id in zip(tasks, ids, strict=True):
        if task not in taught:
            written += [WrittenBlock(learn=id), WrittenBlock(evaluate=(id,))]
    return written, means, done


def _fractions(evaluation: Evaluation, low: float, high: float) -> Evaluation:
    means = {t: ((mean - low) / (high - low), n) for t, (mean, n) in evaluation.means.items()}
    return replace(evaluation, means=means)


def _refuse_others(
    evaluations: Sequence[Evaluation], measure: str, low: float, high: float
) -> None:
    for evaluation in evaluations:
        for task, (mean, _) in evaluation.means.items():
            if not low <= mean <= high:
                after = f"after learning {evaluation.learned}" if evaluation.learned else "before"
                raise Unsupported(
                    f"{measure} on {task} {after} is {mean:g}, outside {low:g} to {high:g}; "
                    f"give the range with --range LOW HIGH"
                )
