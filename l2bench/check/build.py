"""Making a submission: the archives of all runs, its document, and the numbers that they give."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import zip_longest
from pathlib import Path
from typing import Any

from l2bench.bundle.archive import write_archive
from l2bench.bundle.files import new_folder, why, write_json
from l2bench.bundle.reader import find_bundles
from l2bench.check.board import Board
from l2bench.check.bundle import check_bundle
from l2bench.check.findings import Finding
from l2bench.check.models import DOCUMENT, ClaimedMetric, Submission, SubmittedRun
from l2bench.check.results import Checked, Facts
from l2bench.check.submission import check_submission
from l2bench.errors import L2benchError, RunFailed, UsageError
from l2bench.scoring import summarise_bundles
from l2bench.suite import judge


@dataclass(frozen=True)
class Built:
    """A submission: what the check says of it, and the runs that were left out.

    ``kept`` is false where the check found errors and nothing was left of it.
    """

    folder: Path
    checked: Checked
    left_out: Mapping[Path, tuple[Finding, ...]]
    kept: bool = True


def build_submission(
    paths: Sequence[Path],
    folder: Path,
    about: Mapping[str, Any],
    *,
    board: Board | None = None,
    plugins: bool = False,
    valid_only: bool = False,
    isolated: bool = True,
    readme: str | None = None,
    today: date | None = None,
) -> Built:
    """Write a submission of the bundles at these paths into a new folder and check it.

    ``about`` is the part of submission.json that only its authors know. Runs with errors end it,
    or are left out if ``valid_only`` is on. Without that, a submission with errors is not kept.

    Raises:
        UsageError: if the folder exists, or ``about`` is not valid.
        RunFailed: if there are no runs, a run has errors, or the folder cannot be written.
    """
    if folder.exists():
        raise UsageError(f"{folder} exists already; give another folder with -o, or remove it")
    bundles = {each.resolve() for path in paths for each in find_bundles(path)}
    _refuse_names(bundles)
    runs: dict[Path, Facts] = {}
    left_out: dict[Path, tuple[Finding, ...]] = {}
    for bundle in sorted(bundles):
        checked = check_bundle(bundle, board, plugins=plugins, isolated=isolated)
        if checked.errors or not checked.runs:
            left_out[bundle] = checked.errors
        else:
            (runs[bundle],) = checked.runs.values()
    if left_out and not valid_only:
        raise RunFailed(_why(left_out))
    if not runs:
        raise RunFailed(f"0 sound bundles; {_why(left_out)}" if left_out else "0 bundles found")
    document = _document(about, runs, today or date.today())
    try:
        with new_folder(folder, replace=False) as inside:
            _write(inside, document, runs, readme)
            checked = check_submission(
                inside, board, plugins=plugins, isolated=isolated, today=today
            )
            if checked.errors and not valid_only:
                raise _Unsound
    except _Unsound:
        return Built(folder, replace(checked, path=folder), left_out, kept=False)
    except OSError as error:
        raise RunFailed(f"cannot write {folder}: {why(error)}") from error
    return Built(folder, replace(checked, path=folder), left_out)


class _Unsound(Exception):
    """The check found errors: nothing is to be left of the submission."""


def _refuse_names(bundles: Collection[Path]) -> None:
    """Refuse folders after which an archive cannot be named, or two of one name.

    Raises:
        UsageError: with the remedy.
    """
    names = sorted(bundle.name for bundle in bundles)
    for name, after in zip_longest(names, names[1:]):
        if not _PLAIN.fullmatch(name):
            raise UsageError(
                f"no run of a submission can be called '{name}'; rename its folder to letters, "
                f"digits, dots, hyphens and underscores, ending in .l2b"
            )
        if name == after:
            raise UsageError(f"two bundles are called '{name}'; leave one out, or rename it")


_PLAIN = re.compile(r"[A-Za-z0-9._-]+\.l2b")


def _why(left_out: Mapping[Path, tuple[Finding, ...]]) -> str:
    bundle, findings = next(iter(left_out.items()))
    first = f"{findings[0].code} {findings[0].path}: {findings[0].message}" if findings else ""
    return (
        f"{len(left_out)} bundles have errors, {bundle.name} for one ({first}); see them with "
        f"l2bench check, put them right, or leave them out with --valid-only"
    )


def _document(about: Mapping[str, Any], runs: Mapping[Path, Facts], today: date) -> Submission:
    first = next(iter(runs.values()))
    ordered = sorted(runs.items(), key=lambda item: item[1].seed)
    agent = {"name": first.agent.name, "version": first.agent.version, **about.get("agent", {})}
    for key, value in agent.items():
        if key in ("name", "version") and not str(value).strip():
            raise UsageError(
                f"the bundles say no {key} of the agent, as imported ones do not; give it with "
                f"--agent-{key}"
            )
    suite = first.manifest.suite
    data = {
        "date": today.isoformat(),
        "tuning": first.manifest.tuning.model_dump(mode="json"),
        **about,
        "agent": agent,
        "suite_id": suite.id,
        "suite_version": suite.version,
        "suite_hash": suite.suite_hash,
        "division": suite.division,
        "runs": [
            SubmittedRun(
                path=f"runs/{_name(path)}", seed=facts.seed, manifest_sha256=facts.manifest_sha256
            ).model_dump(mode="json")
            for path, facts in ordered
        ],
        "metrics": [claim.model_dump(mode="json") for claim in _claims(runs)],
    }
    return judge(Submission, data, "the submission")


def _name(bundle: Path) -> str:
    return f"{bundle.name}.zip"


def _claims(runs: Mapping[Path, Facts]) -> Iterator[ClaimedMetric]:
    """Yield the headline numbers of the whole lifetime, as the runs give them."""
    try:
        summary = summarise_bundles([facts.bundle(path) for path, facts in runs.items()])
    except L2benchError:
        return  # the check says what does not go together
    for metric in summary["metrics"]:
        if metric["scope"] == "lifetime" and metric["headline"] and metric["mean"] is not None:
            yield ClaimedMetric(
                id=metric["id"],
                value=metric["mean"],
                low=metric["low"],
                high=metric["high"],
                n_lifetimes=metric["n_lifetimes"],
            )


def _write(
    folder: Path, document: Submission, runs: Mapping[Path, Facts], readme: str | None
) -> None:
    (folder / "runs").mkdir(parents=True)
    for bundle in runs:
        names = [p.relative_to(bundle).as_posix() for p in bundle.rglob("*") if p.is_file()]
        archive = folder / "runs" / _name(bundle)
        write_archive(bundle, names, archive)
    write_json(folder / DOCUMENT, json.loads(document.model_dump_json()))
    text = readme if readme is not None else _readme(document)
    (folder / "README.md").write_text(text, encoding="utf-8")


def _readme(document: Submission) -> str:
    lines = [
        f"# {document.name}",
        "",
        f"{document.agent.name} {document.agent.version} on {document.suite_id} "
        f"{document.suite_version}, {document.division} division, "
        f"{len(document.runs)} lifetimes.",
    ]
    for title, text in (
        ("Data", document.data_disclosure),
        ("Compute", document.compute),
        ("Note", document.note),
    ):
        if text:
            lines += ["", f"{title}: {text}"]
    return "\n".join(lines) + "\n"
