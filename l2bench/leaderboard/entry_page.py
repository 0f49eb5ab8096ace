"""The page of one entry: the report of its lifetimes, and what the submission and checks say."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from l2bench.check.findings import Finding
from l2bench.check.models import BoardFiles, Submission, Waiver
from l2bench.leaderboard.entries import Entry
from l2bench.leaderboard.pages import page
from l2bench.leaderboard.ranking import SuiteBoard
from l2bench.report.page import context
from l2bench.report.text import listing, number, plural, shorten, signed, visible

#: Longer lists of findings are cut here; entry.json has them all.
MOST_FINDINGS = 50

#: A longer README is cut here, in characters.
LONGEST_README = 20_000

#: A change of a stated number below this is rounding.
EXACT = 1e-9


def entry_page(
    board: BoardFiles, suite: SuiteBoard, entry: Entry, files: Sequence[tuple[str, str]]
) -> str:
    """Return the page of an entry that is shown; ``files`` are downloads: place and text."""
    assert entry.submission is not None
    assert entry.summary is not None
    report = context(entry.bundles, entry.summary)
    findings: list[tuple[Finding, Waiver | None]]
    findings = [(each.finding, each.waiver) for each in entry.waived]
    findings += [(found, None) for found in entry.findings]
    return page(
        "entry.html",
        **{
            **report,
            "agent": shorten(entry.submission.agent.name),
            "trail": [
                (board.title, "../../../index.html"),
                (f"{suite.suite.id} {suite.suite.version}", "../index.html"),
                (entry.name, ""),
            ],
            "header": [*_standing(suite, entry), *report["header"]],
            "warnings": [*_notes(suite, entry), *report["warnings"]],
            "disclosure": disclosure(entry.submission),
            "readme": readme(entry.readme),
            "stated": stated(entry),
            "checks": _checks(entry),
            "findings": findings[:MOST_FINDINGS],
            "findings_cut": max(0, len(findings) - MOST_FINDINGS),
            "files": files,
        },
    )


def _standing(suite: SuiteBoard, entry: Entry) -> list[tuple[str, str]]:
    """Return where an entry stands: its place, tier, submitter and date."""
    document = entry.submission
    assert document is not None
    facts = []
    for division, ranking in suite.rankings.items():
        for row in ranking.standings:
            if row.entry.key == entry.key:
                of = len(ranking.standings)
                facts.append(("Place", f"{row.places} of {of}, {division} division"))
    if not facts:
        facts.append(("Place", f"none: {entry.state}"))
    return [
        *facts,
        ("Tier", entry.tier),
        ("Submitted by", f"{shorten(document.name, 80)} ({document.submitter})"),
        ("Date", document.date.isoformat()),
    ]


def _notes(suite: SuiteBoard, entry: Entry) -> list[str]:
    """Return what a reader should know of an entry's standing, one sentence each."""
    notes = [f"Not ranked: {shorten(reason, 400)}." for reason in entry.reasons]
    if suite.newer is not None:
        notes.append(
            f"Version {shorten(suite.newer, 40)} of this suite has taken over; these numbers "
            f"cannot be compared with those of the newer one."
        )
    if entry.warnings:
        notes.append(
            f"The checker made {plural(len(entry.warnings), 'remark')}; see the section on checks."
        )
    return notes


def disclosure(document: Submission) -> list[tuple[str, str, bool]]:
    """Return what the authors say: name, text, and whether the text is an address."""
    agent, tuning = document.agent, document.tuning
    how = {
        "none": "none: settings were fixed before any lifetime",
        "fraction": "on a part of a lifetime",
        "full": "on whole lifetimes",
    }[tuning.protocol]
    if tuning.fraction is not None:
        how += f", {tuning.fraction:g} of it"
    if tuning.configurations is not None:
        how += f"; {plural(tuning.configurations, 'configuration')} tried"
    if tuning.seeds:
        how += f"; on seeds {listing(tuning.seeds)}"
    rows: list[tuple[str, str | None, bool]] = [
        ("Agent", f"{agent.name} {agent.version}", False),
        ("Code", agent.code_url, True),
        ("Commit", agent.commit, False),
        ("Paper", agent.paper_url, True),
        ("Licence", agent.licence, False),
        ("Division", document.division, False),
        ("Tuning", how, False),
        ("Data and pretraining", document.data_disclosure or "not declared", False),
        ("Compute", document.compute, False),
        ("Note", document.note, False),
        ("Extra seeds", listing(document.extra_seeds), False),
        ("Supersedes", document.supersedes, False),
    ]
    return [
        (name, text, is_address) for name, text, is_address in rows if text and text != listing(())
    ]


def readme(text: str) -> Markup | None:
    """Return a README as text with its lines kept; nothing in it is taken for markup."""
    if not text.strip():
        return None
    cut = text if len(text) <= LONGEST_README else f"{text[:LONGEST_README]}\n[cut here]"
    return Markup("\n").join(escape(visible(line)) for line in cut.splitlines())


def stated(entry: Entry) -> list[dict[str, str]]:
    """Return the numbers that a submission stated, those of today, and the change."""
    rows = []
    for claim in entry.submission.metrics if entry.submission else ():
        found = entry.metric(claim.id)
        now = None if found is None else float(found["mean"])
        change = None if now is None or claim.value is None else now - claim.value
        if change is not None and abs(change) <= EXACT:
            change = 0.0
        rows.append(
            {
                "id": claim.id,
                "stated": number(claim.value),
                "now": number(now),
                "change": "none" if change == 0 else signed(change),
            }
        )
    return rows


def _checks(entry: Entry) -> str:
    """Return the outcome of the checks in a sentence."""
    text = f"Checked again when this page was made: {plural(len(entry.bundles), 'lifetime')} "
    text += "scored from raw rows, no rule broken"
    if entry.waived:
        codes = sorted({each.finding.code for each in entry.waived})
        text += f" but {listing(codes)}, which the maintainers waived"
    return f"{text}; {plural(len(entry.warnings), 'remark')}."
