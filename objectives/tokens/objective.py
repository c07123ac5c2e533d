"""Next-token prediction on token ids that are cut already."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from fathom.objectives.files import digest_of
from fathom.objectives.next_token import NextToken
from fathom.objectives.tokens.digest import full_digest, quick_digest
from fathom.objectives.tokens.formats import TokenData
from fathom.objectives.tokens.keys import TokensConfig


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tokens(NextToken):
    """The objective `tokens`."""

    data: tuple[TokenData, ...]
    """What lies at `train`, and at `validation` if that is another place."""

    @classmethod
    def prepare(cls, keys: TokensConfig) -> Self:
        """The objective with its files found; none of them is read as a whole."""
        found = keys.splits()
        validation = len(found.validation)
        return cls(
            train=found.train,
            validation=found.validation,
            vocab_size=found.train.vocab_size,
            context=keys.context,
            eval_windows=min(keys.eval_tokens, validation - 1) // keys.context,
            tokens_per_byte=validation / found.bytes if found.bytes else None,
            data_digest=digest_of(map(_digest, found.data)),
            data=found.data,
        )

    def content_digest(self, stopped: Callable[[], bool]) -> str | None:
        """A digest of every byte of the data, if `data_digest` rests on a sample of them, else
        empty; None if it was stopped before its end."""
        if all(data.hashes is not None for data in self.data):
            return ""
        digests = []
        for data in self.data:
            found = full_digest(data.segments, stopped) if data.hashes is None else _digest(data)
            if found is None:
                return None
            digests.append(found)
        return digest_of(digests)


def _digest(data: TokenData) -> str:
    """The digest of Fathom's own shards by their hashes, of other files by a sample."""
    return quick_digest(data.segments) if data.hashes is None else digest_of(data.hashes)
