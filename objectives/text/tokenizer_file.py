"""Each tokenizer as a file of the `tokenizers` library: the same ids in other programs."""

from tokenizers import Tokenizer, decoders, models

from fathom.objectives.text.corpus import read_corpus
from fathom.objectives.text.encode import learned_bpe
from fathom.objectives.text.tokenizer import BYTE_IDS, BYTES, CHARS, bpe_ids, characters

UNKNOWN = "<unknown>"
"""The name of the one id of all characters that the training split has not."""


def tokenizer_file(*, corpus: str, tokenizer: str, validation_fraction: float) -> str:
    """The JSON that `Tokenizer.from_str` takes; `chars` and `bpe:N` are learned on the corpus."""
    if tokenizer == BYTES:
        return _of_bytes().to_str(pretty=True)
    train = read_corpus(corpus, validation_fraction=validation_fraction).train
    if tokenizer == CHARS:
        return _of_characters(characters(train)).to_str(pretty=True)
    bpe = learned_bpe(train, bpe_ids(tokenizer))
    bpe.decoder = decoders.ByteLevel()
    return bpe.to_str(pretty=True)


def _of_bytes() -> Tokenizer:
    """Tokenizer of bytes: it knows no characters, so each falls back to its bytes."""
    ids = {f"<0x{byte:02X}>": byte for byte in range(BYTE_IDS)}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=[], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _of_characters(known: str) -> Tokenizer:
    ids = {character: index for index, character in enumerate(known)} | {UNKNOWN: len(known)}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=[], unk_token=UNKNOWN))
    tokenizer.decoder = decoders.Fuse()
    return tokenizer
