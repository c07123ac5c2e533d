"""Alternating blocks: the strings, their answers, and exact match by length."""

import itertools
from collections import Counter

import torch

from fathom.objectives.contract import IGNORED
from fathom.objectives.token_ids import PAD
from fathom.papers.tasks.alternating_blocks.keys import INSIDE, OUTSIDE, START, A, B
from fathom.papers.tasks.alternating_blocks.objective import Blocks, block_numbers
from tests.support.objectives import constant, perfect, prepared


def test_blocks_alternate_and_the_answer_marks_the_last_block() -> None:
    task: Blocks = prepared("blocks", blocks=4, train_lengths=[4, 11], test_lengths=())
    inputs, targets, _ = task.batch(seed=0, step=0, batch_size=100)

    lengths = set()
    for row, answers in zip(inputs.tolist(), targets.tolist(), strict=True):
        letters = [token for token in row[1:] if token != PAD]
        lengths.add(len(letters))
        assert row == [START, *letters, *[PAD] * (11 - len(letters))]
        runs = [(letter, len(list(run))) for letter, run in itertools.groupby(letters)]
        assert [letter for letter, _ in runs] == [A, B, A, B]
        last = runs[-1][1]
        expected = [OUTSIDE] * (len(letters) - last) + [INSIDE] * last
        assert answers == [IGNORED, *expected, *[IGNORED] * (11 - len(letters))]
    assert lengths == set(range(4, 12))


def test_all_places_of_the_blocks_are_equally_likely() -> None:
    draws = torch.Generator().manual_seed(0)

    numbers = block_numbers(torch.full((6000, 1), 5), 5, 3, draws)

    ways = Counter(tuple(row) for row in numbers.tolist())
    assert len(ways) == 6, "2 of the 4 places between 5 letters"
    assert all(850 < count < 1150 for count in ways.values())


def test_exact_match_is_measured_for_each_range_of_lengths() -> None:
    task: Blocks = prepared("blocks", eval_examples=16)
    ranges = [(20, 40), (41, 60), (61, 80)]

    known = task.evaluate(perfect(task, [task.held_out(number)[0] for number in range(3)]))
    outside = task.evaluate(constant(task, OUTSIDE))

    for low, high in ranges:
        assert known[f"exact_match/{low}-{high}"] == 1.0
        assert outside[f"exact_match/{low}-{high}"] == 0.0
        assert 0.2 < outside[f"error/{low}-{high}"] < 0.5
    assert known["loss"] < 1e-6
