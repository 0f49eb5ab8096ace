"""Faults seen in comparable systems: each has a test that names it, or a reason why it has none."""

from __future__ import annotations

import re

from support import ROOT

#: The numbers of each group; gaps in them are intended.
FAULTS = {
    "INS": (1, 2, 3, 5, 6, 7, 8),
    "REN": (1, 2, 3, 5, 6, 7, 8),
    "DAT": (1, 2, 3, 5, 6, 8, 9, 10),
    "SEED": (1, 2, 3, 5, 6, 7, 8, 9),
    "EVAL": (1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16),
    "MET": (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 21, 22, 23, 24, 25),
    "PAR": (1, 2, 3, 4, 6, 7, 8, 9, 10),
    "RES": (1, 3, 4, 6, 7, 8, 9),
    "LOG": (1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13),
    "SUB": (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 14, 15, 16),
    "CFG": (1, 2, 3, 4, 5, 6, 7, 8, 9, 11),
    "PLG": (1, 2, 3, 4, 5, 6, 7),
    "MEM": (1, 2, 3, 4),
    "STA": (1, 2, 3, 4, 5, 7, 8, 9),
}

#: Faults that cannot occur here, and why.
NOT_APPLICABLE: dict[str, str] = {}

IDS = {f"{group}-{number:02d}" for group, numbers in FAULTS.items() for number in numbers}
NAMED = re.compile(r"(?<![A-Za-z])([A-Z]{3,4})[-_](\d\d)(?!\d)", re.IGNORECASE)


def named() -> dict[str, set[str]]:
    """Return the faults that test files name in a docstring or a test's name, and where."""
    found: dict[str, set[str]] = {}
    folders = [ROOT / "tests", *(ROOT / "plugins").glob("*/tests")]
    for path in (path for folder in folders for path in folder.rglob("*")):
        if path.suffix not in (".py", ".sh") or path.name == "test_field_log.py":
            continue
        for group, number in NAMED.findall(path.read_text(encoding="utf-8").replace("_and_", "_")):
            found.setdefault(f"{group.upper()}-{number}", set()).add(path.name)
    return found


def test_every_fault_is_named_by_a_test():
    missing = IDS - named().keys() - NOT_APPLICABLE.keys()
    assert not missing, f"no test names {', '.join(sorted(missing))}"


def test_what_is_named_is_a_fault_that_is_listed():
    groups = set(FAULTS)
    unknown = {id for id in named() if id.split("-")[0] in groups} - IDS
    assert not unknown, f"tests name faults that are not listed: {', '.join(sorted(unknown))}"


def test_what_has_a_test_needs_no_reason():
    assert not NOT_APPLICABLE.keys() & named().keys()
    assert NOT_APPLICABLE.keys() <= IDS
    assert all(len(reason.split()) > 5 for reason in NOT_APPLICABLE.values())
