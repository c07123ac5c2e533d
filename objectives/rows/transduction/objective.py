"""Sequence to sequence with one decoder: it reads the source, then writes the target.

A row is `start source separator target end`; only the target and its end are asked. Exact match is
that of greedy decoding, measured in one pass: the decoder writes the whole target and stops if and
only if the most likely token after each true beginning is the true one. (At the first place where
it is not, the decoder has written only true tokens so far, and adds a wrong one.)
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from fathom.objectives import arrays
from fathom.objectives.arrays import Rows, Sequences
from fathom.objectives.contract import IGNORED, Batch, Model
from fathom.objectives.errors import ObjectiveError
from fathom.objectives.files.reading import digest_of
from fathom.objectives.keys import eval_chunk_tokens
from fathom.objectives.random_numbers import training_rows, training_windows
from fathom.objectives.rows import tsv, word_ids
from fathom.objectives.rows.held_out import warn_of_shared
from fathom.objectives.rows.transduction.keys import TransductionConfig
from fathom.objectives.rows.transduction.pairs import ALL, Pair, rows_of
from fathom.objectives.text.encode import Ids, id_type
from fathom.objectives.token_ids import PAD
from fathom.objectives.token_loss import answers, masked_loss, processes_of


@dataclass(frozen=True, slots=True, eq=False)
class PairSplit:
    """Rows with the lengths of their prompts (start, source, separator) and their categories."""

    rows: Sequences
    prompts: Rows
    categories: tuple[str, ...]

    @classmethod
    def of(cls, pairs: list[Pair], ids: Mapping[str, int], vocab_size: int) -> Self:
        """The rows as ids; a word that training never saw is `UNKNOWN`."""
        rows = (
            [*word_ids.prompt(pair.source, ids), *word_ids.encoded(pair.target, ids), word_ids.END]
            for pair in pairs
        )
        return cls(
            Sequences.of(rows, vocab_size),
            np.array([len(pair.source.split()) + 2 for pair in pairs], np.int64),
            tuple(pair.category for pair in pairs),
        )

    def to(self, device: torch.device) -> Self:
        """The split on the device."""
        return dataclasses.replace(self, rows=self.rows.to(device))

    def batch(self, rows: Rows, width: int) -> Batch:
        """Batch (R, width) of the rows `rows` (R,); only their targets' tokens carry a loss."""
        tokens = self.rows.padded(rows, width + 1)
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        prompts_R1 = arrays.sent(torch.from_numpy(self.prompts[rows]), tokens.device)[:, None]
        written_RT = torch.arange(1, width + 1, device=tokens.device) >= prompts_R1
        return Batch(inputs, targets.where(written_RT & (targets != PAD), IGNORED))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pretraining:
    """Running text that a model reads before rows, like the pre-training of Petty et al. 2024.

    Text and rows share one vocabulary of whole words: the words of the rows do not change, so that
    exact match means the same with and without the text.
    """

    text: Ids | Tensor
    """The words of the text as ids."""
    tokens: int
    """Tokens at the start of the horizon that come from the text."""

    @classmethod
    def of(cls, text: str, ids: Mapping[str, int], keys: TransductionConfig) -> Self:
        """A text encoded; raises `ObjectiveError` if it has no window of `context` tokens."""
        kind = id_type(max(ids.values(), default=0) + 1)
        found = np.fromiter(
            (ids.get(word, word_ids.UNKNOWN) for word in word_ids.words_in(text)), kind
        )
        if len(found) <= keys.context:
            raise ObjectiveError(
                "the text of `pretraining` must have more words than `context`, got "
                f"{len(found)} and context={keys.context}; use a larger `corpus`"
            )
        return cls(text=found, tokens=keys.pretraining_tokens)

    def to(self, device: torch.device) -> Self:
        """The pre-training with its text on the device."""
        return dataclasses.replace(self, text=arrays.placed(self.text, device))

    def batch(self, *, seed: int, step: int, batch_size: int, context: int) -> Batch | None:
        """Windows (batch_size, context) of the text, without loss on unknown words; None after the
        pre-training."""
        if step * batch_size * context >= self.tokens:
            return None
        text = arrays.tokens_of(self.text)
        starts = training_windows(len(text), context, seed=seed, step=step, batch_size=batch_size)
        starts_B = arrays.sent(torch.from_numpy(starts), text.device)
        batch = arrays.windows(text, starts_B, context)
        unknown = batch.targets == word_ids.UNKNOWN
        return Batch(batch.inputs, batch.targets.masked_fill(unknown, IGNORED))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transduction:
    """The objective `transduction`: arrays as prepared, tensors once placed with `to`."""

    train: PairSplit
    dev: PairSplit
    further: Mapping[str, PairSplit]
    """`test` and the generalisation splits."""
    words: tuple[str, ...]
    """Words of the training rows and the pre-training, sorted; their ids start at `WORDS_FROM`."""
    context: int
    eval_examples: int
    pretraining: Pretraining | None
    data_digest: str = ""
    """Digest of all rows of every split, and of the text before them."""

    @classmethod
    def prepare(cls, keys: TransductionConfig) -> Self:
        """The objective with its rows, and the text before them, read and encoded."""
        pairs, text = keys.read(), keys.pretraining_text()
        warn_of_shared({name: rows_of(rows) for name, rows in pairs.items()})
        words = keys.words(pairs["train"], text)
        ids, vocab_size = word_ids.numbered(words), word_ids.WORDS_FROM + len(words)
        splits = {name: PairSplit.of(rows, ids, vocab_size) for name, rows in pairs.items()}
        pretraining = Pretraining.of(text, ids, keys) if keys.pretraining else None
        return cls(
            train=splits.pop("train"),
            dev=splits.pop("dev"),
            further=splits,
            words=tuple(words),
            context=keys.context,
            eval_examples=keys.eval_examples,
            pretraining=pretraining,
            data_digest=digest_of((*tsv.parts_of(pairs, "source", "target", "category"), text)),
        )

    @property
    def vocab_size(self) -> int:
        """Number of token ids: special tokens and words."""
        return word_ids.WORDS_FROM + len(self.words)

    @property
    def chance_loss(self) -> float:
        """Loss of the uniform guess, in nats per token of a target."""
        return math.log(self.vocab_size)

    def to(self, device: torch.device) -> Self:
        """The objective with every split on the device."""
        return dataclasses.replace(
            self,
            train=self.train.to(device),
            dev=self.dev.to(device),
            further={name: split.to(device) for name, split in self.further.items()},
            pretraining=self.pretraining and self.pretraining.to(device),
        )

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Batch of training rows, drawn on the host, which must know their lengths.

        During the pre-training, the batch has windows of its text instead.
        """
        if self.pretraining:
            text = self.pretraining.batch(
                seed=seed, step=step, batch_size=batch_size, context=self.context
            )
            if text is not None:
                return text
        rows = training_rows(len(self.train.rows), seed=seed, step=step, batch_size=batch_size)
        longest = int(self.train.rows.lengths[rows].max()) - 1
        return self.train.batch(rows, arrays.batch_width(longest, self.context))

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats per token of the targets, a scalar."""
        return masked_loss(model, batch)

    def evaluate(self, model: Model) -> dict[str, float]:
        """Loss on `dev`, and exact match on each split, over the same few rows every time."""
        scores = {
            name: self._scores(model, split, arrays.spread(len(split.rows), self.eval_examples))
            for name, split in {"dev": self.dev, **self.further}.items()
        }
        return {"loss": scores["dev"][0]} | {
            f"exact_match/{name}/{ALL}": float(exact.mean()) for name, (_, exact) in scores.items()
        }

    def final_metrics(self, model: Model) -> dict[str, float]:
        """Exact match on the whole of every split, by category where its rows have any."""
        metrics: dict[str, float] = {}
        for name, split in {"dev": self.dev, **self.further}.items():
            _, exact = self._scores(model, split, np.arange(len(split.rows)))
            metrics[f"exact_match/{name}/{ALL}"] = float(exact.mean())
            categories = np.array(split.categories)
            for category in sorted({*split.categories} - {""}):
                exact_of_category = exact[categories == category]
                metrics[f"exact_match/{name}/{category}"] = float(exact_of_category.mean())
        return metrics

    def translate(self, model: Model, source: str, device: torch.device) -> str:
        """The target that a model writes for a source, by greedy decoding."""
        ids = word_ids.numbered(self.words)
        prompt = word_ids.prompt(source, ids)
        written = greedy(model, prompt, end=word_ids.END, context=self.context, device=device)
        names = dict(enumerate(self.words, word_ids.WORDS_FROM))
        return " ".join(names.get(token, "?") for token in written)

    @torch.no_grad()
    def _scores(
        self, model: Model, split: PairSplit, rows: Rows
    ) -> tuple[float, np.ndarray[Any, np.dtype[np.bool_]]]:
        """Mean nats per token of the targets; per row, True if the whole target is right."""
        lengths, most = split.rows.lengths[rows], eval_chunk_tokens(self.vocab_size)
        where = np.argsort(lengths, kind="stable")
        nats, asked, exact = [], [], []
        for chunk in arrays.chunks(rows, lengths, most, processes_of(model)):
            batch = split.batch(chunk, int(split.rows.lengths[chunk].max()) - 1)
            losses_RT, asked_RT, right_RT = answers(model, batch)
            nats.append(losses_RT.sum(1, dtype=torch.float32))
            asked.append(asked_RT.sum(1))
            # `UNKNOWN` stands for many words, so it is never the right one.
            right_R = (right_RT & (batch.targets != word_ids.UNKNOWN)).sum(1)
            exact.append(right_R == asked[-1])
        # A process alone waits for the device here only; rows come back in their own order.
        sums_R3 = torch.stack([torch.cat(parts).float() for parts in (nats, asked, exact)], 1)
        nats_R, asked_R, exact_R = sums_R3.double().cpu().numpy().T
        right = np.empty(len(rows), np.bool_)
        right[where] = exact_R > 0
        return float(nats_R.sum() / asked_R.sum()), right


@torch.no_grad()
def greedy(
    model: Model, prompt: Sequence[int], *, end: int, context: int, device: torch.device
) -> list[int]:
    """Tokens that a model writes after `prompt`, each the most likely one, without the token `end`.

    Writing stops at `end`, or where prompt and tokens fill the `context`.
    """
    tokens = list(prompt)
    while len(tokens) <= context:
        logits_1TV = model(torch.tensor([tokens], device=device))
        following = int(logits_1TV[0, -1].argmax())
        if following == end:
            break
        tokens.append(following)
    return tokens[len(prompt) :]
