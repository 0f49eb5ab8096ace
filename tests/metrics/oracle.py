"""Readers of the stored cases, and exact comparison with them."""

import csv
import json
import math
from pathlib import Path

ORACLE = Path(__file__).parents[1] / "oracle"


def cases(family):
    return json.loads((ORACLE / family / "cases.json").read_text())["cases"]


def rows():
    with (ORACLE / "index.tsv").open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def indexed(path):
    """How many results the index gives a file."""
    return next(int(row["results"]) for row in rows() if row["path"] == path)


def numbers(values):
    """The numbers of metric values, None where undefined."""
    return [value.value for value in values]


def same(found, expected, tolerance=1e-12):
    """Numbers within an absolute tolerance; null and stored infinities are undefined."""
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other, tolerance)
    elif expected is None or isinstance(expected, str):
        assert found is None or math.isnan(found)
    else:
        assert abs(found - expected) <= tolerance
