"""Measures `fathom ask --flops` in worlds whose law of loss and of the best depth is known.

python -m benchmarks.answers.laws.at_compute

Ladders of final losses are analysed, from losses to the laws, and asked for compute beyond their
largest training: how often is there an answer, and do its 95 % intervals hold the best size, its
tokens, its depth and its loss? `cost held`: choosing the answered size costs no larger multiple of
compute than the answer says. The last rows are ladders that can't say.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.answers.laws.token_law import RATIOS, SIZES, answers
from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.worlds.laws import LawWorld, draw_world, table_of
from fathom.models.shape import Count
from fathom.search.analysis.laws.loss_law import fit_loss_law, lowest_losses
from fathom.search.analysis.laws.token_law import fit_token_law
from fathom.search.analysis.losses.scaled_shape import flops_per_token
from fathom.search.analysis.spending.at_compute import ComputeAnswer, answer_at
from fathom.search.tables.question import TableQuestion

SEEDS = 2
GRID = 0.02
"""Share by which an end of an interval may be off, as sizes are compared on a grid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderKind:
    """A kind of ladder, and the compute that it is asked for."""

    name: str
    sizes: tuple[int, ...] = SIZES
    ratios: tuple[float, ...] = RATIOS
    beyond: float = 30.0
    """FLOPs over those of the ladder's largest training."""
    shared: float = 0.0
    """Part of the variance of the noise that a training has at every horizon."""
    noise: float = 1.0
    """Factor on the noise between seeds."""


KINDS = (
    LadderKind(name="three sizes, three horizons"),
    LadderKind(name="errors of a budget shared", shared=1.0),
    LadderKind(name="asked far beyond", beyond=900.0),
    LadderKind(name="noise ten times as large", noise=10.0),
    LadderKind(name="asked too far beyond", beyond=1100.0),
    LadderKind(name="two sizes", sizes=SIZES[:2]),
    LadderKind(name="two horizons", ratios=RATIOS[:2]),
    LadderKind(name="one ratio of tokens", ratios=RATIOS[1:2]),
)


def main() -> None:
    """Prints a row for each kind of ladder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=100, help="ladders of each kind")
    add_json_option(parser)
    told = parser.parse_args()
    heads = ("ladder", "asked for", "answers", "size", "tokens", "depth", "loss", "cost held")
    table = PrintedTable(dict.fromkeys(heads, ""), told.json)
    for kind in KINDS:
        held = [found for found in _studies(kind, told.studies) if found]
        shares = [f"{share:.0%}" for share in np.mean(held, axis=0)] if held else ["-"] * 5
        asked = f"{kind.beyond:,.0f} times"
        table.add(kind.name, asked, f"{len(held)} of {told.studies}", *shares)


def _studies(kind: LadderKind, studies: int) -> Iterator[Sequence[bool]]:
    """Yields what held in each ladder; nothing where there was no answer."""
    question = TableQuestion(count=Count.NON_EMBEDDING, budgets=kind.sizes)
    for study in range(studies):
        generator = np.random.default_rng([study, KINDS.index(kind)])
        world = draw_world(generator, shared=kind.shared)
        world = replace(world, noise=world.noise * kind.noise)
        runs = table_of(world, generator, kind.sizes, kind.ratios, SEEDS)
        optima = answers(runs, kind.ratios, question)
        depths, losses = fit_token_law(optima), fit_loss_law(lowest_losses(optima))
        if depths is None or losses is None:
            yield ()
            continue
        per_token = flops_per_token(None, Count.NON_EMBEDDING)
        flops = kind.beyond * per_token(kind.sizes[-1], 1) * kind.ratios[-1] * kind.sizes[-1]
        found = answer_at(losses, depths, flops, per_token)
        yield () if found.why_not else _held(world, found)


def _held(world: LawWorld, found: ComputeAnswer) -> Sequence[bool]:
    """If the true size, tokens, depth and loss lie in their intervals, and the cost is no more than
    was said."""
    sizes = np.geomspace(found.params / 100, found.params * 100, 4000).tolist()
    params = min(sizes, key=lambda size: world.lowest_loss(size, found.flops / 6 / size))
    tokens = found.flops / 6 / params
    lowest = world.lowest_loss(params, tokens)
    (_, alpha), (_, beta) = world.size, world.data
    chosen = world.lowest_loss(found.params, found.tokens)
    cost = (chosen - world.floor) / (lowest - world.floor)
    return (
        _inside(found.params_interval, params),
        _inside(found.tokens_interval, tokens),
        _inside(found.depth_interval or (0, 0), world.best_depth(params, tokens)),
        found.loss_interval[0] <= lowest <= found.loss_interval[1],
        cost ** ((alpha + beta) / (alpha * beta)) <= found.multiple * (1 + GRID),
    )


def _inside(interval: tuple[float, float], value: float) -> bool:
    return interval[0] * (1 - GRID) <= value <= interval[1] * (1 + GRID)


if __name__ == "__main__":
    main()
