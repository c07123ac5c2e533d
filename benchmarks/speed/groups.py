"""A training step of a model in groups on one thread of a CPU, beside a dense one of its widths.

python -m benchmarks.speed.groups
python -m benchmarks.speed.groups --groups 2

Forward, backward and AdamW, without the data. The last two columns are of the same model with
PyTorch's Conv1d and channel shuffle in place of each map.
"""

import argparse
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.answers.trained.experts import DENSE, STEPS, our_step, rounds
from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.models.network.grouped_linear import GroupedLinear
from fathom.models.network.transformer import Transformer


class Convolved(GroupedLinear):
    """The same map by a convolution over one token and a shuffle of its channels."""

    def forward(self, x_NI: Tensor) -> Tensor:
        y_1ON = F.conv1d(x_NI.mT[None], self.weight[..., None], self.bias, groups=self.groups)
        return F.channel_shuffle(y_1ON, self.groups)[0].mT.contiguous()


def main() -> None:
    """Prints a row for each shape."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=4)
    add_json_option(parser)
    args = parser.parse_args()
    torch.set_num_threads(1)
    columns = {
        "depth x width, d_ff": "", "groups (ms)": ".1f", "dense (ms)": ".1f", "ratio": ".2f",
        "Conv1d (ms)": ".1f", "its ratio": ".2f",
    }  # fmt: skip
    table = PrintedTable(columns, args.json)
    for depth, d_model, d_ff in STEPS:
        sizes: Any = {"depth": depth, "d_model": d_model, "d_ff": d_ff, "n_heads": d_model // 32}
        dense = replace(DENSE, **sizes, gated=True)
        shape = replace(dense, groups=args.groups)
        ours, whole, theirs = rounds(our_step(shape), our_step(dense), our_step(shape, convolve))
        name = f"{depth} x {d_model}, {d_ff}"
        table.add(name, 1e3 * ours, 1e3 * whole, whole / ours, 1e3 * theirs, theirs / ours)


def convolve(model: Transformer) -> None:
    """Computes each map in groups by a convolution."""
    for module in model.modules():
        if isinstance(module, GroupedLinear):
            module.__class__ = Convolved


if __name__ == "__main__":
    main()
