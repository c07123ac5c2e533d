"""Translation: cross entropy of the targets decides; BLEU and chrF are measured at the end.

Shapes: B batch, S source, T time, R rows.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fathom.objectives import arrays
from fathom.objectives.arrays import Rows, Sequences
from fathom.objectives.contract import IGNORED, Batch, Model
from fathom.objectives.files.reading import digest_of
from fathom.objectives.keys import eval_chunk_tokens
from fathom.objectives.rows.translation.buckets import Buckets
from fathom.objectives.rows.translation.decoding import beam_search, greedy
from fathom.objectives.rows.translation.encoded import EncodedPairs, buckets_of, encode
from fathom.objectives.rows.translation.keys import BeamConfig, TranslationConfig
from fathom.objectives.rows.translation.scores import Score, check_sacrebleu, scores
from fathom.objectives.rows.translation.vocabulary import START, PairTokens
from fathom.objectives.token_ids import PAD
from fathom.objectives.token_loss import answers, masked_loss, processes_of

Decoder = Callable[[Tensor], Tensor]
"""Function from sources (B, S) to targets (B, T), both padded."""


@dataclass(frozen=True, slots=True, eq=False)
class SentencePairs:
    """The pairs of a split: sources with their end, targets with their start and end."""

    sources: Sequences
    targets: Sequences

    @classmethod
    def of(cls, pairs: EncodedPairs, tokens: PairTokens) -> Self:
        """The pairs with all sources joined in one array and all targets in another; each
        target gets its start token."""
        return cls(
            Sequences.of(pairs.sources, tokens.source.size),
            Sequences.of(([START, *ids] for ids in pairs.targets), tokens.target.size),
        )

    def __len__(self) -> int:
        return len(self.sources)

    def to(self, device: torch.device) -> Self:
        """The pairs on the device."""
        return replace(self, sources=self.sources.to(device), targets=self.targets.to(device))

    @property
    def lengths(self) -> Rows:
        """Tokens that a model reads of the longer side of each pair, (R,)."""
        return np.maximum(self.sources.lengths, self.targets.lengths - 1)

    def batch(self, rows: Rows, width: int, *, count: int) -> Batch:
        """Batch (count, width) of the pairs `rows` (R,); rows after the R-th are padding."""
        missing = (0, 0, 0, count - len(rows))
        sources = F.pad(self.sources.padded(rows, width), missing, value=PAD)
        tokens = F.pad(self.targets.padded(rows, width + 1), missing, value=PAD)
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        return Batch(inputs, targets.masked_fill(targets == PAD, IGNORED), sources)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Translation:
    """The objective `translation`: arrays as prepared, tensors once placed with `to`."""

    train: SentencePairs
    dev: SentencePairs
    test: SentencePairs
    buckets: Buckets
    tokens: PairTokens
    references: tuple[str, ...]
    """The targets of `test` as text, unchanged."""
    vocab_size: int
    source_vocab_size: int
    """Number of token ids that only sources have; 0 if sources and targets share their ids."""
    context: int
    eval_examples: int
    translated: int
    beam: BeamConfig
    data_digest: str = ""
    """Digest of all pairs of every split."""

    @classmethod
    def prepare(cls, keys: TranslationConfig) -> Self:
        """The objective with its pairs read, or drawn, and encoded."""
        check_sacrebleu()
        text = keys.read()
        encoded = encode(keys, text)
        tokens = encoded.tokens
        return cls(
            train=SentencePairs.of(encoded.train, tokens),
            dev=SentencePairs.of(encoded.dev, tokens),
            test=SentencePairs.of(encoded.test, tokens),
            buckets=Buckets(buckets_of(encoded.train.lengths, keys.context)),
            tokens=tokens,
            references=tuple(pair.target for pair in text.test),
            vocab_size=tokens.target.size,
            source_vocab_size=0 if keys.is_joint else tokens.source.size,
            context=keys.context,
            eval_examples=keys.eval_examples,
            translated=keys.translated,
            beam=keys.beam,
            data_digest=digest_of(text.parts()),
        )

    @property
    def chance_loss(self) -> float:
        """Loss of the uniform guess, in nats per token of a target."""
        return math.log(self.vocab_size)

    def to(self, device: torch.device) -> Self:
        """The objective with every split on the device; raises `ObjectiveError` if sacrebleu is not
        installed."""
        check_sacrebleu()
        return replace(
            self, train=self.train.to(device), dev=self.dev.to(device), test=self.test.to(device)
        )

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Training pairs of similar length, as many as fill `batch_size` sequences of the context;
        each pair once an epoch."""
        rows, parts = self.buckets.batch(seed=seed, step=step, batch_size=batch_size)
        return self.train.batch(rows, self.context // parts, count=batch_size * parts)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats per token of the targets, a scalar."""
        return masked_loss(model, batch)

    @torch.no_grad()
    def evaluate(self, model: Model) -> dict[str, float]:
        """Loss on `dev`, over the same pairs every time, without label smoothing."""
        rows = arrays.spread(len(self.dev), self.eval_examples)
        sums = []
        for batch in self._batches(model, rows):
            losses_RT, asked_RT, _ = answers(model, batch)
            sums.append(torch.stack((losses_RT.sum(dtype=torch.float32), asked_RT.sum())))
        # A process alone waits for the device here only; summed in double precision.
        nats, asked = torch.stack(sums).double().sum(0).tolist()
        return {"loss": nats / asked}

    def final_metrics(self, model: Model) -> dict[str, float]:
        """BLEU and chrF of beam search and of greedy decoding on `test`; empty for a model that
        can't encode and decode apart."""
        if not hasattr(model, "decode"):
            return {}
        rows = arrays.spread(len(self.test), self.translated)
        return {
            f"{name}/{how}": score.value
            for how, decoder in self._decoders(model).items()
            for name, score in self._scores(self._outputs(decoder, rows), rows).items()
        }

    def files(self, model: Model) -> dict[str, str]:
        """Files by name: the translation of every source of `test` by beam search, the references,
        and the scores with their signatures; none for a model that can't encode and decode
        apart."""
        if not hasattr(model, "decode"):
            return {}
        rows = np.arange(len(self.test))
        outputs = self._outputs(self._decoders(model)["beam"], rows)
        found = self._scores(outputs, rows).items()
        lines = {
            "test.output": outputs,
            "test.reference": self.references,
            "test.scores": [f"{name} {score.value:.2f} {score.signature}" for name, score in found],
        }
        return {name: "".join(f"{line}\n" for line in text) for name, text in lines.items()}

    def _decoders(self, model: Any) -> Mapping[str, Decoder]:
        """Beam search and greedy decoding, by name."""

        def beam(sources_BS: Tensor) -> Tensor:
            return beam_search(
                *(model, sources_BS),
                width=self.beam.width,
                penalty=self.beam.length_penalty,
                longest=self.context,
            )

        return {
            "beam": beam,
            "greedy": lambda sources_BS: greedy(model, sources_BS, longest=self.context),
        }

    def _outputs(self, decoder: Decoder, rows: Rows) -> list[str]:
        """The translations of some sources of `test`, in their order."""
        texts: dict[int, str] = {}
        tokens = eval_chunk_tokens(self.vocab_size) // self.beam.width
        for chunk in arrays.chunks(rows, self.test.sources.lengths[rows], tokens):
            width = int(self.test.sources.lengths[chunk].max())
            written_BT = decoder(self.test.sources.padded(chunk, width))
            for row, ids in zip(chunk.tolist(), written_BT.tolist(), strict=True):
                texts[row] = self.tokens.target.text(ids)
        return [texts[row] for row in rows.tolist()]

    def _scores(self, outputs: list[str], rows: Rows) -> Mapping[str, Score]:
        return scores(outputs, [self.references[row] for row in rows])

    def _batches(self, model: Model, rows: Rows) -> Iterator[Batch]:
        """The rows of `dev` in batches of similar length that are evaluated at once."""
        lengths, most = self.dev.lengths, eval_chunk_tokens(self.vocab_size)
        for chunk in arrays.chunks(rows, lengths[rows], most, processes_of(model)):
            yield self.dev.batch(chunk, int(lengths[chunk].max()), count=len(chunk))
