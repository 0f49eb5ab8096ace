"""The entry point: commands by name, imported when used, and errors as one line."""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import io
import json
import keyword
import os
import select
import signal
import sys
from typing import Any, NoReturn

import click

from l2bench import __version__
from l2bench.errors import FOREIGN, L2benchError, brief_finalisers

#: Command -> (module, one line for the overview). Modules are imported when a command is used.
COMMANDS = {
    "run": ("l2bench.cli.run", "Run an agent through the lifetimes of a suite."),
    "plan": ("l2bench.cli.plan", "Show the blocks of a suite and what they can measure."),
    "collect": ("l2bench.cli.collect", "Make or check the demonstrations a suite learns from."),
    "score": ("l2bench.cli.score", "Score bundles, or another tool's results, from their rows."),
    "report": ("l2bench.cli.report", "Make a page and a table of bundles or other results."),
    "compare": ("l2bench.cli.compare", "Compare agents on one suite."),
    "verify": ("l2bench.cli.verify", "Do again what a bundle says was done, and compare."),
    "diff": ("l2bench.cli.diff", "Show where two bundles part."),
    "bundle": ("l2bench.cli.bundle", "Look into bundles, pack them, and copy them."),
    "check": ("l2bench.cli.check", "Check bundles and submissions, rule by rule."),
    "submission": ("l2bench.cli.submission", "Make a submission from runs, and check it."),
    "import": ("l2bench.cli.import_", "Make a bundle from another tool's results."),
    "export": ("l2bench.cli.export", "Write bundles for another tool, as CSV or as a table."),
    "leaderboard": ("l2bench.cli.leaderboard", "Keep a leaderboard and build its pages."),
    "plugins": ("l2bench.cli.listing", "List environments, agents and metric sets."),
    "suites": ("l2bench.cli.listing", "List the suites."),
    "doctor": ("l2bench.cli.doctor", "Show what is installed and what is missing."),
}

#: Messages longer than this are cut; names in them may be anything.
LONGEST = 2000

EXIT_CODES = """
Exit codes: 0 ok, 1 failed, 2 usage, 3 unsupported or missing, 4 incomplete, 5 internal error,
130 interrupted.
"""


class LazyGroup(click.Group):
    """A group whose commands are imported only when one of them is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the overview."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            from l2bench.cli import foreign

            return foreign.load(cmd_name, COMMANDS)
        module = importlib.import_module(COMMANDS[cmd_name][0])
        word = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(module, word)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown command with the nearest one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from l2bench.cli import foreign
            from l2bench.errors import UsageError, choices, nearest

            command = foreign.load(args[0], COMMANDS)
            if command is not None:
                return args[0], command, args[1:]
            known = [*COMMANDS, *foreign.names(COMMANDS)]
            raise UsageError(
                f"unknown command '{args[0]}'{nearest(args[0], known)}; known: {choices(known)}"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])
        from l2bench.cli import foreign

        rows = foreign.overview(COMMANDS)
        if rows:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(rows)


@click.group(cls=LazyGroup, epilog=EXIT_CODES, context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="l2bench")
def cli() -> None:
    """L2bench: the benchmark suite for lifelong learning."""


def main() -> NoReturn:
    """Run the command line and exit with the documented code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever called
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be any bytes
    brief_finalisers()
    signal.signal(signal.SIGTERM, _interrupted)
    code = invoke(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:
        code = code or 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python complains at exit
    gc.freeze()  # all that is left ends with the process; no search for garbage at exit
    sys.exit(code)


def _interrupted(*_: object) -> NoReturn:
    """Let SIGTERM end a command as Ctrl-C does: with a clear status, and nothing half-written."""
    raise KeyboardInterrupt


def invoke(arguments: list[str]) -> int:
    """Run one command line and return its exit code; errors are printed, never raised."""
    as_json = "--json" in arguments
    try:
        result = cli.main(arguments, prog_name="l2bench", standalone_mode=False)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        hint = f" (see: {error.ctx.command_path} --help)" if error.ctx else ""
        return _fail(f"{error.format_message()}{hint}", 2, as_json)
    except L2benchError as error:
        return _fail(str(error), error.exit_code, as_json)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", 130, as_json)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads on; stay quiet at exit
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        remedy = "; free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        return _fail(f"{where}{error.strerror or error}{remedy}", 1, as_json)
    except SystemExit:
        if _nobody_reads():  # click's way out of a broken pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return 1
        return _fail("a plugin asked to exit", 1, as_json)
    except MemoryError:
        return _fail("memory ran out; give it less to do at once, or free some", 1, as_json)
    except UnicodeEncodeError as error:
        text = f"{error.object!a:.100} cannot be written as UTF-8; give it another name"
        return _fail(text, 1, as_json)
    except FOREIGN as error:
        if os.environ.get("L2BENCH_TRACEBACK"):
            raise
        text = f"internal error: {type(error).__name__}: {error}; set L2BENCH_TRACEBACK=1 for more"
        return _fail(text, 5, as_json)
    return result if isinstance(result, int) else 0


def _nobody_reads() -> bool:
    """Return whether standard output is a pipe whose reader has gone."""
    watch = select.poll()
    watch.register(1, 0)
    return bool(watch.poll(0))


def _fail(message: str, code: int, as_json: bool) -> int:
    with contextlib.suppress(OSError):
        if as_json:
            print_json({"error": {"message": message, "exit_code": code}})
        from l2bench.report.text import printable

        parts = [printable(part).strip() for part in message.splitlines()]
        line = "; ".join(part for part in parts if part)
        click.echo(f"l2bench: {line if len(line) <= LONGEST else line[:LONGEST] + '...'}", err=True)
    return code


def print_json(data: Any) -> None:
    """Print one strict JSON document, with escapes where the output's encoding asks for them."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(data, indent=1, allow_nan=False)
    click.echo(text)
