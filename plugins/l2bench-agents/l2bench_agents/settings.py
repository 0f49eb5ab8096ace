"""The settings of behaviour cloning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from l2bench.agent import AgentSettings

Share = Annotated[float, Field(gt=0, lt=1)]
Width = Annotated[int, Field(ge=1, le=65536)]


class CloningSettings(AgentSettings):
    """Settings of behaviour cloning.

    ``hidden`` holds the widths of the policy's hidden layers. ``schedule`` lets the learning rate
    fall to 0 over each task's whole budget along half a cosine, or leaves it. ``loss`` is that of
    continuous actions; the loss of a batch is ``arm_weight`` times its mean over all actions but
    the gripper plus ``gripper_weight`` times the gripper's cross-entropy. ``gripper`` says whether
    the last of several continuous actions takes two values only; ``auto`` looks at the first
    batch. ``std_floor`` and ``clip`` (in standard deviations) bound the standardised inputs.
    ``conditioning`` adds the task's position as one-hot inputs wherever it is revealed.

    For ``algorithm: replay``, ``memory_part`` is the part of each finished task's pairs that is
    kept, and ``memory_share`` the part of each batch that comes from memory once there is any.
    """

    algorithm: Literal["sequential", "replay"] = "sequential"
    policy: Literal["mlp"] = "mlp"
    hidden: tuple[Width, ...] = (256, 256)
    learning_rate: float = Field(1e-3, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    schedule: Literal["cosine", "constant"] = "cosine"
    batch_size: int = Field(64, ge=1)
    loss: Literal["mse", "l1"] = "mse"
    arm_weight: float = Field(4.0, gt=0)
    gripper: Literal["auto", "last", "none"] = "auto"
    gripper_weight: float = Field(0.2, ge=0)
    std_floor: float = Field(0.01, gt=0)
    clip: float = Field(5.0, gt=0)
    conditioning: Literal["task", "none"] = "task"
    memory_part: float = Field(1.0, gt=0, le=1)
    memory_share: Share = 0.5

    @model_validator(mode="after")
    def _check(self) -> CloningSettings:
        if self.algorithm == "replay" and self.batch_size < 2:
            raise ValueError("replay needs a batch_size of 2 or more: one new pair, one old")
        return self
