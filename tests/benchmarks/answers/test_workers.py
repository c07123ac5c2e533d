"""A smaller `python -m benchmarks.answers.workers`: searches with few workers and with many."""

import pytest

from benchmarks.answers.workers import searched


@pytest.mark.drill
def test_many_workers_find_the_same_in_less_time_where_trainings_are_decided_together() -> None:
    few, many = ([searched(seed, 16, workers) for seed in (100, 101)] for workers in (8, 32))

    assert [search.answer for search in few] == [search.answer for search in many]
    assert sum(search.time for search in few) > 1.6 * sum(search.time for search in many)
