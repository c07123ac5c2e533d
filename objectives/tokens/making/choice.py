"""The tokenizer that `--tokenizer` names: a file, byte pairs learned on a sample, or the bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.text.encode import bytes_tokenizer, learned_bpe
from fathom.objectives.text.tokenizer import BPE, BYTES, bpe_ids
from fathom.objectives.tokens.making.cut import portions, split_of, texts_of
from fathom.objectives.tokens.making.sources import SourceFile, read_blocks
from fathom.objectives.tokens.shards import TRAIN
from fathom.objectives.tokens.tokenizers import id_count, read_tokenizer

IDS = "ids"
"""Value of `--tokenizer` for ids that are cut already and only become shards."""
END = "<|endoftext|>"
END_TOKENS = (END, "<|end_of_text|>", "</s>", "<eos>", "<|eot_id|>", "<|im_end|>", "[SEP]")
"""Usual names of the token between documents, the likeliest first."""
SAMPLE_BYTES = 1 << 26
"""Approximate bytes of text on which byte pairs are learned, spread over the whole source."""
PACKED = 4
"""Approximate bytes of text in a byte of a compressed file."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A tokenizer, and the token that it puts between documents."""

    text: str | None
    """Content of the tokenizer.json; None for text that is token ids already."""
    vocab_size: int
    end: int | None


def check_choice(name: str, vocabulary: int | None) -> None:
    """Raises `ObjectiveError` for an unknown `--tokenizer`, or one that lacks the `--vocabulary` it
    needs."""
    if name == IDS and vocabulary is None:
        raise ObjectiveError("`--tokenizer ids` needs `--vocabulary`, the number of token ids")
    if name != IDS and vocabulary is not None:
        raise ObjectiveError("`--vocabulary` goes with `--tokenizer ids` alone; drop it")
    if name.partition(":")[0] == BPE:
        bpe_ids(name)
    elif name not in (BYTES, IDS):
        read_tokenizer(Path(name).expanduser())


def choose(
    name: str, files: Sequence[SourceFile], field: str, *, end: str | None, vocabulary: int | None,
    validation: float,
) -> Chosen:  # fmt: skip
    """The tokenizer that `name` stands for; byte pairs are learned on the files.

    Raises:
        ObjectiveError: when it has no token for the end of a document, or too little to learn on.
    """
    if name == IDS:
        return Chosen(None, vocabulary or 0, None)
    if name == BYTES:
        tokenizer = bytes_tokenizer()
        tokenizer.add_special_tokens([AddedToken(end or END, special=True)])
    elif name.partition(":")[0] == BPE:
        sample, size = _sample(files, field, validation), bpe_ids(name)
        tokenizer = learned_bpe(sample, size, (end or END,), source="text", more="more text")
    else:
        tokenizer = read_tokenizer(Path(name).expanduser())
    return chosen_of(tokenizer, end)


def chosen_of(tokenizer: Tokenizer, end: str | None) -> Chosen:
    """A tokenizer with the token that it puts between documents."""
    names = (end,) if end else END_TOKENS
    found = [token for name in names if (token := tokenizer.token_to_id(name)) is not None]
    if not found:
        raise ObjectiveError(
            "the tokenizer must have a token that stands between documents, "
            f"{end or 'such as ' + ', '.join(END_TOKENS[:3])}, got none; name it with --end"
        )
    return Chosen(tokenizer.to_str(), id_count(tokenizer), found[0])


def _sample(files: Sequence[SourceFile], field: str, validation: float) -> Iterator[str]:
    """The training texts of every k-th block."""
    size = sum(file.size * (PACKED if file.packed or file.kind == "rows" else 1) for file in files)
    stride = max(1, -(-size // SAMPLE_BYTES))
    for number, block in enumerate(read_blocks(files, field)):
        if number % stride == 0:
            for text in texts_of(block, field):
                if not isinstance(text, str):
                    raise ObjectiveError(
                        f"{block.path} must have text in its column {field}, got "
                        f"{type(text).__name__}; name another --field, or --tokenizer ids"
                    )
                if split_of(text.encode(), validation) == TRAIN:
                    yield from portions(text)
