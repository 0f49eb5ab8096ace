"""What tells a network its task: vectors made from positions or instructions, never learned."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2bench.agent import TaskContext
from l2bench.errors import L2benchError, Unsupported, UsageError
from l2bench_agents.settings import EmbeddingSettings


class Embedding:
    """Vectors (``width``,) of tasks; the same task has the same one in every run."""

    width: int = 0

    def vector(self, task: TaskContext) -> Tensor:
        """Return a task's vector."""
        return torch.zeros(0)

    def rows(self, task: TaskContext, number: int) -> Tensor:
        """Return a task's vector for each of B rows (B, width)."""
        return self.vector(task).expand(number, self.width)


class OneHot(Embedding):
    """The task's position in the suite; nothing where tasks are hidden."""

    def __init__(self, tasks: Sequence[TaskContext]) -> None:
        indices = [task.index for task in tasks if task.index is not None]
        self.width = max(indices) + 1 if indices else 0

    def vector(self, task: TaskContext) -> Tensor:
        """Return zeros with a one at the task's position."""
        vector = torch.zeros(self.width)
        if task.index is not None and self.width:
            vector[task.index] = 1
        return vector


class OfInstruction(Embedding):
    """A vector made from a task's language instruction."""

    def __init__(self, kind: str, tasks: Sequence[TaskContext]) -> None:
        self._kind = kind
        self._known: dict[str, Tensor] = {}
        silent = [task for task in tasks if task.language is None]
        if silent and silent[0].index is not None:  # hidden tasks show theirs later, if at all
            self._refuse(f"task '{silent[0].id}' tells the agent none")

    def vector(self, task: TaskContext) -> Tensor:
        """Return the vector of the task's instruction.

        Raises:
            UsageError: if there is none.
        """
        if task.language is None:
            self._refuse("a task tells the agent none")
        assert task.language is not None
        if task.language not in self._known:
            with torch.inference_mode(False):  # kept, and learned with after being acted with
                self._known[task.language] = self._embed(task.language)
        return self._known[task.language]

    def _refuse(self, found: str) -> None:
        raise UsageError(
            f"embedding '{self._kind}' needs language instructions, and {found}; add language to "
            f"scenario.reveal and to the task, or set embedding to one_hot"
        )

    def _embed(self, text: str) -> Tensor:
        raise NotImplementedError


class HashedWords(OfInstruction):
    """The sum of fixed random signs of the words and pairs of neighbouring words.

    Instructions that share words have similar vectors; no meaning is known. The signs are bits of
    a word's SHAKE-256, the vector is scaled to a mean square of 1.
    """

    def __init__(self, width: int, tasks: Sequence[TaskContext]) -> None:
        super().__init__("hashed_words", tasks)
        self.width = width

    def _embed(self, text: str) -> Tensor:
        words = re.findall(r"\w+", text.lower())
        total = np.zeros(self.width)
        for part in [*words, *(" ".join(pair) for pair in pairwise(words))]:
            digest = hashlib.shake_256(part.encode()).digest((self.width + 7) // 8)
            bits = np.unpackbits(np.frombuffer(digest, np.uint8))[: self.width]
            total += bits * 2.0 - 1.0
        size = float(np.sqrt(np.mean(total**2))) or 1.0
        return torch.from_numpy((total / size).astype(np.float32))


class Bert(OfInstruction):
    """The pooled output of a frozen BERT; its weights are read as safetensors only."""

    def __init__(self, settings: EmbeddingSettings, tasks: Sequence[TaskContext]) -> None:
        super().__init__("bert", tasks)
        self._settings = settings
        self._tokeniser, self._model = _load(settings.path)
        self.width = int(self._model.config.hidden_size)
        for task in tasks:
            if task.language is not None:
                self.vector(task)

    @torch.no_grad()
    def _embed(self, text: str) -> Tensor:
        tokens = self._tokeniser(
            text,
            max_length=self._settings.words,
            padding="max_length",
            truncation=True,
            return_tensors="pt",
        )
        pooled = self._model(tokens["input_ids"], tokens["attention_mask"]).pooler_output
        return torch.as_tensor(pooled[0], dtype=torch.float32).clone()


def _load(path: str) -> tuple[Any, Any]:
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        raise Unsupported(
            "embedding 'bert' needs transformers; pip install 'l2bench-agents[bert]'"
        ) from None
    local = Path(path).is_dir()
    try:
        with torch.random.fork_rng(devices=[]):
            tokeniser = AutoTokenizer.from_pretrained(path, local_files_only=local)
            model = AutoModel.from_pretrained(
                path, local_files_only=local, use_safetensors=True, dtype=torch.float32
            )
        return tokeniser, model.eval()
    except L2benchError:
        raise
    except Exception as error:  # the library raises whatever its parts raise
        reason = " ".join(str(error).split())[:160]
        raise Unsupported(
            f"embedding.path {path!r} holds no BERT that can be read ({reason}); give a folder "
            f"with config.json, a tokeniser and model.safetensors"
        ) from None


def make_embedding(settings: EmbeddingSettings, tasks: Sequence[TaskContext]) -> Embedding:
    """Return the embedding that the settings ask for.

    Raises:
        UsageError: instructions are needed and a task has none.
        Unsupported: BERT cannot be read.
    """
    if settings.kind == "one_hot":
        return OneHot(tasks)
    if settings.kind == "hashed_words":
        return HashedWords(settings.width, tasks)
    if settings.kind == "bert":
        return Bert(settings, tasks)
    return Embedding()
