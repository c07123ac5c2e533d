"""Next-token prediction on a long text of token ids, in memory or in files.

Shapes: B batch, T time, W windows of an evaluation.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.objectives.arrays import placed, sent, spread, tokens_of, windows
from fathom.objectives.contract import Batch, Model
from fathom.objectives.keys import eval_chunk_tokens
from fathom.objectives.random_numbers import training_windows
from fathom.objectives.text.encode import Ids
from fathom.objectives.token_loss import mean_loss, token_losses
from fathom.objectives.tokens.ahead import ReadAhead
from fathom.objectives.tokens.stream import TokenFiles, TokenReader


class TextInFiles:
    """A text that stays in its files; windows of it are sent to a device."""

    def __init__(self, files: TokenFiles, device: torch.device) -> None:
        self.device = device
        self.ahead: ReadAhead[Tensor] = ReadAhead()
        """Windows of the steps to come."""
        self._reader, self._tokens = TokenReader(files), len(files)

    def __len__(self) -> int:
        return self._tokens

    def read(self, starts: NDArray[np.int64], length: int) -> Tensor:
        """The windows (B, length) from each start, on the host."""
        ids = torch.from_numpy(self._reader.read(starts, length))
        return ids.pin_memory() if self.device.type == "cuda" else ids

    def batch(self, read: Tensor) -> Batch:
        """Inputs, and targets one token later, of windows (B, T + 1), on the device."""
        both = read.to(self.device, non_blocking=True)
        return Batch(inputs=both[:, :-1], targets=both[:, 1:])


Text = Ids | Tensor | TokenFiles | TextInFiles
"""Token ids of a split: as prepared an array or files, once placed a tensor or `TextInFiles`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NextToken:
    """An objective of next-token prediction; texts in memory are placed on the device, files stay
    where they are."""

    train: Text
    validation: Text
    vocab_size: int
    context: int
    eval_windows: int
    """Sequences of `context` tokens in an evaluation."""
    tokens_per_byte: float | None
    """Tokens per byte of the validation split; None if its bytes are not known."""
    data_digest: str = ""
    """Digest of the data."""

    @property
    def chance_loss(self) -> float:
        """Loss of the uniform guess, in nats."""
        return math.log(self.vocab_size)

    def to(self, device: torch.device) -> Self:
        """The objective with both splits ready to be read by the device."""
        return dataclasses.replace(
            self, train=_ready(self.train, device), validation=_ready(self.validation, device)
        )

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Windows of the training split, each token once an epoch."""
        return self.batches(seeds=(seed,), step=step, batch_size=batch_size)

    def batches(self, *, seeds: Sequence[int], step: int, batch_size: int) -> Batch:
        """The windows of each seed, one seed after another, all read at once."""
        tokens = self.train
        if isinstance(tokens, TextInFiles):
            text, length = tokens, self.context + 1

            def read(at: int) -> Tensor:
                return text.read(self._starts(seeds, at, batch_size), length)

            return text.batch(text.ahead.take((tuple(seeds), batch_size), step, read))
        placed_ids = tokens_of(tokens)
        starts = torch.from_numpy(self._starts(seeds, step, batch_size))
        return windows(placed_ids, sent(starts, placed_ids.device), self.context)

    def _starts(self, seeds: Sequence[int], step: int, batch_size: int) -> NDArray[np.int64]:
        """First tokens of the windows of all seeds in a step."""
        of_seed = {
            seed: training_windows(
                len(self.train), self.context, seed=seed, step=step, batch_size=batch_size
            )
            for seed in set(seeds)
        }
        return np.concatenate([of_seed[seed] for seed in seeds])

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats per token, a scalar."""
        return mean_loss(model, batch)

    def losses(self, model: Model, batch: Batch, *, replicas: int) -> Tensor:
        """Mean nats per token of each replica, (replicas,)."""
        return token_losses(model, batch).view(replicas, -1).mean(1)

    @torch.no_grad()
    def evaluate(self, model: Model) -> dict[str, float]:
        """`loss`, and `bits_per_byte` if the bytes are known, on fixed windows, spread evenly over
        the validation split."""
        (only,) = self.evaluations(model, replicas=1)
        return only

    @torch.no_grad()
    def evaluations(self, model: Model, *, replicas: int) -> list[dict[str, float]]:
        """Metrics of `evaluate` for each replica; all of them read a window at once."""
        # From the first place to the last; none overlap.
        starts_W = spread(len(self.validation) - self.context, self.eval_windows)
        chunk = max(1, eval_chunk_tokens(self.vocab_size) // (self.context * replicas))
        sums_R = []
        for at in range(0, self.eval_windows, chunk):
            batch = self._held_out(starts_W[at : at + chunk], replicas)
            sums_R.append(token_losses(model, batch).view(replicas, -1).sum(1))
        # The one synchronisation with the device; summed in double precision.
        return [self._metrics(math.fsum(own)) for own in torch.stack(sums_R, dim=1).tolist()]

    def final_metrics(self, model: Model) -> dict[str, float]:
        """An empty dict, since every evaluation is complete."""
        return {}

    def _held_out(self, starts: NDArray[np.int64], replicas: int) -> Batch:
        """Windows of the validation split, the same for each replica."""
        tokens = self.validation
        if isinstance(tokens, TextInFiles):
            return tokens.batch(tokens.read(starts, self.context + 1).repeat(replicas, 1))
        placed_ids = tokens_of(tokens)
        on_device = sent(torch.from_numpy(starts), placed_ids.device)
        return windows(placed_ids, on_device.repeat(replicas), self.context)

    def _metrics(self, nats: float) -> dict[str, float]:
        loss = nats / (self.eval_windows * self.context)
        if self.tokens_per_byte is None:
            return {"loss": loss}
        return {"loss": loss, "bits_per_byte": loss / math.log(2) * self.tokens_per_byte}


def _ready(text: Text, device: torch.device) -> Text:
    if isinstance(text, TokenFiles):
        return TextInFiles(text, device)
    assert not isinstance(text, TextInFiles), "it is on a device already"
    return placed(text, device)
