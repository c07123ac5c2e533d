"""The best size and depth among models that spend the same tokens, FLOPs or seconds.

The best size is found by the statistics for depths: each size is replaced by an index that stands
in for a depth, proportional to the square root of the size.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, sqrt

import numpy as np

from fathom.models.shape import Count
from fathom.models.spend import Coin, Spend
from fathom.models.unit import Unit
from fathom.search.analysis.answer.finding import find_with_posterior
from fathom.search.analysis.answer.joint_answer import best_size_of
from fathom.search.analysis.answer.located import optimum_of
from fathom.search.analysis.answer.optimum import BestSize, Located, Optimum
from fathom.search.analysis.answer.verdict import Advice, Kind, TooFewDepths, Verdict
from fathom.search.analysis.curve.posterior import DRAWS, together
from fathom.search.analysis.losses.depth_estimates import estimate_depths
from fathom.search.formatting import printable
from fathom.search.records import TrialRecord
from fathom.search.tables.columns.columns import as_argument
from fathom.search.tables.columns.settings import ColumnRole, role_of
from fathom.search.tables.errors import NothingAsked, TableError
from fathom.search.tables.grouped.choosing import EndedRun, measured_noise
from fathom.search.tables.grouped.counted import unknown_settings
from fathom.search.tables.grouped.grouping import held_levels
from fathom.search.tables.grouped.sizes import follow
from fathom.search.tables.grouped.trials import full_horizon, loss_at, table_budget
from fathom.search.tables.grouped.varying import CLOSE_TOKENS, value_of, varies
from fathom.search.tables.runs import NO_TIME, Array, Run

SEED = 0
"""Seed of the bootstrap."""
SMALLEST, LARGEST = 16, 400
"""Index of the smallest size, and the largest index that any size may have."""
FEWEST = 3
"""Fewest sizes at one amount that are compared."""
ENOUGH = 9
"""Fewest shapes for a parabola in size and depth."""
PARABOLAS = 7
"""Number of parabolas drawn, by which losses are moved to the best size or depth."""
SHOWN = 3
"""Largest number of settings that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Runs to compare at an equal amount of `coin`."""

    runs: Sequence[Run]
    coin: Coin
    count: Count
    unit: Unit
    noise: float | None
    """Noise between seeds, nats, if it was stated."""
    seeded: bool
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAnswer:
    """The best size, and the best depth, at one amount of FLOPs, seconds or tokens."""

    size: BestSize
    depth: Optimum | None
    """None if depth follows from size by one rule, so that their effects can't be separated."""
    records: tuple[TrialRecord, ...]
    """The trials behind `depth`."""


def held_coin(runs: Sequence[Run], count: Count, width: float) -> Coin | None:
    """The quantity with a column of amounts that runs of different sizes spent equally; None
    without one, or if all sizes are within `width`."""
    ended = [run for run in runs if len(run.losses) and not run.diverged]
    sizes = [run.params(count) for run in ended]
    if len(ended) < FEWEST or max(sizes) * (1 - width) <= min(sizes) * (1 + width):
        return None
    for coin in (Coin.FLOPS, Coin.SECONDS):
        amounts = np.array([run.spent.get(coin, 0.0) for run in ended])
        if held_levels(amounts, np.array(sizes)) is not None:
            return coin
    return None


def offered_coin(runs: Sequence[Run], count: Count) -> str:
    """The end of a message that suggests `--at`; empty if no three sizes spent an equal amount."""
    ended = [run for run in runs if len(run.losses) and not run.diverged]
    for coin in (Coin.SECONDS, Coin.FLOPS):
        spent = [(run.spent.get(coin, 0.0), run.params(count)) for run in ended]
        for least, _ in spent:
            near = {size for at, size in spent if 0 < least <= at <= CLOSE_TOKENS * least}
            if len(near) >= FEWEST:
                return f"; --at {coin.lower()} compares any sizes"
    return ""


def held_answers(held: Held, settings: Sequence[str], said: Sequence[str]) -> list[HeldAnswer]:
    """The answers at each amount that at least three sizes spent, ascending by amount.

    Raises:
        TableError: when there is no such amount, or it is unclear how to treat a setting that
            varies.
    """
    levels = [(at, runs) for at, runs in _levels(held) if len(set(_places(runs, held))) >= FEWEST]
    if not levels:
        raise NothingAsked(
            f"{held.label} must have {FEWEST} sizes or more at an equal number of {held.coin} for "
            f"--at {held.coin.lower()}, within 5 %; name its column with --map "
            f"COLUMN={held.coin.lower()}, or drop --at"
        )
    return [_answer(held, at, runs, settings, said) for at, runs in levels]


