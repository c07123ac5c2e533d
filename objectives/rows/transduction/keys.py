"""Keys of `objective: transduction`."""

from typing import ClassVar, Literal, Self

from pydantic import Field

from fathom.objectives.keys import Group, Number, Positive, Real
from fathom.objectives.rows.held_out import rows_note
from fathom.objectives.rows.keys import SPLITS, FilePath, RowsConfig, SplitName, padding_note
from fathom.objectives.rows.transduction.pairs import Pair, read_splits, rows_of, words_of
from fathom.objectives.rows.word_ids import WORDS_FROM, most_frequent, words_in
from fathom.objectives.text.corpus import read_whole
from fathom.objectives.text.left_out import left_out_note


class PretrainingConfig(Group):
    """Text that a model is trained on before the rows."""

    corpus: str = Field("stdlib", max_length=4096)
    """Text to train on, given as the key `corpus` of `objective: language`."""
    words: Positive = 8192
    """Number of the text's most frequent words in the vocabulary; other words of the text carry no
    loss."""
    tokens: Number = 1_000_000
    """Number of tokens at the start of the horizon that come from text, fewer than the horizon; the
    others come from rows."""


class TransductionConfig(RowsConfig):
    """Sequence to sequence, by a decoder that reads the source and writes the target."""

    loss_unit: ClassVar[str] = "nats per token of the targets"
    name: Literal["transduction"]
    data: FilePath = "cogs_vf"
    """`cogs`, `cogs_vf`, `passivization`, or the path of your training rows: TSV, plain or .gz."""
    dev: FilePath | None = None
    """Path of the rows of each evaluation; without it, a part of the training rows."""
    test: FilePath | None = None
    """Path of rows like the training rows, for the final measurement."""
    generalisation: dict[SplitName, FilePath] = Field(
        {}, description=SPLITS, examples=[{"longer": "gen.tsv"}]
    )
    """Further splits by name."""
    context: Positive = 256
    """Tokens of the longest source and target together, plus two. The horizon counts this many
    tokens for every example, padding included."""
    eval_examples: Positive = 512
    """Most examples of each split in an evaluation; the final one takes all."""
    validation_fraction: Real = Field(0.1, gt=0.0, le=0.5)
    """Fraction of the training rows that is held out if there is no `dev`."""
    pretraining: PretrainingConfig | None = None
    """Training on text before the rows, within one learning-rate schedule: the rate falls while
    the rows are trained on."""

    @property
    def pretraining_tokens(self) -> int:
        """Number of tokens at the start of the horizon that come from text."""
        return self.pretraining.tokens if self.pretraining else 0

    def read(self) -> dict[str, list[Pair]]:
        """Every row, by split; raises `ObjectiveError` if the rows do not suit."""
        return read_splits(**self.model_dump(exclude={"name", "eval_examples", "pretraining"}))

    def pretraining_text(self) -> str:
        """The whole text that is trained on before the rows; empty without pre-training."""
        return read_whole(self.pretraining.corpus) if self.pretraining else ""

    def words(self, train: list[Pair], text: str) -> list[str]:
        """Words of the training rows and the most frequent ones of the text, sorted."""
        most = self.pretraining.words if self.pretraining else 0
        return sorted(words_of(train).union(most_frequent(words_in(text), most)))

    def vocab_size(self) -> int:
        """Number of special tokens and words; reads the training rows and the text."""
        return WORDS_FROM + len(self.words(self.read()["train"], self.pretraining_text()))

    def data_note(self) -> str:
        """A line on held-out rows that are trained on as well, on rows that are far shorter than
        the context, and on text that is not read; empty if there are none."""
        splits = self.read()
        lengths = [pair.context for pairs in splits.values() for pair in pairs]
        rows = {name: rows_of(pairs) for name, pairs in splits.items()}
        notes = [rows_note(rows), padding_note(lengths, self.context)]
        if self.pretraining:
            notes.append(left_out_note(self.pretraining.corpus))
        return "; ".join(filter(None, notes))

    def for_probe(self, *, context: int, eval_tokens: int) -> Self:
        """The keys without the text, and with fewer rows in an evaluation; rows keep their
        length."""
        keys = super().for_probe(context=context, eval_tokens=eval_tokens)
        pretraining = self.pretraining and self.pretraining.model_copy(update={"tokens": 0})
        return keys.model_copy(update={"pretraining": pretraining})
