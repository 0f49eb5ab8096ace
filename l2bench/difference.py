"""Where two bundles part: the first row that differs, and what that does to the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from l2bench.bundle.reader import Bundle
from l2bench.bundle.store import VOLATILE
from l2bench.bundle.tables import KEYS, plain
from l2bench.deviations import differences, flat

#: Within a block, what happens first comes first.
TABLES = ("learning", "series", "episodes", "cells", "blocks")

_KEY = "__key"


def difference(
    first: Bundle, second: Bundle, scores: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return where two bundles part, as plain data.

    ``scores`` are the scores of the two, in the same order. ``identical`` tells whether all rows
    are equal, wall times and attempts aside; ``parts_at`` is the earliest row that differs, by
    block; ``tables`` tells how many rows of each table differ, and in which columns; ``metrics``
    lists the values that changed; ``conditions`` what else differs: settings, versions, seeds.
    """
    tables = {}
    for name in TABLES:
        pair = [_rows(bundle, name) for bundle in (first, second)]
        if pair[0] is not None and pair[1] is not None:
            tables[name] = _compare(name, pair[0], pair[1])
    parted = [{"table": name, **found["first"]} for name, found in tables.items() if found["first"]]
    return {
        "bundles": [first.folder.name, second.folder.name],
        "identical": not parted,
        "parts_at": min(parted, key=lambda row: row["block"], default=None),
        "tables": tables,
        "metrics": _metrics(scores[0], scores[1]),
        "conditions": _conditions(first, second),
    }


def _rows(bundle: Bundle, name: str) -> pa.Table | None:
    if name not in bundle.manifest.tables:
        return None
    return bundle.series if name == "series" else getattr(bundle.lifetime, name)


def _compare(name: str, first: pa.Table, second: pa.Table) -> dict[str, Any]:
    """Return how many rows differ, in which columns, and the first of them."""
    keys = list(KEYS[name])
    values = [
        column
        for column in dict.fromkeys([*first.column_names, *second.column_names])
        if column not in VOLATILE and column not in keys
    ]
    shared = [c for c in values if c in first.column_names and c in second.column_names]
    both = _numbered(first, keys, shared).join(
        _numbered(second, keys, shared),
        keys=[*keys, _KEY],
        join_type="full outer",
        right_suffix="__second",
    )
    both = both.sort_by([(key, "ascending") for key in [*keys, _KEY]]).combine_chunks()
    differs = {c: _differs(both[c], both[f"{c}__second"]) for c in shared}
    missing = pc.or_(pc.is_null(both["__there"]), pc.is_null(both["__there__second"]))
    unequal = missing
    for each in differs.values():
        unequal = pc.or_(unequal, each)
    counts = {c: pc.sum(each).as_py() or 0 for c, each in differs.items()}
    return {
        "rows": [first.num_rows, second.num_rows],
        "differing_rows": pc.sum(unequal).as_py() or 0,
        "differing_columns": {c: n for c, n in counts.items() if n},
        "only_in_one": [c for c in values if c not in shared],
        "first": _first(both, unequal, differs, keys),
    }


def _numbered(data: pa.Table, keys: Sequence[str], values: Sequence[str]) -> pa.Table:
    """Return a table fit for joining: plain types, and repeated keys told apart by a number."""
    chosen = {c: data[c].cast(plain(data[c].type)).combine_chunks() for c in [*keys, *values]}
    ordered = pa.table(chosen).sort_by([(key, "ascending") for key in keys])
    place = np.arange(ordered.num_rows)
    fresh = np.ones(ordered.num_rows, dtype=bool)
    fresh[1:] = False
    for key in keys:
        own = ordered[key].to_numpy()
        fresh[1:] |= own[1:] != own[:-1]
    number = place - np.maximum.accumulate(np.where(fresh, place, 0))
    there = pa.array(np.ones(ordered.num_rows, dtype=bool))
    return ordered.append_column(_KEY, pa.array(number)).append_column("__there", there)


def _differs(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whether values differ; null equals null, and NaN equals NaN."""
    same = pc.fill_null(pc.equal(first, second), False)
    same = pc.or_(same, pc.and_(pc.is_null(first), pc.is_null(second)))
    if pa.types.is_floating(first.type):
        nan = pc.and_(pc.is_nan(first), pc.is_nan(second))
        same = pc.or_(same, pc.fill_null(nan, False))
    return pc.invert(same)


def _first(
    both: pa.Table, unequal: pa.ChunkedArray, differs: Mapping[str, Any], keys: Sequence[str]
) -> dict[str, Any] | None:
    at = pc.index(unequal, True).as_py()
    if at < 0:
        return None
    row = both.slice(at, 1).to_pylist()[0]
    there = [bool(row["__there"]), bool(row["__there__second"])]
    parted = [c for c in differs if differs[c][at].as_py()] if all(there) else []
    blocks = [row.get("block_index"), row.get("block_index__second")]
    return {
        "block": min(block for block in blocks if block is not None),
        "key": {key: row[key] for key in keys},
        "there": there,
        "values": {c: [row[c], row[f"{c}__second"]] for c in parted},
    }


def _metrics(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that changed, and how many did not."""
    named = [
        {(entry["id"], entry["task"], entry["source"]): entry for entry in scores["metrics"]}
        for scores in (first, second)
    ]
    changed, same = [], 0
    for key in dict.fromkeys([*named[0], *named[1]]):
        values = [side[key]["value"] if key in side else None for side in named]
        if values[0] == values[1]:
            same += 1
            continue
        known = [value for value in values if value is not None]
        entry = named[0].get(key) or named[1][key]
        changed.append(
            {
                "id": key[0],
                "task": key[1],
                "source": key[2],
                "headline": entry["headline"],
                "values": values,
                "change": known[1] - known[0] if len(known) == 2 else None,
            }
        )
    return {"changed": changed, "unchanged": same}


def _conditions(first: Bundle, second: Bundle) -> dict[str, list[Any]]:
    """Return what differs beside the rows, by dotted key: [first's value, second's value]."""
    found: dict[str, list[Any]] = {}
    sides = [flat(_facts(bundle)) for bundle in (first, second)]
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        values = [side.get(key) for side in sides]
        if values[0] != values[1]:
            found[key] = values
    suites = [bundle.suite for bundle in (first, second)]
    keys = differences(suites[0], suites[1])
    return {**({"suite": list(keys)} if keys else {}), **found}


def _facts(bundle: Bundle) -> dict[str, Any]:
    segments = bundle.provenance.segments
    last = segments[-1].model_dump(mode="json") if segments else {}
    return {
        "seed": bundle.manifest.seed.lifetime,
        "l2bench": bundle.manifest.l2bench.version,
        "agent": bundle.agent.model_dump(mode="json"),
        "conditions": {key: last[key] for key in last if key not in ("started_at", "data")},
    }
