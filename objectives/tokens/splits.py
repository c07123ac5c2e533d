"""The splits of the objective `tokens`: their files, sizes and vocabulary, and what is wrong."""

from dataclasses import dataclass
from pathlib import Path

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.held_out.files import check_apart, overlap_note
from fathom.objectives.tokens.formats import TokenData, find_tokens, has_split, passed_over
from fathom.objectives.tokens.keys import TokensConfig
from fathom.objectives.tokens.ranges import check_ids, largest_id, type_note, vocabulary_note
from fathom.objectives.tokens.shards import TOKENIZER, TRAIN, VALIDATION
from fathom.objectives.tokens.stream import TokenFiles
from fathom.objectives.tokens.tokenizers import id_count, read_tokenizer

MOST_NAMES = 5
"""Most files that a line names."""
APART = (
    "name other files; without `validation`, files of `train` with a name such as val.bin are "
    "held out, or else the last part of `train`"
)
"""What to do if held-out tokens are trained on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSplits:
    """The token ids of both splits."""

    train: TokenFiles
    validation: TokenFiles
    data: tuple[TokenData, ...]
    """Token data at `train`, and at `validation` if that is another place."""
    bytes: int | None
    """Bytes of the text of `validation`, if they are known."""


def train_tokens(keys: TokensConfig) -> int:
    """Number of training tokens."""
    return len(_cut(keys, *_found(keys))[0])


def data_note(keys: TokensConfig) -> str:
    """A line on held-out tokens that are trained on as well, on ids that look like another
    `dtype`, on files that are not read, and on a vocabulary far larger than the ids in use;
    empty if all is well."""
    found = splits(keys)
    notes = [overlap_note(found.train, found.validation)]
    places = dict.fromkeys(filter(None, (keys.train, keys.validation)))
    if unread := [words for place in places for words in passed_over(place)]:
        notes.append(f"not read: {'; '.join(unread[:MOST_NAMES])}, {len(unread)} in all")
    if keys.dtype:
        notes.append(type_note(found.train, keys.dtype))
    if all(data.hashes is None for data in found.data):
        notes.append(vocabulary_note(found.train, keys.train))
    return "; ".join(filter(None, notes))


def tokenizer_file(keys: TokensConfig) -> Path | None:
    """The tokenizer's file, as the study names it or as it lies beside shards; None if it is not
    known."""
    if keys.tokenizer:
        return Path(keys.tokenizer).expanduser().absolute()
    beside = Path(keys.train).expanduser().absolute() / TOKENIZER
    return beside if beside.is_file() else None


def splits(keys: TokensConfig) -> TokenSplits:
    """The token ids of both splits, after a look at a sample of them.

    Raises:
        ObjectiveError: when files are missing, damaged, too short, or of another vocabulary, or
            the splits share a file, or one contains the other.
    """
    data = _found(keys)
    size = _vocabulary(keys, data)
    parts = _cut(keys, *data)
    train, validation = (TokenFiles(part.segments, size) for part in parts)
    for split, key in ((train, "train"), (validation, "validation")):
        _check_length(keys, split, key)
        check_ids(split)
    ours = keys.validation is None and data[-1].hashes is not None  # held out by document
    if len(data) > 1 and not ours:
        check_apart(train, validation, held_out_key="`validation`", remedy=APART)
    return TokenSplits(
        train=train, validation=validation, data=data,
        bytes=data[-1].bytes if len(data) > 1 else None,
    )  # fmt: skip


def _found(keys: TokensConfig) -> tuple[TokenData, ...]:
    """Returns the training data, and the held-out data if `validation` names them or the folder
    `train` keeps them apart."""
    held_out = keys.validation
    if held_out is None and has_split(keys.train, VALIDATION):
        held_out = keys.train
    places = ((keys.train, TRAIN), *([(held_out, VALIDATION)] if held_out else []))
    return tuple(
        find_tokens(place, split, column=keys.column, dtype=keys.dtype) for place, split in places
    )


def _cut(
    keys: TokensConfig, train: TokenData, held_out: TokenData | None = None
) -> tuple[TokenFiles, ...]:
    """Both splits; the last part of `train` is held out if nothing else is."""
    files = TokenFiles(train.segments, 0)
    if held_out is not None:
        return files, TokenFiles(held_out.segments, 0)
    place = len(files) - int(len(files) * keys.validation_fraction)
    return files.cut(0, place), files.cut(place, len(files))


def _vocabulary(keys: TokensConfig, data: tuple[TokenData, ...]) -> int:
    """Number of token ids."""
    said = {found.vocabulary for found in data if found.vocabulary is not None}
    if keys.tokenizer:
        said.add(id_count(read_tokenizer(Path(keys.tokenizer).expanduser())))
    if len(said) > 1:
        raise ObjectiveError(
            "`train`, `validation` and `tokenizer` must have one vocabulary, got "
            f"{' and '.join(map(str, sorted(said)))} token ids; tokenize both with one tokenizer"
        )
    known = next(iter(said), None)
    size = keys.vocabulary or known
    if size is None:
        largest = largest_id(TokenFiles(data[0].segments, 0))
        raise ObjectiveError(
            f"`tokenizer` must name the tokenizer.json that cut {keys.train}, or `vocabulary` its "
            f"number of token ids, which the files do not say; at least {largest + 1}, as the "
            f"largest id seen is {largest}: `vocabulary: {largest + 1}`"
        )
    if known is not None and size < known:
        raise ObjectiveError(
            f"`vocabulary` must be at least the {known} token ids of the tokenizer, got {size}; "
            "drop `vocabulary`"
        )
    return size


def _check_length(keys: TokensConfig, split: TokenFiles, key: str) -> None:
    if len(split) <= keys.context:
        raise ObjectiveError(
            f"both splits must be longer than `context`, got {len(split)} tokens of {key} with "
            f"context={keys.context}; use more tokens, a shorter `context`, or another "
            "`validation_fraction`"
        )
