"""The suite of a bundle: the one recorded, the one registered, and what deviates from it."""

from __future__ import annotations

from collections.abc import Iterator

from l2bench.check.evidence import Evidence
from l2bench.check.findings import Finding, broken
from l2bench.deviations import differences


def recorded(evidence: Evidence) -> Iterator[Finding]:
    """S01: suite.json is the suite of the manifest."""
    suite, ref = evidence.suite, evidence.manifest.suite
    if suite.hash != ref.suite_hash:
        yield broken(
            "S01",
            "suite.json",
            "not the suite that the manifest records",
            expected=ref.suite_hash,
            found=suite.hash,
        )
    elif (suite.id, suite.version) != (ref.id, ref.version):
        yield broken(
            "S01",
            "suite.json",
            "another id or version than in the manifest",
            expected=[ref.id, ref.version],
            found=[suite.id, suite.version],
        )


def registered(evidence: Evidence) -> Iterator[Finding]:
    """S02, S06: the board knows the suite, and deviations from it are declared."""
    if evidence.board is None or evidence.companion_of is not None:
        return
    ref = evidence.manifest.suite
    entry = evidence.board.registered(ref.id, ref.version)
    if entry is None:
        known = [f"{suite.id} {suite.version}" for suite in evidence.board.files.suites]
        yield broken(
            "S02",
            "suite.json",
            f"the board has no suite {ref.id} {ref.version}",
            expected=known,
            found=f"{ref.id} {ref.version}",
        )
        return
    original = evidence.board.suite(entry)
    differs = set(differences(original, evidence.suite))
    declared = set(ref.deviations) - {"seeds"}
    if evidence.closed and ref.suite_hash != entry.suite_hash:
        yield broken(
            "S02",
            "suite.json",
            f"not {ref.id} {ref.version} as registered; it differs in {', '.join(sorted(differs))}",
            expected=entry.suite_hash,
            found=ref.suite_hash,
        )
    elif not evidence.closed and differs - {"seeds"} != declared:
        yield broken(
            "S06",
            "manifest.json",
            "the deviations declared are not those there are",
            expected=sorted(differs),
            found=sorted(declared),
        )


def prescribed(evidence: Evidence) -> Iterator[Finding]:
    """N06: the seed is one that the suite prescribes, even where the run declares another."""
    ref, seed = evidence.manifest.suite, evidence.manifest.seed.lifetime
    if evidence.imported or evidence.companion_of is not None or seed in evidence.suite.seeds:
        return
    if "seeds" in ref.deviations and not evidence.closed:  # else S06 says more
        yield _odd_seed("N06", evidence)


def _odd_seed(code: str, evidence: Evidence) -> Finding:
    seed, seeds = evidence.manifest.seed.lifetime, list(evidence.suite.seeds)
    text = f"seed {seed} is not one of the suite"
    return broken(code, "manifest.json", text, expected=seeds, found=seed)


def division(evidence: Evidence) -> Iterator[Finding]:
    """S06: closed means no deviations, and a prescribed seed; open means some."""
    if evidence.imported:
        return
    ref, seed = evidence.manifest.suite, evidence.manifest.seed.lifetime
    prescribed = seed in evidence.suite.seeds
    if evidence.closed and ref.deviations:
        yield broken(
            "S06",
            "manifest.json",
            "the closed division allows no deviations",
            expected=[],
            found=list(ref.deviations),
        )
    elif evidence.closed and not prescribed:
        yield _odd_seed("S06", evidence)
    elif not evidence.closed and not ref.deviations:
        yield broken(
            "S06",
            "manifest.json",
            "the open division is for what deviates; nothing does",
            expected="closed",
            found="open",
        )
    elif not prescribed and "seeds" not in ref.deviations:
        yield broken(
            "S06",
            "manifest.json",
            f"seed {seed} is not one of the suite, which is not declared",
            expected="seeds",
            found=list(ref.deviations),
        )
