"""A ladder that spends for one answer: the best depth at a size beyond its budgets.

The two smallest budgets are searched in full. A larger one begins where a line through the two
before it points, at three depths, and trains on until a law can be fitted to its answer. Once every
budget has one, each training is bought for what it tells: the one that narrows the answer at the
size asked for most by the operation, of any budget, depth and seed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fathom.search.analysis.depth_estimates import estimate_depths
from fathom.search.analysis.optimum import Located, Optimum, find_optimum
from fathom.search.analysis.weighed_laws import AtSize, at_size
from fathom.search.records import Outcome, TrialRecord, in_order_of_names
from fathom.search.scheduling.budget_state import BudgetState
from fathom.search.scheduling.confirmation import next_confirmations
from fathom.search.scheduling.outlook import Offer, Outlook, outlook_of
from fathom.search.scheduling.trained_depths import (
    FRESH_SEEDS_FROM,
    STEP,
    Choice,
    TrainedDepths,
    usual_ratio,
)
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.plan import explores_less
from fathom.search.study.planning.shapes import comparable_shape

STEEPEST = 0.5
"""Largest slope of ln depth over ln parameters at which a larger budget begins: width grows as
well."""
WORTH = 0.01
"""Share of the variance at the target that a training must be expected to take away."""


@dataclass(slots=True)
class _Known:
    """What the ended trials of a budget say, computed once for each state of them."""

    trials: tuple[tuple[str, Outcome | None], ...]
    optimum: Optimum
    doubts_left: Mapping[Choice, float] | None = None


class TargetLadder:
    """The trainings of a study that asks for the best depth at a target."""

    def __init__(self, config: StudyConfig, budgets: Mapping[int, BudgetState]) -> None:
        assert config.target is not None, "for a study with a target only"
        self._config, self._target, self._budgets = config, config.target, budgets
        self._known: dict[int, _Known] = {}

    def is_open(self, search: BudgetState) -> bool:
        """True if trainings of a budget may be chosen: it is one of the smallest, or every smaller
        one has its answer."""
        return not explores_less(self._config, search.budget.params) or all(
            smaller.settled for smaller in self._smaller(search)
        )

    def needed(self, search: BudgetState) -> tuple[Choice, ...]:
        """The next trainings of a budget, until a law can be fitted to its answer."""
        ended, config = in_order_of_names(search.ended), self._config.confirm
        if explores_less(self._config, search.budget.params):
            if not ended:
                return self._first(search)
            # Rates carry over from the smallest budgets, where they cost least.
            config = config.model_copy(update={"rates": (1.0,), "decays": (1.0,)})
        return next_confirmations(
            config, search.shapes, ended, plain_rates=self._config.plain_rates, for_a_law=True
        )

    def found(self) -> AtSize | None:
        """What all budgets say of the best depth at the target; None before they say anything."""
        optima = [self._optimum(search) for search in self._budgets.values() if search.ended]
        return at_size(optima, self._target.params)

    def offers(self) -> list[Offer]:
        """The trainings that are worth most, all of what may be trained, the best first; none once
        the interval at the target is as narrow as the study asks for, or nothing narrows it."""
        found = self.found()
        if found is None or found.width <= self._target.until_width:
            return []
        offers = (
            _offer(search, choice, found.gain(params, left))
            for params, search in self._budgets.items()
            for choice, left in self._doubts_left(search).items()
        )
        worth = [offer for offer in offers if offer.gain >= WORTH]
        return sorted(worth, key=lambda offer: -offer.gain / self._price(offer))

    def outlook(self, offers: Sequence[Offer]) -> Outlook:
        """What is known at the target, and what these next trainings would bring."""
        return outlook_of(self._target.params, self._target.until_width, self.found(), offers)

    def _price(self, offer: Offer) -> float:
        """Returns the operations of a training, or its seconds where the study fixes these."""
        return offer.flops if self._config.train_seconds is None else offer.seconds

    def _doubts_left(self, search: BudgetState) -> Mapping[Choice, float]:
        """Training of a budget -> the share of the variance of its ln depth that it would leave."""
        if not search.ended:
            return {}
        known = self._of(search)
        if known.doubts_left is None:
            ended = in_order_of_names(search.ended)
            estimates = estimate_depths(ended)
            trained = TrainedDepths(self._config.confirm, search.shapes, ended, estimates)
            known.doubts_left = trained.doubts_left() if estimates.depths else {}
        return known.doubts_left

    def _first(self, search: BudgetState) -> tuple[Choice, ...]:
        """Half, once and twice the depth at which a larger budget is expected to be best."""
        depth = self._expected_depth(search)
        records = [record for smaller in self._smaller(search) for record in smaller.ended]
        ratio = usual_ratio(records)
        depths = (depth / STEP, depth, depth * STEP)
        shapes = [comparable_shape(search.shapes, depth=d, ff_ratio=ratio) for d in depths]
        return tuple(Choice(shape, FRESH_SEEDS_FROM) for shape in dict.fromkeys(shapes))

    def _expected_depth(self, search: BudgetState) -> float:
        """The depth by a line in ln depth over ln parameters through the two nearest smaller
        budgets; the middle of the range where these have no answer."""
        known = [
            (math.log(smaller.budget.params), math.log(depth))
            for smaller in self._smaller(search)
            if smaller.ended and (depth := _best_depth(self._optimum(smaller)))
        ][-2:]
        if not known:
            depths = [shape.depth for shape in search.shapes]
            return math.sqrt(min(depths) * max(depths))
        (x, y), (last_x, last_y) = known[0], known[-1]
        slope = (last_y - y) / (last_x - x) if len(known) > 1 else 0.0
        ahead = math.log(search.budget.params) - last_x
        return math.exp(last_y + min(max(slope, 0.0), STEEPEST) * ahead)

    def _optimum(self, search: BudgetState) -> Optimum:
        """The answer of a budget, as a report has it."""
        return self._of(search).optimum

    def _of(self, search: BudgetState) -> _Known:
        params = search.budget.params
        trials = tuple(sorted((r.spec.trial, r.outcome) for r in search.ended))
        if params not in self._known or self._known[params].trials != trials:
            optimum = find_optimum(search.ended, seed=self._config.seed)
            self._known[params] = _Known(trials, optimum)
        return self._known[params]

    def _place(self, search: BudgetState) -> int:
        return list(self._budgets).index(search.budget.params)

    def _smaller(self, search: BudgetState) -> list[BudgetState]:
        return list(self._budgets.values())[: self._place(search)]


def _best_depth(optimum: Optimum) -> float | None:
    return optimum.curve_minimum if isinstance(optimum, Located) else optimum.lowest_depth


def _pace(records: Sequence[TrialRecord]) -> float:
    """Seconds of training for each operation; 0 where they are not known."""
    trained = [record for record in records if record.step_seconds]
    seconds = sum(record.curve[-1].train_seconds for record in trained)
    return seconds / sum(record.train_flops for record in trained) if trained else 0.0


def _offer(search: BudgetState, choice: Choice, gain: float) -> Offer:
    """A whole training of a budget at the study's rate, with what it is expected to bring."""
    budget = search.budget.of_shape(choice.shape)
    flops = choice.shape.train_flops_per_token * budget.tokens
    return Offer(
        budget=search.budget.params,
        shape=choice.shape,
        seed=choice.seed,
        tokens=budget.tokens,
        flops=flops,
        seconds=budget.train_seconds or flops * _pace(search.ended),
        gain=gain,
    )
