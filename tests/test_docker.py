"""The Dockerfile names what is there: files, packages, and a user who may write."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from support import ROOT

TEXT = (ROOT / "Dockerfile").read_text()
STEPS = [
    line.split(maxsplit=1)
    for line in re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", TEXT, flags=re.M)).splitlines()
    if line.strip()
]
IGNORED = (ROOT / ".dockerignore").read_text().split()


def steps(kind: str) -> list[str]:
    return [rest for name, rest in STEPS if name == kind]


def commands() -> list[list[str]]:
    return [shlex.split(part) for step in steps("RUN") for part in step.split("&&")]


def pip() -> list[str]:
    (words,) = [words for words in commands() if words[:2] == ["pip", "install"]]
    return words[2:]


def copied(path: str) -> Path:
    """Return a file or folder of the repository that gets into the image."""
    parts = Path(path).parts
    for pattern in IGNORED:
        assert not any(fnmatch(part, pattern.removeprefix("**/")) for part in parts), path
    assert (ROOT / path).exists(), path
    return ROOT / path


def test_what_is_copied_is_there():
    assert steps("COPY") == [". ."]
    for step in steps("COPY"):
        *sources, _ = step.split()
        for source in sources:
            copied(source)


def test_what_is_installed_is_there_and_needs_nothing_else_of_the_repository():
    words = pip()
    constraints = copied(words[words.index("-c") + 1])
    names = [tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]]
    wanted = []
    for word in words:
        if word.startswith((".", "./")):
            folder = copied(word.partition("[")[0])
            project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
            extras = re.findall(r"\[(.*)\]", word)
            assert set(extras) <= project.get("optional-dependencies", {}).keys()
            names.append(project["name"])
            wanted += project["dependencies"]
    assert {name for name in wanted if name.startswith("l2bench")} <= set(names)
    for line in constraints.read_text().splitlines():
        if line.startswith("-c "):
            copied(str((constraints.parent / line[3:]).resolve().relative_to(ROOT)))
    assert {"l2bench", "l2bench-agents", "l2bench-libero"} == set(names)


@pytest.mark.parametrize("name", [".git", "l2bench-data", "runs", ".venv", "l2bench/__pycache__"])
def test_what_is_large_or_private_stays_out(name):
    with pytest.raises(AssertionError):
        copied(name)


def debian_packages() -> list[str]:
    (words,) = [words for words in commands() if words[:2] == ["apt-get", "install"]]
    return [word for word in words[2:] if not word.startswith("-")]


def known_to_apt(names: list[str]) -> set[str]:
    """Return the packages that apt could install, all of them where apt is not Debian 12's."""
    release = Path("/etc/os-release")
    same = release.is_file() and "VERSION_CODENAME=bookworm" in release.read_text()
    lists = list(Path("/var/lib/apt/lists").glob("*_Packages*"))
    if not (same and lists and shutil.which("apt-cache")):
        return set(names)
    done = subprocess.run(["apt-cache", "policy", *names], capture_output=True, text=True)
    found = re.findall(r"^(\S+):\n.*\n  Candidate: (?!\(none\))", done.stdout, re.M)
    return set(found)


def test_packages_of_the_base_image_are_debians():
    assert steps("FROM") == ["python:3.11-slim-bookworm"]
    names = debian_packages()
    assert {"libegl1", "libosmesa6"} <= set(names)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", name) for name in names)
    assert set(names) - known_to_apt(names) == set()


def test_egl_finds_the_driver_of_the_host():
    (words,) = [words for words in commands() if words[:1] == ["printf"]]
    assert json.loads(words[2])["ICD"] == {"library_path": "libEGL_nvidia.so.0"}
    assert words[-1] == "/usr/share/glvnd/egl_vendor.d/10_nvidia.json"
    variables = dict(part.split("=", 1) for step in steps("ENV") for part in step.split())
    assert "graphics" in variables["NVIDIA_DRIVER_CAPABILITIES"].split(",")
    assert variables["MUJOCO_GL"] == "egl"


def test_it_runs_the_command_as_somebody_who_may_write_where_it_starts():
    assert steps("ENTRYPOINT") == ['["l2bench"]']
    (user,) = steps("USER")
    assert user not in ("root", "0")
    assert ["install", "-d", "-o", user, steps("WORKDIR")[-1]] in commands()
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert "l2bench" in scripts
