"""How much of the noise between seeds do all depths share? All see the same data in one order.

python -m benchmarks.pairing benchmarks/data/quickstart_ladder.jsonl
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f as f_distribution

from benchmarks.agreement import read_ladder
from search.budget import format_count


def main() -> None:
    """Print the noise of a loss, and of a difference between two depths of one seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ladder", type=Path, help="a ladder's run folder, or a file of its losses")
    losses: dict[int, dict[tuple[int, int], float]] = defaultdict(dict)
    for row in read_ladder(parser.parse_args().ladder):
        losses[int(row["budget"])][int(row["depth"]), int(row["seed"])] = float(row["loss"])
    print("| budget | depths x seeds | noise of a loss | noise left when paired | p of no effect |")
    print("|---|---|---|---|---|")
    for budget, own in losses.items():
        table = _complete(own)
        alone, paired, chance = components(table)
        size = " x ".join(map(str, table.shape))
        print(f"| {format_count(budget)} | {size} | {alone:.4f} | {paired:.4f} | {chance:.2f} |")


def components(table: NDArray[np.float64]) -> tuple[float, float, float]:
    """Of losses (depths, seeds): deviation within a depth, the same without what a seed does to all
    depths alike, and the chance of such seed means without such an effect (F test).
    """
    depths, seeds = table.shape
    within = table - table.mean(axis=1, keepdims=True)
    shared = within.mean(axis=0)
    left = float(((within - shared) ** 2).sum()) / ((depths - 1) * (seeds - 1))
    between = depths * float((shared**2).sum()) / (seeds - 1)
    chance = float(f_distribution.sf(between / left, seeds - 1, (depths - 1) * (seeds - 1)))
    return float(within.var(axis=1, ddof=1).mean()) ** 0.5, left**0.5, chance


def _complete(losses: dict[tuple[int, int], float]) -> NDArray[np.float64]:
    """(depths, seeds) of the depths that ran with every seed."""
    depths = sorted({depth for depth, _ in losses})
    seeds = sorted({seed for _, seed in losses})
    whole = [depth for depth in depths if all((depth, seed) in losses for seed in seeds)]
    return np.array([[losses[depth, seed] for seed in seeds] for depth in whole])


if __name__ == "__main__":
    main()
