"""Tables with a planted confound: `answers/confounds.py`."""

import pytest

from benchmarks.answers.tables.confounds import (
    clean_table,
    confounded_table,
    outcome,
    outcome_by_advice,
)


@pytest.mark.parametrize("seed", range(9000, 9004))
def test_a_planted_setting_gives_no_false_answer_and_none_is_refused(seed: int) -> None:
    assert outcome(confounded_table(seed))[0] != "false"
    assert outcome_by_advice(confounded_table(seed))[0] != "false"
    assert outcome(clean_table(seed))[0] in ("identified", "other verdict")
