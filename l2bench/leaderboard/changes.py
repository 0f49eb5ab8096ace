"""What changes a board: a suite is registered, a submission accepted or withdrawn.

Accepted entries never change. Whoever has something better submits a new entry that supersedes it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from l2bench.bundle.files import new_folder, why, write_json
from l2bench.bundle.lifetime import synthetic
from l2bench.bundle.software import software
from l2bench.check.board import Board, read_submission
from l2bench.check.models import DOCUMENT, BoardFiles, LockedPlugin, RegisteredSuite, Withdrawal
from l2bench.check.results import Checked
from l2bench.check.submission import README, check_submission, unwrapped
from l2bench.errors import RunFailed, Unsupported, UsageError, choices, nearest
from l2bench.metrics.scores import Metric
from l2bench.plugins import Kind, Registry
from l2bench.scoring import metric_sets
from l2bench.suite import BOUND_METRICS, IMPORTED, Suite

_PLACE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def create(folder: Path, title: str, *, accept_editable: bool = False) -> Board:
    """Make a board without suites and return it.

    Raises:
        UsageError: if one is there already.
    """
    if (folder / "board.json").exists():
        raise UsageError(f"{folder} is a board already; leave out --title")
    board = Board(folder, BoardFiles(title=title, suites=(), accept_editable=accept_editable))
    folder.mkdir(parents=True, exist_ok=True)
    _write(board)
    return board


def register(board: Board, suite: Suite, metric: str | None, registry: Registry) -> Board:
    """Add a suite, ranked by ``metric``, and the releases that it needs; return the board.

    Raises:
        UsageError: if this version is registered, its name cannot be a folder, or the metric is
            not one to rank by.
    """
    place = f"{suite.id}/{suite.version}"
    known = board.registered(suite.id, suite.version)
    if known is not None:
        same = "" if known.suite_hash == suite.hash else ", in another form"
        raise UsageError(
            f"{suite.id} {suite.version} is registered already{same}; a registered version never "
            f"changes: give a changed suite another version"
        )
    if not _PLACE.fullmatch(suite.version):
        raise UsageError(
            f"the version '{suite.version}' cannot be the name of a folder; use letters, digits, "
            f"dots, hyphens and underscores"
        )
    entry = RegisteredSuite(
        id=suite.id,
        version=suite.version,
        suite_hash=suite.hash,
        file=f"suites/{place}.json",
        seeds=suite.seeds,
        headline=ranking_metric(suite, metric, registry),
    )
    path = board.folder / entry.file
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, suite.resolved())
    files = board.files.model_copy(
        update={
            "suites": (*board.files.suites, entry),
            "plugins": _locked(board.files.plugins, suite, registry),
        }
    )
    return _write(Board(board.folder, files))


def lock(board: Board, registry: Registry) -> tuple[Board, tuple[str, ...]]:
    """Accept the releases installed here of the plugins that the board's suites need.

    Returns the board, and the suites of which something is not installed: what is accepted for
    them stays as it is.
    """
    locks, left = board.files.plugins, []
    for entry in board.files.suites:
        try:
            locks = _locked(locks, board.suite(entry), registry)
        except (Unsupported, UsageError):  # the plugin of a name, or one that nobody here knows
            left.append(f"{entry.id} {entry.version}")
    files = board.files.model_copy(update={"plugins": locks})
    return _write(Board(board.folder, files)), tuple(left)


def ranking_metric(suite: Suite, wanted: str | None, registry: Registry) -> str:
    """Return the metric that a suite is ranked by, if it is fit for that.

    Fit is a level of performance from 0 to 1 of the whole lifetime, where higher is better.
    Differences, such as forgetting and transfer, are not: who learns nothing forgets nothing. Nor
    is what the multitask bound comes to, which is another learner.

    Raises:
        UsageError: naming the metrics to choose from.
    """
    sets = {name: registry.resolve("metric_sets", name) for name in suite.metrics}
    metrics: list[Metric] = [metric for each in sets.values() for metric in each.metrics]
    joint = {metric.id for name in BOUND_METRICS if name in sets for metric in sets[name].metrics}
    whole = {metric.id: metric for metric in metrics if metric.scope == "lifetime"}
    levels = [id for id, m in whole.items() if m.higher_is_better and m.range == (0.0, 1.0)]
    fit = [id for id in levels if id not in joint]
    if wanted is None:
        headlines = [id for id in fit if whole[id].headline]
        wanted = headlines[0] if len(headlines) == 1 else None
    if wanted is None:
        raise UsageError(f"choose what ranks {suite.id} with --rank-by: {choices(fit)}")
    if wanted not in whole:
        raise UsageError(
            f"unknown metric '{wanted}'{nearest(wanted, whole)}; {suite.id} can be ranked by "
            f"{choices(fit)}"
        )
    if wanted in joint:
        raise UsageError(
            f"'{wanted}' is of the multitask bound, a joint learner, and says more of it than of "
            f"the agent; rank {suite.id} by {choices(fit)}"
        )
    if wanted not in fit:
        raise UsageError(
            f"'{wanted}' is no level of performance from 0 to 1, and an agent that learns nothing "
            f"may do well by it; rank {suite.id} by {choices(fit)}"
        )
    _refuse_unmeasured(suite, wanted, registry)
    return wanted


def _refuse_unmeasured(suite: Suite, metric: str, registry: Registry) -> None:
    """Refuse a metric of which no lifetime of the suite will have a value, as its plan shows.

    Raises:
        UsageError: with the metric's own reason.
    """
    lifetime = synthetic(suite, suite.seeds[0], most=2)
    for each in metric_sets(registry, suite.metrics):
        for value in each.score(lifetime).values:
            if value.id == metric and value.value is None:
                raise UsageError(f"{suite.id} cannot be ranked by {metric}: {value.reason}")


def _locked(
    known: Sequence[LockedPlugin], suite: Suite, registry: Registry
) -> tuple[LockedPlugin, ...]:
    """Return the accepted releases with those installed here of the suite's plugins."""
    environments = [task.environment for task in suite.tasks]
    wanted: list[tuple[Kind, str]] = [
        ("environments", name) for name in environments if not name.startswith(IMPORTED)
    ]
    wanted += [("metric_sets", name) for name in suite.metrics]
    locks = {(lock.distribution, lock.version): lock for lock in known}
    for kind, name in wanted:
        plugin = registry.plugin_of(kind, name)
        found = software(plugin.distribution, plugin.package)
        release = (plugin.distribution, plugin.version)
        earlier = locks[release].record_sha256 if release in locks else ()
        digest = None if found.editable or found.modified_files else found.record_sha256
        fresh = () if digest is None or digest in earlier else (digest,)
        locks[release] = LockedPlugin(
            distribution=release[0], version=release[1], record_sha256=(*earlier, *fresh)
        )
    return tuple(locks[release] for release in sorted(locks))


