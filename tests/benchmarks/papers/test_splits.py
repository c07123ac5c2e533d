"""Losses and decoding times by split: `benchmarks/papers/splits.py`."""

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.papers.splits import decoding_seconds, split_lines
from fathom.models.shape import Shape
from fathom.search.records import TrialRecord
from fathom.search.study.file.study_file import load
from tests.support.papers import measured_trial
from tests.support.places import ROOT

EVEN, SHALLOW = (
    load(ROOT / f"configs/studies/kasai2020/cpu-{name}.yaml") for name in ("1-1", "12-1")
)


def shape(encoder: int, decoder: int) -> Shape:
    return Shape(
        depth=encoder + decoder, encoder_depth=encoder, d_model=8, d_ff=8, n_heads=1, head_dim=8,
        vocab_size=20, context=4,
    )  # fmt: skip


def records(searched: Shape, losses: Sequence[float]) -> list[TrialRecord]:
    trials = [
        measured_trial(searched.depth, seed, {"bleu/beam": 20.0}, loss=loss)
        for seed, loss in enumerate(losses)
    ]
    return [replace(trial, spec=replace(trial.spec, shape=searched)) for trial in trials]


def test_one_decoder_layer_is_compared_with_two_stacks_of_one_depth() -> None:
    even = [*records(shape(1, 1), (2.0, 2.1)), *records(shape(3, 3), (1.0, 1.1))]
    lines = [*split_lines([(EVEN, even), (SHALLOW, records(shape(5, 1), (1.5, 1.6)))])]
    assert [line.split(" |")[0] for line in lines[2:5]] == ["| 1-1", "| 3-3", "| 5-1"]
    assert lines[5].startswith("\n| instead of 3-3 |")
    assert lines[7].startswith("| 5-1 | 0.500 [")
    assert not [*split_lines([(EVEN, even)])]


def test_the_time_of_a_sentence_is_that_of_its_decoder() -> None:
    seconds = decoding_seconds(EVEN, [shape(1, 1), shape(1, 12)])
    assert [*seconds] == [shape(1, 1), shape(1, 12)]
    assert min(seconds.values()) > 0
