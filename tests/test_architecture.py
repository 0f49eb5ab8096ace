"""The shape of the code: imports point down one list, files stay small, one home for each thing."""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path

import pytest
from support import ROOT

#: Each module may import those above it only (and its own package).
ORDER = (
    "errors", "limits", "seeding", "suite", "deviations", "scenario", "environment", "actions",
    "lesson", "interaction", "batches", "agent", "hookspecs", "plugins", "bundle", "metrics",
    "scoring", "conditions", "comparison", "outcomes", "difference", "experts", "interop", "check",
    "cast", "probing", "evaluation", "bookkeeping", "runner", "records", "lifetimes",
    "verification", "calibration", "report", "leaderboard", "testing", "builtin", "cli", "__main__",
)  # fmt: skip
PURE = ("bundle", "metrics", "scoring", "interop", "check", "report", "leaderboard")
FORBIDDEN = {"gymnasium", "hydra", "torch", "omegaconf", "mujoco"}

SOURCES = sorted((ROOT / "l2bench").rglob("*.py"))


def layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{a.name}" if node.module == "l2bench" else node.module or ""
                      for a in node.names]  # fmt: skip
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down_the_list(path):
    own = path.relative_to(ROOT / "l2bench").parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for module in imports(path):
        if module.split(".")[0] != "l2bench":
            continue
        target = layer(module)
        if target in ("", "__version__", own):
            continue
        assert ORDER.index(target) < ORDER.index(own), f"{own} imports {module}"


@pytest.mark.parametrize("package", PURE)
def test_what_scores_needs_no_simulator_and_no_torch(package):
    files = [p for p in SOURCES if p.relative_to(ROOT / "l2bench").parts[0].startswith(package)]
    assert files
    for path in files:
        heavy = {module.split(".")[0] for module in imports(path)} & FORBIDDEN
        assert not heavy, f"{path.name} imports {heavy}"


def test_hydra_lives_in_the_command_line_alone():
    for path in SOURCES:
        if {module.split(".")[0] for module in imports(path)} & {"hydra", "omegaconf"}:
            assert path.parent.name == "cli", path


def test_files_stay_small():
    for path in [*SOURCES, *(ROOT / "plugins").glob("*/l2bench_*/**/*.py")]:
        assert len(path.read_text().splitlines()) <= 400, path


def test_make_clean_leaves_nothing_that_make_has_made(tmp_path):
    made = (".venv", ".venv-board", "site", "runs", "dist", "build")
    for name in (*made, "l2bench"):
        (tmp_path / name / "inside").mkdir(parents=True)
    makefile = ROOT / "Makefile"
    command = ["make", "-s", "-C", str(tmp_path), "-f", str(makefile), "clean"]
    subprocess.run(command, check=True, env={"PATH": os.environ["PATH"]})
    assert [path.name for path in tmp_path.iterdir()] == ["l2bench"]


def test_builtins_are_named_by_string():
    core = [p for p in SOURCES if "builtin" not in p.parts]
    for path in core:
        assert not [module for module in imports(path) if module.startswith("l2bench.builtin")], (
            path
        )
