"""Counts how often a running search says that a depth looks worse which is the best in truth.

Searches of two budgets in a world whose losses rise with the squared logarithm of the distance from
the best depth: `python -m benchmarks.answers.looks_worse`.
"""

import math
import random
import sys
import tempfile
from pathlib import Path

from benchmarks.simulate.driver import Loss, SimulatedWorkers, new_scheduler
from benchmarks.simulate.study import TWO_BUDGETS
from fathom.search.analysis.interim import depth_losses, interim_answer
from fathom.search.analysis.optimum import Located, find_optima
from fathom.search.records import TrialRecord, TrialSpec
from fathom.search.report.terminal.looks_worse import LooksWorse
from fathom.search.study.keys.config import parse

BEST = (1, 2, 3, 4, 6, 8, 12)
NOISE, CURVATURE = 0.01, 0.06
"""Standard deviation between seeds, and rise with the squared ln of a factor in depth; nats."""
EVENTS = 5
"""Evaluations between two answers, which is more often than a search computes them."""


def main() -> None:
    """Prints how many depths were called worse, and how many of these wrongly."""
    searches = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    called = inside = best = 0
    for seed in range(searches):
        for out, interval, planted in _searched(seed):
            called += len(out)
            inside += sum(interval[0] <= depth <= interval[1] for depth in out)
            best += planted in out
    print(f"{2 * searches} budgets: {called} depths were called worse")
    print(f"{inside} of them lie in the final interval, {best} are the planted best depth")


def _searched(seed: int) -> list[tuple[set[int], tuple[int, int], int]]:
    """Returns of each budget of a search the depths that ever looked worse, its final interval, and
    the planted best depth."""
    planted = random.Random(seed).choice(BEST)
    with tempfile.TemporaryDirectory() as folder:
        search = new_scheduler(parse(TWO_BUDGETS).model_copy(update={"seed": seed}), Path(folder))
        workers = SimulatedWorkers(search, _loss(seed, planted), 3, random.Random(seed).random)
        looks_worse = LooksWorse()
        ever: dict[int, set[int]] = {budget: set() for budget in search.budgets}
        while not search.done:
            workers.run(events=EVENTS)
            for budget, out in ever.items():
                records = [r for r in (*search.records, *search.live.values()) if _is(r, budget)]
                answer, losses = interim_answer(records, seed=seed), depth_losses(records)
                if answer and losses:
                    out.update(looks_worse.depths(answer, losses.losses))
        optima = find_optima(search.records, seed=seed)
    return [(ever[o.budget], o.interval, planted) for o in optima if isinstance(o, Located)]


def _is(record: TrialRecord, budget: int) -> bool:
    return record.spec.budget == budget


def _loss(seed: int, planted: int) -> Loss:
    def loss(spec: TrialSpec, share: float) -> float:
        noise = random.Random(f"{seed}{spec.trial}").gauss(0, NOISE)
        above = CURVATURE * math.log(spec.shape.depth / planted) ** 2
        return 2 + above + (1 - share) * (0.5 + 0.02 * spec.shape.depth) + noise

    return loss


if __name__ == "__main__":
    main()
