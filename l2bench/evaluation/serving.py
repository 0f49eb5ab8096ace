"""The body of a worker process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from l2bench.cast import Execution, made_environment
from l2bench.environment import Environment
from l2bench.errors import L2benchError, brief_finalisers
from l2bench.evaluation.episodes import Rollout
from l2bench.evaluation.pools import LiveEnvironments
from l2bench.plugins import Registry
from l2bench.seeding import reseed

_DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG


@dataclass(frozen=True)
class Post:
    """Where a worker belongs: its end of the pipe, its parent, and pipes that are not its own.

    ``number`` counts the workers of a pool from 0.
    """

    connection: Connection
    parent: int
    others: Sequence[Connection]
    number: int


def serve(
    post: Post,
    execution: Execution,
    inherited: tuple[Mapping[str, Environment], LiveEnvironments] | None,
) -> None:
    """Play episodes as told until told to stop.

    A forked worker has ``inherited`` environments, some of them alive.
    """
    _settle_in(post)
    connection = post.connection
    environments: dict[str, Environment] = dict(inherited[0]) if inherited else {}
    live = inherited[1] if inherited else LiveEnvironments(
        execution.keep_environments, execution.workers
    )  # fmt: skip
    registry = Registry() if inherited is None else None
    try:
        for environment in environments.values():
            environment.assign(execution.device, post.number)
        while (job := connection.recv()) is not None:
            task, episode = job
            if registry is not None and task.environment not in environments:
                made = made_environment(registry, task.environment, execution, post.number)
                environments[task.environment] = made
            began = time.process_time()
            env = live.get(environments[task.environment], task)
            connection.send(("built", None))
            reseed(episode.env_seed)  # this process does nothing else
            rollout = Rollout(env, task, episode)
            observation = rollout.start()
            while rollout.outcome is None:
                connection.send(("observation", observation))
                observation = rollout.play(connection.recv())
            spent = time.process_time() - began
            connection.send(("outcome", replace(rollout.outcome, worker_cpu=spent)))
    except (EOFError, ConnectionError):
        pass  # the parent is gone
    except BaseException as error:
        own = isinstance(error, L2benchError)
        text = str(error) if own else f"{type(error).__name__}: {error}"
        with contextlib.suppress(OSError):
            connection.send(("error", (text, traceback.format_exc())))
    finally:
        live.close()


def _settle_in(post: Post) -> None:
    """Part from the parent: its signals, its pipes, its standard output."""
    brief_finalisers()
    for name in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(name, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)  # so that all that an environment starts can be ended with it
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != post.parent:
            os._exit(1)  # it died before that
    for connection in post.others:
        connection.close()
    # Standard output is the command's alone; a fresh stream has no lock that was held at the fork.
    sys.stdout = sys.stderr = open(  # noqa: SIM115
        2, "w", buffering=1, errors="backslashreplace", closefd=False
    )
