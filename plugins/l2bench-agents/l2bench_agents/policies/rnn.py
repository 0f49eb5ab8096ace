"""BC-RNN: a ResNet for each camera and an LSTM over the frames (LIBERO, Liu et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from l2bench_agents.heads import ActionHead
from l2bench_agents.observations import Layout
from l2bench_agents.policies.base import Policy, over_frames
from l2bench_agents.policies.encoders import ResNetEncoder
from l2bench_agents.settings import CloningSettings

#: Hidden and cell state (layers, width), and for how many frames they have gone on.
State = tuple[Tensor, Tensor, int]


class RnnPolicy(Policy):
    """Encoded images, vectors and the task through an LSTM.

    While acting its state goes on from frame to frame, for as many frames as it is trained on.
    """

    def __init__(
        self, layout: Layout, task_width: int, head: ActionHead, settings: CloningSettings
    ) -> None:
        super().__init__(layout, task_width, head, settings)
        shape = settings.rnn
        self.encoders = nn.ModuleList(
            ResNetEncoder(channels, shape.image_width, task_width)
            for *_, channels in layout.images.values()
        )
        self.text = nn.Linear(task_width, shape.text_width) if task_width else None
        inputs = shape.image_width * len(layout.images) + layout.width
        self.lstm = nn.LSTM(
            inputs + (shape.text_width if task_width else 0),
            shape.width,
            shape.layers,
            batch_first=True,
            dropout=shape.dropout,
        )
        self._restart = shape.restart or settings.length
        self.finish(shape.width)

    def features(self, vector: Tensor | None, images: Sequence[Tensor], task: Tensor) -> Tensor:
        """Return features (B, L, width) from a state of zeros."""
        return self.lstm(self._inputs(vector, images, task))[0]  # type: ignore[no-any-return]

    def recall(
        self,
        vector: Tensor | None,
        images: Sequence[Tensor],
        task: Tensor,
        memories: Sequence[Any],
    ) -> tuple[Tensor, list[Any]]:
        """Return features (B, width) and the LSTM's state with its age, for each row."""
        inputs = self._inputs(vector, images, task)
        nothing = inputs.new_zeros(self.lstm.num_layers, self.lstm.hidden_size)
        fresh: State = (nothing, nothing, 0)
        states: list[State] = [
            fresh if old is None or old[2] == self._restart else old for old in memories
        ]
        hidden = torch.stack([state[0] for state in states], dim=1)
        cell = torch.stack([state[1] for state in states], dim=1)
        features, (hidden, cell) = self.lstm(inputs, (hidden, cell))
        remembered = [(hidden[:, n], cell[:, n], age + 1) for n, (*_, age) in enumerate(states)]
        return features[:, 0], remembered

    def _inputs(self, vector: Tensor | None, images: Sequence[Tensor], task: Tensor) -> Tensor:
        pairs = zip(self.encoders, images, strict=True)
        parts = [over_frames(encode, image, task) for encode, image in pairs]
        parts += [] if vector is None else [vector]
        if self.text is not None:
            length = parts[0].shape[1]
            parts.append(self.text(task).unsqueeze(1).expand(-1, length, -1))
        return torch.cat(parts, dim=-1)