def _levels(held: Held) -> Iterator[tuple[float, list[Run]]]:
    """Yields each amount with the runs that spent it; each run has only its loss at that amount."""
    runs = [run for run in held.runs if len(run.losses) and not run.diverged]
    if held.coin is Coin.TOKENS and any(len(run.losses) > 1 for run in runs):
        at = full_horizon(runs)
        losses = [(run, loss_at(run, at)) for run in runs]
        yield at, [_final(run, loss) for run, loss in losses if loss is not None]
        return
    known = {id(run): _amount(run, held.coin) for run in runs}
    left = sorted((run for run in runs if known[id(run)]), key=lambda run: known[id(run)])
    while left:
        end = CLOSE_TOKENS * known[id(left[0])]
        level = [run for run in left if known[id(run)] <= end]
        left = left[len(level) :]
        amount = float(np.median([known[id(run)] for run in level]))
        yield amount, [_final(run, float(run.losses[-1])) for run in level]


def _amount(run: Run, coin: Coin) -> float:
    """Amount of `coin` (FLOPs, seconds or tokens) that a run spent; 0 if not known."""
    tokens = float(run.tokens[-1]) if run.tokens[-1] > NO_TIME else 0.0
    if coin is Coin.TOKENS:
        return tokens
    by_size = coin.of_a_parameter * run.params_total * tokens
    return run.spent.get(coin, by_size)


def _final(run: Run, loss: float) -> Run:
    return replace(run, tokens=np.array([NO_TIME]), losses=np.array([loss]))


def _places(runs: Sequence[Run], held: Held) -> list[int]:
    """The index of each run's size: a whole number that stands in for a depth."""
    sizes = [run.params(held.count) for run in runs]
    start = _start(sizes)
    return [round(start * sqrt(size / min(sizes))) for size in sizes]


def _start(sizes: Sequence[int]) -> float:
    return min(SMALLEST, LARGEST / sqrt(max(sizes) / min(sizes)))


def _answer(
    held: Held, at: float, runs: Sequence[Run], settings: Sequence[str], said: Sequence[str]
) -> HeldAnswer:
    spend, places = Spend(at, held.coin), _places(runs, held)
    _check_settings(held, runs, places, [name for name in settings if name not in said])
    sizes = [run.params(held.count) for run in runs]
    start, least = _start(sizes), min(sizes)
    depths: dict[int, set[int]] = defaultdict(set)
    for run, place in zip(runs, places, strict=True):
        depths[place].add(run.depth)
    depths_of = [run.depth for run in runs]
    shared = max(map(len, depths.values())) > 1
    apart = shared or not follow(sizes, depths_of)
    at_best_depth = _without(runs, sizes, depths_of) if apart else ([runs], 0.0)
    by_size, _ = _optimum(held, *at_best_depth, places, least)
    best = best_size_of(
        by_size, spend, lambda place: _digits(least * (place / start) ** 2), (least, max(sizes))
    )
    at_best_size = _without(runs, depths_of, sizes) if apart else ([runs], 0.0)
    if not shared and len(at_best_size[0]) == 1:
        return HeldAnswer(size=best, depth=None, records=())
    found, records = _optimum(held, *at_best_size, depths_of, best.size or least)
    tokens = round(at) if held.coin is Coin.TOKENS else found.tokens
    found = replace(found, shared_spend=spend, tokens=tokens)
    return HeldAnswer(size=best, depth=found, records=records)


def _without(
    runs: Sequence[Run], kept: Sequence[int], other: Sequence[int]
) -> tuple[list[Sequence[Run]], float]:
    """The runs with their losses moved to the best value of `other` at their value of `kept`, as a
    size may have been trained only at unsuitable depths; and the standard deviation, nats, of
    losses about the parabola beyond the noise. The first set of runs is moved by the likeliest
    parabola, the others by `PARABOLAS` draws of it.

    The parabola is in the logarithms of both and weighs low losses most. The runs are unchanged if
    they are too few for a parabola, or if it has no lowest point.
    """
    x, y = np.log(kept), np.log(other)
    losses = np.array([float(run.losses[-1]) for run in runs])
    design = _terms(x, y)
    if np.linalg.matrix_rank(design) < design.shape[1] or len(set(zip(x, y, strict=True))) < ENOUGH:
        return [runs], 0.0
    above = losses - losses.min()
    weights = 1 / (np.median(above) + above)
    fitted = np.linalg.lstsq(design * weights[:, None], losses * weights, rcond=None)[0]
    if fitted[-1] <= 0:
        return [runs], 0.0
    missed = float(((weights * (losses - design @ fitted)) ** 2).sum())
    noise = measured_noise([EndedRun(run, float(run.losses[-1])) for run in runs])
    scatter = sqrt(max(0.0, missed / float(weights @ weights) - noise**2))
    weighed = design * weights[:, None]
    error = missed / max(1, len(runs) - len(fitted)) * np.linalg.inv(weighed.T @ weighed)
    drawn = np.random.default_rng(SEED).multivariate_normal(fitted, error, PARABOLAS)
    found: list[Sequence[Run]] = []
    for terms in (fitted, *drawn[drawn[:, -1] > 0]):
        best = np.clip(-(terms[3] + terms[4] * x) / (2 * terms[-1]), y.min(), y.max())
        costs = (design - _terms(x, best)) @ terms
        moved = zip(runs, costs, strict=True)
        found.append([replace(run, losses=run.losses - cost) for run, cost in moved])
    return found, scatter


