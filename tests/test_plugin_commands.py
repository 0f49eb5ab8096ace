"""Commands that plugins bring: listed without an import, refused where the name is taken."""

from __future__ import annotations

import subprocess
import sys

import pytest
from test_plugins import entry, toy

from l2bench.cli import foreign, main
from l2bench.plugins import Registry

__all__ = ["toy"]

COMMANDS = "@hookimpl\ndef l2bench_commands():\n    return {names}\n"
GREET = """
import click

@click.group()
def greet():
    "Greet."

@greet.command()
@click.argument("name")
def hello(name):
    "Say hello."
    click.echo(f"hello {name}")
"""


@pytest.fixture
def plugins(toy, monkeypatch):
    """Return a function that installs toy plugins, given as (distribution, commands)."""

    def install(*given: tuple[str, str]) -> None:
        entries = [
            entry(f"toy{i}", toy(f"toy_plugin_{i}", COMMANDS.format(names=names)), distribution)
            for i, (distribution, names) in enumerate(given)
        ]
        monkeypatch.setattr(foreign, "Registry", lambda: Registry(entries))

    return install


def test_a_command_of_a_plugin_is_listed_and_runs(plugins, toy, capsys):
    toy("toy_greet", GREET)
    plugins(("toy-dist", "{'greet': 'toy_greet:greet'}"))
    assert main.invoke(["--help"]) == 0
    out = capsys.readouterr().out
    assert "greet  From toy-dist 1.0." in out
    assert "toy_greet" not in sys.modules
    assert main.invoke(["greet", "hello", "you"]) == 0
    assert capsys.readouterr().out == "hello you\n"
    assert main.invoke(["greet", "hallo"]) == 2


def test_a_name_of_our_own_is_refused(plugins, capsys):
    plugins(("toy-dist", "{'run': 'no_such_module:run'}"))
    main.invoke(["--help"])
    assert "refused: toy-dist 1.0 claims a name of L2bench's own" in capsys.readouterr().out
    assert main.invoke(["run", "--help"]) == 0
    assert "Run SUITE" in capsys.readouterr().out


def test_a_name_that_two_plugins_claim_is_refused_with_both(plugins, capsys):
    plugins(("first-dist", "{'greet': 'a:b'}"), ("second-dist", "{'greet': 'a:b'}"))
    assert main.invoke(["greet"]) == 2
    assert "claimed by first-dist 1.0 and second-dist 1.0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "words"),
    [("no_such_module:x", "cannot be imported"), ("json:dumps", "is function, not a command")],
)
def test_what_is_no_command_is_one_line(plugins, capsys, target, words):
    plugins(("toy-dist", f"{{'greet': '{target}'}}"))
    assert main.invoke(["greet"]) == 3
    assert words in capsys.readouterr().err


def test_an_unknown_command_gets_the_nearest_of_a_plugin(plugins, capsys):
    plugins(("toy-dist", "{'greet': 'a:b'}"))
    assert main.invoke(["gret"]) == 2
    assert "did you mean 'greet'" in capsys.readouterr().err


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom l2bench.cli.main import invoke\ninvoke(['--help'])\n"
        "heavy = {'hydra', 'torch', 'numpy', 'mujoco', 'h5py', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
