"""Keys of `objective: tokens`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.held_out.files import check_apart, overlap_note
from fathom.objectives.keys import NextTokenConfig, Number, Positive, Real
from fathom.objectives.tokens.formats import TokenData, find_tokens, has_split, passed_over
from fathom.objectives.tokens.ranges import check_ids, largest_id, type_note, vocabulary_note
from fathom.objectives.tokens.shards import TOKENIZER, TRAIN, VALIDATION
from fathom.objectives.tokens.stream import TokenFiles
from fathom.objectives.tokens.tokenizers import id_count, read_tokenizer

MOST_NAMES = 5
"""Files that a line names."""
APART = (
    "name other files; without `validation`, files of `train` with a name such as val.bin are "
    "held out, or else the last part of `train`"
)
"""What to do where held-out tokens are trained on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSplits:
    """The token ids of both splits."""

    train: TokenFiles
    validation: TokenFiles
    data: tuple[TokenData, ...]
    """What was found at `train`, and at `validation` if that is another place."""
    bytes: int | None
    """Bytes of the text of `validation`, if they are known."""


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
    """Number of token ids, where no tokenizer says it or the model shall have more."""
    column: str | None = Field(None, min_length=1, max_length=255)
    """Column of ids in Arrow files; by default `input_ids`, `token_ids`, `tokens` or `ids`."""
    dtype: Literal["uint8", "uint16", "uint32", "int32", "int64", ">u2", ">u4"] | None = None
    """Type of an id in raw files, about which no header and no .idx of Megatron-LM says anything;
    `>u2` and `>u4` have the upper byte first. It is uint16 by default."""
    context: Positive = 256
    """Tokens in a training sequence."""
    eval_tokens: Number = 131_072
    """Held-out tokens in an evaluation."""
    validation_fraction: Real = Field(0.01, gt=0.0, le=0.5)
    """Fraction of `train` that is held out, its last part, if nothing else is."""

    def vocab_size(self) -> int:
        """Number of token ids; reads a sample of them, and the sizes and heads of their files."""
        return self.splits().train.vocab_size

    def train_tokens(self) -> int:
        """Number of training tokens."""
        return len(self._cut(*self._found())[0])

    def data_note(self) -> str:
        """A line on held-out tokens that are trained on as well, on ids that look like another
        `dtype`, on files that are not read, and on a vocabulary far larger than the ids in use;
        empty if all is well."""
        found = self.splits()
        notes = [overlap_note(found.train, found.validation)]
        places = dict.fromkeys(filter(None, (self.train, self.validation)))
        if unread := [words for place in places for words in passed_over(place)]:
            notes.append(f"not read: {'; '.join(unread[:MOST_NAMES])}, {len(unread)} in all")
        if self.dtype:
            notes.append(type_note(found.train, self.dtype))
        if all(data.hashes is None for data in found.data):
            notes.append(vocabulary_note(found.train, self.train))
        return "; ".join(filter(None, notes))

    @property
    def tokenizer_file(self) -> Path | None:
        """The tokenizer's file, which is named or lies beside shards; None if it is not known."""
        if self.tokenizer:
            return Path(self.tokenizer).expanduser().absolute()
        beside = Path(self.train).expanduser().absolute() / TOKENIZER
        return beside if beside.is_file() else None

    def splits(self) -> TokenSplits:
        """The token ids of both splits, after a look at a sample of them.

        Raises:
            ObjectiveError: when files are missing, damaged, too short, or of another vocabulary, or
                the splits share a file, or one contains the other.
        """
        data = self._found()
        size = self._vocabulary(data)
        parts = self._cut(*data)
        train, validation = (TokenFiles(part.segments, size) for part in parts)
        for split, key in ((train, "train"), (validation, "validation")):
            self._check_length(split, key)
            check_ids(split)
        ours = self.validation is None and data[-1].hashes is not None  # held out by document
        if len(data) > 1 and not ours:
            check_apart(train, validation, held_out_key="`validation`", remedy=APART)
        return TokenSplits(
            train=train, validation=validation, data=data,
            bytes=data[-1].bytes if len(data) > 1 else None,
        )  # fmt: skip

    def files_on_nodes(self) -> dict[str, int]:
        """Path -> least bytes of each file of token ids, which trials read in place."""
        found = self.splits()
        return found.train.ends | found.validation.ends

    def _found(self) -> tuple[TokenData, ...]:
        """Returns the training data, and the held-out data if `validation` names them or the folder
        `train` has them apart."""
        held_out = self.validation
        if held_out is None and has_split(self.train, VALIDATION):
            held_out = self.train
        places = ((self.train, TRAIN), *([(held_out, VALIDATION)] if held_out else []))
        return tuple(
            find_tokens(place, split, column=self.column, dtype=self.dtype)
            for place, split in places
        )

    def _cut(self, train: TokenData, held_out: TokenData | None = None) -> tuple[TokenFiles, ...]:
        """Both splits; the last part of `train` is held out if nothing else is."""
        files = TokenFiles(train.segments, 0)
        if held_out is not None:
            return files, TokenFiles(held_out.segments, 0)
        place = len(files) - int(len(files) * self.validation_fraction)
        return files.cut(0, place), files.cut(place, len(files))

    def _vocabulary(self, data: tuple[TokenData, ...]) -> int:
        """Number of token ids."""
        said = {found.vocabulary for found in data if found.vocabulary is not None}
        if self.tokenizer:
            said.add(id_count(read_tokenizer(Path(self.tokenizer).expanduser())))
        if len(said) > 1:
            raise ObjectiveError(
                "`train`, `validation` and `tokenizer` must be of one vocabulary, got "
                f"{' and '.join(map(str, sorted(said)))} token ids; cut both with one tokenizer"
            )
        known = next(iter(said), None)
        size = self.vocabulary or known
        if size is None:
            largest = largest_id(TokenFiles(data[0].segments, 0))
            raise ObjectiveError(
                f"`tokenizer` must name the tokenizer.json that cut {self.train}, or `vocabulary` "
                "the number of its token ids, which the files do not say; the largest id seen is "
                f"{largest}: set `vocabulary: {largest + 1}` if there is no larger one"
            )
        if known is not None and size < known:
            raise ObjectiveError(
                f"`vocabulary` must be at least the {known} token ids of the tokenizer, got {size};"
                " drop it"
            )
        return size

    def _check_length(self, split: TokenFiles, key: str) -> None:
        if len(split) <= self.context:
            raise ObjectiveError(
                f"both splits must be longer than `context`, got {len(split)} tokens of {key} with "
                f"context={self.context}; use more tokens, a shorter `context`, or another "
                "`validation_fraction`"
            )
