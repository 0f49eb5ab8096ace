"""Environments that hang, die, leak or plan ahead, for the tests of evaluation."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from l2bench.environment import Environment, TaskInfo


class Line(gymnasium.Env):
    """Walk along a line: the observation is the place, the episode ends at its seed's length."""

    observation_space = Box(-np.inf, np.inf, (1,), np.float64)
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.goal = 5 + (seed or 0) % 4
        self.place = 0
        return self.seen(), {"success": False}

    def seen(self):
        return np.array([float(self.place)])

    def step(self, action):
        self.place += 1
        done = self.place == self.goal
        return self.seen(), 0.5 * action, done, False, {"success": done}


class QuietLine(Line):
    """The same line, which counts how often it was looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def seen(self):
        self.looks += 1
        return super().seen()

    def step_quiet(self, action):
        self.place += 1
        done = self.place == self.goal
        return 0.5 * action, done, False, {"success": done}


class Hanging(Line):
    def step(self, action):
        if self.place == 2:
            time.sleep(600)
        return super().step(action)


class Stubborn(Line):
    """Hangs and swallows whatever interrupts it, in Python code."""

    def step(self, action):
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                continue


class Killed(Line):
    sign = signal.SIGKILL
    place_of_death: int | None = 3

    def step(self, action):
        if self.place == self.place_of_death:
            os.kill(os.getpid(), self.sign)
        return super().step(action)


class Segfault(Killed):
    sign = signal.SIGSEGV

    def step(self, action):
        faulthandler.disable()  # pytest's, which a forked worker inherits
        return super().step(action)


class Raising(Line):
    def step(self, action):
        if self.place == 3:
            raise ValueError("the wheel came off")
        return super().step(action)


class ClosingForEver(Line):
    def close(self):
        time.sleep(600)


class Littering(Line):
    """Leaves a process behind with every episode; their numbers go into a file."""

    def reset(self, *, seed=None, options=None):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with Path(os.environ["L2BENCH_TEST_LITTER"]).open("a") as file:
            file.write(f"{child.pid}\n")
        return super().reset(seed=seed, options=options)


class Filmed(Line):
    render_mode = "rgb_array"
    metadata: ClassVar[dict[str, Any]] = {"render_fps": 10}

    def render(self):
        return np.full((16, 24, 3), 20 * self.place, np.uint8)


KINDS = {
    name.lower(): kind
    for name, kind in list(globals().items())
    if isinstance(kind, type) and issubclass(kind, Line)
}


class Lines(Environment):
    def tasks(self):
        info = TaskInfo(frozenset({"interaction"}), horizon=50)
        return dict.fromkeys(KINDS, info)

    def make(self, task):
        return KINDS[task.task]()

    def forks(self, task):
        return True
