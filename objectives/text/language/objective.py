"""Next-token prediction on text: nats per token and bits per byte, on text held out of training."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fathom.objectives.next_token import NextToken
from fathom.objectives.text.corpus import check_lengths
from fathom.objectives.text.held_out import check_cut
from fathom.objectives.text.language.cache import cut_text
from fathom.objectives.text.language.keys import LanguageConfig

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Language(NextToken):
    """The objective `language`."""

    @classmethod
    def prepare(cls, keys: LanguageConfig, cache: Path | None = None) -> Self:
        """The objective with its text read, split and encoded; tokens that the folder `cache` has
        are reused."""
        context = keys.context
        if note := keys.data_note():
            logger.warning("%s", note)
        text = cut_text(keys, cache if keys.takes_long else None)
        validation = len(text.validation)
        check_lengths(len(text.train), validation, corpus=keys.corpus, context=context)
        check_cut(text.train, text.validation, corpus=keys.corpus, tokenizer=keys.tokenizer)
        return cls(
            train=text.train,
            validation=text.validation,
            vocab_size=text.vocab_size,
            context=context,
            eval_windows=min(keys.eval_tokens, validation - 1) // context,
            tokens_per_byte=validation / text.validation_bytes,
            data_digest=text.digest,
        )