def accept(
    board: Board, folder: Path, *, plugins: bool = False, isolated: bool = True
) -> tuple[str, Checked]:
    """Check a submission and copy it onto the board; return its key and the outcome.

    ``plugins`` and ``isolated`` are those of `l2bench.check.submission.check_submission`.

    Raises:
        RunFailed: if it breaks a rule.
        UsageError: if an entry of this name is there, or its suite takes no more submissions.
    """
    inner = unwrapped(folder)
    document = read_submission(inner)
    key, name = document.key, document.folder_name
    target = board.submissions / key
    if target.exists():
        raise UsageError(
            f"{key} was accepted before, and accepted entries never change; submit under another "
            f'date or agent, with "supersedes": "{name}"'
        )
    suite = board.registered(document.suite_id, document.suite_version)
    if suite is not None and suite.status == "closed":
        raise UsageError(f"{suite.id} {suite.version} takes no more submissions")
    checked = check_submission(folder, board, plugins=plugins, isolated=isolated)
    refuse_errors(checked)
    wanted = [DOCUMENT, README, *(run.path for run in document.runs)]
    try:
        with new_folder(target, replace=False) as inside:
            for path in wanted:
                source = inner / path
                if source.is_file() and not source.is_symlink():
                    (inside / path).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source, inside / path)
    except OSError as error:
        raise RunFailed(f"cannot write {target}: {why(error)}") from error
    return key, checked


def refuse_errors(checked: Checked) -> None:
    """Refuse a submission that breaks a rule, naming the first few.

    Raises:
        RunFailed: where there is an error among the findings.
    """
    found, folder = checked.errors, checked.path
    if found:
        texts = [f"{f.code} {f.path}: {f.message}" for f in found[:3]]
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        raise RunFailed(
            f"{folder} is not accepted: {'; '.join(texts)}{more}; see them all with: "
            f"l2bench submission check {folder}"
        )


def withdraw(board: Board, key: str, reason: str, on: date) -> Board:
    """Withdraw an entry: it leaves the rankings, and its name, the date and the reason stay.

    Raises:
        UsageError: if there is no such entry, it is withdrawn already, or the reason is blank.
    """
    known = [key for key, _ in board.folders()]
    matching = [each for each in known if each == key or each.rpartition("/")[2] == key]
    if len(matching) != 1:
        what = "several entries are called" if matching else "there is no entry"
        raise UsageError(f"{what} '{key}'{nearest(key, known)}; give suite/version/name")
    if not reason.strip():
        raise UsageError("say why it is withdrawn, with --reason")
    if any(withdrawal.submission == matching[0] for withdrawal in board.files.withdrawals):
        raise UsageError(f"{matching[0]} is withdrawn already")
    gone = Withdrawal(submission=matching[0], on=on, reason=reason)
    files = board.files.model_copy(update={"withdrawals": (*board.files.withdrawals, gone)})
    return _write(Board(board.folder, files))


def _write(board: Board) -> Board:
    data: Mapping[str, Any] = board.files.model_dump(mode="json")
    write_json(board.folder / "board.json", data)
    return board
