"""The codes of all rules: what each asks for, how grave a breach is, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Rule(NamedTuple):
    """One rule; ``severity`` is ``error`` or ``warning``."""

    code: str
    severity: str
    title: str
    hint: str


_RERUN = "run this lifetime again, or take the bundle from an untouched copy"
_COPY = "take the bundle from an untouched copy; nothing in it may be edited"
_RESCORE = "the scores are made from the tables: take the bundle from an untouched copy"
_BUILD = "make the submission anew with: l2bench submission build"
_PACK = "pack the folder anew with: l2bench bundle pack"
_LOOK = "a person should look at this; it may well be right"
_ASK = "ask the board's maintainers to add it, or use a release that the board lists"

_TABLE = (
    # The check itself
    ("I01", "error", "the check can be carried out within its limits of memory and time",
     "a sound bundle never does this; if you made it with L2bench, report it"),
    # Archives
    ("A01", "error", "an archive is one plain zip file, not encrypted, not in parts", _PACK),
    ("A02", "error", "names in an archive are plain relative paths", _PACK),
    ("A03", "error", "a bundle holds plain files only: no links, no devices", _PACK),
    ("A04", "error", "no name comes twice in an archive, whatever its case", _PACK),
    ("A05", "error", "an archive stays within the limits of entries, size and compression", _PACK),
    ("A06", "error", "only kinds of files that belong into bundles, and no pickles",
     "leave checkpoints and other files of the agent out of the bundle"),
    ("A07", "error", "nothing follows the archive, and no archive lies in it", _PACK),
    # Manifest
    ("M01", "error", "every document is strict JSON of the right form", _COPY),
    ("M02", "error", "the format is one that this release can check",
     "use a matching release of l2bench, or: l2bench bundle migrate"),
    ("M03", "error", "the lifetime is complete",
     "finish it with the command that began it and --resume"),
    ("M04", "error", "the files in the folder are those that the manifest lists", _COPY),
    ("M05", "error", "no bundle comes twice", "leave one of the copies out"),
    ("M06", "error", "counts and budget in the manifest are those of the tables", _COPY),
    ("M07", "warning", "the record is whole", "an import of a damaged source has no headlines"),
    # Hashes
    ("H01", "error", "every file has the size and SHA-256 that the manifest records", _COPY),
    ("H02", "error", "every table has the content hash that the manifest records", _COPY),
    ("H03", "error", "checksums.sha256 agrees with the files", _COPY),
    ("H04", "error", "the manifest is byte for byte what was sealed", _COPY),
    ("H05", "error", "agent.json is the agent that the manifest records", _COPY),
    ("H06", "error", "a run is the bundle that the submission names", _BUILD),
    # Suite
    ("S01", "error", "suite.json is the suite that the manifest records", _COPY),
    ("S02", "error", "the suite is one that the board has registered, unchanged",
     "run the registered suite without overrides, or submit to the open division"),
    ("S03", "error", "the blocks are those of the suite, in its order", _RERUN),
    ("S04", "error", "the tasks are those of the suite, in its order", _RERUN),
    ("S05", "error", "evaluations have the suite's settings", _RERUN),
    ("S06", "error", "the division fits what deviates from the suite", _RERUN),
    # Plugins
    ("P01", "error", "environments and metric sets are of releases that the board knows", _ASK),
    ("P02", "error", "installed plugins are what their release holds, unmodified",
     "install the released package again and rerun"),
    ("P03", "error", "environments of the closed division are installed releases",
     "install the released package (not with -e, no local changes) and rerun"),
    ("P04", "warning", "the agent's plugin can be found by others",
     "name where its code is: agent.code_url in submission.json"),
    ("P05", "error", "the metric sets are ones that the checker can compute",
     "install the plugin that brings the metric set and check with --plugins"),
    ("P06", "error", "the render backend of tasks that show images is recorded", _RERUN),
    # Tables
    ("R01", "error", "tables have the columns, types and words of the format", _COPY),
    ("R02", "error", "tables stay within the limits of size", "record less per row or per table"),
    ("R03", "error", "no episode, experience or block comes twice", _RERUN),
    ("R04", "error", "seeds and initial states are the ones that the suite prescribes", _RERUN),
    ("R05", "error", "rows refer to blocks and tasks that exist", _RERUN),
    ("R06", "error", "rows are numbered without gaps and stand in order", _RERUN),
    ("R07", "error", "the counters of blocks agree with their rows", _COPY),
    ("R08", "error", "traces are of the episodes drawn by lot, whole, and add up", _RERUN),
    # Completeness
    ("C01", "error", "every checkpoint of the learning curves was evaluated", _RERUN),
    ("C02", "error", "every evaluation has all its episodes", _RERUN),
    ("C03", "error", "the learning budget is used exactly", _RERUN),
    ("C04", "error", "every block is there and succeeded", _RERUN),
    ("C05", "warning", "no attempt was discarded", "resumed runs are fine; the number is shown"),
    ("C06", "error", "experts and bound are there, sound, and belong to this lifetime",
     _RERUN),
    # Seeds
    ("N01", "error", "every seed that the suite prescribes is submitted", "run the missing seeds"),
    ("N02", "error", "every seed is submitted once", "leave one of the runs out"),
    ("N03", "error", "seeds beyond the prescribed ones are all declared and all submitted",
     "declare just these with --extra-seed, or leave the runs out"),
    ("N04", "error", "settings were not tuned on the seeds that are evaluated",
     "tune on other seeds and run again"),
    ("N05", "error", "all runs are of one suite, one agent and one major release",
     "submit the agents or suites one by one"),
    ("N06", "warning", "the seed is one that the suite prescribes",
     "run the prescribed seeds, or declare this one: l2bench submission build --extra-seed"),
    # Scores
    ("X01", "error", "the stored scores are what the tables give", _RESCORE),
    ("X02", "error", "the numbers stated are what the runs give", _BUILD),
    ("X03", "error", "only metrics that have a value are stated", _BUILD),
    ("X04", "warning", "the scores were made by this version of the metrics",
     "the recomputed values are shown"),
    # Plausibility
    ("Q01", "error", "every value is possible: within its range and agreeing with the others",
     _RERUN),
    ("Q02", "error", "times run forwards and add up", _RERUN),
    ("Q03", "error", "lifetimes of different seeds are different", "run every seed"),
    ("Q04", "warning", "episodes of different seeds differ", _LOOK),
    ("Q05", "error", "rows are not those of another submission", "submit runs of your own"),
    ("Q06", "warning", "the policy kept is the earliest best of its curve", _LOOK),
    ("Q07", "warning", "not every episode has the best possible score", _LOOK),
    ("Q08", "warning", "all parts of the run had the same software", _LOOK),
    ("Q09", "warning", "steps take a possible time", _LOOK),
    ("Q10", "warning", "the episodes of an evaluation start from different initial states", _LOOK),
    ("Q11", "warning", "episodes are cut short by the suite's horizon, not by another",
     "make the environment's own limit at least the horizon"),
    ("Q12", "warning", "every episode has a score", _LOOK),
    ("Q13", "warning", "environments start alike from one seed", _LOOK),
    # Submissions
    ("L01", "error", "folder, submission.json and runs name the same things", _BUILD),
    ("L02", "error", "a submission has runs", "run the suite, then: l2bench submission build"),
    ("L03", "error", "addresses begin with http:// or https://", "give a full web address"),
    ("L04", "error", "files stay within the board's limits of size", "leave attachments out"),
    ("L05", "error", "a contribution changes one submission's folder only",
     "propose other changes apart from the submission"),
    ("L06", "error", "accepted submissions stay as they are",
     "submit a new folder and name the old one in supersedes"),
    ("L07", "error", "submission.json is valid, and its texts are not blank",
     "correct it, or make the submission anew with: l2bench submission build"),
    ("L08", "error", "the files of a submission are those that it lists", _BUILD),
)  # fmt: skip

RULES: Mapping[str, Rule] = {row[0]: Rule(*row) for row in _TABLE}