def _terms(x: Array, y: Array) -> Array:
    return np.stack([np.ones_like(x), x, x**2, y, x * y, y**2], axis=1)


def _digits(size: float) -> int:
    """A size rounded to three significant digits."""
    return int(float(f"{size:.3g}"))


def _optimum(
    held: Held, moved: Sequence[Sequence[Run]], scatter: float, places: Sequence[int], size: int
) -> tuple[Optimum, tuple[TrialRecord, ...]]:
    """The optimum over `places`, which are depths or indices of sizes, and its trials. All runs
    count as models of one `size`; their losses may be off by `scatter`, nats. The sets of runs in
    `moved` are equally likely."""
    found, posteriors = [], []
    for runs in moved:
        standing = _standing(held, runs, places, size)
        budget = table_budget(
            standing, standing, params=size, count=held.count, tokens=NO_TIME, table=held.label,
            rates=True, noise=held.noise,
        )  # fmt: skip
        errors = {shape: hypot(error, scatter) for shape, error in budget.errors.items()}
        optimum, posterior = find_with_posterior(
            budget.records, seed=SEED, draws=DRAWS // len(moved), noise=held.noise, errors=errors,
            trained=False,
        )  # fmt: skip
        found.append((optimum, budget.records, errors))
        posteriors += [posterior] if posterior else []
    optimum, records, errors = found[0]
    if len(moved) > 1 and isinstance(optimum, Located):
        estimates = estimate_depths(records, held.noise, errors)
        optimum = optimum_of(records, estimates, together(posteriors))
    standing = _standing(held, moved[0], places, size)
    cause = None if held.seeded else unknown_settings(standing, NO_TIME, held.count, size)
    if cause and not isinstance(optimum.verdict.cause, TooFewDepths):
        unknown = Verdict(Kind.INSUFFICIENT, cause, Advice.NAME_SETTINGS)
        optimum = replace(optimum, verdict=unknown)
    return replace(optimum, shape=None, best_ff_ratio=None, unit=held.unit), records


def _standing(held: Held, runs: Sequence[Run], places: Sequence[int], size: int) -> list[Run]:
    """The runs as models of one `size`, with their `places` in place of depths."""
    return [
        replace(
            run, depth=place, d_model=1, d_ff=None, params_total=size, params_non_embedding=size,
            settings={**run.settings, "": f"{run.label} of {run.params(held.count)}"},
        )
        for run, place in zip(runs, places, strict=True)
    ]  # fmt: skip


def _check_settings(
    held: Held, runs: Sequence[Run], places: Sequence[int], names: Sequence[str]
) -> None:
    """Raises `TableError` if a setting varies within sizes, and its values differ between sizes: to
    choose the best value is fair only if every size had the same values. A part of the shape, such
    as loops, is not a setting: the best shape of a size counts."""
    left = []
    for name in (name for name in names if role_of(name) is not ColumnRole.OF_SHAPE):
        values: Mapping[int, set[str]] = defaultdict(set)
        for run, place in zip(runs, places, strict=True):
            values[place].add(value_of(run, name))
        several = max(map(len, values.values())) > 1
        if several and len({frozenset(some) for some in values.values()}) > 1:
            left += [name] * varies(runs, name)
    if not left:
        return
    first = as_argument(left[0])
    others = " and ".join(printable(name) for name in left[1:SHOWN])
    more = f"; likewise {others}" + " and more" * (len(left) > SHOWN) if others else ""
    raise TableError(
        f"{held.label}: {printable(left[0])} differs among models of one size, and between sizes; "
        f"choose the best with --best-of {first}, or hold it with --where {first}=VALUE{more}"
    )
