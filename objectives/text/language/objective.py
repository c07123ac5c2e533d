"""Next-token prediction on text: nats per token and bits per byte, on text held out of training."""

from dataclasses import dataclass
from typing import Self

from fathom.objectives.next_token import NextToken
from fathom.objectives.text.corpus import check_lengths, read_corpus
from fathom.objectives.text.encode import encode
from fathom.objectives.text.language.keys import LanguageConfig


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Language(NextToken):
    """The objective `language`."""

    @classmethod
    def prepare(cls, keys: LanguageConfig) -> Self:
        """The objective with its text read, split and encoded."""
        context, eval_tokens = keys.context, keys.eval_tokens
        text = read_corpus(keys.corpus, validation_fraction=keys.validation_fraction)
        ids = encode(text, tokenizer=keys.tokenizer)
        check_lengths(len(ids.train), len(ids.validation), corpus=keys.corpus, context=context)
        return cls(
            train=ids.train,
            validation=ids.validation,
            vocab_size=ids.vocab_size,
            context=context,
            eval_windows=min(eval_tokens, len(ids.validation) - 1) // context,
            tokens_per_byte=len(ids.validation) / len(text.validation),
            data_digest=text.digest,
        )
