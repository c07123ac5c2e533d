"""Keys of `objective: classification`."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from fathom.objectives.keys import Group, Positive, Real, RuleError, Whole
from fathom.objectives.rows.classification.labelled_texts import (
    GENERATED,
    GENERATED_TOKENIZERS,
    TextSplits,
    TextVocabulary,
    generated_vocabulary,
    read_with_vocabulary,
    rows_of,
)
from fathom.objectives.rows.classification.listops import FEWEST, check_rules
from fathom.objectives.rows.held_out import rows_note
from fathom.objectives.rows.keys import SPLITS, FilePath, RowsConfig, SplitName, padding_note


class ListOpsConfig(Group):
    """Rules by which the trees of `data: listops` are drawn; the defaults are the publication's."""

    max_depth: Whole = Field(20, ge=2, le=64)
    """Depth of the tree; operators nest one less deep."""
    max_args: Whole = Field(5, ge=2, le=64)
    """Most arguments of an operator; the fewest are 2."""
    min_length: Positive = 1
    """Tokens of the shortest expression; the longest has `context`."""
    examples: Whole = Field(20_000, ge=FEWEST, le=10**6)
    """Number of expressions, those held out included."""


class ClassificationConfig(RowsConfig):
    """Classification of texts: each text has one of several classes."""

    loss_unit: ClassVar[str] = "nats per text"
    bidirectional: ClassVar[bool] = True
    name: Literal["classification"]
    data: FilePath = "listops"
    """`listops`, a published test set of it such as `listops_d20s`, or a path: a TSV, plain or
    .gz, or a folder with a folder of .txt files for each class, or with `train/` and `test/`."""
    label: Literal["first", "last"] | None = None
    """The column of a TSV that holds the label; not needed if a header names the columns."""
    dev: FilePath | None = None
    """Path of the texts of each evaluation; without it, a part of the training texts."""
    test: dict[SplitName, FilePath] = Field(
        {}, description=SPLITS, examples=[{"longer": "gen.tsv"}]
    )
    """Further splits by name, for the final measurement: paths, or names as in `data`."""
    tokenizer: str = Field(
        "words",
        pattern=r"^(bytes|listops|words|words:[0-9]{1,9})$",
        description="`bytes`, `listops`, `words` or `words:N`, for example words:10000",
    )
    """`words` between blanks (`words:N`: the N most frequent), `listops` without the parentheses of
    its trees, or `bytes`."""
    cut: bool = False
    """Keep the first `context` tokens of a longer text, instead of refusing it."""
    pooling: Literal["mean", "last"] = "mean"
    """Tokens that the class is read from: the mean over all, or the last one."""
    listops: ListOpsConfig = ListOpsConfig()
    context: Positive = 256
    """Tokens of the longest text. The horizon counts this many tokens for every text, padding
    included."""
    eval_examples: Positive = 1024
    """Most texts in an evaluation; the final one takes all."""
    validation_fraction: Real = Field(0.1, gt=0.0, le=0.5)
    """Fraction of the training texts that is held out if there is no `dev`."""

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if self.data == "listops" and self.listops.min_length > self.context:
            raise RuleError(
                "listops.min_length",
                "must be at most `context`, got "
                f"{self.listops.min_length} and {self.context}; raise `context`",
            )
        return self

    def read(self) -> tuple[TextSplits, TextVocabulary]:
        """All texts by split, and their vocabulary; raises `ObjectiveError` if they don't suit."""
        return read_with_vocabulary(**self.model_dump(exclude={"name", "pooling", "eval_examples"}))

    def vocab_size(self) -> int:
        """Number of special tokens, words or bytes, and classes; reads the texts, except generated
        ones."""
        alone = self.data == GENERATED and not self.dev and not self.test
        if not (alone and self.tokenizer in GENERATED_TOKENIZERS):
            return self.read()[1].size
        rules = self.listops
        check_rules(
            max_depth=rules.max_depth,
            max_args=rules.max_args,
            lengths=(rules.min_length, self.context),
        )
        return generated_vocabulary(self.tokenizer).size

    def data_note(self) -> str:
        """A line on held-out rows that are trained on as well, and on rows that are far shorter
        than the context; empty if there are none."""
        if self.data == GENERATED:
            return ""
        splits, vocabulary = self.read()
        lengths = [vocabulary.length(text.text) for texts in splits.values() for text in texts]
        rows = {name: rows_of(texts) for name, texts in splits.items()}
        return "; ".join(filter(None, (rows_note(rows), padding_note(lengths, self.context))))
