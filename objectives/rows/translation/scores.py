"""BLEU and chrF of translations, as sacrebleu's own command computes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fathom.objectives.errors import ObjectiveError

METRICS = {"bleu": "BLEU", "chrf": "CHRF"}
"""Name of a metric -> its class in sacrebleu."""


@dataclass(frozen=True, slots=True)
class Score:
    """A score, from 0 to 100."""

    value: float
    signature: str
    """How it was computed, by which others can repeat it."""


def check_sacrebleu() -> None:
    """Raises `ObjectiveError` if sacrebleu is not installed."""
    if find_spec("sacrebleu") is None:
        raise ObjectiveError(
            "`objective: translation` must have sacrebleu for its scores; "
            "`pip install 'fathom-depth[translation]'` comes first"
        )


def scores(outputs: Sequence[str], references: Sequence[str]) -> Mapping[str, Score]:
    """The scores of a system's output, a line for each reference."""
    library: Any = import_module("sacrebleu.metrics")  # takes a quarter of a second
    found = {}
    for name, class_name in METRICS.items():
        metric = getattr(library, class_name)()
        value = float(metric.corpus_score(list(outputs), [list(references)]).score)
        found[name] = Score(value, str(metric.get_signature()))
    return found
