"""Findings from the trials of several budgets, of a study or a table, as values and rows."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from fathom.models.shape import Count, Shape
from fathom.models.spend import OTHER_COINS
from fathom.search.analysis.answer.definitions import not_ruled_out
from fathom.search.analysis.answer.optimum import DepthCost, Located, Optimum
from fathom.search.analysis.laws.amount_law import AmountLaw, fit_amount_law
from fathom.search.analysis.laws.compute_law import ComputeLaw, ComputeMultiple, fit_compute_law
from fathom.search.analysis.laws.law import Law
from fathom.search.analysis.laws.null_laws import NullLaw, fit_null_laws
from fathom.search.analysis.laws.weighed_laws import WeighedLaws, weigh_laws
from fathom.search.analysis.losses.depth_metrics import DepthMetric, find_depth_metrics
from fathom.search.analysis.losses.stalls import Stalls, find_stalls
from fathom.search.conclusion.published import PaperFindings, find_papers
from fathom.search.formatting import format_count, printable, spend_text
from fathom.search.records import TrialRecord, by_budget
from fathom.search.scheduling.audit import RungAudit
from fathom.search.scheduling.offers import Offer
from fathom.search.study.file.errors import ConfigError
from fathom.search.words import probabilities_text, study_reason, study_remedy

Audits = Mapping[int, tuple[RungAudit, ...]]
"""Budget -> audit of each of its rungs."""
SIZES = (
    *("depth", "d_model", "d_ff", "ff_ratio", "n_heads", "head_dim"),
    *("params_total", "params_non_embedding"),
)
"""Names of the sizes of a shape, as tables and files list them."""
OPTIMUM_ROW = (
    *("budget", "count", "tokens", "optimal_depth", "interval", "plateau", "verdict", "shape"),
    *("loss", "trials", "reason", "lowest_depth", "shallowest_depth"),
    *("probabilities", "chance_of_cost", "curve_minimum", "curve_minimum_interval"),
    *("family_disagreement", "share_without_minimum", "noise", "params_slope", "best_ff_ratio"),
    *(coin.name_in_records for coin in OTHER_COINS),
)
"""Names of the values of an optimum, as tables and files list them; those that need a curve are
None unless the optimum is located."""

SIZE_ROW = ("best_size", "size_interval", "size_plateau", "size_verdict")
"""Names of further values of an optimum if its budget leaves the size free."""


@dataclass(frozen=True, kw_only=True)
class Findings(ABC):
    """Findings from the trials of several budgets; the same trials give the same findings.

    Values that only a report shows are computed when first read.
    """

    records: tuple[TrialRecord, ...] = ()
    """Trials that have ended."""
    optima: tuple[Optimum, ...] = ()
    """Optimum of each budget that has trials, in order of budgets."""
    unfinished: tuple[int, ...] = ()
    """Budgets whose search has not ended."""
    resume: str = ""
    """Command that resumes the unfinished budgets."""
    part: Mapping[str, str] = field(default_factory=dict)
    """Column -> its value in the runs of these findings, if a table is answered in parts."""
    searched: bool = False
    """True for a table whose settings were drawn at random: a model of the loss over all settings
    compares the depths, and an optimum's noise is the part that the model leaves unexplained."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Name of the study or the table."""

    @property
    @abstractmethod
    def count(self) -> Count:
        """Rule by which the sizes of the budgets are counted."""

    @property
    @abstractmethod
    def seed(self) -> int:
        """Random seed of the statistics."""

    @abstractmethod
    def offers(self, optimum: Optimum, noise: float | None = None) -> tuple[Offer, ...]:
        """The next trainings for an answer; empty if it is settled, or no training helps.

        `noise` between seeds, nats, is measured if None.
        """

    @property
    def part_text(self) -> str:
        """The part of a table, such as `family=llama`; empty for the whole."""
        return ", ".join(
            f"{printable(name)}={printable(value) or 'nothing'}"
            for name, value in self.part.items()
        )

    @property
    def horizon_text(self) -> str:
        """The horizon of the first answer, in words; empty without an answer or a known horizon."""
        return spend_text(self.optima[0].spend) if self.optima else ""

    @cached_property
    def audits(self) -> Audits:
        """Budget -> audit of each of its rungs; empty where trials are not stopped early."""
        return {}

    @cached_property
    def repeats_at_one_decay(self) -> Mapping[int, float]:
        """Budget -> least number of epochs of a training, for budgets of more than one epoch and
        without a finished bracket of weight decays."""
        return {}

    @cached_property
    def laws(self) -> tuple[Law, ...]:
        """Fitted laws, the best one first."""
        return self.weighed_laws.laws if self.weighed_laws else ()

    @cached_property
    def weighed_laws(self) -> WeighedLaws | None:
        """The fitted laws weighted by how well they fit, which predict a depth; None without
        any."""
        return weigh_laws(self.optima)

    @cached_property
    def null_laws(self) -> tuple[NullLaw, ...]:
        """Baseline laws, with one constant each, fitted to the same budgets; the best one first."""
        return fit_null_laws(self.optima)

    @cached_property
    def compute_law(self) -> ComputeLaw | None:
        """The law of the lowest loss over the compute of the budgets; None where there is none."""
        return fit_compute_law(self.optima)

    @cached_property
    def amount_law(self) -> AmountLaw | None:
        """The law of the best size and depth over the amount that trainings spend; None if the size
        is not free, or fewer than three amounts are settled."""
        return fit_amount_law(self.optima)

    @cached_property
    def papers(self) -> PaperFindings:
        """Findings of the analyses of published papers."""
        return find_papers(self._of_one_size, seed=self.seed)

    @cached_property
    def depth_metrics(self) -> tuple[DepthMetric, ...]:
        """Metrics of each budget at each depth."""
        return find_depth_metrics(self._of_one_size)

    @property
    def _of_one_size(self) -> list[TrialRecord]:
        """The trials of budgets that fix the size."""
        return [record for record in self.records if not record.spec.count.frees_size]

    def compute_multiple(self, optimum: Optimum, cost: DepthCost) -> ComputeMultiple | None:
        """Cost of a depth of a budget as a multiple of compute; None where it is not known."""
        return self.compute_law.multiple(optimum, cost) if self.compute_law else None

    def reason(self, optimum: Optimum) -> str:
        """Returns the reason of a verdict, with what to change, in one sentence."""
        return study_reason(optimum.verdict)

    def remedy(self, optimum: Optimum) -> str:
        """Returns what to change, in words; empty where nothing needs to change."""
        return study_remedy(optimum.verdict)

    def settled(self, budget: int) -> Located | None:
        """The optimum of a budget with a settled verdict; None for any other budget."""
        located = (optimum for optimum in self.optima if isinstance(optimum, Located))
        return next((o for o in located if o.budget == budget and o.kind.settled), None)

    def records_of(self, budget: int) -> list[TrialRecord]:
        """The trials of one budget that have ended."""
        return self._by_budget.get(budget, [])

    @cached_property
    def _by_budget(self) -> Mapping[int, list[TrialRecord]]:
        return by_budget(self.records)

    @cached_property
    def stalls(self) -> Mapping[int, Stalls]:
        """Budget -> its trials that ended far from other seeds of their shape."""
        return {o.budget: find_stalls(self.records_of(o.budget)) for o in self.optima}

    def audits_of(self, budget: int) -> tuple[RungAudit, ...]:
        """The audit of each rung of one budget; empty when no trial reached a rung."""
        return self.audits.get(budget, ())


