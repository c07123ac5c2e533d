"""A class for each text, read from all of its tokens or from the last one.

Classes are token ids after all others, and the answer is a choice between classes alone: the loss
by chance is the logarithm of their number. The logits of the tokens are pooled, which equals
pooling the last layer's outputs, for the unembedding is linear.

Shapes: B batch, T time, V vocabulary, C classes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fathom.objectives import arrays
from fathom.objectives.arrays import Rows, Sequences
from fathom.objectives.contract import IGNORED, Batch, Model
from fathom.objectives.files.reading import digest_of
from fathom.objectives.keys import eval_chunk_tokens
from fathom.objectives.random_numbers import training_rows
from fathom.objectives.rows import tsv
from fathom.objectives.rows.classification.keys import ClassificationConfig
from fathom.objectives.rows.classification.labelled_texts import (
    Text,
    TextVocabulary,
    rows_of,
)
from fathom.objectives.rows.held_out import warn_of_shared
from fathom.objectives.text.encode import Ids
from fathom.objectives.token_ids import PAD
from fathom.objectives.token_loss import over_rows, processes_of


@dataclass(frozen=True, slots=True, eq=False)
class TextSplit:
    """Texts and the ids of their classes."""

    rows: Sequences
    classes: Ids | Tensor

    @classmethod
    def of(cls, texts: list[Text], vocabulary: TextVocabulary, context: int) -> Self:
        """The texts as ids, each cut to the context."""
        first, classes = vocabulary.first_class, vocabulary.classes
        ids_of = {label: first + at for at, label in enumerate(classes)}
        return cls(
            Sequences.of((vocabulary.ids(text.text)[:context] for text in texts), vocabulary.size),
            np.array([ids_of[text.label] for text in texts], np.int64),
        )

    def to(self, device: torch.device) -> Self:
        """The split with its ids on the device."""
        return replace(self, rows=self.rows.to(device), classes=arrays.placed(self.classes, device))

    def batch(self, rows: Rows, width: int) -> Batch:
        """Batch (R, width) of the texts `rows` (R,); the target of the last token is the class."""
        inputs_BT = self.rows.padded(rows, width)
        at_B = arrays.sent(torch.from_numpy(rows), inputs_BT.device)
        last_B1 = (inputs_BT != PAD).sum(1, keepdim=True) - 1
        targets_BT = torch.full_like(inputs_BT, IGNORED)
        return Batch(
            inputs_BT, targets_BT.scatter(1, last_B1, arrays.tokens_of(self.classes)[at_B][:, None])
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Classification:
    """The objective `classification`: arrays as prepared, tensors once placed with `to`."""

    train: TextSplit
    dev: TextSplit
    further: Mapping[str, TextSplit]
    classes: tuple[str, ...]
    first_class: int
    """Token id of the first class; the other classes follow."""
    pooling: str
    """Pooling of the tokens' logits: `mean` or `last`."""
    context: int
    eval_examples: int
    data_digest: str = ""
    """Digest of all texts of every split, with their labels."""

    @classmethod
    def prepare(cls, keys: ClassificationConfig) -> Self:
        """The objective with its texts read, or drawn, and encoded."""
        texts, vocabulary = keys.read()
        warn_of_shared({name: rows_of(rows) for name, rows in texts.items()})
        context = keys.context
        splits = {name: TextSplit.of(rows, vocabulary, context) for name, rows in texts.items()}
        return cls(
            train=splits.pop("train"),
            dev=splits.pop("dev"),
            further=splits,
            classes=vocabulary.classes,
            first_class=vocabulary.first_class,
            pooling=keys.pooling,
            context=context,
            eval_examples=keys.eval_examples,
            data_digest=digest_of(tsv.parts_of(texts, "text", "label")),
        )

    @property
    def vocab_size(self) -> int:
        """Number of token ids, those of the classes included."""
        return self.first_class + len(self.classes)

    @property
    def chance_loss(self) -> float:
        """Loss of the uniform guess between the classes, in nats."""
        return math.log(len(self.classes))

    def to(self, device: torch.device) -> Self:
        """The objective with every split on the device."""
        return replace(
            self,
            train=self.train.to(device),
            dev=self.dev.to(device),
            further={name: split.to(device) for name, split in self.further.items()},
        )

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Batch of training texts, drawn on the host, which must know their lengths."""
        rows = training_rows(len(self.train.rows), seed=seed, step=step, batch_size=batch_size)
        longest = int(self.train.rows.lengths[rows].max())
        return self.train.batch(rows, arrays.batch_width(longest, self.context))

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats per text, a scalar."""
        logits_BC, classes_B = self._pooled(model, batch)
        return F.cross_entropy(logits_BC, classes_B)

    def evaluate(self, model: Model) -> dict[str, float]:
        """Loss and accuracy over the same texts of `dev` every time."""
        rows = arrays.spread(len(self.dev.rows), self.eval_examples)
        loss, accuracy = self._scores(model, self.dev, rows)
        return {"loss": loss, "accuracy/dev": accuracy}

    def final_metrics(self, model: Model) -> dict[str, float]:
        """Accuracy on the whole of every split."""
        return {
            f"accuracy/{name}": self._scores(model, split, np.arange(len(split.rows)))[1]
            for name, split in {"dev": self.dev, **self.further}.items()
        }

    @torch.no_grad()
    def _scores(self, model: Model, split: TextSplit, rows: Rows) -> tuple[float, float]:
        """Mean nats per text, and share of the texts that are classified correctly."""
        sums = []
        lengths_R, most = split.rows.lengths[rows], eval_chunk_tokens(self.vocab_size)
        for chunk in arrays.chunks(rows, lengths_R, most, processes_of(model)):
            batch = split.batch(chunk, int(split.rows.lengths[chunk].max()))
            logits_BC, classes_B = self._pooled(model, batch)
            nats = F.cross_entropy(logits_BC, classes_B, reduction="sum")
            sums.append(torch.stack((nats, (logits_BC.argmax(1) == classes_B).sum())))
        # A process alone waits for the device here only; summed in double precision.
        nats_sum, right = torch.stack(sums).double().sum(0).tolist()
        return nats_sum / len(rows), right / len(rows)

    def _pooled(self, model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of the classes (B, C), in float32, and the class of each text from 0."""
        pooled = partial(_pooled_logits, first_class=self.first_class, last=self.pooling == "last")
        logits_BC = over_rows(pooled, model, batch)
        asked_BT = batch.targets != IGNORED
        return logits_BC, (batch.targets * asked_BT).sum(1) - self.first_class


def _pooled_logits(model: Model, batch: Batch, *, first_class: int, last: bool) -> Tensor:
    """Logits of the classes (B, C), in float32, of the last token or the mean of all."""
    logits_BTC = model(batch.inputs)[:, :, first_class:].float()
    pooled_BT = batch.targets != IGNORED if last else batch.inputs != PAD
    weights_BT = pooled_BT / pooled_BT.sum(1, keepdim=True)
    return (weights_BT[:, :, None] * logits_BTC).sum(1)
