"""Token ids in one long array, which workers read without copying.

Shapes: R rows, T time.
"""

import dataclasses
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.objectives.contract import Batch
from fathom.objectives.keys import BATCH_WIDTHS
from fathom.objectives.text.encode import Ids, id_type
from fathom.objectives.token_ids import PAD

Rows = NDArray[np.int64]


def placed(tokens: Ids | Tensor, device: torch.device) -> Tensor:
    """The token ids (N,) as a tensor on the device; on a CPU it shares the array's memory."""
    if isinstance(tokens, Tensor):
        return tokens.to(device)
    with warnings.catch_warnings():
        # Arrays from an object store are read-only. Nothing here writes, and a copy would cost
        # every worker of a node the whole corpus.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(tokens).to(device)


def sent(values: Tensor, device: torch.device) -> Tensor:
    """Copies a tensor of any shape from the host to the device, without waiting for the device.

    A copy from pageable memory would wait until a GPU has finished all earlier work.
    """
    if device.type == "cuda":
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)


def tokens_of(ids: object) -> Tensor:
    """The token ids (N,) of an objective that `to` has placed on a device."""
    assert isinstance(ids, Tensor), "place the objective with `to` first"
    return ids


def windows(tokens: Tensor, starts: Tensor, context: int) -> Batch:
    """A batch of the `context` tokens from each of `starts` (B,) in `tokens` (N,): inputs (B, T),
    and targets one token later."""
    both = tokens.unfold(0, context + 1, 1)[starts].long()
    return Batch(inputs=both[:, :-1], targets=both[:, 1:])


@dataclass(frozen=True, slots=True, eq=False)
class Sequences:
    """Rows of token ids of different lengths; only the ids are moved to the device."""

    ids: Ids | Tensor
    starts: Rows
    """Offset of each row in `ids`, then the end of the last row: (R + 1,)."""

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]], vocab_size: int) -> Self:
        """The rows of ids below `vocab_size` in one array; each is freed once it is copied."""
        arrays = [np.array(row, id_type(vocab_size)) for row in rows]
        lengths = np.array([len(array) for array in arrays], np.int64)
        starts = np.concatenate((np.zeros(1, np.int64), lengths.cumsum()))
        return cls(np.concatenate(arrays), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Rows:
        """Number of tokens of each row, (R,)."""
        return np.diff(self.starts)

    def to(self, device: torch.device) -> Self:
        """The rows with their token ids on the device."""
        return dataclasses.replace(self, ids=placed(self.ids, device))

    def padded(self, rows: Rows, width: int) -> Tensor:
        """The given rows as a tensor (R, width) of int64, padded after their ends."""
        ids = tokens_of(self.ids)
        bounds_2R = np.stack((self.starts[rows], self.starts[rows + 1]))
        bounds_2R1 = sent(torch.from_numpy(bounds_2R), ids.device)[:, :, None]
        at_RT = bounds_2R1[0] + torch.arange(width, device=ids.device)
        inside_RT = at_RT < bounds_2R1[1]
        return ids[at_RT.clamp(max=len(ids) - 1)].long().masked_fill(~inside_RT, PAD)


def batch_width(longest: int, context: int) -> int:
    """Width of a batch whose longest row has `longest` tokens: one of only `BATCH_WIDTHS` widths,
    as each is compiled once."""
    step = math.ceil(context / BATCH_WIDTHS)
    return min(context, step * math.ceil(longest / step))


def spread(count: int, most: int) -> Rows:
    """Indices, (at most `most`,), of `count` rows, evenly spaced from the first to the last."""
    chosen = min(count, most)
    return np.arange(chosen) * (count - 1) // max(1, chosen - 1)


def chunks(rows: Rows, lengths: Rows, tokens: int, processes: int = 1) -> Iterator[Rows]:
    """Yields the indices `rows` (R,) in groups of similar length, each of at most `tokens` tokens,
    padding included, for each of the processes that share the group.

    `lengths` (R,) are their lengths; a row with more tokens is a group of its own.
    """
    order = np.argsort(lengths, kind="stable")
    first = 0
    for at in range(1, len(order) + 1):
        if at == len(order) or lengths[order[at]] * -(-(at + 1 - first) // processes) > tokens:
            yield rows[order[first:at]]
            first = at
