"""Every command block of the README and docs/ is run, and every file they link to is there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: Commands that set up a whole machine: run by .ci/run, checked here for existing.
SETUP = {"make quickstart", "make test"}
#: What takes minutes to hours is run with its smoke profile.
LONG = ("l2bench run libero",)


def commands(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [line for block in BLOCK.findall(text) for line in block.splitlines() if line.strip()]


def needs_simulator(command: str) -> bool:
    return command.startswith(LONG) or "l2bench-libero" in command


CASES = [
    pytest.param(
        page, marks=[pytest.mark.sim, pytest.mark.timeout(1500)]
        if any(needs_simulator(c) for c in commands(page)) else [pytest.mark.timeout(300)],
        id=page.name,
    )
    for page in PAGES
    if commands(page)
]  # fmt: skip


@pytest.mark.parametrize("page", CASES)
def test_the_commands_of_a_page_run(page, tmp_path):
    """LOG-05: in page order, in one folder, as a reader would."""
    write_suite(page, tmp_path)
    paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(paths)}
    for command in commands(page):
        if command in SETUP:
            dry = subprocess.run(["make", "-n", command.split()[1]], cwd=ROOT, capture_output=True)
            assert dry.returncode == 0, command
            continue
        words = shlex.split(command)
        where = tmp_path
        if words[:1] == ["python"]:
            where = ROOT
        if command.startswith(LONG) and "profile=smoke" not in words:
            words.append("profile=smoke")
        done = subprocess.run(words, cwd=where, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def write_suite(page: Path, folder: Path) -> None:
    """Save the suite that a page shows under the name its commands use."""
    shown = re.search(r"^```yaml\n(id: (\w+).*?)^```$", page.read_text(), re.M | re.S)
    if shown:
        (folder / f"{shown[2]}.yaml").write_text(shown[1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_python_shown_in_the_docs_is_python():
    for page in PAGES:
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S):
            compile(block, page.name, "exec")


def test_every_hook_is_in_the_docs():
    from l2bench.plugins import KINDS

    text = (ROOT / "docs" / "plugins.md").read_text()
    for kind in KINDS:
        assert f"`l2bench_{kind}`" in text


def test_the_plugin_page_shows_the_plugin_that_is_tested():
    from test_plugins import PLUGIN

    text = (ROOT / "docs" / "plugins.md").read_text()
    for line in PLUGIN.splitlines():
        if line.startswith(("class ", "    def ", "        ")) and "Path" not in line:
            assert line in text, line
