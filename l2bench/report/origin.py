"""Where a report's numbers come from: header, warnings, cost, and what a rerun needs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from l2bench.bundle.reader import Bundle
from l2bench.deviations import flat
from l2bench.metrics.statistics import FEW, MINIMUM_FOR_INTERVAL
from l2bench.report.text import byte_size, count, listing, of_seeds, plural, shorten

#: A longer command line is not shown.
LONGEST_COMMAND = 4000

#: Values and their names, in the order in which they are shown.
Facts = list[tuple[str, str]]


def header(bundles: Sequence[Bundle], summary: Mapping[str, Any]) -> Facts:
    """Return what was run: agent, suite, seeds, division and coverage."""
    manifest, suite = bundles[0].manifest, bundles[0].suite
    counts = [bundle.manifest.counts for bundle in bundles]
    blocks = sum(c.blocks_sealed for c in counts), sum(c.blocks_planned for c in counts)
    episodes = sum(c.episodes_done for c in counts), sum(c.episodes_planned for c in counts)
    changes = deviations(bundles)
    division = sorted({bundle.manifest.suite.division for bundle in bundles})
    coverage = [
        f"{len(bundles)} of {plural(len(suite.seeds), 'lifetime')}",
        f"{count(blocks[0])} of {plural(blocks[1], 'block')}",
    ]
    if episodes[1]:
        coverage.append(f"{count(episodes[0])} of {plural(episodes[1], 'evaluation episode')}")
    facts = [
        ("Agent", f"{shorten(manifest.agent.name)} {shorten(manifest.agent.version, 40)}".strip()),
        ("Suite", f"{suite.id} {shorten(suite.version, 40)}"),
        ("Suite hash", short_hash(manifest.suite.suite_hash)),
        ("Seeds", listing(summary["seeds"])),
        ("Division", " and ".join(division)),
        ("Coverage", ", ".join(coverage)),
    ]
    if changes:
        facts.insert(5, ("Deviations", listing(map(shorten, changes), 20)))
    return facts


def deviations(bundles: Iterable[Bundle]) -> list[str]:
    """Return the keys in which the suite that was run differs from the suite of that name."""
    return sorted({key for bundle in bundles for key in bundle.manifest.suite.deviations})


def short_hash(digest: str) -> str:
    """Return the beginning of a digest, enough to tell suites apart by eye."""
    head, _, tail = shorten(digest).rpartition(":")
    return f"{head}:{tail[:12]}" if head else tail[:12]


def warnings(bundles: Sequence[Bundle]) -> list[str]:
    """Return what a reader should know before believing the numbers, one sentence each."""
    found = []
    suite, manifests = bundles[0].suite, [bundle.manifest for bundle in bundles]
    missing = sorted(set(suite.seeds) - {m.seed.lifetime for m in manifests})
    if missing and not imported(bundles):
        found.append(f"Lifetimes of the suite that are missing here: {of_seeds(missing)}.")
    if len(bundles) < MINIMUM_FOR_INTERVAL:
        found.append(
            f"{plural(len(bundles), 'lifetime')}: below {MINIMUM_FOR_INTERVAL} no interval is "
            f"given, only the points."
        )
    elif len(bundles) < FEW:
        found.append(
            f"{plural(len(bundles), 'lifetime')}: so few say little of their spread, and their "
            f"intervals are wide; {FEW} or more are better."
        )
    if kinds := imported(bundles):
        found.append(
            f"Imported from {kinds}: shown as reported, not to be ranked beside runs of L2bench."
        )
    elif any(m.suite.division == "open" for m in manifests):
        found.append(
            "Open division: the suite was run with changes; do not rank beside unchanged runs."
        )
    if any(m.fidelity == "aggregate" for m in manifests):
        found.append("Some numbers were imported as aggregates; there are no raw rows behind them.")
    found += _zero_shot(bundles)
    found += _growth(bundles)
    discarded = sum(m.counts.discarded_attempts for m in manifests)
    if discarded:
        were = "was" if discarded == 1 else "were"
        found.append(f"{plural(discarded, 'attempt')} at a block {were} discarded and repeated.")
    versions = sorted({m.l2bench.version for m in manifests})
    if len(versions) > 1:
        found.append(f"The lifetimes were run by different releases: {listing(versions)}.")
    for text in dict.fromkeys(str(w) for b in bundles for w in b.scores.get("warnings", ())):
        seeds = [b.manifest.seed.lifetime for b in bundles if text in b.scores.get("warnings", ())]
        where = "" if len(seeds) == len(bundles) else f" ({of_seeds(seeds)})"
        found.append(f"{shorten(text, 400)}{where}")
    return found


def _zero_shot(bundles: Sequence[Bundle]) -> list[str]:
    """Say where an agent was trained before its life, but not for this suite."""
    told = [segment.agent.get("trained_on") for b in bundles for segment in b.provenance.segments]
    names = sorted({str(name) for each in told if isinstance(each, list) for name in each})
    suite = bundles[0].suite.id
    if not names or suite in names:
        return []
    return [
        f"Zero-shot: before its life the agent was trained on {listing(map(shorten, names), 20)}, "
        f"not on {suite}."
    ]


def _growth(bundles: Sequence[Bundle]) -> list[str]:
    """Say where the memory kept growing to a lifetime's end."""
    found = []
    for bundle in bundles:
        blocks = bundle.lifetime.blocks
        known = "peak_memory_bytes" in blocks.column_names
        peaks = [v for v in blocks["peak_memory_bytes"].to_pylist() if v] if known else []
        if slope := memory_slope(peaks):
            found.append(
                f"Memory grew by about {byte_size(round(slope))} a block to the end of seed "
                f"{bundle.manifest.seed.lifetime}; if a simulator leaks, set execution.recycle."
            )
    return found


