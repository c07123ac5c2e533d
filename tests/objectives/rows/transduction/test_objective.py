"""Sequence to sequence: what is asked, and that exact match is that of greedy decoding."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fathom.models.shape import Shape
from fathom.objectives.arrays import Sequences
from fathom.objectives.contract import IGNORED, Model
from fathom.objectives.rows.transduction.objective import PairSplit, Transduction, greedy
from fathom.objectives.rows.word_ids import END, SEPARATOR, START, UNKNOWN, WORDS_FROM
from fathom.objectives.token_ids import PAD
from tests.support.models import model_of
from tests.support.objectives import CPU, assert_requested_rows, prepared, refused, uniform

WORDS = ["ant", "bee", "cat", "dog"]


def rows_task(**settings: Any) -> Transduction:
    task: Transduction = prepared("transduction", **settings)
    return task


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    """Keys of rows that say the source backwards; of a longer split some words are new."""
    rows = [f"{a} {b}\t{b} {a}\tshort" for a in WORDS for b in WORDS]
    (tmp_path / "rows.tsv").write_text("\n".join(rows))
    (tmp_path / "dev.tsv").write_text("\n".join([*rows[:-1], "dog\tdog\tshort"]))
    (tmp_path / "gen.tsv").write_text("ant bee cat\tcat bee ant\tlonger\nant emu\temu ant\tnew\n")
    (tmp_path / "text.txt").write_text("An emu, an ant; an emu, a bee. " * 9)
    place = str(tmp_path / "rows.tsv")
    return {
        "data": place, "dev": str(tmp_path / "dev.tsv"), "context": 16,
        "generalisation": {"gen": str(tmp_path / "gen.tsv")},
    }  # fmt: skip


@pytest.fixture
def task(files: dict[str, Any]) -> Transduction:
    return rows_task(**files)


@pytest.fixture
def text(files: dict[str, Any]) -> dict[str, Any]:
    """Keys of three steps of two windows of text."""
    return {"corpus": files["data"].replace("rows.tsv", "text.txt"), "words": 4, "tokens": 96}


@pytest.fixture
def pretrained(files: dict[str, Any], text: dict[str, Any]) -> Transduction:
    return rows_task(**files, pretraining=text)


def ids(task: Transduction, text: str) -> list[int]:
    return [WORDS_FROM + task.words.index(word) for word in text.split()]


def test_a_row_is_source_then_target_and_only_the_target_has_a_loss(task: Transduction) -> None:
    inputs, targets, _ = task.train.batch(np.array([1]), 7)

    ant, bee = ids(task, "ant bee")
    assert task.words == tuple(WORDS)
    assert inputs.tolist() == [[START, ant, bee, SEPARATOR, bee, ant, END]]
    assert targets.tolist() == [[IGNORED, IGNORED, IGNORED, bee, ant, END, IGNORED]]


def test_batches_are_as_wide_as_their_longest_row_in_a_few_widths(files: dict[str, Any]) -> None:
    task = rows_task(**files | {"context": 80})
    inputs, targets, _ = task.batch(seed=0, step=0, batch_size=4)

    assert inputs.shape == (4, 10)
    assert bool((inputs[:, 7:] == PAD).all())
    assert bool((targets[:, 7:] == IGNORED).all())


def test_padding_changes_no_loss(task: Transduction) -> None:
    table = nn.Embedding(task.vocab_size, task.vocab_size)

    rows = np.arange(5)
    narrow, wide = (task.loss(table, task.train.batch(rows, width)) for width in (6, 16))

    assert narrow.item() == pytest.approx(wide.item(), rel=1e-6)


def test_steps_are_of_text_until_it_is_used_up_then_of_rows(pretrained: Transduction) -> None:
    def first_words(step: int) -> set[int]:
        return set(pretrained.batch(seed=0, step=step, batch_size=2).inputs[:, 0].tolist())

    assert START not in first_words(0) | first_words(1) | first_words(2)
    assert first_words(3) == {START}


def test_every_known_word_of_the_text_has_a_loss(pretrained: Transduction) -> None:
    # The four most frequent: `,`, `an`, `emu`, and `.`, which is before its equals `a` and `bee`.
    assert pretrained.words == (",", ".", "an", "ant", "bee", "cat", "dog", "emu")
    inputs, targets, _ = pretrained.batch(seed=0, step=0, batch_size=2)

    assert inputs.shape == targets.shape == (2, 16)
    known = inputs[:, 1:] != UNKNOWN
    assert torch.equal(targets[:, :-1][known], inputs[:, 1:][known])
    assert not bool(known.all())
    assert set(targets[:, :-1][~known].tolist()) == {IGNORED}


def test_a_word_of_the_text_can_be_matched_though_no_training_row_has_it(
    task: Transduction, pretrained: Transduction
) -> None:
    def exact(trained: Transduction) -> float:
        rows = np.array([1])
        split = trained.further["gen"]
        targets = split.batch(rows, int(split.rows.lengths[1]) - 1).targets
        told = nn.functional.one_hot(targets.clamp(min=0), trained.vocab_size).float()
        return float(trained._scores(lambda _inputs: told, split, rows)[1].mean())

    assert (exact(task), exact(pretrained)) == (0.0, 1.0)


def test_a_text_without_a_window_is_refused(files: dict[str, Any], text: dict[str, Any]) -> None:
    with refused("must have more words than `context`, got 108 and context=108; use a larger"):
        rows_task(**files | {"context": 108}, pretraining=text)


def random_model(vocabulary: int, seed: int) -> Model:
    """Attends to what it read, writes words and ends now and then."""
    shape = Shape(
        depth=1, d_model=8, d_ff=8, n_heads=1, head_dim=8, vocab_size=vocabulary, context=16
    )
    model = model_of(shape)
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        nn.init.normal_(weight, generator=generator)
    writable = torch.full((vocabulary,), -100.0)
    writable[WORDS_FROM:], writable[END] = 0.0, 4.0
    return lambda inputs: model(inputs) + writable


def test_exact_match_in_one_pass_is_that_of_a_greedy_decoder(task: Transduction) -> None:
    # Targets are what a random model writes, or that with one word changed, at any place.
    model = random_model(task.vocab_size, seed=27)
    draws = np.random.default_rng(0)
    rows, expected = [], []
    for number in range(200):
        source = [int(token) for token in draws.integers(WORDS_FROM, task.vocab_size, size=3)]
        prompt = [START, *source, SEPARATOR]
        written = greedy(model, prompt, end=END, context=15, device=CPU)
        written = written[:11] or source
        if number % 2:
            written[int(draws.integers(len(written)))] = WORDS_FROM
        rows.append((prompt, written))
        decoded = greedy(model, prompt, end=END, context=16, device=CPU)
        expected.append(decoded == written)

    split = split_of(rows, task.vocab_size)
    _, right = task._scores(model, split, np.arange(200))

    assert right.tolist() == expected
    assert 20 < sum(expected) < 180


def split_of(rows: list[tuple[list[int], list[int]]], vocabulary: int) -> PairSplit:
    return PairSplit(
        Sequences.of([[*prompt, *written, END] for prompt, written in rows], vocabulary),
        np.array([len(prompt) for prompt, _ in rows]),
        ("",) * len(rows),
    ).to(CPU)


class Reverser(nn.Module):
    """Writes the source backwards; knows no word that training never saw."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary

    def forward(self, inputs: Tensor) -> Tensor:
        logits = torch.zeros(*inputs.shape, self.vocabulary)
        for row, tokens in enumerate(inputs.tolist()):
            if SEPARATOR in tokens:
                begin = tokens.index(SEPARATOR)
                answer = [*tokens[1:begin][::-1], END]
                for at, word in zip(range(begin, len(tokens)), answer, strict=False):
                    logits[row, at, word] = 20.0
        return logits


