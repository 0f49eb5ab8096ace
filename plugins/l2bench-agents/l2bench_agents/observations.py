"""Which parts of an observation are vectors and which are images, and how they become tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from l2bench.environment import Observation
from l2bench.errors import RunFailed, UsageError, choices, nearest

#: The name of the only part of an observation that is a plain array.
PLAIN = "observation"


@dataclass(frozen=True)
class Layout:
    """The parts of an observation that a policy sees.

    ``keys`` maps the keys of vectors to their lengths, in alphabetical order; ``vectors`` the name
    of each part of them that is seen to (key, first, end); ``images`` maps keys to (height, width,
    channels).
    """

    keys: Mapping[str, int]
    vectors: Mapping[str, tuple[str, int, int]]
    images: Mapping[str, tuple[int, int, int]]
    plain: bool

    @classmethod
    def of(
        cls,
        space: spaces.Space[Any],
        where: str,
        chosen: Mapping[str, tuple[str, int, int]] | None = None,
    ) -> Layout:
        """Return the layout of an observation space; ``where`` names its task in errors.

        Raises:
            UsageError: a part that is neither a vector nor an image, or chosen and not there.
        """
        plain = not isinstance(space, spaces.Dict)
        parts = {PLAIN: space} if plain else dict(space.spaces)  # type: ignore[attr-defined]
        keys: dict[str, int] = {}
        images: dict[str, tuple[int, int, int]] = {}
        for key in sorted(parts):
            part = parts[key]
            if isinstance(part, spaces.Box) and len(part.shape) == 1:
                keys[key] = part.shape[0]
            elif isinstance(part, spaces.Box) and _is_image(part):
                height, width, channels = part.shape
                images[key] = (height, width, channels)
            else:
                name = "observations" if plain else f"observation '{key}'"
                raise UsageError(
                    f"agent 'bc' needs vectors (N,) or uint8 images (height, width, 1 to 4); "
                    f"{name} of {where} is {describe(part)}"
                )
        if not parts:
            raise UsageError(f"agent 'bc' needs observations; those of {where} are empty")
        whole = {key: (key, 0, length) for key, length in keys.items()}
        for name, (key, _, end) in (chosen or {}).items():
            if key not in keys:
                raise UsageError(
                    f"vectors.{name}: {where} observes no vector '{key}'{nearest(key, keys)}; "
                    f"it has {choices(keys) if keys else 'none'}"
                )
            if end > keys[key]:
                raise UsageError(f"vectors.{name} ends at {end}, but '{key}' has {keys[key]}")
        return cls(keys, whole if chosen is None else dict(chosen), images, plain)

    @property
    def widths(self) -> list[int]:
        """The lengths of the vectors."""
        return [end - first for _, first, end in self.vectors.values()]

    @property
    def width(self) -> int:
        """The length of all vectors joined."""
        return sum(self.widths)

    def rows(self, observations: Observation, frames: tuple[int, ...]) -> dict[str, Tensor]:
        """Return observations (``*frames``, ...) as rows of windows, without task and targets.

        ``frames`` is (B, L), or (B,) for windows of one frame.

        Raises:
            RunFailed: if a part is missing or has another shape than the space says.
        """
        parts = self._parts(observations, len(frames))
        rows: dict[str, Tensor] = {}
        if self.vectors:
            cut = [parts[key][..., first:end] for key, first, end in self.vectors.values()]
            joined = np.concatenate(cut, axis=-1).astype(np.float32, copy=False)
            rows["vector"] = torch.from_numpy(joined)
        for key in self.images:
            pixels = np.require(parts[key], np.uint8, ["C_CONTIGUOUS", "WRITEABLE"])
            rows[f"image.{key}"] = torch.from_numpy(pixels)
        if len(frames) == 1:
            rows = {name: values.unsqueeze(1) for name, values in rows.items()}
        return rows

    def statistics(self, of: Mapping[str, tuple[Any, Any]]) -> tuple[Tensor, Tensor]:
        """Return mean and deviation (width,) of the joined vectors from (mean, deviation) by key.

        Raises:
            RunFailed: if a vector is missing.
        """
        parts = self._named(of, {key: (length,) for key, length in self.keys.items()})
        for key, length in self.keys.items():
            _check_shape(key, np.shape(parts[key][0]), (length,))
        mean, deviation = (
            [
                torch.as_tensor(parts[key][which][first:end], dtype=torch.float32)
                for key, first, end in self.vectors.values()
            ]
            for which in (0, 1)
        )
        nothing = torch.zeros(0)
        return torch.cat([nothing, *mean]), torch.cat([nothing, *deviation])

    def _parts(self, observations: Observation, leading: int) -> Mapping[str, Any]:
        if not isinstance(observations, Mapping):
            observations = {PLAIN: observations}
        shapes = {**{key: (length,) for key, length in self.keys.items()}, **self.images}
        parts = self._named(observations, shapes)
        for key, shape in shapes.items():
            _check_shape(key, np.shape(parts[key])[leading:], shape)
        return parts

    def _named(self, given: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
        """Return these parts of what was given; a lone array may have any name."""
        if self.plain and len(given) == 1:
            return dict.fromkeys(keys, next(iter(given.values())))
        for key in keys:
            if key not in given:
                raise RunFailed(
                    f"observation '{key}' is missing; there is {', '.join(sorted(given))}"
                )
        return {key: given[key] for key in keys}


def _check_shape(key: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if found != expected:
        raise RunFailed(f"observation '{key}' has shape {found}, its space says {expected}")


def _is_image(space: spaces.Box) -> bool:
    return space.dtype == np.uint8 and len(space.shape) == 3 and 1 <= space.shape[2] <= 4


def describe(space: spaces.Space[Any]) -> str:
    """Return a space as one short line."""
    text = " ".join(str(space).split())
    return text if len(text) <= 160 else f"{text[:157]}..."
