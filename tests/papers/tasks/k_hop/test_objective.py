"""k-hop induction heads, against the published definition."""

import itertools

import pytest
from torch import nn

from fathom.papers.tasks.k_hop.objective import Hop
from fathom.papers.tasks.keys import FIRST
from tests.support.objectives import perfect, prepared


def hop_by_definition(symbols: list[int], k: int) -> list[int | None]:
    """Definition 4.1, with places from 1 as there; None is bottom."""
    x = [-1, *symbols]

    def find(i: int) -> int:
        return max([0, *(j for j in range(2, i + 1) if x[j - 1] == x[i])]) if i else 0

    answers: list[int | None] = []
    for i in range(1, len(x)):
        place = i
        for _ in range(k):
            place = find(place)
        answers.append(x[place] if place else None)
    return answers


def test_hop_is_definition_4_1() -> None:
    task: Hop = prepared("hop", symbols=4, hops=6, context=40)
    inputs, targets, _ = task.batch(seed=0, step=0, batch_size=60)

    seen = set()
    for row, answers in zip(inputs.tolist(), targets.tolist(), strict=True):
        k, symbols = row[0] - task.keys.first_prefix, row[1:]
        seen.add(k)
        found = hop_by_definition(symbols, k)
        expected = [task.keys.bottom if symbol is None else symbol for symbol in found]
        assert answers == [task.keys.blank, *expected]
        assert all(a != b for a, b in itertools.pairwise(symbols))
        assert set(symbols) <= set(range(FIRST, FIRST + 4))
    assert seen == set(range(7))


def test_the_papers_example_of_hops() -> None:
    # baebcabebdea: hop_1 -> b, hop_2 -> c at the last place.
    letters = [ord(letter) for letter in "baebcabebdea"]

    assert [hop_by_definition(letters, k)[-1] for k in (0, 1, 2)] == [ord(x) for x in "abc"]


def test_the_baseline_of_hop_is_that_of_the_papers_task() -> None:
    # Measured on 2000 sequences elsewhere; two hops often lead to the same symbol.
    errors = prepared("hop", symbols=4, hops=16, context=99).baselines

    published = {1: 0.665, 2: 0.496, 4: 0.652, 8: 0.730, 16: 0.745}
    assert {k: errors[k] for k in published} == pytest.approx(published, abs=0.006)


def test_a_perfect_hopper_has_no_error_and_a_copier_only_what_the_baseline_has() -> None:
    task: Hop = prepared("hop", hops=4, eval_examples=64)

    known = task.evaluate(perfect(task, [task.held_out(k)[0] for k in range(5)]))
    copied = task.evaluate(lambda inputs: nn.functional.one_hot(inputs, task.vocab_size) * 30.0)

    assert known["loss"] < 1e-6
    assert known["solved/k"] == 4.0
    assert [known[f"gain/k{k}"] for k in range(1, 5)] == [1.0] * 4
    # Saying the current symbol again is the best that it alone allows for two hops.
    assert copied["error/k0"] == 0.0
    assert copied["error/k2"] == pytest.approx(0.496, abs=0.02)
    assert copied["gain/k2"] == pytest.approx(0.0, abs=0.03)
    assert copied["gain/k1"] < -0.4
    assert copied["solved/k"] == 0.0


def test_only_symbols_count_as_errors_of_hop() -> None:
    task: Hop = prepared("hop", hops=2, context=10, eval_examples=32)
    batch, counted = task.held_out(2)

    assert set(batch.targets[counted].tolist()) <= set(range(FIRST, FIRST + 4))
    assert not counted[:, 0].any(), "the blank"
    assert bool((batch.targets[~counted] >= task.keys.blank).all())
