"""Checking a submission: its document, each of its runs, and what they are together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from l2bench.check import fingerprints, together
from l2bench.check.board import Board
from l2bench.check.bundle import Limits, check_bundle
from l2bench.check.documents import Refused, check_version, judged, read_document
from l2bench.check.files import present
from l2bench.check.findings import Finding, broken
from l2bench.check.models import DOCUMENT, SUBMISSION_VERSION, Submission
from l2bench.check.results import Checked, Facts, distinct
from l2bench.errors import L2benchError
from l2bench.scoring import summarise_bundles

README = "README.md"

#: Sizes of one archive, of a README, and of a whole submission.
MOST_ARCHIVE = 25 << 20
MOST_README = 1 << 20
MOST_WHOLE = 100 << 20


def check_submission(
    path: Path,
    board: Board | None = None,
    *,
    plugins: bool = False,
    isolated: bool = True,
    limits: Limits | None = None,
    today: date | None = None,
) -> Checked:
    """Check a submission and, with a board, whether the board would take it.

    A folder around it is looked through. ``today`` decides which waivers still hold.
    """
    folder = unwrapped(path)
    findings = list(_static(folder))
    try:
        submission = _document(folder)
    except Refused as refused:
        return Checked(path, "submission", distinct([refused.finding, *findings]))
    findings += _about(folder, submission, board)
    runs: dict[str, Facts] = {}
    for run in submission.runs:
        archive = folder / run.path
        if not archive.is_file() or archive.is_symlink():
            continue  # L08 says so
        checked = check_bundle(archive, board, plugins=plugins, isolated=isolated, limits=limits)
        declared = {"N06"} if run.seed in submission.extra_seeds else set()
        findings += [f.below(run.path) for f in checked.findings if f.code not in declared]
        for facts in checked.runs.values():
            runs[run.path] = facts
    findings += together.rules(submission, runs, board)
    summary = None
    if runs and len(runs) == len(submission.runs):
        summary, claims = _summary(submission, runs)
        stale = any(found.code == "X04" for found in findings)  # stated by other definitions
        findings += [claim for claim in claims if not (stale and claim.code == "X02")]
    if board is not None:
        findings += _copied(folder, submission, runs, board)
    checked = Checked(
        path,
        "submission",
        distinct(findings),
        runs=runs,
        submission=submission,
        key=submission.key,
        summary=summary,
    )
    if board is None:
        return checked
    return checked.without(board.waivers(submission.key, today or datetime.now(UTC).date()))


def unwrapped(path: Path) -> Path:
    """Return the folder that holds submission.json: a path, or the only folder in it."""
    if (path / DOCUMENT).is_file() or not path.is_dir():
        return path
    inner = [each for each in path.iterdir() if (each / DOCUMENT).is_file()]
    return inner[0] if len(inner) == 1 else path


def _document(folder: Path) -> Submission:
    """Read submission.json; what is wrong with its form is L07."""
    try:
        data = read_document(folder, DOCUMENT)
        check_version(DOCUMENT, data, "l2bench.submission", SUBMISSION_VERSION)
        found: Submission = judged(Submission, data, DOCUMENT)
    except Refused as refused:
        finding = refused.finding
        if finding.code == "M01":
            finding = broken(
                "L07", DOCUMENT, finding.message, expected=finding.expected, found=finding.found
            )
        raise Refused(finding) from None
    return found


def _static(folder: Path) -> Iterator[Finding]:
    """A03, L04: what lies in the folder, whatever it says."""
    names, odd = present(folder) if folder.is_dir() else (set(), [])
    yield from odd
    total = 0
    for name in sorted(names):
        size = (folder / name).stat().st_size
        total += size
        most = MOST_ARCHIVE if name.endswith(".zip") else MOST_README
        if size > most:
            yield broken("L04", name, "the file is too large", expected=most, found=size)
    if total > MOST_WHOLE:
        yield broken("L04", "", "the submission is too large", expected=MOST_WHOLE, found=total)


def _about(folder: Path, submission: Submission, board: Board | None) -> Iterator[Finding]:
    yield from _files(folder, submission)
    for field in ("code_url", "paper_url"):
        address = getattr(submission.agent, field)
        if address is not None and not address.startswith(("http://", "https://")):
            yield broken(
                "L03",
                DOCUMENT,
                f"agent.{field} is no web address",
                expected="https://...",
                found=address,
            )
    if not submission.runs:
        yield broken("L02", DOCUMENT, "0 bundles found: the submission lists no runs")
    if board is None:
        return
    place = board.key_of(folder)
    if place is not None and place != submission.key:
        yield broken(
            "L01",
            "",
            "the folder's place is not what submission.json says",
            expected=submission.key,
            found=place,
        )
    entry = board.registered(submission.suite_id, submission.suite_version)
    if entry is None:
        yield broken(
            "S02",
            DOCUMENT,
            f"the board has no suite {submission.suite_id} {submission.suite_version}",
        )
    known = dict(board.folders())
    if place is None and submission.key in known:
        yield broken("L06", "", f"{submission.key} is accepted already", found=submission.key)
    yield from _superseded(submission, board)


def _superseded(submission: Submission, board: Board) -> Iterator[Finding]:
    """L06: what is superseded is there, and the submitter's own."""
    if submission.supersedes is None:
        return
    base = submission.key.rpartition("/")[0]
    key = f"{base}/{submission.supersedes.rpartition('/')[2]}"
    older = next((each for each in board.accepted if each.key == key), None)
    if older is None or older.submission.submitter != submission.submitter:
        why = "is not there" if older is None else f"is of {older.submission.submitter}"
        yield broken("L06", DOCUMENT, f"the submission it supersedes, {key}, {why}", found=key)


