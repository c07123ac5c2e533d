"""`external`: what is known of data that only a command reads."""

import math

import pytest

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.external.keys import ExternalConfig
from fathom.objectives.prepare import prepare


def test_vocabulary_and_context_are_known_and_no_data() -> None:
    keys = ExternalConfig(name="external", vocabulary=50, context=8)
    objective = prepare(keys)
    assert (objective.vocab_size, objective.context) == (keys.vocab_size(), 8)
    assert objective.chance_loss == math.log(50)
    with pytest.raises(ObjectiveError, match=r"has no data, which `train.command` reads"):
        objective.batch(seed=0, step=0, batch_size=1)
