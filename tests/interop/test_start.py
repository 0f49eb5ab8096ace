"""What a score must not wait for: modules that it does not need are not imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from interop.builders import l2logger_folder, log_rows

SCORE = """
import json, sys
from l2bench.cli.main import invoke
code = invoke(["score", *sys.argv[1:], "--json"])
print(json.dumps({"code": code, "modules": sorted(sys.modules)}))
"""
BLOCKS = (("E", "a_1", [0.1]), ("L", "a_1", [0.5, 1]), ("E", "a_1", [1]), ("E", "b_1", [0.5]))
NEVER = {"gymnasium", "hydra", "jinja2", "rich", "torch", "numpy.random", "l2bench_agents"}


def modules_of(*arguments: object) -> set[str]:
    """The modules that a score in a process of its own has imported."""
    command = [sys.executable, "-c", SCORE, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["code"] == 0, done.stderr
    assert "l2bench.metrics.l2m" in found["modules"]
    return set(found["modules"])


def test_a_log_is_scored_without_what_only_others_need(tmp_path: Path):
    folder = l2logger_folder(tmp_path / "log", log_rows(*BLOCKS))
    found = modules_of(folder)
    assert not found & (NEVER | {"pyarrow.compute", "pyarrow.parquet", "pyarrow.dataset"})
    readers = {name for name in found if name.startswith("l2bench.interop.")}
    assert "l2bench.interop.l2logger" in readers
    assert not readers & {f"l2bench.interop.{kind}" for kind in ("libero", "matrix", "avalanche")}


def test_a_bundle_is_scored_without_what_only_others_need(cli, tmp_path: Path):
    folder = l2logger_folder(tmp_path / "log", log_rows(*BLOCKS))
    assert cli("import", "l2logger", folder, "-o", tmp_path / "log.l2b")[0] == 0
    found = modules_of(tmp_path / "log.l2b")
    assert not found & (NEVER | {"pyarrow.compute", "pyarrow.dataset"})
