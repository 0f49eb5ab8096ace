"""Action heads: what a network's outputs mean, how wrong they are, and which actions they are.

Outputs are (B, L, P, ``size``) for P actions predicted at each of L frames; targets have the same
first three dimensions, and so has ``real``, which is false where the loss must not look.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from l2bench.errors import RunFailed, UsageError
from l2bench_agents.observations import describe
from l2bench_agents.settings import CloningSettings, MixtureSettings

Generators = Sequence[np.random.Generator]


class ActionHead(ABC):
    """Turns ``size`` numbers into an action, and actions into targets."""

    size: int

    def network(self, width: int, predict: int) -> nn.Module:
        """Return what leads from features (..., width) to outputs (..., predict * size)."""
        return nn.Linear(width, predict * self.size)

    @abstractmethod
    def targets(self, actions: np.ndarray[Any, Any]) -> Tensor:
        """Return what demonstrated actions (B, T, ...) are to the loss."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor, real: Tensor | None) -> Tensor:
        """Return the mean loss ()."""

    @abstractmethod
    def actions(self, outputs: Tensor, generators: Generators) -> np.ndarray[Any, Any]:
        """Return the actions (B, P, ...) of outputs (B, P, size), one generator a row."""

    def settle(self, targets: Tensor) -> None:
        """Decide from the first batch ever seen whatever the settings leave open."""

    def save(self) -> dict[str, Any]:
        """Return what was decided, as plain data."""
        return {}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore what `save` returned."""


class Box(ActionHead):
    """Actions of a box, scaled to [-1, 1] where it is bounded."""

    def __init__(self, space: spaces.Box) -> None:
        self.space = space
        self.bounded = np.isfinite(space.low) & np.isfinite(space.high) & (space.low < space.high)
        low = np.where(self.bounded, space.low, -1.0).astype(np.float64)
        high = np.where(self.bounded, space.high, 1.0).astype(np.float64)
        self._centre = ((low + high) / 2).astype(np.float32)
        self._scale = ((high - low) / 2).astype(np.float32)

    def targets(self, actions: np.ndarray[Any, Any]) -> Tensor:
        """Return the scaled actions (B, T, A) float32."""
        if actions.shape[2:] != self.space.shape:
            raise RunFailed(
                f"demonstrated actions have shape {actions.shape[2:]}, "
                f"their space says {self.space.shape}"
            )
        return torch.from_numpy((actions.astype(np.float32) - self._centre) / self._scale)

    def unscaled(self, scaled: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return actions within the bounds of the space."""
        actions = scaled * self._scale + self._centre
        clipped = np.clip(actions, self.space.low, self.space.high)
        return clipped.astype(self.space.dtype, copy=False)