def test_a_model_that_knows_the_rule_matches_every_known_row(task: Transduction) -> None:
    model = Reverser(task.vocab_size)

    assert task.evaluate(model) == {
        "loss": pytest.approx(0.0, abs=1e-6),
        "exact_match/dev/all": 1.0,
        "exact_match/gen/all": 0.5,
    }
    # It wrote "the unknown word", as the target says; which one it was it can't have known.
    assert task.final_metrics(model) == {
        "exact_match/dev/all": 1.0,
        "exact_match/dev/short": 1.0,
        "exact_match/gen/all": 0.5,
        "exact_match/gen/longer": 1.0,
        "exact_match/gen/new": 0.0,
    }


def test_greedy_decoding_writes_words_and_stops_at_the_end(task: Transduction) -> None:
    assert task.translate(Reverser(task.vocab_size), "cat dog dog", CPU) == "dog dog cat"
    prompt = [START, *ids(task, "ant bee"), SEPARATOR]
    forever = nn.Embedding(task.vocab_size, task.vocab_size)
    nn.init.zeros_(forever.weight)
    forever.weight.data[:, UNKNOWN] = 1.0
    written = greedy(forever, prompt, end=END, context=16, device=CPU)
    assert written == [UNKNOWN] * 13, "the context is full"


def test_an_evaluation_uses_the_requested_rows_and_the_final_all(files: dict[str, Any]) -> None:
    assert_requested_rows(rows_task(**files | {"generalisation": {}, "eval_examples": 2}), 2, 16)


def test_chunks_of_an_evaluation_hold_rows_of_like_length_and_each_row_once(mirror: Path) -> None:
    task = rows_task(data="cogs_vf", eval_examples=300)
    sizes: list[tuple[int, ...]] = []

    metrics = task.evaluate(uniform(task, sizes))

    assert sum(rows for rows, _ in sizes) == 3 * 300
    assert all(rows * width <= 8192 for rows, width in sizes)
    assert metrics["loss"] == pytest.approx(task.chance_loss, rel=1e-5)
