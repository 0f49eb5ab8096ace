"""Action heads: what a network's outputs mean, how wrong they are, and which actions they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn import functional

from l2bench.errors import RunFailed, UsageError
from l2bench_agents.observations import describe
from l2bench_agents.settings import CloningSettings


class ActionHead(ABC):
    """Turns a network's ``outputs`` numbers into actions, and actions into targets."""

    outputs: int

    @abstractmethod
    def targets(self, actions: np.ndarray[Any, Any]) -> Tensor:
        """Return what the network should have put out for B demonstrated actions."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss () of outputs (B, outputs)."""

    @abstractmethod
    def actions(self, outputs: Tensor) -> np.ndarray[Any, Any]:
        """Return the actions (B, ...) of outputs (B, outputs)."""

    def settle(self, targets: Tensor) -> None:
        """Decide from the first batch ever seen whatever the settings leave open."""

    def save(self) -> dict[str, Any]:
        """Return what was decided, as plain data."""
        return {}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore what `save` returned."""


class Continuous(ActionHead):
    """Actions of a box, scaled to [-1, 1] where it is bounded; the last may be a gripper.

    A gripper's output is the log-odds of its upper bound; it acts at one of its bounds.
    """

    def __init__(self, space: spaces.Box, settings: CloningSettings) -> None:
        self.outputs = space.shape[0]
        self._space = space
        bounded = np.isfinite(space.low) & np.isfinite(space.high) & (space.low < space.high)
        low = np.where(bounded, space.low, -1.0).astype(np.float64)
        high = np.where(bounded, space.high, 1.0).astype(np.float64)
        self._centre = ((low + high) / 2).astype(np.float32)
        self._scale = ((high - low) / 2).astype(np.float32)
        self._distance = functional.mse_loss if settings.loss == "mse" else functional.l1_loss
        self._weights = settings.arm_weight, settings.gripper_weight
        possible = self.outputs > 1 and bool(bounded[-1])
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
            self.gripper = bool((targets[:, -1].abs() == 1).all())

    def targets(self, actions: np.ndarray[Any, Any]) -> Tensor:
        """Return the scaled actions (B, outputs) float32."""
        if actions.shape[1:] != self._space.shape:
            raise RunFailed(
                f"demonstrated actions have shape {actions.shape[1:]}, "
                f"their space says {self._space.shape}"
            )
        return torch.from_numpy((actions.astype(np.float32) - self._centre) / self._scale)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the weighted sum of the distance and the gripper's cross-entropy."""
        arm_weight, gripper_weight = self._weights
        if not self.gripper:
            return arm_weight * self._distance(outputs, targets)
        distance = self._distance(outputs[:, :-1], targets[:, :-1])
        upper = ((targets[:, -1] + 1) / 2).clamp(0, 1)
        entropy = functional.binary_cross_entropy_with_logits(outputs[:, -1], upper)
        return arm_weight * distance + gripper_weight * entropy

    def actions(self, outputs: Tensor) -> np.ndarray[Any, Any]:
        """Return actions (B, outputs) within the bounds of the space."""
        scaled = outputs.cpu().numpy()
        if self.gripper:
            scaled[:, -1] = np.where(scaled[:, -1] >= 0, 1.0, -1.0)
        actions = scaled * self._scale + self._centre
        clipped = np.clip(actions, self._space.low, self._space.high)
        return clipped.astype(self._space.dtype, copy=False)

    def save(self) -> dict[str, Any]:
        """Return whether the last action is a gripper, None if that is open."""
        return {"gripper": self.gripper}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore it."""
        self.gripper = saved["gripper"]


class Categorical(ActionHead):
    """Discrete actions: one output each, the largest one acts."""

    def __init__(self, space: spaces.Discrete) -> None:
        self.outputs = int(space.n)
        self._start = int(space.start)

    def targets(self, actions: np.ndarray[Any, Any]) -> Tensor:
        """Return the positions (B,) int64 of the actions, given as (B,) or (B, 1)."""
        return torch.from_numpy(actions.reshape(len(actions)).astype(np.int64) - self._start)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy."""
        return functional.cross_entropy(outputs, targets)

    def actions(self, outputs: Tensor) -> np.ndarray[Any, Any]:
        """Return the actions (B,) int64."""
        return outputs.argmax(dim=1).cpu().numpy() + self._start


def make_head(space: spaces.Space[Any], settings: CloningSettings, where: str) -> ActionHead:
    """Return the head for an action space; ``where`` names its task in errors.

    Raises:
        UsageError: a space that is neither a vector nor discrete.
    """
    if isinstance(space, spaces.Discrete):
        return Categorical(space)
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return Continuous(space, settings)
    raise UsageError(
        f"agent 'bc' needs discrete or continuous actions (Discrete, or Box of one dimension); "
        f"{where} has {describe(space)}"
    )
