"""Reading the files of Avalanche's CSV logger: ``eval_results.csv`` and ``training_results.csv``.

The logger writes a bare 0 for what was not measured; a measured accuracy has four decimals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from l2bench.errors import Unsupported
from l2bench.interop.sequence import Evaluation, sequence
from l2bench.interop.source import UNKNOWN_AGENT, Options, Source
from l2bench.interop.text import Row, rows, whole_lines
from l2bench.suite import Learning

KIND = "avalanche"

_UNMEASURED = "0"


def read(path: Path, options: Options) -> Source:
    """Return the lifetime of a log: accuracy on each experience after training on each.

    Raises:
        Unsupported: if a file is damaged or malformed, naming line and column.
    """
    file = path / "eval_results.csv" if path.is_dir() else path
    raw, torn = whole_lines(file, file.name)
    lines = rows(raw, file.name, ",", ["eval_exp", "training_exp", "eval_accuracy"])
    if not lines:
        raise Unsupported(f"{file.name} has no evaluation")
    if all(row.cells["eval_accuracy"] == _UNMEASURED for row in lines):
        raise Unsupported(
            f"{file.name}: no accuracy was logged; add accuracy_metrics(experience=True) to the "
            f"evaluation plugin"
        )
    epochs, used, cut = _epochs(file.with_name("training_results.csv"))
    warnings = [text for text in (torn, cut) if text]
    evaluations = _evaluations(lines)
    experiences = sorted(
        {row.whole("eval_exp") for row in lines}
        | {int(e.learned) for e in evaluations if e.learned is not None}
        | set(epochs)
    )
    tasks = [str(experience) for experience in experiences]
    amount = max(epochs.values(), default=1)
    lifetime = sequence(
        file.resolve().parent.name,
        tasks,
        evaluations,
        environment="import/avalanche",
        measure="accuracy",
        seed=options.seed or 0,
        learning=Learning(source="samples", unit="epochs", amount=amount),
        ids=[f"experience-{task}" for task in tasks],
        metrics=("l2bench/gem",),
    )
    if not lifetime.complete:
        warnings.append("no evaluation after training on some of the experiences")
    lifetime = replace(lifetime, complete=lifetime.complete and not (torn or cut))
    return Source(
        KIND,
        lifetime,
        (file, *used),
        agent=options.agent or UNKNOWN_AGENT,
        settings={"decimals": 4},
        warnings=tuple(warnings),
    )


def _evaluations(lines: Sequence[Row]) -> list[Evaluation]:
    """Return one evaluation per pass over the experiences; only the first follows training."""
    passes: list[tuple[str | None, list[Row]]] = []
    for row in lines:
        text = row.cells["training_exp"].strip()
        trained = None if text == "None" else str(row.whole("training_exp"))
        if trained is None and any(learned is not None for learned, _ in passes):
            raise row.fail("training_exp", "None after training has begun")
        seen = {other.whole("eval_exp") for other in passes[-1][1]} if passes else set()
        if not passes or passes[-1][0] != trained or row.whole("eval_exp") in seen:
            passes.append((trained, []))
        passes[-1][1].append(row)
    evaluations = []
    before: str | None = None
    for trained, members in passes:
        means = {}
        for row in members:
            if row.cells["eval_accuracy"].strip() == _UNMEASURED:
                continue
            value = row.number("eval_accuracy")
            if value == value:
                means[str(row.whole("eval_exp"))] = (value, None)
        evaluations.append(Evaluation(trained if trained != before else None, means))
        before = trained
    return evaluations


def _epochs(file: Path) -> tuple[dict[int, int], tuple[Path, ...], str | None]:
    """Return the number of epochs of each experience in the training log, where there is one."""
    if not file.is_file():
        return {}, (), None
    raw, torn = whole_lines(file, file.name)
    found: dict[int, int] = {}
    for row in rows(raw, file.name, ",", ["training_exp", "epoch"]):
        experience = row.whole("training_exp")
        found[experience] = max(found.get(experience, 0), row.whole("epoch") + 1)
    return found, (file,), torn