def laws_of(optima: Sequence[Optimum], run: Path) -> WeighedLaws:
    """The laws through the budgets of a run, weighted by how well they fit.

    Raises:
        ConfigError: if no law can be fitted; the message says what is missing.
    """
    if (found := weigh_laws(optima)) is None:
        raise ConfigError(f"{run} has no law: {why_no_law(optima)}")
    return found


def why_no_law(optima: Sequence[Optimum]) -> str:
    """The reason why no law was fitted, as the end of a sentence."""
    for optimum in optima:
        if not optimum.count.of_parameters:
            return f"a law is over parameters, but the budgets are {optimum.count.unit}"
    verdicts = ", ".join(f"{format_count(o.budget)} {o.kind.value}" for o in optima)
    return (
        "it takes three budgets whose verdict is identified, plateau or edge, not all of them "
        f"edges; got {verdicts or 'none that has ended'}"
    )


def shape_row(shape: Shape | None) -> dict[str, Any]:
    """Name -> exact size of a shape; every size is None without a shape."""
    row = {name: getattr(shape, name) if shape else None for name in SIZES}
    return row | (shape.counts if shape else {})


def optimum_row(optimum: Optimum, reason: str | None = None) -> dict[str, Any]:
    """Name -> plain value of a budget's answer, in layers, nats and parameters.

    It is the only source of `best.yaml`, the CSV file of optima and MLflow's metrics. `reason` is
    that of the verdict, by default in words for a study.
    """
    possible = not_ruled_out(optimum)
    values: dict[str, Any] = {
        "plateau": list(possible),
        "shallowest_depth": min(possible, default=None),
        "verdict": optimum.kind.value,
        "shape": shape_row(optimum.shape) if optimum.shape else None,
        "reason": study_reason(optimum.verdict) if reason is None else reason,
        "probabilities": dict(optimum.probabilities) or None,
    }
    if optimum.spend.coin in OTHER_COINS:
        values[optimum.spend.coin.name_in_records] = optimum.spend.amount
    if size := optimum.best_size:
        found = (size.size, size.interval, size.plateau, size.verdict.kind.value)
        values |= {name: _plain(it) for name, it in zip(SIZE_ROW, found, strict=True)}
    return {name: _plain(getattr(optimum, name, None)) for name in OPTIMUM_ROW} | values


def flat_optimum_row(optimum: Optimum, reason: str | None = None) -> dict[str, Any]:
    """An optimum's row without nesting: `interval_low`, `interval_high`, `trials_finished`, ..."""
    row = optimum_row(optimum, reason)
    flat: dict[str, Any] = {}
    for name, value in row.items():
        match name:
            case "interval" | "curve_minimum_interval" | "size_interval" | "size_plateau":
                flat[f"{name}_low"], flat[f"{name}_high"] = value or (None, None)
            case "probabilities":
                flat[name] = probabilities_text(optimum)
            case "shape":
                flat |= shape_row(optimum.shape)
            case "trials":
                flat |= {f"trials_{outcome}": number for outcome, number in value.items()}
            case _:
                flat[name] = value
    return flat


def _plain(value: object) -> object:
    """A value in a form for JSON and YAML: members of enums become text, and tuples lists."""
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value
