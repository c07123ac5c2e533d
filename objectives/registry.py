"""All objectives by name: the keys of each, and the class that it is prepared from.

Imports no torch, so that planning a study does not wait for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fathom.objectives.external.keys import ExternalConfig
from fathom.objectives.keys import ObjectiveConfig
from fathom.objectives.rows.classification.keys import ClassificationConfig
from fathom.objectives.rows.transduction.keys import TransductionConfig
from fathom.objectives.rows.translation.keys import TranslationConfig
from fathom.objectives.synthetic.alternating_blocks.keys import BlocksConfig
from fathom.objectives.synthetic.connectivity.keys import ConnectivityConfig
from fathom.objectives.synthetic.induction.keys import InductionConfig
from fathom.objectives.synthetic.k_hop.keys import HopConfig
from fathom.objectives.text.language.keys import LanguageConfig
from fathom.objectives.tokens.keys import TokensConfig


@dataclass(frozen=True, slots=True)
class Registered:
    """An objective of Fathom."""

    keys: type[ObjectiveConfig]
    place: str
    """Module below `fathom.objectives` and class; imported once the objective is prepared."""


OBJECTIVES: Mapping[str, Registered] = {
    "language": Registered(LanguageConfig, "text.language.objective:Language"),
    "tokens": Registered(TokensConfig, "tokens.objective:Tokens"),
    "transduction": Registered(TransductionConfig, "rows.transduction.objective:Transduction"),
    "translation": Registered(TranslationConfig, "rows.translation.objective:Translation"),
    "classification": Registered(
        ClassificationConfig, "rows.classification.objective:Classification"
    ),
    "hop": Registered(HopConfig, "synthetic.k_hop.objective:Hop"),
    "induction": Registered(InductionConfig, "synthetic.induction.objective:Induction"),
    "connectivity": Registered(ConnectivityConfig, "synthetic.connectivity.objective:Connectivity"),
    "blocks": Registered(BlocksConfig, "synthetic.alternating_blocks.objective:Blocks"),
    "external": Registered(ExternalConfig, "external.objective:External"),
}
