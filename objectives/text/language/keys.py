"""Keys of `objective: language`."""

import importlib
from typing import ClassVar, Literal

from pydantic import Field

from fathom.objectives.keys import NextTokenConfig, Number, Positive, Real
from fathom.objectives.text.corpus import (
    check_corpus,
    check_lengths,
    corpus_bytes,
    files_by_name,
    is_packed,
    read_corpus,
    split_bytes,
)
from fathom.objectives.text.left_out import left_out_note, survey
from fathom.objectives.text.tokenizer import BYTES, CHARS, count_ids

LONG_BYTES = 1 << 24
"""Fewest bytes of a text whose tokens are kept, whatever the tokenizer."""


class LanguageConfig(NextTokenConfig):
    """Next-token prediction on text."""

    cached: ClassVar[bool] = True
    name: Literal["language"]
    corpus: str = Field("stdlib", max_length=4096, examples=["stdlib", "path/to/text"])
    """`stdlib`, a known name such as `tiny_shakespeare`, or a path: file, plain or .gz, folder or
    glob. In a folder with names such as `train.txt` and `valid.txt`, the validation file is held
    out."""
    tokenizer: str = Field(
        "bytes",
        pattern=r"^(bytes|chars|bpe:[0-9]{1,9})$",
        description="`bytes`, `chars` or `bpe:N`, for example bpe:1024",
        examples=["bytes", "chars", "bpe:1024"],
    )
    """`bytes`, `chars` or `bpe:N` with N token ids."""
    context: Positive = 256
    """Tokens in a training sequence."""
    eval_tokens: Number = 131_072
    """Held-out tokens in an evaluation."""
    validation_fraction: Real = Field(0.1, gt=0.0, le=0.5)
    """Fraction of the text that is held out, unless names in its folder say which part is."""

    def vocab_size(self) -> int:
        """Number of token ids; reads the corpus for `chars`, and where it may be too small."""
        self._check_corpus()
        return count_ids(
            corpus=self.corpus,
            tokenizer=self.tokenizer,
            validation_fraction=self.validation_fraction,
        )

    def most_train_tokens(self) -> int:
        """Approximate bytes of the training split: no tokenizer makes more tokens of them."""
        sizes = self._split_bytes()
        if sizes is None or is_packed(self.corpus) or survey(self.corpus).recoded:
            return 0
        return sizes[0]

    def data_note(self) -> str:
        """A line on files of the corpus that are not read; empty if all are."""
        return left_out_note(self.corpus)

    def _split_bytes(self) -> tuple[int, int] | None:
        unread = survey(self.corpus).unread
        return split_bytes(
            self.corpus, validation_fraction=self.validation_fraction, without=unread
        )

    def _check_corpus(self) -> None:
        """Raises `ObjectiveError` if the text is too small, whatever the tokenizer (no token is
        shorter than a byte), or held-out files are among those to train on."""
        check_corpus(self.corpus)
        if named := files_by_name(self.corpus):
            held_out = importlib.import_module("fathom.objectives.text.held_out")  # takes numpy
            held_out.check_named(named)
        sizes = self._split_bytes()
        if sizes is None or sizes[1] > 4 * self.context:
            return
        text = read_corpus(self.corpus, validation_fraction=self.validation_fraction)
        check_lengths(
            len(text.train), len(text.validation), corpus=self.corpus, context=self.context
        )

    @property
    def takes_long(self) -> bool:
        """True if cutting the text takes so long that its tokens are worth keeping."""
        learns = self.tokenizer not in (BYTES, CHARS)
        return learns or (corpus_bytes(self.corpus) or 0) >= LONG_BYTES
