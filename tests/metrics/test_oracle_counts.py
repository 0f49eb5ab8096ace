"""All stored results are accounted for: each file is read by one test module, and none is left."""

import re
from pathlib import Path

import pytest
from metrics.builders import read_json
from metrics.oracle import ORACLE, rows

#: Which test module compares with the files under a path.
READERS = {
    "l2m/cases/": "test_l2m_oracle.py",
    "l2m/example": "test_l2m_oracle.py",
    "l2m/functions.json": "test_l2m_functions.py",
    "libero/": "test_libero.py",
    "kemker/": "test_kemker.py",
    "gem/": "test_gem.py",
    "continual_world/": "test_continual_world.py",
    "network_properties/": "test_plasticity.py",
    "run_aggregates/": "test_aggregates.py",
}


def results(path):
    """How many results a file or folder holds."""
    if path.is_dir():
        name = "expected.json" if (path / "expected.json").exists() else "expected.json.gz"
        return len(read_json(path / name)["results"])
    data = read_json(path)
    if "cases" in data:
        return len(data["cases"])
    return sum(len(values) for key, values in data.items() if key != "source")


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["path"])
def test_the_index_counts_what_is_there(row):
    assert results(ORACLE / row["path"]) == int(row["results"])


def test_every_result_has_a_reader():
    counted = dict.fromkeys(READERS, 0)
    for row in rows():
        (prefix,) = [prefix for prefix in READERS if row["path"].startswith(prefix)]
        counted[prefix] += int(row["results"])
    assert list(counted.values()) == [640, 48, 124, 23, 10, 10, 11, 10, 6]
    assert sum(counted.values()) == 882
    for prefix, module in READERS.items():
        text = (Path(__file__).parent / module).read_text()
        family = prefix.split("/")[0]
        assert re.search(rf'["/]{family}["/]', text), f"{module} does not read {prefix}"


def test_nothing_is_stored_beside_the_index():
    """Cases are folders under l2m/cases; everything else is a file with its own row."""
    indexed = {row["path"] for row in rows()}
    stored = {
        path.relative_to(ORACLE).as_posix()
        for path in [*ORACLE.glob("*/*.json"), *ORACLE.glob("l2m/cases/*"), ORACLE / "l2m/example"]
    }
    assert stored == indexed
