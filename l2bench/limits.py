"""Limits of time and memory on what strangers' code does."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

#: An interrupted block that swallows the interruption is interrupted again, this often (s).
_AGAIN = 1.0


class TimeUp(Exception):
    """A block took longer than it may."""


class _Alarm(BaseException):
    """What is raised inside the block; no `except Exception` there can swallow it."""


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Interrupt the block after so many seconds; None is no limit.

    It takes an alarm signal, so that the block is stopped in Python code and in system calls that
    wait, but not inside a library that computes for ever; other threads than the main one cannot
    be stopped at all. An alarm that was set before goes off in its own time.

    Raises:
        TimeUp: if the block took longer.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _Alarm

    before = signal.signal(signal.SIGALRM, ring)
    earlier, repeat = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    began = time.monotonic()
    try:
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _Alarm:
        raise TimeUp from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if earlier:
            left = max(1e-3, earlier - (time.monotonic() - began))
            signal.setitimer(signal.ITIMER_REAL, left, repeat)


def peak_resident(process: int | str = "self") -> int | None:
    """Return the most resident memory a process had so far in bytes, None if it cannot be told."""
    return _entry(Path(f"/proc/{process}/status"), "VmHWM:")


def private_memory(process: int) -> int | None:
    """Return the memory in bytes that a process shares with no other, None if it is not known."""
    path = Path(f"/proc/{process}/smaps_rollup")
    parts = [_entry(path, "Private_Clean:"), _entry(path, "Private_Dirty:")]
    return sum(part for part in parts if part is not None) if any(parts) else None


def available_memory() -> int | None:
    """Return how many bytes this machine, or this process's control group, has left."""
    left = [_entry(Path("/proc/meminfo"), "MemAvailable:"), _left_in_group()]
    known = [amount for amount in left if amount is not None]
    return min(known) if known else None


def _left_in_group() -> int | None:
    group = Path("/sys/fs/cgroup")
    try:
        most = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
        stat = (group / "memory.stat").read_text().split()
    except (OSError, ValueError):
        return None
    if most == "max":
        return None
    cached = int(stat[stat.index("inactive_file") + 1]) if "inactive_file" in stat else 0
    return max(0, int(most) - used + cached)


def _entry(path: Path, name: str) -> int | None:
    """Return a line ``name  number kB`` of a file of the kernel in bytes."""
    try:
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None
