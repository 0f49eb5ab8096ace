"""Transformers: blocks of attention, and the one over the frames of a window."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from l2bench_agents.settings import TransformerSettings


class Attention(nn.Module):
    """Every token looks at those the mask allows, with several heads."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        inside = settings.heads * settings.head_width
        self._heads = (3, settings.heads, settings.head_width)
        self.inputs = nn.Linear(settings.width, 3 * inside, bias=False)
        self.outputs = nn.Linear(inside, settings.width)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """Return what each token (B, N, width) found where ``mask`` (N, N) lets it look."""
        heads = self.inputs(tokens).unflatten(-1, self._heads)
        queries, keys, values = heads.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        return self.dropout(self.outputs(found.transpose(1, 2).flatten(2)))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention and a hidden layer, each after a normalisation and passed around.

    The hidden layer's part is left out of whole windows with the probability ``dropout``, as in
    LIBERO's public code.
    """

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.before = nn.LayerNorm(settings.width)
        self.attention = Attention(settings)
        self.between = nn.LayerNorm(settings.width)
        self.hidden = nn.Sequential(
            nn.Linear(settings.width, settings.hidden),
            nn.GELU(),
            nn.Dropout(settings.dropout),
            nn.Linear(settings.hidden, settings.width),
            nn.Dropout(settings.dropout),
        )
        self._leave_out = settings.dropout

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """Return the changed tokens (B, N, width)."""
        tokens = tokens + self.attention(self.before(tokens), mask)
        change = self.hidden(self.between(tokens))
        if self.training and self._leave_out:
            keep = 1 - self._leave_out
            change = change * change.new_empty(len(change), 1, 1).bernoulli_(keep) / keep
        return tokens + change  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Several blocks."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.layers))

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the changed tokens (B, N, width)."""
        for block in self.blocks:
            tokens = block(tokens, mask)
        return tokens


class TemporalTransformer(nn.Module):
    """Frames of n tokens each look at themselves and at the frames before them."""

    waves: Tensor

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        steps = torch.arange(0, settings.width, 2) / settings.width
        self.register_buffer("waves", 10.0**-steps, persistent=False)
        self.transformer = Transformer(settings)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the first token (B, L, width) of each frame, of tokens (B, L, n, width)."""
        number, length, each, width = tokens.shape
        angles = torch.arange(length, device=tokens.device)[:, None] * self.waves
        placed = tokens + torch.cat([angles.sin(), angles.cos()], dim=-1)[:, None]
        frames = torch.arange(length, device=tokens.device).repeat_interleave(each)
        mask = frames[:, None] >= frames[None, :]
        seen = self.transformer(placed.flatten(1, 2), mask)
        return seen.view(number, length, each, width)[:, :, 0]  # type: ignore[no-any-return]

    def latest(
        self, tokens: Tensor, memories: Sequence[Tensor | None], length: int
    ) -> tuple[Tensor, list[Tensor]]:
        """Return what is made (B, width) of one new frame each (B, 1, n, width).

        ``memories`` are the tokens (T, n, width) of earlier frames of each row's episode; at most
        ``length`` frames are looked at and returned as the next memories.
        """
        frames = [
            new if old is None else torch.cat([old, new])[-length:]
            for old, new in zip(memories, tokens, strict=True)
        ]
        results: list[Tensor | None] = [None] * len(frames)
        for many in sorted({len(each) for each in frames}):
            alike = [row for row, each in enumerate(frames) if len(each) == many]
            made = self(torch.stack([frames[row] for row in alike]))[:, -1]
            for row, result in zip(alike, made, strict=True):
                results[row] = result
        return torch.stack([each for each in results if each is not None]), frames


class TaskToken(nn.Module):
    """The task's vector as a token; where there is none, a token that is learned."""

    def __init__(self, task_width: int, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(task_width, width) if task_width else None
        self.token = None if task_width else nn.Parameter(torch.zeros(width))

    def forward(self, task: Tensor) -> Tensor:
        """Return tokens (B, width) of tasks (B, E)."""
        if self.layer is not None:
            return self.layer(task)  # type: ignore[no-any-return]
        assert self.token is not None
        return self.token.expand(len(task), -1)


class VectorTokens(nn.Module):
    """A token for each part of the joined vectors."""

    def __init__(self, widths: Sequence[int], width: int) -> None:
        super().__init__()
        self._widths = list(widths)
        self.layers = nn.ModuleList(nn.Linear(each, width) for each in widths)

    def forward(self, vector: Tensor | None) -> list[Tensor]:
        """Return tokens (B, L, width) of vectors (B, L, V)."""
        if vector is None:
            return []
        parts = torch.split(vector, self._widths, dim=-1)
        return [layer(part) for layer, part in zip(self.layers, parts, strict=True)]
