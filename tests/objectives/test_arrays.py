"""Rows in groups that are evaluated at once: `objectives/arrays.py`."""

import numpy as np
import pytest

from fathom.objectives.arrays import chunks


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_a_process_has_at_most_its_tokens_of_a_group_that_several_share(processes: int) -> None:
    draws = np.random.default_rng(0)
    rows, lengths = draws.permutation(200), draws.integers(1, 9, size=200)
    length_of = dict(zip(rows.tolist(), lengths.tolist(), strict=True))

    groups = [group.tolist() for group in chunks(rows, lengths, 20, processes)]

    assert sorted(row for group in groups for row in group) == list(range(200))
    tokens = [
        max(map(length_of.__getitem__, group)) * -(-len(group) // processes) for group in groups
    ]
    assert 12 < max(tokens) <= 20
    alone = len(list(chunks(rows, lengths, 20)))
    assert len(groups) <= -(-alone // processes) + 1
