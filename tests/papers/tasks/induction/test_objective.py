"""Induction: which tokens repeat, which are asked, and the baseline that counts."""

from collections import Counter

import pytest
import torch
from torch import Tensor, nn

from fathom.objectives.contract import IGNORED
from fathom.papers.tasks.induction.keys import FIRST_SYMBOL, START
from fathom.papers.tasks.induction.objective import Induction, counting_error
from tests.support.objectives import perfect, prepared


def test_the_target_is_the_token_that_followed_the_previous_occurrence() -> None:
    task: Induction = prepared("induction", symbols=40, block=[3, 9], gap=[0, 7])
    inputs, targets, _ = task.batch(seed=1, step=1, batch_size=50)

    for row, asked in zip(inputs.tolist(), targets.tolist(), strict=True):
        assert row[0] == START
        whole = [*row, None]
        for at, target in enumerate(asked):
            if target != IGNORED:
                last = max(place for place in range(at) if row[place] == row[at])
                assert row[last + 1] == target
                if at + 1 < len(row):
                    assert whole[at + 1] == target
    assert bool(((targets != IGNORED).sum(1) >= 2).all())


def test_neither_the_distance_nor_the_place_of_a_repeat_is_fixed() -> None:
    task: Induction = prepared("induction", symbols=40, block=[3, 9], gap=[0, 7])
    inputs, targets, _ = task.batch(seed=1, step=1, batch_size=400)

    distances: Counter[int] = Counter()
    for row, asked in zip(inputs.tolist(), targets.tolist(), strict=True):
        at = next(place for place, target in enumerate(asked) if target != IGNORED)
        distances[at - max(place for place in range(at) if row[place] == row[at])] += 1
    assert set(distances) == set(range(3, 17))
    assert max(distances.values()) < 80
    starts = Counter((targets != IGNORED).int().argmax(1).tolist())
    assert len(starts) > 20


def test_the_baseline_guesses_among_tokens_seen_once_less_than_the_current_one() -> None:
    task: Induction = prepared("induction", symbols=20, block=[3, 7], gap=[0, 5])
    inputs, targets, _ = batch = task.batch(seed=1, step=1, batch_size=40)

    errors = []
    for row, asked in zip(inputs.tolist(), targets.tolist(), strict=True):
        for at, target in enumerate(asked):
            if target != IGNORED:
                seen = Counter(row[1 : at + 1])
                alike = [token for token in seen if seen[token] == seen[row[at]] - 1]
                assert target in alike
                errors.append(1 - 1 / len(alike))
    assert counting_error(batch, task.vocab_size) == pytest.approx(sum(errors) / len(errors))


def test_continuing_the_block_has_gain_1_and_counting_has_gain_0() -> None:
    task: Induction = prepared("induction", eval_examples=64)

    known = task.evaluate(perfect(task, [task.held_out(gap)[0] for gap in task.difficulties]))

    def counts(inputs: Tensor) -> Tensor:
        seen = nn.functional.one_hot(inputs, task.vocab_size).cumsum(1)
        alike = seen == seen.gather(2, inputs[:, :, None]) - 1
        alike[:, :, :FIRST_SYMBOL] = False
        noise = torch.rand(alike.shape, generator=torch.Generator().manual_seed(0))
        return alike + noise

    counted = task.evaluate(counts)
    for gap in (0, 8, 16):
        assert known[f"error/gap{gap}"] == 0.0
        assert known[f"gain/gap{gap}"] == 1.0
        assert counted[f"gain/gap{gap}"] == pytest.approx(0.0, abs=0.05)
        assert task.baselines[gap] < 1 - 1 / 63, "better than the current token alone"
