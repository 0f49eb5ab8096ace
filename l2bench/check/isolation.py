"""The child process in which a bundle is read: a crash, a bomb or a hang there is a finding."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from l2bench.check.board import Board
from l2bench.check.bundle import Limits, look, prints
from l2bench.check.findings import Finding, broken, from_data
from l2bench.check.results import Facts, facts_from
from l2bench.errors import RunFailed

#: What the child runs.
BODY = "from l2bench.check.isolation import serve; serve()"

#: Libraries that would reserve much address space, one part per thread, are told not to.
QUIET = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def in_child(
    path: Path, board: Board | None, plugins: bool, limits: Limits
) -> tuple[list[Finding], Facts | None]:
    """Check a bundle in a child process under limits; see `l2bench.check.bundle.look`."""
    answer = _asked(
        {
            "path": str(path.absolute()),
            "board": str(board.folder.absolute()) if board else None,
            "plugins": plugins,
        },
        limits,
    )
    if isinstance(answer, Finding):
        return [answer], None
    facts = facts_from(answer["facts"]) if answer["facts"] else None
    return [from_data(found) for found in answer["findings"]], facts


def fingerprints_of(paths: Sequence[Path], limits: Limits | None = None) -> dict[Path, Any]:
    """Return fingerprints and agent hash of each bundle or archive that can be read, by path."""
    if not paths:
        return {}
    request = {"fingerprints": [str(path.absolute()) for path in paths]}
    answer = _asked(request, limits or Limits())
    if isinstance(answer, Finding):
        return {}
    return {path: answer[str(path.absolute())] for path in paths if str(path.absolute()) in answer}


def _asked(request: dict[str, Any], limits: Limits) -> dict[str, Any] | Finding:
    """Put a request to a child process; returns its answer, or the finding that it gave none.

    Raises:
        RunFailed: if this machine, not the bundle, is the reason.
    """
    asked = {**request, "memory": limits.memory, "seconds": limits.seconds}
    command = [sys.executable, "-c", BODY]
    environment = {**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    try:
        done = subprocess.run(
            command,
            input=json.dumps(asked).encode(),
            capture_output=True,
            timeout=limits.seconds,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _over("it took too long", limits)
    if done.returncode != 0:
        return _over(_ending(done), limits)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except (ValueError, RecursionError):
        return _over("it gave no answer", limits)
    if "failed" in answer:
        raise RunFailed(answer["failed"])
    return answer


def _over(what: str, limits: Limits) -> Finding:
    allowed = f"{limits.memory >> 20} MiB and {limits.seconds:g} s"
    return broken("I01", "", f"the check was ended: {what} (it may use {allowed})", found=what)


def _ending(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode == -signal.SIGXCPU or done.returncode == -signal.SIGKILL:
        return "it used too much time or memory"
    if done.returncode < 0:
        return f"it crashed with signal {-done.returncode}"
    last = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return last[-1][:200] if last else f"it ended with code {done.returncode}"


def serve() -> None:
    """Answer one request on standard input with JSON on standard output: the child's body."""
    import resource

    asked = json.load(sys.stdin)
    answer_to, sys.stdout = sys.stdout, sys.stderr  # nothing else may speak there
    _limit(resource.RLIMIT_AS, asked["memory"])
    _limit(resource.RLIMIT_CPU, int(asked["seconds"]) + 1)
    _limit(resource.RLIMIT_CORE, 0)
    try:
        answer = _prints(asked["fingerprints"]) if "fingerprints" in asked else _look(asked)
    except RunFailed as error:
        answer = {"failed": str(error)}
    answer_to.write(json.dumps(answer, allow_nan=False))
    answer_to.flush()


def _look(asked: dict[str, Any]) -> dict[str, Any]:
    board = Board.load(Path(asked["board"])) if asked["board"] else None
    findings, facts = look(Path(asked["path"]), board, asked["plugins"])
    return {
        "findings": [found.data() for found in findings],
        "facts": facts.data() if facts else None,
    }


def _prints(paths: list[str]) -> dict[str, Any]:
    found = {path: prints(Path(path)) for path in paths}
    return {path: each for path, each in found.items() if each is not None}


def _limit(what: int, most: int) -> None:
    import resource

    hard = resource.getrlimit(what)[1]
    allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (allowed, hard))