class Regression(Box):
    """The actions themselves; the last may be a gripper.

    A gripper's output is the log-odds of its upper bound; it acts at one of its bounds.
    """

    def __init__(self, space: spaces.Box, settings: CloningSettings) -> None:
        super().__init__(space)
        self.size = space.shape[0]
        self._distance = functional.mse_loss if settings.loss == "mse" else functional.l1_loss
        self._weights = settings.arm_weight, settings.gripper_weight
        possible = self.size > 1 and bool(self.bounded[-1])
        if settings.gripper == "last" and not possible:
            raise UsageError(
                f"agent 'bc': gripper 'last' needs two or more actions of which the last is "
                f"bounded, not {describe(space)}; set gripper to none"
            )
        given = {"last": True, "none": False}.get(settings.gripper)
        self.gripper = given if possible else False

    def settle(self, targets: Tensor) -> None:
        """Take the last action for a gripper if it is always at one of its bounds."""
        if self.gripper is None:
            self.gripper = bool((targets[..., -1].abs() == 1).all())

    def loss(self, outputs: Tensor, targets: Tensor, real: Tensor | None) -> Tensor:
        """Return the weighted sum of the distance and the gripper's cross-entropy."""
        if real is not None:
            outputs, targets = outputs[real], targets[real]
        arm_weight, gripper_weight = self._weights
        if not self.gripper:
            return arm_weight * self._distance(outputs, targets)
        distance = self._distance(outputs[..., :-1], targets[..., :-1])
        upper = ((targets[..., -1] + 1) / 2).clamp(0, 1)
        entropy = functional.binary_cross_entropy_with_logits(outputs[..., -1], upper)
        return arm_weight * distance + gripper_weight * entropy

    def actions(self, outputs: Tensor, generators: Generators) -> np.ndarray[Any, Any]:
        """Return actions (B, P, A)."""
        scaled = outputs.cpu().numpy()
        if self.gripper:
            scaled[..., -1] = np.where(scaled[..., -1] >= 0, 1.0, -1.0)
        return self.unscaled(scaled)

    def save(self) -> dict[str, Any]:
        """Return whether the last action is a gripper, None if that is open."""
        return {"gripper": self.gripper}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore it."""
        self.gripper = saved["gripper"]


class MixtureNetwork(nn.Module):
    """Hidden layers, then means within (-1, 1), deviations and log-weights of the modes.

    As in LIBERO's public code, one more layer without activation follows the hidden ones.
    """

    def __init__(self, width: int, predict: int, actions: int, settings: MixtureSettings) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(settings.layers):
            layers += [nn.Linear(width, settings.hidden), nn.ReLU()]
            width = settings.hidden
        self.shared = nn.Sequential(*layers, nn.Linear(width, settings.hidden))
        self._shape = (predict, settings.modes * actions)
        self._modes = (predict, settings.modes)
        self._least = settings.min_std
        self.means = nn.Linear(settings.hidden, predict * settings.modes * actions)
        self.deviations = nn.Linear(settings.hidden, predict * settings.modes * actions)
        self.weights = nn.Linear(settings.hidden, predict * settings.modes)

    def forward(self, features: Tensor) -> Tensor:
        """Return outputs (..., predict * modes * (2 * actions + 1))."""
        hidden = self.shared(features)
        means = torch.unflatten(torch.tanh(self.means(hidden)), -1, self._shape)
        raw = torch.unflatten(self.deviations(hidden), -1, self._shape)
        deviations = functional.softplus(raw) + self._least
        weights = torch.unflatten(self.weights(hidden), -1, self._modes)
        return torch.cat([means, deviations, weights], dim=-1).flatten(-2)


class Mixture(Box):
    """A mixture of normal distributions with independent dimensions."""

    def __init__(self, space: spaces.Box, settings: MixtureSettings) -> None:
        super().__init__(space)
        self._settings = settings
        self._dimensions = space.shape[0]
        self.size = settings.modes * (2 * self._dimensions + 1)

    def network(self, width: int, predict: int) -> nn.Module:
        """Return the hidden layers and what reads the distribution out of them."""
        return MixtureNetwork(width, predict, self._dimensions, self._settings)

    def _parts(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        modes, each = self._settings.modes, self._settings.modes * self._dimensions
        means, deviations, weights = torch.split(outputs, [each, each, modes], dim=-1)
        shape = (modes, self._dimensions)
        means = torch.unflatten(means, -1, shape)
        return means, torch.unflatten(deviations, -1, shape), weights

    def loss(self, outputs: Tensor, targets: Tensor, real: Tensor | None) -> Tensor:
        """Return the mean negative log-likelihood."""
        means, deviations, weights = self._parts(outputs.float())
        away = (targets.unsqueeze(-2) - means) / deviations
        each = -0.5 * away.square() - deviations.log() - 0.5 * float(np.log(2 * np.pi))
        likelihood = torch.logsumexp(each.sum(-1) + functional.log_softmax(weights, -1), dim=-1)
        return -(likelihood if real is None else likelihood[real]).mean()

    def actions(self, outputs: Tensor, generators: Generators) -> np.ndarray[Any, Any]:
        """Return actions (B, P, A), drawn with each row's own generator."""
        means, deviations, weights = (p.float().cpu().numpy() for p in self._parts(outputs))
        noise = self._settings.noise
        scaled = np.empty((*means.shape[:2], self._dimensions), np.float32)
        for row, rng in enumerate(generators):
            for at in range(means.shape[1]):
                if noise == "none":
                    scaled[row, at] = means[row, at, weights[row, at].argmax()]
                    continue
                odds = np.exp(weights[row, at].astype(np.float64) - weights[row, at].max())
                mode = int(np.searchsorted(np.cumsum(odds), rng.random() * odds.sum(), "right"))
                mode = min(mode, len(odds) - 1)
                spread = deviations[row, at, mode] if noise == "full" else 1e-4
                scaled[row, at] = means[row, at, mode] + spread * rng.standard_normal(
                    self._dimensions
                )
        return self.unscaled(scaled)


class Categorical(ActionHead):
    """Discrete actions: one output each, the largest one acts."""

    def __init__(self, space: spaces.Discrete) -> None:
        self.size = int(space.n)
        self._start = int(space.start)

    def targets(self, actions: np.ndarray[Any, Any]) -> Tensor:
        """Return the positions (B, T) int64 of the actions, given as (B, T) or (B, T, 1)."""
        return torch.from_numpy(actions.reshape(actions.shape[:2]).astype(np.int64) - self._start)

    def loss(self, outputs: Tensor, targets: Tensor, real: Tensor | None) -> Tensor:
        """Return the mean cross-entropy."""
        if real is not None:
            outputs, targets = outputs[real], targets[real]
        return functional.cross_entropy(outputs.reshape(-1, self.size), targets.reshape(-1))

    def actions(self, outputs: Tensor, generators: Generators) -> np.ndarray[Any, Any]:
        """Return the actions (B, P) int64."""
        return outputs.argmax(dim=-1).cpu().numpy() + self._start


def make_head(space: spaces.Space[Any], settings: CloningSettings, where: str) -> ActionHead:
    """Return the head for an action space; ``where`` names its task in errors.

    Raises:
        UsageError: a space that is neither a vector nor discrete, or a mixture of labels.
    """
    if isinstance(space, spaces.Discrete):
        if settings.head == "gmm":
            raise UsageError(
                f"agent 'bc': head 'gmm' is for continuous actions; {where} has {describe(space)}; "
                f"set head to auto"
            )
        return Categorical(space)
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        if settings.head == "gmm":
            return Mixture(space, settings.gmm)
        return Regression(space, settings)
    raise UsageError(
        f"agent 'bc' needs discrete or continuous actions (Discrete, or Box of one dimension); "
        f"{where} has {describe(space)}"
    )
