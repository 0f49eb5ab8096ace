"""Seeds derived from what they are for, never from the order in which they are drawn."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

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


def chosen(fraction: float, suite_hash: str, lifetime: int, stream: str, *key: int) -> bool:
    """Return whether a member is in a sample of this fraction of all; see `derive` for the rest."""
    return derive(suite_hash, lifetime, stream, *key) < fraction * 2**63


def generator(seed: int) -> np.random.Generator:
    """Return a PCG64 generator started from this seed."""
    return np.random.Generator(np.random.PCG64(seed))


def reseed(seed: int) -> None:
    """Seed Python's and numpy's global generators; for use inside `isolated`."""
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)


@contextmanager
def isolated(seed: int) -> Iterator[None]:
    """Seed the global generators for the block and restore them afterwards.

    Environments that draw from the global generators then give the same episode whatever else
    drew before it.
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()
    reseed(seed)
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)


class Generators(Sequence["np.random.Generator"]):
    """One generator per seed, each made when first asked for; most agents never ask."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self._seeds = seeds
        self._made: dict[int, np.random.Generator] = {}

    def __len__(self) -> int:
        return len(self._seeds)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(f"there are {len(self)} generators, not one at {at}")
        at %= len(self)
        if at not in self._made:
            self._made[at] = generator(self._seeds[at])
        return self._made[at]


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
