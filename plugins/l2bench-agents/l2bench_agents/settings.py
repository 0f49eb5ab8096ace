"""The settings of behaviour cloning, and those of LIBERO's published agents."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from l2bench.agent import AgentSettings
from l2bench.suite import Model

Share = Annotated[float, Field(gt=0, lt=1)]
Dropout = Annotated[float, Field(ge=0, lt=1)]
Width = Annotated[int, Field(ge=1, le=65536)]
Count = Annotated[int, Field(ge=1)]
Span = tuple[str, Annotated[int, Field(ge=0)], Count]


class EmbeddingSettings(Model):
    """How the network is told which task it is.

    ``one_hot``: the task's position, nothing where it is hidden. ``hashed_words``: the instruction
    as the sum of fixed random signs of its words and pairs of words, ``width`` numbers. ``bert``:
    the instruction through a frozen BERT, read from the folder ``path`` (or a name on the model
    hub), cut at ``words`` tokens. ``none``: not at all.
    """

    kind: Literal["one_hot", "hashed_words", "bert", "none"] = "one_hot"
    width: Width = 768
    path: str = "bert-base-cased"
    words: Annotated[int, Field(ge=3, le=512)] = 25


class AugmentationSettings(Model):
    """Changes made to training images, the same for all frames and cameras of a window.

    Images are moved by up to half of ``translation`` pixels each way; brightness, contrast and
    saturation are multiplied by a factor within 1 -/+ their number, the hue turned by up to
    ``hue`` of a full circle. A window keeps its colours with the probability ``skip``.
    """

    translation: Annotated[int, Field(ge=0)] = 8
    brightness: Annotated[float, Field(ge=0, le=1)] = 0.3
    contrast: Annotated[float, Field(ge=0, le=1)] = 0.3
    saturation: Annotated[float, Field(ge=0, le=1)] = 0.3
    hue: Annotated[float, Field(ge=0, le=0.5)] = 0.3
    skip: Annotated[float, Field(ge=0, le=1)] = 0.1


class MixtureSettings(Model):
    """The mixture of ``modes`` normal distributions that the head ``gmm`` describes actions with.

    ``layers`` hidden layers of ``hidden`` lead to it. Deviations are at least ``min_std``.
    ``noise`` says how actions are drawn: from the mixture (``full``), with deviations of 0.0001
    (``low``), or as the mean of the likeliest mode (``none``).
    """

    modes: Count = 5
    hidden: Width = 1024
    layers: Count = 2
    min_std: float = Field(1e-4, gt=0)
    noise: Literal["full", "low", "none"] = "full"


class RecurrentSettings(Model):
    """The LSTM of the policy ``rnn``.

    ``image_width`` and ``text_width`` are those of its encoded images and instruction. While
    acting, its state starts anew after ``restart`` frames (None: as many as it is trained on).
    """

    width: Width = 1024
    layers: Count = 2
    dropout: Dropout = 0.0
    image_width: Annotated[int, Field(ge=2, le=65536, multiple_of=2)] = 64
    text_width: Width = 32
    restart: Count | None = None


class TransformerSettings(Model):
    """A transformer: token width, layers, heads and their width, width of the hidden layers."""

    width: Annotated[int, Field(ge=2, le=65536, multiple_of=2)] = 64
    layers: Count = 4
    heads: Count = 6
    head_width: Width = 64
    hidden: Width = 256
    dropout: Dropout = 0.1


class SpatialSettings(TransformerSettings):
    """The transformer over the patches (``patch`` by ``patch`` pixels at half size) of a frame."""

    width: Annotated[int, Field(ge=2, le=65536, multiple_of=2)] = 128
    layers: Count = 7
    heads: Count = 8
    head_width: Width = 120
    patch: Count = 8


class EwcSettings(Model):
    """``strength`` of the penalty; what is left of older tasks' importance when one is added."""

    strength: float = Field(50_000.0, ge=0)
    decay: float = Field(0.9, ge=0, le=1)


class PackNetSettings(Model):
    """Part of a task's weights that is freed when it is over, and epochs of training after that."""

    prune: Share = 0.75
    epochs: Annotated[int, Field(ge=0)] = 50


