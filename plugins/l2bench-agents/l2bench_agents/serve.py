"""Serves a policy to `agents/remote` from a process, an environment and a machine of its own.

This file needs Python 3.9 and numpy only: copy it beside the policy, or install l2bench-agents
there without its dependencies. See the README for an example and for the messages.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

#: Version of the messages; both sides must speak the same.
PROTOCOL = 1
MAGIC = b"L2B" + bytes([PROTOCOL])
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
)  # fmt: skip
LARGEST_HEADER, LARGEST_BODY, MOST_DIMENSIONS = 1 << 20, 1 << 31, 8

Arrays = Mapping[str, np.ndarray[Any, Any]]


class WireError(Exception):
    """What arrived is not a message of this protocol."""


@dataclass(frozen=True)
class Request:
    """A batch of B observations to act on.

    ``observations`` are arrays (B, ...) by key (``observation`` if there is only one array), images
    (B, H, W, C) uint8; ``instruction`` the task in words and ``task`` its position, None where the
    suite hides them. ``slots`` (B,) tell the episodes apart; ``first`` (B,) is true on an episode's
    first observation, when whatever is remembered of its slot must be dropped. ``seeds`` (B,) seed
    random choices so that they are the same in every run.
    """

    observations: Arrays
    instruction: str | None
    task: int | None
    slots: np.ndarray[Any, Any]
    first: np.ndarray[Any, Any]
    seeds: np.ndarray[Any, Any]


#: Returns actions (B, A), or (B, n, A) for the next n steps.
Policy = Callable[[Request], Any]


def send(connection: socket.socket, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Send a message: magic, length of the header, header as JSON, then the arrays' bytes."""
    whole = {name: np.asarray(values, order="C") for name, values in arrays.items()}
    described = []
    for name, values in whole.items():
        if values.dtype.name not in DTYPES:
            raise WireError(f"'{name}' is an array of {values.dtype}, which cannot be sent")
        described.append({"name": name, "dtype": values.dtype.name, "shape": list(values.shape)})
    text = json.dumps({**header, "arrays": described}).encode()
    connection.sendall(MAGIC + struct.pack(">I", len(text)) + text)
    for values in whole.values():
        little = values.astype(values.dtype.newbyteorder("<"), copy=False)
        connection.sendall(little.reshape(-1).view(np.uint8).data)


def receive(connection: socket.socket) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Return header and arrays of the next message.

    Raises:
        EOFError: if the other side is gone.
        WireError: if what arrives is no message.
    """
    start = _read(connection, len(MAGIC) + 4)
    if bytes(start[:3]) != MAGIC[:3]:
        raise WireError("what arrived is not a message of l2bench_agents.serve")
    if start[3] != PROTOCOL:
        raise WireError(f"messages of protocol {start[3]} arrived; expected protocol {PROTOCOL}")
    (length,) = struct.unpack(">I", start[4:])
    if length > LARGEST_HEADER:
        raise WireError(f"a header of {length} bytes is too long")
    try:
        header = json.loads(_read(connection, length).decode())
        described = [(str(a["name"]), str(a["dtype"]), tuple(a["shape"])) for a in header["arrays"]]
    except (ValueError, KeyError, TypeError) as error:
        raise WireError(f"the header of a message cannot be read: {error}") from None
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, dtype, shape in described:
        arrays[name] = _array(connection, name, dtype, shape)
    return header, arrays


def _array(
    connection: socket.socket, name: str, dtype: str, shape: tuple[Any, ...]
) -> np.ndarray[Any, Any]:
    whole = all(type(side) is int and side >= 0 for side in shape)
    if dtype not in DTYPES or not whole or len(shape) > MOST_DIMENSIONS:
        raise WireError(f"array '{name}' is described as {dtype} of shape {shape}")
    size = np.dtype(dtype).itemsize
    for side in shape:
        size *= side
    if size > LARGEST_BODY:
        raise WireError(f"array '{name}' of {size} bytes is too large")
    values = np.frombuffer(_read(connection, size), np.dtype(dtype).newbyteorder("<"))
    return values.reshape(shape).astype(np.dtype(dtype), copy=False)


def _read(connection: socket.socket, number: int) -> bytearray:
    buffer = bytearray(number)
    view, at = memoryview(buffer), 0
    while at < number:
        got = connection.recv_into(view[at:])
        if not got:
            raise EOFError("the connection was closed")
        at += got
    return buffer


def parse(address: str) -> tuple[int, Any]:
    """Return family and address of ``tcp://HOST:PORT`` or ``unix:PATH``.

    Raises:
        ValueError: anything else.
    """
    if address.startswith("unix:") and len(address) > len("unix:"):
        return socket.AF_UNIX, address[len("unix:") :]
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    if not address.startswith("tcp://") or not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"address {address!r} is neither tcp://HOST:PORT nor unix:PATH")
    return socket.AF_INET, (host, int(port))


class Server:
    """Answers agents one request at a time; ``address`` says where, with the port chosen."""

    def __init__(self, policy: Policy, address: str, *, name: str = "", chunk: int = 1) -> None:
        family, where = parse(address)
        self._policy, self._chunk = policy, chunk
        self._name = name or getattr(policy, "__name__", type(policy).__name__)
        self._busy = threading.Lock()
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        if family == socket.AF_INET:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        elif Path(where).is_socket():
            Path(where).unlink()  # left behind by a server that was killed
        self._socket.bind(where)
        self._socket.listen()
        bound = self._socket.getsockname()
        self.address = f"unix:{bound}" if isinstance(bound, str) else f"tcp://{bound[0]}:{bound[1]}"

    def run(self) -> None:
        """Accept agents until closed; each is answered by a thread of its own."""
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Accept no more agents."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(EOFError, OSError):
            while True:
                try:
                    header, arrays = receive(connection)
                    reply, answer = self._reply(header, arrays)
                except WireError as error:
                    send(connection, {"kind": "error", "message": str(error)}, {})
                    return
                send(connection, reply, answer)

    def _reply(self, header: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        if header.get("kind") == "hello":
            return {"kind": "ready", "name": self._name, "chunk": self._chunk}, {}
        if header.get("kind") != "act":
            raise WireError(f"there is no message of kind {header.get('kind')!r}")
        seen = {n.partition(".")[2]: v for n, v in arrays.items() if n.startswith("obs.")}
        beside = (header.get("instruction"), header.get("task"))
        try:
            asked = Request(seen, *beside, arrays["slots"], arrays["first"], arrays["seeds"])
            with self._busy:
                actions = np.asarray(self._policy(asked))
            if actions.dtype.name not in DTYPES:
                raise TypeError(f"the policy returned {actions.dtype}")
        except Exception as error:  # the agent reports it, the server goes on
            return {"kind": "error", "message": f"{type(error).__name__}: {error}"[:2000]}, {}
        return {"kind": "actions"}, {"actions": actions}


def serve(policy: Policy, address: str, *, name: str = "", chunk: int = 1) -> None:
    """Answer agents at an address until the process ends.

    ``chunk`` is how many steps ahead the policy's actions reach. There is no access control: bind
    to 127.0.0.1 or a unix socket.
    """
    Server(policy, address, name=name, chunk=chunk).run()
