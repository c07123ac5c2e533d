"""Keys of `objective: translation`."""

import importlib
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from fathom.objectives.keys import Few, Group, Number, Positive, Real, Whole, short
from fathom.objectives.rows.keys import FilePath, RowsConfig
from fathom.objectives.rows.translation.generated import GENERATED, DrawnLanguage
from fathom.objectives.rows.translation.pair_files import Files
from fathom.objectives.rows.translation.parallel_text import ParallelText, read_parallel_text
from fathom.objectives.text.tokenizer import BPE, BYTE_IDS
from fathom.objectives.token_ids import PAD

SUBWORDS = f"{BPE}:4000"
"""Default tokenizer of text that is not generated."""
WORDS = "words"
TOKENS_FROM = PAD + 3
"""Id of the first token of a text."""
FEWEST_IDS = TOKENS_FROM + BYTE_IDS + 1
"""Smallest N of `bpe:N`: padding, start and end, the bytes and one pair."""


def _files(value: object) -> object:
    two = isinstance(value, list | tuple) and len(value) == 2
    texts = value if two and isinstance(value, list | tuple) else (value,)
    if not all(isinstance(text, str) and text for text in texts):
        raise ValueError("must be a path, or the two paths [source, target], got " + short(value))
    return tuple(texts) if two else value


ParallelFiles = Annotated[
    Files, BeforeValidator(_files, json_schema_input_type=FilePath | tuple[FilePath, FilePath])
]


def _tokenizer(value: object) -> object:
    size = str(value).removeprefix(f"{BPE}:")
    if value is None or value == WORDS or (size.isdecimal() and int(size) >= FEWEST_IDS):
        return value
    raise ValueError(
        f"must be `{WORDS}`, or `{BPE}:N` with at least {FEWEST_IDS} ids, such as {SUBWORDS}, got "
        + short(value)
    )


class GeneratedConfig(Group):
    """Rules by which the language of `data: generated` is drawn."""

    pairs: Number = Field(20_000, le=10**6)
    """Sentences with their translations, those held out included."""
    nesting: Whole = Field(3, ge=0, le=8)
    """Deepest nesting of clauses, each of which the translation reorders."""
    nouns: Few = 60
    verbs: Few = 30
    """Number of verbs, and of adjectives."""


class BeamConfig(Group):
    """Beam search at the end of a training."""

    width: Few = Field(5, le=100)
    """Hypotheses of a sentence; 1 is greedy decoding."""
    length_penalty: Real = Field(1.0, ge=0.0, le=10.0)
    """Exponent of the length penalty that divides the log-probability of a hypothesis."""


class TranslationConfig(RowsConfig):
    """Translation by an encoder that reads the source and a decoder that writes the target."""

    loss_unit: ClassVar[str] = "nats per token of the targets"
    has_sources: ClassVar[bool] = True
    name: Literal["translation"]
    data: ParallelFiles = GENERATED
    """Training pairs: a path of a table with tabs between its columns, two paths [source, target],
    `multi30k_en_de`, `multi30k_en_fr`, `autshumato_en_nso` or `generated`; files are plain or
    .gz."""
    dev: ParallelFiles | None = None
    """Pairs of each evaluation; by default a part of the training pairs."""
    test: ParallelFiles | None = None
    """Pairs that are translated at the end; by default a part of the training pairs."""
    columns: tuple[Few, Few] = (1, 2)
    """The columns of source and target in a table, counted from 1."""
    held_out: Positive = 1000
    """Most training pairs that are held out for each of `dev` and `test` that is not given; at most
    a tenth."""
    train_pairs: Number | None = None
    """Most pairs to train on; a smaller number takes a part of what a larger one takes."""
    tokenizer: Annotated[str, BeforeValidator(_tokenizer)] | None = None
    """`bpe:N` for subwords, or `words` between blanks; by default `bpe:4000`, or `words` if data
    are `generated`."""
    vocabulary: Literal["joint", "separate"] = "joint"
    """One tokenizer for both sides, or one for each."""
    context: Positive = 64
    """Most tokens of a source and of a target, with its end; longer training pairs are dropped."""
    eval_examples: Positive = 512
    """Most pairs of `dev` in an evaluation."""
    translated: Positive = 1000
    """Most pairs of `test` that are translated at the end of a trial."""
    beam: BeamConfig = BeamConfig()
    generated: GeneratedConfig = GeneratedConfig()

    @property
    def is_joint(self) -> bool:
        """True if both sides have the same token ids."""
        return self.vocabulary == "joint"

    @property
    def chosen_tokenizer(self) -> str:
        """The tokenizer, or the default of the data."""
        return self.tokenizer or (WORDS if self.data == GENERATED else SUBWORDS)

    def read(self) -> ParallelText:
        """Every pair, by split; raises `ObjectiveError` if the pairs do not suit."""
        return read_parallel_text(
            data=self.data,
            dev=self.dev,
            test=self.test,
            columns=self.columns,
            held_out=self.held_out,
            train_pairs=self.train_pairs,
            generated=DrawnLanguage(**self.generated.model_dump()),
        )

    def vocab_size(self) -> int:
        """Number of token ids of the targets; reads the pairs if they are `words`."""
        return int(_encoded().sizes(self)[1])

    def source_vocab_size(self) -> int:
        """Number of token ids of the sources; 0 if they share the ids of the targets."""
        return 0 if self.is_joint else int(_encoded().sizes(self)[0])

    def train_tokens(self) -> int:
        """Training tokens of an epoch, padding included; reads the pairs."""
        return int(_encoded().survey(self)[0])

    def data_note(self) -> str:
        """A line on the number of pairs, on those that are not used whole, and on padding."""
        return str(_encoded().survey(self)[1])


def _encoded() -> Any:
    """The module that makes token ids of pairs, imported late, as only reading data needs its
    libraries."""
    return importlib.import_module("fathom.objectives.rows.translation.encoded")
