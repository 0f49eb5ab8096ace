"""Seeds derived from what they are for, never from the order in which they are drawn."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

DERIVATION = "l2b-seed-1"


def derive(suite_hash: str, lifetime: int, stream: str, *key: int) -> int:
    """Return the seed in [0, 2**63) for one purpose of one lifetime.

    ``suite_hash`` is ``"sha256:<hex>"``; ``stream`` names the purpose ("evaluation", "agent", ...);
    ``key`` holds what tells its members apart, such as (block, task, episode). The words of a
    numpy SeedSequence are the first 8 bytes of the hash, the lifetime seed, the first 8 bytes of
    the stream's SHA-256, and the key, each as two 32-bit words.
    """
    suite_word = int(suite_hash.removeprefix("sha256:")[:16], 16)
    stream_word = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "big")
    words: list[int] = []
    for number in (suite_word, lifetime, stream_word, *key):
        words += [number >> 32 & 0xFFFFFFFF, number & 0xFFFFFFFF]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))


def generator(seed: int) -> np.random.Generator:
    """Return a PCG64 generator started from this seed."""
    return np.random.Generator(np.random.PCG64(seed))


@contextmanager
def isolated(seed: int) -> Iterator[None]:
    """Seed Python's and numpy's global generators for the block and restore them afterwards.

    Environments that draw from the global generators then give the same episode whatever else
    drew before it.
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)


def pack(rng: np.random.Generator) -> dict[str, str]:
    """Return the state of a PCG64 generator as plain texts, for saving."""
    state = rng.bit_generator.state
    return {
        "state": str(state["state"]["state"]),
        "inc": str(state["state"]["inc"]),
        "has_uint32": str(state["has_uint32"]),
        "uinteger": str(state["uinteger"]),
    }


def unpack(rng: np.random.Generator, packed: dict[str, str]) -> None:
    """Set a PCG64 generator to a state that `pack` returned."""
    rng.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": int(packed["state"]), "inc": int(packed["inc"])},
        "has_uint32": int(packed["has_uint32"]),
        "uinteger": int(packed["uinteger"]),
    }
