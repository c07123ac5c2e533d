"""Greedy decoding and beam search, against all targets that there are."""

import itertools
from dataclasses import dataclass, field
from functools import partial

import pytest
import torch
from torch import Tensor

from fathom.objectives.rows.translation.decoding import beam_search, greedy
from fathom.objectives.rows.translation.vocabulary import END, START

LONGEST = 4
VOCABULARY = 6
SOURCES = torch.tensor([[3, 2, 0], [4, 5, 2], [5, 2, 0], [3, 4, 2]])


@dataclass
class Seen:
    """The tokens that each row has had."""

    tokens_RT: Tensor | None = None
    selected: list[int] = field(default_factory=list)

    def select(self, rows_R: Tensor) -> None:
        assert self.tokens_RT is not None
        self.tokens_RT = self.tokens_RT[rows_R]


class Table:
    """Logits by the source and all tokens so far, which the cache has to have in order."""

    def __init__(self, seed: int) -> None:
        draws = torch.Generator().manual_seed(seed)
        self.table = 2 * torch.randn(97, VOCABULARY, generator=draws)

    def new_cache(self) -> Seen:
        return Seen()

    def encode(self, sources_BS: Tensor) -> Tensor:
        return (sources_BS * torch.tensor([1, 7, 5])).sum(1)

    def decode(self, inputs_BT: Tensor, memory: Tensor, cache: Seen) -> Tensor:
        seen = inputs_BT
        if cache.tokens_RT is not None:
            seen = torch.cat((cache.tokens_RT, inputs_BT), 1)
        cache.tokens_RT = seen
        weights = torch.tensor([11, 13, 17, 19, 23])[: seen.shape[1]]
        return self.table[(memory + (seen * weights).sum(1)) % 97][:, None]

    def log_probability(self, source: int, tokens: tuple[int, ...]) -> float:
        cache, memory = Seen(), self.encode(SOURCES[source : source + 1])
        total, newest = 0.0, START
        for token in tokens:
            logits = self.decode(torch.tensor([[newest]]), memory, cache)[0, 0]
            total += float(logits.log_softmax(-1)[token])
            newest = token
        return total


def targets() -> list[tuple[int, ...]]:
    """All that end within `LONGEST` tokens."""
    others = [token for token in range(VOCABULARY) if token != END]
    beginnings = (itertools.product(others, repeat=count) for count in range(LONGEST))
    return [(*tokens, END) for several in beginnings for tokens in several]


def trimmed(row: Tensor) -> tuple[int, ...]:
    tokens = row.tolist()
    return tuple(tokens[: tokens.index(END) + 1] if END in tokens else tokens)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_beam_as_wide_as_all_targets_finds_the_best_of_them(seed: int, penalty: float) -> None:
    model = Table(seed)

    found = beam_search(model, SOURCES, width=700, penalty=penalty, longest=LONGEST)

    for source, row in enumerate(found):
        worth = {
            tokens: model.log_probability(source, tokens) / ((5 + len(tokens)) / 6) ** penalty
            for tokens in targets()
        }
        assert trimmed(row) == max(worth, key=worth.__getitem__)


@pytest.mark.parametrize("seed", range(20))
def test_a_beam_of_width_one_is_greedy(seed: int) -> None:
    model = Table(seed)
    narrow = beam_search(model, SOURCES, width=1, penalty=1.0, longest=LONGEST)

    greedily = greedy(model, SOURCES, longest=LONGEST)

    assert [*map(trimmed, narrow)] == [*map(trimmed, greedily)]


def test_what_a_sentence_gets_does_not_depend_on_its_neighbours() -> None:
    model = Table(1)
    together = beam_search(model, SOURCES, width=3, penalty=1.0, longest=LONGEST)

    for at, row in enumerate(together):
        alone = beam_search(model, SOURCES[at : at + 1], width=3, penalty=1.0, longest=LONGEST)
        assert trimmed(alone[0]) == trimmed(row)


def test_greedy_takes_the_most_likely_token_until_the_end_or_the_longest() -> None:
    model = Table(4)

    for source, row in enumerate(greedy(model, SOURCES, longest=LONGEST)):
        written: tuple[int, ...] = ()
        while len(written) < LONGEST and END not in written:
            longer = [(*written, token) for token in range(VOCABULARY)]
            written = max(longer, key=partial(model.log_probability, source))
        assert trimmed(row)[: len(written)] == written


def test_a_model_that_never_ends_stops_at_the_longest() -> None:
    model = Table(0)
    model.table[:, END] = -torch.inf

    found = beam_search(model, SOURCES, width=2, penalty=1.0, longest=LONGEST)

    assert found.shape == (len(SOURCES), LONGEST)
    assert not bool((found == END).any())
