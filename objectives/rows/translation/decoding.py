"""Greedy decoding and beam search, which read each token once.

Shapes: B sentences, W hypotheses of each, R = B * W, C = 2 W candidates, S source, T time,
V vocabulary.
"""

from typing import Any, Protocol

import torch
from torch import Tensor

from fathom.objectives.rows.translation.vocabulary import END, START
from fathom.objectives.token_ids import PAD


class Translator(Protocol):
    """A model with an encoder and a decoder."""

    def encode(self, sources_BS: Tensor) -> Any:
        """The encoded sources, which `decode` takes as its memory."""

    def new_cache(self) -> Any:
        """An empty cache for `decode`; its `select` takes rows, some of them repeatedly."""

    def decode(self, inputs_BT: Tensor, memory: Any, cache: Any) -> Tensor:
        """Logits (B, T, V) of inputs that continue those in the cache."""


@torch.no_grad()
def greedy(model: Translator, sources_BS: Tensor, *, longest: int) -> Tensor:
    """The targets that a model writes, each token the most likely one: (B, T), padded after the
    end, with at most `longest` tokens."""
    memory, cache = model.encode(sources_BS), model.new_cache()
    newest_B1 = torch.full_like(sources_BS[:, :1], START)
    written: list[Tensor] = []
    ended_B1 = torch.zeros_like(newest_B1, dtype=torch.bool)
    while len(written) < longest and not bool(ended_B1.all()):
        newest_B1 = model.decode(newest_B1, memory, cache=cache)[:, -1:].argmax(-1)
        written.append(newest_B1.masked_fill(ended_B1, PAD))
        ended_B1 = ended_B1 | (newest_B1 == END)
    return torch.cat(written, 1)


@torch.no_grad()
def beam_search(
    model: Translator, sources_BS: Tensor, *, width: int, penalty: float, longest: int
) -> Tensor:
    """The best target of each source that a beam finds, (B, T), padded after the end.

    A hypothesis of n tokens, its end included, is worth its log-probability divided by ((5 + n) /
    6) ** penalty (Wu et al. 2016). An end counts if it is among the best `width` of all candidates.
    A sentence is done when `width` hypotheses have ended; if none has ended at last, its best
    unended hypothesis is taken.
    """
    B, W = len(sources_BS), width
    device = sources_BS.device
    sources_RS = sources_BS.repeat_interleave(W, 0)
    memory, cache = model.encode(sources_RS), model.new_cache()
    first_R = torch.arange(B, device=device).repeat_interleave(W) * W
    written_BWT = torch.full((B, W, 1), START, device=device)
    total_BW = torch.full((B, W), -torch.inf, device=device)
    total_BW[:, 0] = 0.0  # all are the same before the first token
    best_B, ended_B = torch.full((B,), -torch.inf, device=device), torch.zeros(B, device=device)
    best_BT = torch.full((B, longest), PAD, device=device)
    for count in range(1, longest + 1):
        logits_RV = model.decode(written_BWT[:, :, -1].reshape(-1, 1), memory, cache=cache)[:, -1]
        V = logits_RV.shape[-1]
        sums_BWV = total_BW[:, :, None] + logits_RV.float().log_softmax(-1).view(B, W, V)
        sums_BC, at_BC = sums_BWV.flatten(1).topk(min(2 * W, W * V))
        tokens_BC, from_BC = at_BC % V, at_BC // V
        ends_BC = tokens_BC == END

        worth_BW = (sums_BC / ((5 + count) / 6) ** penalty)[:, :W]
        counts_BW = ends_BC[:, :W] & worth_BW.isfinite() & (ended_B < W)[:, None]
        worth_B, which_B = worth_BW.masked_fill(~counts_BW, -torch.inf).max(1)
        histories_BT = _of(written_BWT, from_BC.gather(1, which_B[:, None]))[:, 0, 1:]
        better_B1 = (worth_B > best_B)[:, None]
        ended_BT = torch.nn.functional.pad(histories_BT, (0, 1), value=END)
        best_BT[:, :count] = ended_BT.where(better_B1, best_BT[:, :count])
        best_BT[:, count:] = best_BT[:, count:].masked_fill(better_B1, PAD)
        best_B, ended_B = torch.maximum(best_B, worth_B), ended_B + counts_BW.sum(1)

        total_BW, kept_BW = sums_BC.masked_fill(ends_BC, -torch.inf).topk(W)
        from_BW = from_BC.gather(1, kept_BW)
        newest_BW = tokens_BC.gather(1, kept_BW)
        written_BWT = torch.cat((_of(written_BWT, from_BW), newest_BW[:, :, None]), 2)
        if bool((ended_B >= W).all()):
            break
        cache.select(first_R + from_BW.flatten())
    none_B1 = best_B.isneginf()[:, None]
    unended_BT = torch.nn.functional.pad(written_BWT[:, 0, 1:], (0, longest - count), value=PAD)
    return unended_BT.where(none_B1, best_BT)


def _of(written_BWT: Tensor, from_BX: Tensor) -> Tensor:
    """The hypotheses with the indices `from_BX`, (B, X, T)."""
    at_BXT = from_BX[:, :, None].expand(-1, -1, written_BWT.shape[2])
    return written_BWT.gather(1, at_BXT)
