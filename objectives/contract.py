"""The interface of every objective.

An objective is prepared once, on the driver, from plain settings; it then travels to every worker
as numpy arrays (read without copying from a node's object store) and is placed on the device where
the trial trains.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

Model = Callable[..., Tensor]
"""Function from tokens (B, T), and sources (B, S) if it has an encoder, to logits (B, T, V)."""


IGNORED = -100
"""Id of a target without loss, as in a prompt or in padding."""


class Batch(NamedTuple):
    """Inputs of the model and the next tokens it should predict, both (B, T) and int64.

    T is at most the objective's context. A target may be `IGNORED`.
    """

    inputs: Tensor
    targets: Tensor
    sources: Tensor | None = None
    """Tokens that an encoder reads, (B, S) and int64, padded with token 0; S is at most the
    context. None for a model without an encoder."""

    @property
    def read(self) -> tuple[Tensor, ...]:
        """Arguments of the model: the inputs (B, T), and the sources (B, S) if there are any."""
        return (self.inputs,) if self.sources is None else (self.inputs, self.sources)

    def mapped(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """The batch with each tensor replaced by what `change` returns for it."""
        return Batch._make(None if part is None else change(part) for part in self)

    def chunk(self, count: int) -> list["Batch"]:
        """The batch in at most `count` parts of whole sequences."""
        parts = (() if tensor is None else tensor.chunk(count) for tensor in self)
        return [Batch(*part) for part in zip(*filter(None, parts), strict=True)]


class Objective(Protocol):
    """A task that shapes are trained and evaluated on. Losses are nats, lower is better."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""

    @property
    def context(self) -> int:
        """Longest sequence, in tokens; the length of the training sequences."""

    @property
    def chance_loss(self) -> float:
        """Loss of an untrained guess in nats; a trained model above it has diverged."""

    def to(self, device: torch.device) -> Self:
        """The objective with its data on the device."""

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Training batch of a step, a function of seed and step alone: `batch_size` sequences or,
        where sequences are shorter than the context, a multiple of this number that has no more
        tokens.

        Resumed trials are therefore bit-identical, and shapes are compared on the same data in
        the same order.
        """

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean loss over the batch's targets in nats, a scalar with a gradient."""

    def evaluate(self, model: Model) -> dict[str, float]:
        """Metrics on a fixed held-out set by name; `loss` is one of them."""

    def final_metrics(self, model: Model) -> dict[str, float]:
        """Metrics by name that are measured once, at the end, because they take long."""


def data_digest_of(objective: Objective) -> str:
    """A digest of all data of an objective: its optional member `data_digest`; empty if it has
    none, for example because a rule draws its data."""
    return str(getattr(objective, "data_digest", ""))


def content_digest_of(objective: Objective | None, stopped: Callable[[], bool]) -> str | None:
    """A digest of every byte, for data that `data_digest_of` only samples: the objective's optional
    `content_digest`; empty if it has none, None if it was stopped."""
    whole: Callable[[Callable[[], bool]], str | None] | None
    whole = getattr(objective, "content_digest", None)
    return whole(stopped) if whole else ""


def files_of(objective: Objective, model: Model) -> Mapping[str, str]:
    """Text files by name that an objective makes with a trained model, such as translations: its
    optional `files`; empty if it has no such member."""
    files: Callable[[Model], Mapping[str, str]] | None = getattr(objective, "files", None)
    return files(model) if files else {}
