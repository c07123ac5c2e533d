"""BLEU and chrF of translations, as sacrebleu's own command computes them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fathom.objectives.errors import ObjectiveError

HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
"""Chinese letters, between which no blanks are written."""
WITHOUT_BLANKS = re.compile(
    r"[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\ua9e0-\ua9ff]"
)
"""Letters of Thai, Lao, Tibetan, Burmese, Khmer and Japanese, which are written without blanks
too."""
CHINESE = 0.1
"""`WITHOUT_BLANKS` letters per Chinese letter below which a text counts as Chinese."""
METRICS = {"bleu": "BLEU", "chrf": "CHRF"}
"""Class in sacrebleu of each metric, by the metric's name."""


@dataclass(frozen=True, slots=True)
class Score:
    """A score, from 0 to 100."""

    value: float
    signature: str
    """Settings of the score in sacrebleu's form, with which others can repeat it."""


def check_sacrebleu() -> None:
    """Raises `ObjectiveError` if sacrebleu is not installed."""
    if find_spec("sacrebleu") is None:
        raise ObjectiveError(
            "`objective: translation` needs sacrebleu for its scores, which is not installed; run "
            "`pip install 'fathom-depth[translation]'` first"
        )


def bleu_tokenizer(references: Sequence[str]) -> str:
    """sacrebleu's tokenizer for BLEU: `13a`, which cuts at blanks and punctuation; if most letters
    are of languages without blanks, `zh` for Chinese and `char` for others."""
    text = "".join("".join(line.split()) for line in references)
    han, others = len(HAN.findall(text)), len(WITHOUT_BLANKS.findall(text))
    if 2 * (han + others) <= len(text):
        return "13a"
    return "zh" if others < CHINESE * han else "char"


def scores(outputs: Sequence[str], references: Sequence[str]) -> Mapping[str, Score]:
    """The scores of a system's outputs, of which there is one for each reference."""
    library: Any = import_module("sacrebleu.metrics")  # takes a quarter of a second
    found = {}
    for name, class_name in METRICS.items():
        options = {"tokenize": bleu_tokenizer(references)} if name == "bleu" else {}
        metric = getattr(library, class_name)(**options)
        value = float(metric.corpus_score(list(outputs), [list(references)]).score)
        found[name] = Score(value, str(metric.get_signature()))
    return found
