"""A day on machines that are taken away: `benchmarks/simulate/spot.py`."""

import pytest

from benchmarks.simulate import spot
from fathom.search.training.saving.trial_log import CHECKPOINT_SECONDS, LEAVING

MEAN_LIFE = 1200.0
MOST_WITHOUT_NOTICE = (CHECKPOINT_SECONDS + 2 * spot.SAVE_SECONDS) / spot.STEP_SECONDS


@pytest.fixture(autouse=True)
def _short_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spot, "DAY", 20_000.0)


def test_with_a_notice_a_trial_loses_no_step_unless_its_machine_lives_shorter_than_saving() -> None:
    [machine] = spot.days(1, MEAN_LIFE, spot.NOTICE)
    assert len(machine.lost) > 5
    assert max(machine.lost) <= spot.SAVE_SECONDS / spot.STEP_SECONDS
    assert not LEAVING.is_set()


def test_without_one_it_loses_what_it_trained_since_the_clock_had_it_saved() -> None:
    [machine] = spot.days(1, MEAN_LIFE, 0.0)
    assert 0 < max(machine.lost) <= MOST_WITHOUT_NOTICE
    assert sum(machine.lost) > 100
    assert machine.step == machine.saved
