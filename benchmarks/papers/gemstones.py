"""Best depth by size, counting rule and tokens on the learning curves of the Gemstones models.

python -m benchmarks.papers.gemstones gemstones/curves.csv

The table has one seed and one learning rate: the noise between seeds is assumed, not measured. The
intervals are of these models on this data, and no verdict is passed on them.
"""

import argparse
from math import log
from pathlib import Path

import numpy as np

from benchmarks.worlds.curve_tables import read_runs
from fathom.models.shape import Shape
from fathom.search.analysis.curve_fit import draw, fit, points_of
from fathom.search.analysis.depth_estimates import KNOWN_NOISE, ShapeLoss, combine_shapes
from fathom.search.formatting import format_count
from fathom.search.records import Stage
from fathom.search.tables.runs import Run

HORIZONS = (4e9, 10e9, 20e9, 50e9, 100e9, 200e9, 330e9)
CASES = (("total", 103e6, 0.08), ("non_embedding", 80e6, 0.2), ("total", 508e6, 0.08))
"""Counting rule, size, and how far in ln(size) a model may be from it; its loss is corrected."""
NOISE = 0.004
"""Nats between seeds, assumed: single evaluations scatter by 0.001 to 0.005 about their trend."""
NEAR = 2
"""Evaluations on either side of a horizon whose median is the loss there, against spikes."""


def main() -> None:
    """Prints a row for each size, counting rule and horizon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, help="CSV of learning curves")
    runs = read_runs(parser.parse_args().table)
    print("| size | count | depths | tokens | best depth [95 %] | parabola |")
    print("|---|---|---|---|---|---|")
    for count, size, width in CASES:
        near = [run for run in runs if abs(log(run.params(count) / size)) <= width]
        for tokens in HORIZONS:
            print(row(near, count, size, tokens))


def row(runs: list[Run], count: str, size: float, tokens: float) -> str:
    """Returns one table row."""
    evidence = combine_shapes(
        [shape_loss(run, count, size, tokens) for run in sorted(runs, key=lambda run: run.depth)],
        noise=NOISE,
        degrees_of_freedom=0,
    )
    curves = fit(points_of(evidence))
    drawn = draw(curves, np.random.default_rng(0), draws=4000, degrees_of_freedom=KNOWN_NOISE)
    low, high = drawn.interval
    depths = ", ".join(str(own.depth) for own in evidence.depths)
    return (
        f"| {format_count(size)} | {count.replace('_', '-')} | {depths} | {format_count(tokens)} | "
        f"{curves.optimum:.0f} [{low:.0f}-{high:.0f}] | {curves.parabola_optimum:.0f} |"
    )


def shape_loss(run: Run, count: str, size: float, tokens: float) -> ShapeLoss:
    """A model's loss at a horizon, as if it were a trial of a budget of this size."""
    at = int(np.abs(run.tokens - tokens).argmin())
    near = min(NEAR, at)  # as many before as after, or a falling curve would be read too early
    around = run.losses[at - near : at + near + 1]
    return ShapeLoss(
        stage=Stage.EXPLORE,
        shape=_shape(run),
        log_params=log(run.params(count) / size),
        loss=float(np.median(around)),
        variance=NOISE**2,
        trials=1,
    )


def _shape(run: Run) -> Shape:
    """A shape with the depth and width of a model; its other sizes are the same for all models."""
    return Shape(
        depth=run.depth,
        d_model=run.d_model,
        d_ff=run.d_ff or 4 * run.d_model,
        n_heads=run.d_model // 64,
        head_dim=64,
        vocab_size=2,
        context=1,
    )


if __name__ == "__main__":
    main()
