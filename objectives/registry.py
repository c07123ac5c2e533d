"""The objectives by name. Apart from the package, whose other parts must not need torch."""

from collections.abc import Mapping
from typing import Any

from fathom.objectives.contract import Objective
from fathom.objectives.rows.classification.objective import Classification
from fathom.objectives.rows.transduction.objective import Transduction
from fathom.objectives.synthetic.alternating_blocks.objective import Blocks
from fathom.objectives.synthetic.connectivity.objective import Connectivity
from fathom.objectives.synthetic.induction.objective import Induction
from fathom.objectives.synthetic.k_hop.objective import Hop
from fathom.objectives.text.language import Language
from fathom.objectives.user_objective import is_own, load_own

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
