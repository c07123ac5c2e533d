"""The keys of each objective, in the study file below `objective`."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from fathom.search.study.errors import short
from fathom.search.study.generated_keys import (
    BlocksConfig,
    ConnectivityConfig,
    HopConfig,
    InductionConfig,
)
from fathom.search.study.types import Group, Number, ObjectiveGroup, Positive, Real, Whole

OWN = "own"
"""The tag of a user's own objective, whose `name` says where to import it from."""

FilePath = Annotated[str, Field(min_length=1, max_length=4096)]
OwnName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$",
        description="the place of a class, such as `my_package.my_task:MyObjective`",
    ),
]
SplitName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
SPLITS = "names of letters, digits, `_`, `.` or `-`, each with the path of its rows"


class LanguageConfig(ObjectiveGroup):
    """Next-token prediction on text."""

    name: Literal["language"]
    corpus: str = Field("stdlib", max_length=4096, examples=["stdlib", "path/to/text"])
    """`stdlib`, a known name such as `tiny_shakespeare`, or a path: file, folder or glob."""
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

    def probing(self, *, context: int, eval_tokens: int) -> dict[str, Any]:
        """Shorter windows, and fewer of them."""
        context = min(context, self.context)
        eval_tokens = max(context, min(eval_tokens, self.eval_tokens))
        return self.settings() | {"context": context, "eval_tokens": eval_tokens}


class PretrainingConfig(Group):
    """Text that a shape reads before the rows."""

    corpus: str = Field("stdlib", max_length=4096)
    """As in `language`."""
    words: Positive = 8192
    """So many of its most frequent words join those of the rows; no other word is asked."""
    tokens: Number = 1_000_000
    """Of the horizon, from its beginning; fewer than it has. The rest of it is for the rows."""


class TransductionConfig(ObjectiveGroup):
    """Sequence to sequence, by a decoder that reads the source and writes the target."""

    name: Literal["transduction"]
    loss_unit: ClassVar[str] = "nats per token of the targets"
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
    """Tokens of the longest source and target together, and two more. The horizon counts so many
    for every example, padding included."""
    eval_examples: Positive = 512
    """At most so many of each split in an evaluation; the final one takes all."""
    validation_fraction: Real = Field(0.1, gt=0.0, le=0.5)
    """Of the training rows, where there is no `dev`."""
    pretraining: PretrainingConfig | None = None
    """Training begins on text, and the one schedule goes on: the rate falls on the rows."""

    @property
    def pretraining_tokens(self) -> int:
        """Training on text, which the loss on rows says little of."""
        return self.pretraining.tokens if self.pretraining else 0

    def probing(self, *, context: int, eval_tokens: int) -> dict[str, Any]:
        """The same rows, which cannot be shorter, without the text; fewer in an evaluation."""
        settings = self.settings() | fewer_examples(self, eval_tokens)
        if self.pretraining:
            settings["pretraining"] |= {"tokens": 0}
        return settings


class ListOpsConfig(Group):
    """The trees of `data: listops`, by the published rules."""

    max_depth: Whole = Field(20, ge=2, le=64)
    """Depth of the tree; operators nest one less deep."""
    max_args: Whole = Field(5, ge=2, le=64)
    """Arguments of an operator: 2 to so many."""
    min_length: Positive = 1
    """Shortest expression, in tokens; the longest is `context`."""
    examples: Whole = Field(20_000, ge=20, le=10**6)


class ClassificationConfig(ObjectiveGroup):
    """A class for each text."""

    name: Literal["classification"]
    loss_unit: ClassVar[str] = "nats per text"
    data: FilePath = "listops"
    """`listops`, a published test set of it such as `listops_d20s`, or a path: a TSV, plain or
    .gz, or a folder with a folder of .txt files for each class, or with `train/` and `test/`."""
    label: Literal["first", "last"] | None = None
    """The column of a TSV that holds the label; a header that names it says so as well."""
    dev: FilePath | None = None
    """Path of the texts of each evaluation; without it, a part of the training texts."""
    test: dict[SplitName, FilePath] = Field(
        {}, description=SPLITS, examples=[{"longer": "gen.tsv"}]
    )
    """Further splits by name, for the final measurement; names as in `data` do for paths."""
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
    """What the class is read from: the mean over all tokens, or the last one."""
    listops: ListOpsConfig = ListOpsConfig()
    context: Positive = 256
    """Tokens of the longest text. The horizon counts so many for every text, padding included."""
    eval_examples: Positive = 1024
    """At most so many in an evaluation; the final one takes all."""
    validation_fraction: Real = Field(0.1, gt=0.0, le=0.5)
    """Of the training texts, where there is no `dev`."""

    @model_validator(mode="after")
    def _short_enough(self) -> Self:
        if self.data == "listops" and self.listops.min_length > self.context:
            raise ValueError(
                "`listops.min_length` must be at most `context`, got "
                f"{self.listops.min_length} and {self.context}; raise `context`"
            )
        return self

    def probing(self, *, context: int, eval_tokens: int) -> dict[str, Any]:
        """The same texts, which cannot be shorter; fewer of them in an evaluation."""
        return self.settings() | fewer_examples(self, eval_tokens)


class OwnConfig(ObjectiveGroup):
    """A user's own objective; its other keys go to its `prepare`."""

    model_config = ConfigDict(extra="allow")

    loss_unit: ClassVar[str] = "nats"
    name: OwnName
    context: Positive = 256
    """Tokens of the longest sequence; goes to `prepare` as well."""

    @model_validator(mode="after")
    def _plain(self) -> Self:
        """What a file does not give back as it was would make a resumed run another study."""
        for key, value in self.model_dump(exclude={"name", "context"}).items():
            if not _is_plain(value):
                raise ValueError(
                    f"`{key}` must be text, a number, true or false, or lists and groups of them, "
                    f"got {short(value)}; write a date in quotes"
                )
        return self


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(own) for key, own in value.items())
    finite = not isinstance(value, float) or math.isfinite(value)
    return finite and (value is None or isinstance(value, str | int | float))


def fewer_examples(
    config: TransductionConfig | ClassificationConfig, eval_tokens: int
) -> dict[str, int]:
    """As many examples in an evaluation as the tokens allow."""
    return {"eval_examples": min(config.eval_examples, max(1, eval_tokens // config.context))}


def _by_name(value: object) -> object:
    """A bare word is a name."""
    return {"name": value} if isinstance(value, str) else value


def _tag(value: object) -> str | None:
    name = value.get("name") if isinstance(value, Mapping) else getattr(value, "name", None)
    if not isinstance(name, str):
        return None
    return OWN if ":" in name else name


ObjectiveGroups = Annotated[
    Annotated[LanguageConfig, Tag("language")]
    | Annotated[TransductionConfig, Tag("transduction")]
    | Annotated[ClassificationConfig, Tag("classification")]
    | Annotated[HopConfig, Tag("hop")]
    | Annotated[InductionConfig, Tag("induction")]
    | Annotated[ConnectivityConfig, Tag("connectivity")]
    | Annotated[BlocksConfig, Tag("blocks")]
    | Annotated[OwnConfig, Tag(OWN)],
    Discriminator(_tag),
]
Name = Literal[
    "language", "transduction", "classification", "hop", "induction", "connectivity", "blocks"
]
ObjectiveConfig = Annotated[
    ObjectiveGroups,
    BeforeValidator(_by_name, json_schema_input_type=ObjectiveGroups | Name | OwnName),
    Field(examples=[{"name": "language"}]),
]
"""The keys of the objective that `name` says."""
