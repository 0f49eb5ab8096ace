"""The errors that users see: one line each, with an exit code."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class L2benchError(Exception):
    """Something the user can put right; the text says what, and how."""

    exit_code = 1


class RunFailed(L2benchError):
    """The run or a check ended with a failure."""


class ActionRefused(RunFailed):
    """An agent gave an action that its task does not have."""


class UsageError(L2benchError):
    """The request itself is wrong: an unknown name, key, value or option."""

    exit_code = 2


class Unsupported(L2benchError):
    """Something is missing, unreadable, or of a version that is not supported."""

    exit_code = 3


class Incomplete(L2benchError):
    """Partial results exist; the run can be resumed."""

    exit_code = 4


class Interrupted(L2benchError):
    """The user stopped the run; it can be resumed."""

    exit_code = 130


class BudgetExceeded(L2benchError):
    """An agent tried to learn beyond the budget of its lesson."""


#: What a stranger's code may raise to end its caller, beside ordinary exceptions.
FOREIGN = (Exception, SystemExit, GeneratorExit)


@contextmanager
def guarded(what: str) -> Iterator[None]:
    """Turn whatever a plugin raises into one line that names it.

    Raises:
        RunFailed: in place of any exception that is not our own.
    """
    try:
        yield
    except L2benchError:
        raise
    except FOREIGN as error:
        raise RunFailed(f"{what} failed: {type(error).__name__}: {error}") from error


def brief_finalisers() -> None:
    """Have exceptions in finalisers, which nobody can catch, told in one line and once each.

    Libraries whose objects outlive what they need would else fill the screen when Python exits.
    """
    told: set[str] = set()

    def tell(unraisable: sys.UnraisableHookArgs) -> None:
        name = getattr(unraisable.exc_type, "__name__", "an error")
        where = getattr(unraisable.object, "__qualname__", "a finaliser")
        text = " ".join(f"{name} in {where}: {unraisable.exc_value}".split())[:300]
        if text not in told and sys.stderr is not None:
            told.add(text)
            sys.stderr.write(f"l2bench: warning: cleaning up failed: {text}\n")

    if not os.environ.get("L2BENCH_TRACEBACK"):
        sys.unraisablehook = tell


def nearest(asked: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the known name closest to the one asked, or ``""``."""
    names = sorted(set(known))
    folded = {name.casefold(): name for name in reversed(names)}
    close = difflib.get_close_matches(asked.casefold(), folded, n=1, cutoff=0.5)
    return f" (did you mean '{folded[close[0]]}'?)" if close else ""


def choices(known: Iterable[str], limit: int = 12) -> str:
    """Return the known names as a short readable list."""
    names = sorted(set(known))
    shown = ", ".join(names[:limit])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > limit else (shown or "none")