def memory_slope(peaks: Sequence[int]) -> float | None:
    """Return by how many bytes a block the peak memory grew, None where it came to rest.

    It is the mean over the last half of the blocks, and told if it adds up to 64 MiB or more,
    and both quarters of these blocks have a share of it.
    """
    half = peaks[len(peaks) // 2 :]
    if len(half) < 4:
        return None
    first, middle, last = half[0], half[len(half) // 2], half[-1]
    if last - first < 1 << 26 or min(middle - first, last - middle) < (last - first) / 4:
        return None
    return (last - first) / (len(half) - 1)


def imported(bundles: Sequence[Bundle]) -> str | None:
    """Return the kinds of sources that lifetimes were imported from, if any were."""
    kinds = sorted({b.manifest.source.kind for b in bundles if b.manifest.source})
    return listing(kinds) if kinds else None


def provenance(bundles: Sequence[Bundle]) -> list[tuple[str, Facts]]:
    """Return groups of facts for a rerun; what differs between lifetimes names its seeds."""
    groups = [
        ("Software", _merged(bundles, _software)),
        ("Plugins", _merged(bundles, _plugins)),
        ("Simulators and environments", _merged(bundles, _environments)),
        ("Agent settings", _merged(bundles, lambda b: [_flat(b.agent.settings)])),
        ("Agent, as it ran", _merged(bundles, lambda b: _segments(b, "agent"))),
        ("Execution", _merged(bundles, lambda b: _segments(b, "execution"))),
        ("Data", _merged(bundles, lambda b: _segments(b, "data"))),
        ("Metric sets", _merged(bundles, _metric_sets)),
        ("Import", _merged(bundles, _sources)),
    ]
    return [(title, facts) for title, facts in groups if facts]


def digests(bundles: Sequence[Bundle]) -> list[tuple[str, Facts]]:
    """Return the digests of suite, agent, and the tables of each lifetime."""
    manifest = bundles[0].manifest
    shared = [
        ("suite", manifest.suite.suite_hash),
        ("agent", manifest.agent.agent_hash),
        ("seed derivation", manifest.seed.derivation),
    ]
    groups = [("Suite and agent", [(name, shorten(text)) for name, text in shared])]
    for bundle in bundles:
        tables = [
            (f"{shorten(name, 60)}, {plural(ref.rows, 'row')}", shorten(ref.content_sha256))
            for name, ref in sorted(bundle.manifest.tables.items())
        ]
        facts = [
            ("bundle", shorten(bundle.folder.name)),
            ("id", shorten(bundle.manifest.bundle_id)),
        ]
        groups.append((f"Seed {bundle.manifest.seed.lifetime}", facts + tables))
    return groups


def rerun(bundles: Sequence[Bundle]) -> list[str] | None:
    """Return the commands that run the same agent on the same suite and seeds.

    They start from the resolved suite that every bundle holds, so that nothing is left to names
    and overrides. None where they are longer than anyone would copy.
    """
    card, suite = bundles[0].agent, bundles[0].suite
    words = ["l2bench", "run", "rerun.yaml", f"agent={card.name}"]
    words += [f"agent.settings.{key}={_value(value)}" for key, value in flat(card.settings).items()]
    seeds = sorted(bundle.manifest.seed.lifetime for bundle in bundles)
    if seeds != sorted(suite.seeds):
        words.append(f"execution.seeds={_value(seeds)}")
    copy = shlex.join(["cp", f"{bundles[0].folder.name}/suite.json", "rerun.yaml"])
    commands = [copy, shlex.join([*words, "-o", "rerun"])]
    return commands if sum(map(len, commands)) <= LONGEST_COMMAND else None


def _value(value: object) -> str:
    """Return a setting as an override's value."""
    if isinstance(value, str) and value.replace("_", "").replace("-", "").isalnum():
        return value
    return json.dumps(value, separators=(",", ":"))


def _software(bundle: Bundle) -> Iterable[Mapping[str, str]]:
    for segment in bundle.provenance.segments:
        yield {
            "l2bench": bundle.manifest.l2bench.version,
            "Python": segment.python,
            "platform": segment.platform,
            "CPU cores": str(segment.cpus),
            **segment.packages,
        }


def _plugins(bundle: Bundle) -> Iterable[Mapping[str, str]]:
    yield {
        f"{plugin.kind.replace('_', ' ')} {plugin.name}": f"{plugin.distribution} {plugin.version}"
        for plugin in bundle.manifest.plugins
    }


def _environments(bundle: Bundle) -> Iterable[Mapping[str, str]]:
    for segment in bundle.provenance.segments:
        yield _flat(segment.environments)


def _sources(bundle: Bundle) -> Iterable[Mapping[str, str]]:
    source = bundle.manifest.source
    if source is not None:
        yield {"kind": source.kind, **_flat(source.settings)}


def _metric_sets(bundle: Bundle) -> Iterable[Mapping[str, str]]:
    """Yield each set's version, and the settings it scored by as ``--setting`` names them."""
    for found in bundle.scores.get("scorer", {}).get("metric_sets", ()):
        name, settings = found["name"], found["settings"]
        known = {key: value for key, value in settings.items() if value is not None}
        yield {name: found["version"], **_flat({name: known} if known else {})}


def _segments(bundle: Bundle, part: str) -> Iterable[Mapping[str, str]]:
    for segment in bundle.provenance.segments:
        yield _flat(getattr(segment, part))


def _flat(data: Mapping[str, Any]) -> dict[str, str]:
    """Return nested settings as dotted keys with their values as text."""
    return {
        key: value if isinstance(value, str) else _shown(value) for key, value in flat(data).items()
    }


def _shown(value: object) -> str:
    return "none" if value == {} else json.dumps(value, ensure_ascii=False)


def _merged(
    bundles: Sequence[Bundle], read: Callable[[Bundle], Iterable[Mapping[str, str]]]
) -> Facts:
    """Return each key with its value; where lifetimes differ, every value with its seeds."""
    found: dict[str, dict[str, dict[int, None]]] = {}
    for bundle in bundles:
        for facts in read(bundle):
            for key, value in facts.items():
                seeds = found.setdefault(key, {}).setdefault(value, {})
                seeds[bundle.manifest.seed.lifetime] = None
    merged = []
    for key, values in found.items():
        texts = [
            shorten(value, 400) + (f" ({of_seeds(seeds)})" if len(values) > 1 else "")
            for value, seeds in values.items()
        ]
        merged.append((shorten(key), "; ".join(texts)))
    return merged
