"""How far predicted times of answers are off: interpolated between a few shapes of a size.

    python -m benchmarks.speed.serving --json benchmarks/figures/serving.json

Of each size, the shallowest, a middle and the deepest shape are timed; the others are timed in the
same rounds and predicted.
"""

import argparse
import os
from collections.abc import Sequence

import torch

from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.speed.step import PARAMETRIZATION
from fathom.models.shape import Count, Shape
from fathom.search.serving.measure import Bench, measure
from fathom.search.serving.time_model import spread
from fathom.search.serving.values import Request, ShapeTimes
from fathom.search.study.timing.step_times import step_times

SIZES = (300_000, 1_000_000, 3_000_000)
"""Weights in the matrices of the layers."""
DEPTHS = (1, 2, 3, 4, 6, 8, 12)
KNOWN = 3
"""Shapes of a size between which times are interpolated."""
CONTEXT = 256
REQUEST = Request(batch=1, prompt=128, tokens=64)
COLUMNS = {
    "parameters": ",",
    "depth x width": "",
    "known": "",
    "ms a token": ".3f",
    "predicted": ".3f",
    "off": "+.1%",
    "ms prefill": ".2f",
    "predicted prefill": ".2f",
    "off, prefill": "+.1%",
}


def shape_of(size: int, depth: int) -> Shape:
    """The shape of a depth with two heads and four times as wide feed-forward layers, about."""
    d_model = round((size / depth / 12) ** 0.5 / 4) * 4
    d_ff = round((size / depth - 4 * d_model**2) / (2 * d_model))
    return Shape(
        depth=depth, d_model=d_model, d_ff=d_ff, n_heads=2, head_dim=d_model // 2, vocab_size=256,
        context=CONTEXT,
    )  # fmt: skip


def main() -> None:
    """Prints a row for each shape, and keeps the largest errors of those that were interpolated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0, help="of the rounds of a size")
    parser.add_argument("--threads", type=int, default=1)
    add_json_option(parser)
    arguments = parser.parse_args()
    bench = Bench(torch.device("cpu"), torch.float32, arguments.threads)
    table, load = PrintedTable(COLUMNS, arguments.json), os.getloadavg()[0]
    off: list[tuple[float, float]] = []
    for size in SIZES:
        shapes = [shape_of(size, depth) for depth in DEPTHS]
        found = measure(shapes, PARAMETRIZATION, REQUEST, bench, seconds=arguments.seconds)
        off += add_rows(table, found)
    table.figure("shapes", len(off), "shapes that were interpolated")
    for name, errors in zip(("token", "prefill"), zip(*off, strict=True), strict=True):
        table.figure(f"worst_{name}", max(errors), "relative error", ".1%")
        table.figure(f"mean_{name}", sum(errors) / len(errors), "relative error", ".1%")
    table.figure("load_before", load, "load average", ".1f")
    table.figure("load_after", os.getloadavg()[0], "load average", ".1f")


def add_rows(table: PrintedTable, found: Sequence[ShapeTimes]) -> list[tuple[float, float]]:
    """Adds the rows of a size; returns the errors of a token and of a prefill of each shape that
    was interpolated, without their signs."""
    places = spread(len(found), KNOWN).tolist()
    known = [found[index] for index in places]
    of_token = step_times((times.shape, times.token.seconds) for times in known)
    of_prefill = step_times((times.shape, times.prefill.seconds) for times in known)
    errors = []
    for index, times in enumerate(found):
        shape, cells = times.shape, []
        for measured, model in ((times.token, of_token), (times.prefill, of_prefill)):
            told = model.seconds(shape)
            cells.append((1000 * measured.seconds, 1000 * told, told / measured.seconds - 1))
        (token, prefill), is_known = cells, index in places
        label = f"{shape.depth}x{shape.d_model}"
        is_used = "yes" if is_known else "no"
        table.add(shape.size(Count.MATRICES), label, is_used, *token, *prefill)
        errors += [] if is_known else [(abs(token[2]), abs(prefill[2]))]
    return errors


if __name__ == "__main__":
    main()
