"""How many token ids an objective has, from its settings: planning must not wait for torch."""

from collections.abc import Mapping
from typing import Any

from objectives import tokenizer


def vocab_size(name: str, settings: Mapping[str, Any]) -> int:
    """What the prepared objective's `vocab_size` will be.

    Raises:
        ValueError: when the settings or the data don't suit, in one line.
    """
    match name:
        case "language":
            return tokenizer.vocab_size(
                corpus=settings["corpus"],
                tokenizer=settings["tokenizer"],
                validation_fraction=settings["validation_fraction"],
            )
    raise ValueError(f"no objective is called {name!r}")
