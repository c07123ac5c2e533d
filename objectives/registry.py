"""The objectives by name. Apart from the package, whose other parts must not need torch."""

from collections.abc import Mapping
from typing import Any

from objectives.blocks import Blocks
from objectives.classification import Classification
from objectives.connectivity import Connectivity
from objectives.hop import Hop
from objectives.induction import Induction
from objectives.language import Language
from objectives.objective import Objective
from objectives.own import is_own, load_own
from objectives.transduction import Transduction

OBJECTIVES: Mapping[str, Any] = {
    "language": Language,
    "transduction": Transduction,
    "classification": Classification,
    "hop": Hop,
    "induction": Induction,
    "connectivity": Connectivity,
    "blocks": Blocks,
}


def prepare(name: str, settings: Mapping[str, Any]) -> Objective:
    """The objective with its data, which a user's own name says where to import from.

    Raises:
        ValueError: when the settings or the data don't suit, in one line.
    """
    own = is_own(name)
    objective: Objective = load_own(name, settings) if own else OBJECTIVES[name].prepare(**settings)
    return objective
