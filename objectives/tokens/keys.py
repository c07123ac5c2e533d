"""Keys of `objective: tokens`."""

import importlib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from fathom.objectives.keys import NextTokenConfig, Number, Positive, Real


class TokensConfig(NextTokenConfig):
    """Next-token prediction on token ids that are cut already."""

    name: Literal["tokens"]
    train: str = Field(min_length=1, max_length=4096, examples=["path/to/tokens"])
    """Token ids to train on: a folder that `fathom tokenize` wrote; a file, folder or glob of .bin,
    .npy or .arrow; a folder that `datasets` wrote. Of a folder, files named as held out or for a
    test, such as `val.bin`, are left out."""
    validation: str | None = Field(None, min_length=1, max_length=4096)
    """Held-out token ids, in the same forms. Without it, those that `fathom tokenize` held out,
    files of `train` with a name such as `val.bin`, or the last part of `train`."""
    tokenizer: str | None = Field(None, min_length=1, max_length=4096)
    """The tokenizer.json that cut the tokens. Shards of `fathom tokenize` have their own."""
    vocabulary: Positive | None = None
    """Number of token ids, if no tokenizer states it, or if the model is to have more."""
    column: str | None = Field(None, min_length=1, max_length=255)
    """Column of ids in Arrow files; by default `input_ids`, `token_ids`, `tokens` or `ids`."""
    dtype: Literal["uint8", "uint16", "uint32", "int32", "int64", ">u2", ">u4"] | None = None
    """Type of an id in raw files, if neither a header nor an .idx of Megatron-LM states it; `>u2`
    and `>u4` have the upper byte first. It is uint16 by default."""
    context: Positive = 256
    """Tokens in a training sequence."""
    eval_tokens: Number = 131_072
    """Held-out tokens in an evaluation."""
    validation_fraction: Real = Field(0.01, gt=0.0, le=0.5)
    """Fraction of `train`, its last part, that is held out if nothing else is."""

    def vocab_size(self) -> int:
        """Number of token ids; reads a sample of them, and the sizes and heads of their files."""
        return int(self.splits().train.vocab_size)

    def train_tokens(self) -> int:
        """Number of training tokens."""
        return int(_files().train_tokens(self))

    def data_note(self) -> str:
        """A line on held-out tokens that are trained on as well, on ids that look like another
        `dtype`, on files that are not read, and on a vocabulary far larger than the ids in use;
        empty if all is well."""
        return str(_files().data_note(self))

    @property
    def tokenizer_file(self) -> Path | None:
        """The tokenizer's file, as the study names it or as it lies beside shards; None if it is
        not known."""
        found: Path | None = _files().tokenizer_file(self)
        return found

    def splits(self) -> Any:
        """The `TokenSplits` of the study, after a look at a sample of them.

        Raises:
            ObjectiveError: when files are missing, damaged, too short, or of another vocabulary, or
                the splits share a file, or one contains the other.
        """
        return _files().splits(self)

    def files_on_nodes(self) -> dict[str, int]:
        """Least size in bytes of each file of token ids, by its path; trials read the files in
        place."""
        found = self.splits()
        return {**found.train.ends, **found.validation.ends}


def _files() -> Any:
    """The module that reads files of token ids, imported late, as only reading data needs its
    libraries."""
    return importlib.import_module("fathom.objectives.tokens.splits")
