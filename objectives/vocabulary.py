"""How many token ids an objective has, from its settings: planning must not wait for torch."""

from collections.abc import Callable, Mapping
from typing import Any

from fathom.objectives.rows.classification.text_vocabulary import read_with_vocabulary
from fathom.objectives.rows.transduction.pairs import read_splits, words_of
from fathom.objectives.rows.word_ids import WORDS_FROM, with_frequent
from fathom.objectives.synthetic import sizes
from fathom.objectives.text import tokenizer
from fathom.objectives.text.corpus import read_whole
from fathom.objectives.user_objective import is_own, load_own

Settings = Mapping[str, Any]


def vocab_size(name: str, settings: Settings) -> int:
    """What the prepared objective's `vocab_size` will be.

    A user's own objective is prepared for it, and needs what it imports.

    Raises:
        ValueError: when the settings or the data don't suit, in one line.
    """
    if is_own(name):
        return int(load_own(name, settings).vocab_size)
    return VOCABULARIES[name](settings)


def _language(settings: Settings) -> int:
    return tokenizer.vocab_size(
        corpus=settings["corpus"],
        tokenizer=settings["tokenizer"],
        validation_fraction=settings["validation_fraction"],
    )


def _transduction(settings: Settings) -> int:
    rows = {key: settings[key] for key in settings.keys() - {"eval_examples", "pretraining"}}
    words = words_of(read_splits(**rows).train)
    if before := settings["pretraining"]:
        words = with_frequent(words, read_whole(before["corpus"]), before["words"])
    return WORDS_FROM + len(words)


def _classification(settings: Settings) -> int:
    texts = {key: settings[key] for key in settings.keys() - {"pooling", "eval_examples"}}
    return read_with_vocabulary(**texts)[1].size


def _hop(settings: Settings) -> int:
    return sizes.HopIds(symbols=settings["symbols"], hops=settings["hops"]).vocab_size


VOCABULARIES: Mapping[str, Callable[[Settings], int]] = {
    "language": _language,
    "transduction": _transduction,
    "classification": _classification,
    "hop": _hop,
    "induction": lambda settings: sizes.induction_vocabulary(settings["symbols"]),
    "connectivity": lambda settings: sizes.connectivity_vocabulary(
        settings["diameter"], settings["edge_tokens"]
    ),
    "blocks": lambda _settings: sizes.BLOCKS_VOCABULARY,
}