def _files(folder: Path, submission: Submission) -> Iterator[Finding]:
    """L08: the files are those listed, each once, and a README."""
    listed = [run.path for run in submission.runs]
    here, _ = present(folder)
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        yield broken("L08", DOCUMENT, f"{name} is listed twice")
    for name in sorted({*listed, README} - here):
        yield broken("L08", name, "the file is missing")
    for name in sorted(here - {*listed, README, DOCUMENT}):
        yield broken("L08", name, "submission.json does not list this file")
    if README in here and not (folder / README).read_bytes()[:MOST_README].strip():
        yield broken("L07", README, "the README is blank")


def _summary(
    submission: Submission, runs: Mapping[str, Facts]
) -> tuple[Mapping[str, Any] | None, list[Finding]]:
    """X02, X03: the numbers stated, against those of the runs."""
    bundles = [facts.bundle(Path(name)) for name, facts in runs.items()]
    try:
        summary = summarise_bundles(bundles)
    except L2benchError:
        return None, []  # they do not go together, which N02 and N05 have said
    return summary, list(_claims(submission, summary))


def _claims(submission: Submission, summary: Mapping[str, Any]) -> Iterator[Finding]:
    whole = {m["id"]: m for m in summary["metrics"] if m["scope"] == "lifetime"}
    for claim in submission.metrics:
        metric = whole.get(claim.id)
        if metric is None or metric["mean"] is None:
            reasons = (
                "; ".join(metric["undefined_reasons"]) if metric else "there is no such metric"
            )
            yield broken("X03", DOCUMENT, f"{claim.id} has no value: {reasons}", found=claim.value)
            continue
        for stated, known in (
            ("value", "mean"),
            ("low", "low"),
            ("high", "high"),
            ("n_lifetimes", "n_lifetimes"),
        ):
            found, expected = getattr(claim, stated), metric[known]
            if found is None and stated != "value":
                continue
            if found is None or expected is None or not abs(found - expected) <= 1e-9:
                yield broken(
                    "X02",
                    DOCUMENT,
                    f"{stated} of {claim.id} is not what the runs give",
                    expected=expected,
                    found=found,
                )


def _copied(
    folder: Path, submission: Submission, runs: Mapping[str, Facts], board: Board
) -> Iterator[Finding]:
    """M05, Q05: runs that another submission has handed in."""
    from l2bench.check.isolation import fingerprints_of

    own = {board.key_of(folder), submission.key}
    others = [
        entry
        for entry in board.accepted
        if entry.key not in own
        and entry.submission.submitter != submission.submitter
        and entry.submission.suite_id == submission.suite_id
    ]
    paths = {
        entry.folder / run.path: entry.key for entry in others for run in entry.submission.runs
    }
    known = fingerprints_of(list(paths)) if runs else {}
    rows = [
        (paths[path], found["fingerprints"], found["agent_hash"]) for path, found in known.items()
    ]
    for name, facts in runs.items():
        yield from fingerprints.elsewhere(name, facts, rows)
