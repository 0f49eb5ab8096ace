"""docs/checking.md lists every rule as the registry has it."""

from __future__ import annotations

import re

from support import ROOT

from l2bench.check.codes import RULES

PAGE = ROOT / "docs" / "checking.md"
BETWEEN = re.compile(r"(<!-- rules -->\n).*(<!-- end of rules -->)", re.DOTALL)


def rules_table() -> str:
    lines = ["| code | severity | what is asked |", "| --- | --- | --- |"]
    lines += [f"| {rule.code} | {rule.severity} | {rule.title} |" for rule in RULES.values()]
    return "\n".join(lines) + "\n"


def test_the_page_lists_the_rules_of_the_registry():
    text = PAGE.read_text()
    assert BETWEEN.search(text)
    assert BETWEEN.sub(lambda m: m[1] + rules_table() + m[2], text) == text


def test_codes_are_unique_and_severities_known():
    for code, rule in RULES.items():
        assert re.fullmatch(r"[AMHSPRCNXQLI]\d\d", code) and rule.code == code
        assert rule.severity in ("error", "warning")
        assert rule.title and rule.hint
