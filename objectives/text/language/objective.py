"""Next-token prediction: nats per token and bits per byte, on text that training never sees."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from fathom.objectives.arrays import placed, sent, spread, tokens_of, windows
from fathom.objectives.contract import Batch, Model
from fathom.objectives.keys import eval_chunk_tokens
from fathom.objectives.random_numbers import training_windows
from fathom.objectives.text.corpus import check_lengths, read_corpus
from fathom.objectives.text.encode import Ids, encode
from fathom.objectives.text.language.keys import LanguageConfig
from fathom.objectives.token_loss import mean_loss, token_losses


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Language:
    """The objective `language`: arrays as prepared, tensors once placed with `to`."""

    train: Ids | Tensor
    validation: Ids | Tensor
    vocab_size: int
    context: int
    eval_windows: int
    """Sequences of `context` tokens in an evaluation."""
    tokens_per_byte: float
    """Tokens per byte of the validation split."""
    data_digest: str = ""
    """Digest of all of the text."""

    @classmethod
    def prepare(cls, keys: LanguageConfig) -> Self:
        """The objective with its text read, split and encoded."""
        context, eval_tokens = keys.context, keys.eval_tokens
        text = read_corpus(keys.corpus, validation_fraction=keys.validation_fraction)
        ids = encode(text, tokenizer=keys.tokenizer)
        check_lengths(len(ids.train), len(ids.validation), corpus=keys.corpus, context=context)
        return cls(
            train=ids.train,
            validation=ids.validation,
            vocab_size=ids.vocab_size,
            context=context,
            eval_windows=min(eval_tokens, len(ids.validation) - 1) // context,
            tokens_per_byte=len(ids.validation) / len(text.validation),
            data_digest=text.digest,
        )

    @property
    def chance_loss(self) -> float:
        """Loss of the uniform guess, in nats."""
        return math.log(self.vocab_size)

    def to(self, device: torch.device) -> Self:
        """The objective with both splits on the device."""
        return dataclasses.replace(
            self, train=placed(self.train, device), validation=placed(self.validation, device)
        )

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Windows of the training split, each token once an epoch."""
        return self.batches(seeds=(seed,), step=step, batch_size=batch_size)

    def batches(self, *, seeds: Sequence[int], step: int, batch_size: int) -> Batch:
        """The windows of each seed, one seed after another, all read at once."""
        tokens = tokens_of(self.train)
        of_seed = {
            seed: training_windows(
                len(tokens), self.context, seed=seed, step=step, batch_size=batch_size
            )
            for seed in set(seeds)
        }
        starts = torch.from_numpy(np.concatenate([of_seed[seed] for seed in seeds]))
        return windows(tokens, sent(starts, tokens.device), self.context)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats per token, a scalar."""
        return mean_loss(model, batch)

    def losses(self, model: Model, batch: Batch, *, replicas: int) -> Tensor:
        """Mean nats per token of each replica, (replicas,)."""
        return token_losses(model, batch).view(replicas, -1).mean(1)

    @torch.no_grad()
    def evaluate(self, model: Model) -> dict[str, float]:
        """`loss` and `bits_per_byte` on fixed windows, spread evenly over the validation split."""
        (only,) = self.evaluations(model, replicas=1)
        return only

    @torch.no_grad()
    def evaluations(self, model: Model, *, replicas: int) -> list[dict[str, float]]:
        """Metrics of `evaluate` for each replica; all of them read a window at once."""
        tokens = tokens_of(self.validation)
        # From the first place to the last; none overlap.
        starts = spread(len(tokens) - self.context, self.eval_windows)
        starts_W = torch.from_numpy(starts).to(tokens.device)
        chunk = max(1, eval_chunk_tokens(self.vocab_size) // (self.context * replicas))
        sums_R = []
        for at in range(0, self.eval_windows, chunk):
            batch = windows(tokens, starts_W[at : at + chunk].repeat(replicas), self.context)
            sums_R.append(token_losses(model, batch).view(replicas, -1).sum(1))
        # The one synchronisation with the device; summed in double precision.
        return [self._metrics(math.fsum(own)) for own in torch.stack(sums_R, dim=1).tolist()]

    def final_metrics(self, model: Model) -> dict[str, float]:
        """An empty dict, since every evaluation is complete."""
        return {}

    def _metrics(self, nats: float) -> dict[str, float]:
        loss = nats / (self.eval_windows * self.context)
        return {"loss": loss, "bits_per_byte": loss / math.log(2) * self.tokens_per_byte}
