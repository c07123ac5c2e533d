"""The tokenizer of a study's text, as files and as a sentence."""

import json

from fathom.objectives.keys import ObjectiveConfig
from fathom.objectives.text.encode import tokenizer_file
from fathom.objectives.text.language.keys import LanguageConfig
from fathom.objectives.text.tokenizer import BYTES, CHARS
from fathom.objectives.tokens.keys import TokensConfig
from fathom.search.export.model import Files

NAMES = ("tokenizer.json", "tokenizer_config.json")


def token_files(objective: ObjectiveConfig) -> Files:
    """Returns the files from which `AutoTokenizer` loads the tokenizer; none if tokens are not text
    or their tokenizer is not known."""
    if isinstance(objective, TokensConfig):
        file = objective.tokenizer_file
        tokenizer = file.read_text(encoding="utf-8") if file and file.is_file() else ""
    elif isinstance(objective, LanguageConfig):
        tokenizer = tokenizer_file(
            corpus=objective.corpus,
            tokenizer=objective.tokenizer,
            validation_fraction=objective.validation_fraction,
        )
    else:
        tokenizer = ""
    if not tokenizer:
        return {}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": objective.context,
        "clean_up_tokenization_spaces": False,
    }
    return dict(zip(NAMES, (tokenizer, json.dumps(settings, indent=2) + "\n"), strict=True))


def ids_in_words(objective: ObjectiveConfig) -> str:
    """Returns a sentence on the meaning of the token ids."""
    if isinstance(objective, TokensConfig):
        return f"Token ids are those of `{objective.train}`, by the tokenizer that cut them."
    if not isinstance(objective, LanguageConfig):
        return f"Token ids are those of Fathom's objective `{objective.name}`, not of a text."
    if objective.tokenizer == BYTES:
        return "Token ids are the bytes of UTF-8 text, 0 to 255; none of them marks an end."
    kind = "characters" if objective.tokenizer == CHARS else "byte pairs"
    return (
        f"Token ids are {kind} (`{objective.tokenizer}`), learned on the training split of "
        f"`{objective.corpus}`; none of them marks an end."
    )
