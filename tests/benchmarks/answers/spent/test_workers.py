"""A smaller `python -m benchmarks.answers.spent.workers`: searches with few and many workers."""

import pytest

from benchmarks.answers.spent.workers import searched


@pytest.mark.drill
def test_many_workers_find_the_same_in_less_time_where_trainings_are_decided_together() -> None:
    few, many = (searched(100, 16, workers) for workers in (8, 32))

    assert few.answer == many.answer
    assert few.time > 1.6 * many.time