class CloningSettings(AgentSettings):
    """Settings of behaviour cloning.

    ``seq_len`` is how many frames a training window has (None: 1 for ``mlp``, else 10); ``predict``
    how many actions a frame predicts, of which ``chunk`` are carried out before the next
    observation. ``hidden`` holds the widths of the hidden layers of ``mlp``. ``vectors`` names the
    parts of the observation that the policy sees as vectors, each as (key, first, end); None: all.

    ``schedule`` lets the learning rate fall to ``final_rate`` over each task's whole budget along
    half a cosine, in every update or by epochs, or leaves it. ``clip_gradient`` is the largest
    norm of a gradient. ``pad_loss`` counts the frames that windows are filled up with.

    ``head`` is ``auto`` (regression, or classification of discrete actions) or ``gmm``. ``loss`` is
    that of regression: ``arm_weight`` times its mean over all actions but the gripper plus
    ``gripper_weight`` times the gripper's cross-entropy. ``gripper`` says whether the last of
    several continuous actions takes two values only; ``auto`` looks at the first batch.
    ``std_floor`` and ``clip`` (in standard deviations) bound the standardised vectors.

    Of a finished task, ``memory_part`` of its windows are remembered, at most ``memory_count``, by
    ``memory_choice`` the first ones or random ones (random trajectories, for windows of several
    frames). ``replay`` adds ``memory_batch`` of them to each batch, or makes ``memory_share`` of
    the batch of them if it is None.

    ``amp`` computes in bfloat16 and ``compile`` compiles the network, on a GPU only; ``prefetch``
    batches are gathered ahead by a thread.
    """

    algorithm: Literal[
        "sequential", "replay", "agem", "ewc", "packnet", "multitask", "single_task"
    ] = "sequential"
    policy: Literal["mlp", "rnn", "transformer", "vilt"] = "mlp"
    seq_len: Count | None = None
    predict: Count = 1
    chunk: Count = 1
    hidden: tuple[Width, ...] = (256, 256)
    rnn: RecurrentSettings = RecurrentSettings()
    transformer: TransformerSettings = TransformerSettings()
    spatial: SpatialSettings = SpatialSettings()
    vectors: dict[str, Span] | None = None
    embedding: EmbeddingSettings = EmbeddingSettings()
    augment: bool = False
    augmentation: AugmentationSettings = AugmentationSettings()
    learning_rate: float = Field(1e-3, gt=0)
    final_rate: float = Field(0.0, ge=0)
    weight_decay: float = Field(0.01, ge=0)
    schedule: Literal["cosine", "cosine_epochs", "constant"] = "cosine"
    batch_size: Count = 64
    clip_gradient: Annotated[float, Field(gt=0)] | None = None
    pad_loss: bool = True
    head: Literal["auto", "gmm"] = "auto"
    gmm: MixtureSettings = MixtureSettings()
    loss: Literal["mse", "l1"] = "mse"
    arm_weight: float = Field(4.0, gt=0)
    gripper: Literal["auto", "last", "none"] = "auto"
    gripper_weight: float = Field(0.2, ge=0)
    standardise: bool = True
    std_floor: float = Field(0.01, gt=0)
    clip: float = Field(5.0, gt=0)
    memory_part: float = Field(1.0, gt=0, le=1)
    memory_count: Count | None = None
    memory_choice: Literal["random", "first"] = "random"
    memory_share: Share = 0.5
    memory_batch: Count | None = None
    ewc: EwcSettings = EwcSettings()
    packnet: PackNetSettings = PackNetSettings()
    amp: bool = False
    compile: bool = False
    prefetch: Annotated[int, Field(ge=0, le=64)] = 0

    @field_validator("embedding", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check(self) -> CloningSettings:
        beside = self.memory_batch is not None
        if self.algorithm == "replay" and self.batch_size < 2 and not beside:
            raise ValueError("replay needs a batch_size of 2 or more: one new window, one old")
        if self.algorithm == "multitask" and self.batch_size < 2:
            raise ValueError("multitask needs a batch_size of 2 or more: one new window, one old")
        if self.chunk > self.predict:
            raise ValueError(f"a chunk of {self.chunk} actions needs predict: {self.chunk} or more")
        if self.chunk > 1 and self.length > 1:
            raise ValueError(
                "a chunk of several actions hides observations that the policy's window of "
                f"{self.length} frames needs; set seq_len to 1, or chunk to 1"
            )
        for name, (_, first, end) in (self.vectors or {}).items():
            if first >= end:
                raise ValueError(f"vectors.{name} is empty: first {first}, end {end}")
        return self

    @property
    def length(self) -> int:
        """The number of frames in a window."""
        return self.seq_len or (1 if self.policy == "mlp" else 10)


class PublishedSettings(CloningSettings):
    """What LIBERO's policies share: its public configuration, with another default embedding."""

    embedding: EmbeddingSettings = EmbeddingSettings(kind="hashed_words")
    augment: bool = True
    learning_rate: float = Field(1e-4, gt=0)
    final_rate: float = Field(1e-5, ge=0)
    weight_decay: float = Field(1e-4, ge=0)
    schedule: Literal["cosine", "cosine_epochs", "constant"] = "cosine_epochs"
    batch_size: Count = 32
    clip_gradient: Annotated[float, Field(gt=0)] | None = 100.0
    head: Literal["auto", "gmm"] = "gmm"
    standardise: bool = False
    memory_count: Count | None = 1000
    memory_choice: Literal["random", "first"] = "first"
    memory_batch: Count | None = 32


class RnnSettings(PublishedSettings):
    """Settings of LIBERO's BC-RNN."""

    policy: Literal["mlp", "rnn", "transformer", "vilt"] = "rnn"


class TemporalSettings(PublishedSettings):
    """Settings of LIBERO's BC-Transformer."""

    policy: Literal["mlp", "rnn", "transformer", "vilt"] = "transformer"


class ViltSettings(PublishedSettings):
    """Settings of LIBERO's BC-ViLT."""

    policy: Literal["mlp", "rnn", "transformer", "vilt"] = "vilt"
