"""A policy that lives in another process: evaluated, never taught."""

from __future__ import annotations

import json
import socket
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from pydantic import Field

from l2bench.agent import Acting, Agent, AgentSettings, Life, TaskContext
from l2bench.environment import Observation
from l2bench.errors import RunFailed, Unsupported, UsageError
from l2bench.lesson import Lesson
from l2bench.suite import Source
from l2bench_agents import serve
from l2bench_agents.zero import pass_over


class RemoteSettings(AgentSettings):
    """Where the policy is served.

    ``address``: tcp://HOST:PORT or unix:PATH. ``chunk``: how many of the actions that an answer
    holds are carried out before the next observation (None: as many as the server says).
    ``timeout``: seconds to wait for an answer. ``trained_on``: the ids of the suites that the
    policy was trained on, for the record.
    """

    address: str
    chunk: int | None = Field(None, ge=1)
    timeout: float = Field(60.0, gt=0)
    trained_on: tuple[str, ...] = ()


class Remote(Agent):
    """Asks a policy server (`l2bench_agents.serve`) for every action."""

    sources: ClassVar[frozenset[Source]] = frozenset({"demonstrations", "interaction"})
    Settings: ClassVar[type[AgentSettings]] = RemoteSettings

    def __init__(self, settings: AgentSettings, life: Life) -> None:
        super().__init__(settings, life)
        self._socket = self._connect()
        weakref.finalize(self, self._socket.close)
        header, _ = self._ask({"kind": "hello"}, {}, "ready")
        self._name, offered = str(header.get("name")), header.get("chunk")
        if type(offered) is not int or offered < 1:
            raise Unsupported(f"{self._where} says chunk {offered!r:.40}; expected 1 or more")
        self.chunk = self.settings.chunk or offered
        if self.chunk > offered:
            raise UsageError(
                f"agent 'remote': chunk {self.chunk} was asked for, but the policy "
                f"'{self._name}' plans {offered} actions ahead; set chunk to {offered} or less"
            )

    @property
    def _where(self) -> str:
        return f"the policy server at {self.settings.address}"

    def _connect(self) -> socket.socket:
        try:
            family, where = serve.parse(self.settings.address)
        except ValueError as error:
            raise UsageError(f"agent 'remote': {error}") from None
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(self.settings.timeout)
        try:
            connection.connect(where)
        except OSError as error:
            connection.close()
            raise Unsupported(
                f"{self._where} cannot be reached ({error.strerror or error}); start it first "
                f"(see l2bench_agents.serve), or set agent.settings.address"
            ) from None
        return connection

    def _ask(
        self, header: Mapping[str, Any], arrays: serve.Arrays, expected: str
    ) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """Return header and arrays of the answer; after a fault the connection is of no use."""
        try:
            serve.send(self._socket, header, arrays)
            answer, held = serve.receive(self._socket)
        except TimeoutError:
            fault = f"{self._where} gave no answer within {self.settings.timeout:g} s"
        except (EOFError, OSError):
            fault = f"{self._where} is gone; start it again and go on with --resume"
        except serve.WireError as error:
            fault = f"{self._where} cannot be understood: {error}"
        else:
            if answer.get("kind") == expected:
                return answer, held
            message = answer.get("message") or f"its answer is of kind {answer.get('kind')!r:.40}"
            fault = f"{self._where} failed: {' '.join(str(message).split())[:300]}"
        self._socket.close()
        raise RunFailed(fault)

    def learn(self, lesson: Lesson, task: TaskContext) -> None:
        """Use up the lesson; nothing is learned."""
        pass_over(lesson, task, self.life.seed)

    def act(self, observations: Observation, acting: Acting) -> Any:
        """Return the server's actions (B, A), or (B, n, A) where it plans ahead.

        Raises:
            RunFailed: if the server is gone, fails, or returns something else.
        """
        if not isinstance(observations, Mapping):
            observations = {"observation": observations}
        seen = {f"obs.{key}": np.asarray(values) for key, values in observations.items()}
        beside = {
            "slots": np.asarray(acting.slots, np.int64),
            "first": np.asarray(acting.first, bool),
            "seeds": np.array([rng.integers(2**63) for rng in acting.generators], np.int64),
        }
        header = {
            "kind": "act", "instruction": acting.task.language, "task": acting.task.index,
        }  # fmt: skip
        _, held = self._ask(header, {**seen, **beside}, "actions")
        actions = held.get("actions", np.zeros(0))
        return self._fitting(actions, acting.task.spaces.action, len(acting.slots))

    def _fitting(
        self, actions: np.ndarray[Any, Any], space: Space[Any], number: int
    ) -> np.ndarray[Any, Any]:
        """Return actions as the environment takes them."""
        shape = space.shape or ()
        found = actions.shape
        ahead = len(found) == len(shape) + 2
        rest = found[2:] if ahead else found[1:]
        enough = found[1] >= self.chunk if ahead else self.chunk == 1
        if not found or found[0] != number or rest != shape or not enough:
            many = f"({number}, {self.chunk} or more" if self.chunk > 1 else f"({number}"
            raise RunFailed(
                f"{self._where} returned actions of shape {found}; expected "
                f"{', '.join([many, *map(str, shape)])})"
            )
        if not np.isfinite(actions).all():
            raise RunFailed(f"{self._where} returned actions that are not numbers")
        if ahead and self.chunk == 1:
            actions = actions[:, 0]
        if isinstance(space, Box):
            actions = np.clip(actions, space.low, space.high)
        return actions.astype(np.int64 if isinstance(space, Discrete) else space.dtype)

    def save(self, folder: Path) -> None:
        """Write which policy it is."""
        (folder / "remote.json").write_text(json.dumps({"name": self._name}) + "\n")

    def load(self, folder: Path) -> None:
        """Refuse to go on with another policy.

        Raises:
            Unsupported: if the server's policy has another name than before.
        """
        before = json.loads((folder / "remote.json").read_text())["name"]
        if before != self._name:
            raise Unsupported(
                f"{self._where} serves '{self._name}', but this lifetime began with '{before}'"
            )

    def details(self) -> dict[str, Any]:
        """Return where the policy is, its name, and how many actions are carried out at once."""
        trained = {"trained_on": list(self.settings.trained_on)} if self.settings.trained_on else {}
        where = {"address": self.settings.address, "policy": self._name, "chunk": self.chunk}
        return where | trained
