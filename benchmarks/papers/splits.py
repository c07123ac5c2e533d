"""Losses and decoding times by the split of layers, as Kasai et al. 2021 compare them.

The time is that of one sentence of the full context, by greedy decoding with a cache, which weights
do not change: it is measured with fresh ones when the table is made.
"""

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence

import torch

from benchmarks.papers.depth_gains import trials_of
from benchmarks.papers.shapes import Noise, interval_text
from fathom.models.building import build_model
from fathom.models.network.encoder_decoder import EncoderDecoder
from fathom.models.shape import Shape
from fathom.objectives.rows.translation.vocabulary import START
from fathom.search.records import TrialRecord
from fathom.search.study.keys.config import StudyConfig

ROUNDS = 15
"""Sentences of each shape whose median time counts; shapes take turns."""

Losses = Mapping[Shape, Sequence[float]]
"""Shape -> nats of each seed."""


def split_tables(_config: StudyConfig, records: Sequence[TrialRecord]) -> Iterator[str]:
    """The loss and the BLEU of each shape of a split."""
    trials = trials_of(records)
    noise = Noise.of(list(_losses(records).values()))
    yield "| encoder and decoder | parameters | loss [95 %] | each | BLEU |"
    yield "|---|---|---|---|---|"
    for by_seed in trials.values():
        trained = list(by_seed.values())
        shape = trained[0].spec.shape
        losses = [record.curve[-1].loss for record in trained]
        bleu = statistics.fmean(
            record.curve[-1].metrics.get("bleu/beam", 0.0) for record in trained
        )
        cells = (
            split_text(shape),
            f"{shape.params_non_embedding:,}",
            interval_text(statistics.fmean(losses), noise.half_width(len(losses))),
            ", ".join(f"{loss:.3f}" for loss in losses),
            f"{bleu:.1f}",
        )
        yield f"| {' | '.join(cells)} |"


def split_lines(studies: Sequence[tuple[StudyConfig, Sequence[TrialRecord]]]) -> Iterator[str]:
    """Each shape with one decoder layer against the deepest with as many layers in both stacks."""
    losses = {shape: values for _, records in studies for shape, values in _losses(records).items()}
    even = [shape for shape in losses if shape.decoder_depth == shape.encoder_depth]
    shallow = [shape for shape in losses if shape.decoder_depth == 1 < shape.encoder_depth]
    if not (even and shallow):
        return
    other = max(even, key=lambda shape: shape.depth)
    noise = Noise.of(list(losses.values()))
    seconds = decoding_seconds(studies[0][0], list(losses))
    yield "\n| encoder and decoder | milliseconds a sentence, median |"
    yield "|---|---|"
    yield from (f"| {split_text(shape)} | {1000 * took:.1f} |" for shape, took in seconds.items())
    yield f"\n| instead of {split_text(other)} | loss higher by [95 %] | times as fast |"
    yield "|---|---|---|"
    for shape in shallow:
        more = statistics.fmean(losses[shape]) - statistics.fmean(losses[other])
        half = noise.half_width(len(losses[shape]), len(losses[other]))
        ratio = seconds[other] / seconds[shape]
        yield f"| {split_text(shape)} | {interval_text(more, half)} | {ratio:.1f} |"
    yield f"\nNoise: {noise.deviation:.3f}, degrees of freedom: {noise.degrees_of_freedom}."


def split_text(shape: Shape) -> str:
    """Layers of the encoder and of the decoder, such as 12-1."""
    return f"{shape.encoder_depth}-{shape.decoder_depth}"


@torch.no_grad()
def decoding_seconds(config: StudyConfig, shapes: Sequence[Shape]) -> dict[Shape, float]:
    """Median seconds in which each shape translates a sentence of the full context, on one thread
    of the CPU; the first round does not count."""
    threads, cpu = torch.get_num_threads(), torch.device("cpu")
    recipe = config.model.parametrization.build()
    models = {shape: build_model(shape, recipe, seed=0, device=cpu).eval() for shape in shapes}
    taken: dict[Shape, list[float]] = {shape: [] for shape in shapes}
    torch.set_num_threads(1)
    try:
        for _ in range(1 + ROUNDS):
            for shape, model in models.items():
                assert isinstance(model, EncoderDecoder)
                began = time.perf_counter()
                _write(model, shape.context)
                taken[shape].append(time.perf_counter() - began)
    finally:
        torch.set_num_threads(threads)
    return {shape: statistics.median(times[1:]) for shape, times in taken.items()}


def _write(model: EncoderDecoder, tokens: int) -> None:
    """Reads a sentence of so many tokens and writes as many; no end stops it."""
    newest_11 = torch.full((1, 1), START)
    memory, cache = model.encode(torch.full((1, tokens), START)), model.new_cache()
    for _ in range(tokens):
        newest_11 = model.decode(newest_11, memory, cache=cache)[:, -1:].argmax(-1)


def _losses(records: Sequence[TrialRecord]) -> Losses:
    return {
        next(iter(by_seed.values())).spec.shape: [
            record.curve[-1].loss for record in by_seed.values()
        ]
        for by_seed in trials_of(records).values()
    }
