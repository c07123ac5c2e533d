"""Next-token prediction on a long text of token ids, in memory or in files.

Shapes: B batch, T time, N tokens of a window, W windows of an evaluation.
"""

import dataclasses
import math
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
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
from fathom.objectives.token_loss import mean_loss, processes_of, token_losses
from fathom.objectives.tokens.stream import TokenFiles, TokenReader


class TextInFiles:
    """A text that stays in its files; the windows of the next step are read in a thread while the
    device works on those of the step before."""

    def __init__(self, files: TokenFiles, device: torch.device) -> None:
        self.device = device
        self._reader, self._tokens = TokenReader(files), len(files)
        self._pool = ThreadPoolExecutor(1)
        self._next: tuple[Hashable, int, Future[Tensor]] | None = None

    def __len__(self) -> int:
        return self._tokens

    def read(self, starts_B: NDArray[np.int64], length: int) -> Tensor:
        """The windows (B, length) from each start, on the host."""
        ids_BN = torch.from_numpy(self._reader.read(starts_B, length))
        return ids_BN.pin_memory() if self.device.type == "cuda" else ids_BN

    def read_ahead(self, key: Hashable, step: int, read: Callable[[int], Tensor]) -> Tensor:
        """The windows that `read` returns for a step; begins to read the windows of the next step.

        `key` identifies everything on which `read` depends, except the step.
        """
        if self._next is not None and self._next[:2] == (key, step):
            windows_BN = self._next[2]
        else:
            windows_BN = self._pool.submit(read, step)
        self._next = (key, step + 1, self._pool.submit(read, step + 1))
        return windows_BN.result()

    def batch(self, windows_BN: Tensor) -> Batch:
        """Inputs, and targets one token later, of windows (B, T + 1), on the device."""
        both_BN = windows_BN.to(self.device, non_blocking=True)
        return Batch(inputs=both_BN[:, :-1], targets=both_BN[:, 1:])


Text = Ids | Tensor | TokenFiles | TextInFiles
"""Token ids of a split: an array or files as prepared, a tensor or `TextInFiles` once placed."""


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
        tokens = self.train
        if isinstance(tokens, TextInFiles):
            text, length = tokens, self.context + 1

            def read(at: int) -> Tensor:
                return text.read(self._starts(seed, at, batch_size), length)

            return text.batch(text.read_ahead((seed, batch_size), step, read))
        placed_ids = tokens_of(tokens)
        starts = torch.from_numpy(self._starts(seed, step, batch_size))
        return windows(placed_ids, sent(starts, placed_ids.device), self.context)

    def _starts(self, seed: int, step: int, batch_size: int) -> NDArray[np.int64]:
        """First tokens of the windows of a step, (batch_size,)."""
        return training_windows(
            len(self.train), self.context, seed=seed, step=step, batch_size=batch_size
        )

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats per token, a scalar."""
        return mean_loss(model, batch)

    @torch.no_grad()
    def evaluate(self, model: Model) -> dict[str, float]:
        """`loss`, and `bits_per_byte` if the bytes are known, on fixed windows, spread evenly over
        the validation split."""
        # From the first place to the last; none overlap.
        starts_W = spread(len(self.validation) - self.context, self.eval_windows)
        chunk = max(1, eval_chunk_tokens(self.vocab_size) // self.context) * processes_of(model)
        sums = []
        for at in range(0, self.eval_windows, chunk):
            batch = self._held_out(starts_W[at : at + chunk])
            sums.append(token_losses(model, batch).sum())
        # A process alone waits for the device here only; summed in double precision.
        return self._metrics(math.fsum(torch.stack(sums).tolist()))

    def final_metrics(self, model: Model) -> dict[str, float]:
        """An empty dict, since every evaluation is complete."""
        return {}

    def _held_out(self, starts: NDArray[np.int64]) -> Batch:
        """Windows of the validation split that begin at these tokens."""
        tokens = self.validation
        if isinstance(tokens, TextInFiles):
            return tokens.batch(tokens.read(starts, self.context + 1))
        placed_ids = tokens_of(tokens)
        on_device = sent(torch.from_numpy(starts), placed_ids.device)
        return windows(placed_ids, on_device, self.context)

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
