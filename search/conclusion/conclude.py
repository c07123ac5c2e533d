"""The conclusion of a study: every statistic of its records, as one value that is passed whole."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from fathom.models.shape import Count
from fathom.objectives.errors import ObjectiveError
from fathom.search.analysis.answer.finding import find_optima
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.answer.verdict import Advice, Kind, SearchUnfinished, Verdict
from fathom.search.analysis.losses.rates import Factor, brackets
from fathom.search.analysis.losses.stalls import Stalls
from fathom.search.conclusion.findings import Audits, Findings
from fathom.search.conclusion.open_answers import shapes_of_plan, wider_limits
from fathom.search.records import TrialRecord, by_budget
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.auditing import audit_stopping
from fathom.search.scheduling.halving import halving_rule
from fathom.search.scheduling.journal import Past
from fathom.search.scheduling.offers import Offer, may_gain, offers
from fathom.search.scheduling.study_limits import study_limits
from fathom.search.scheduling.trained_depths import Choice
from fathom.search.study.fingerprint import Fingerprint, read_fingerprint
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.true_remedy import with_true_remedy

Batches = Mapping[int, tuple[Choice, ...]]
"""Budget -> last batch of trainings that its search decided on; absent while the budget
explores."""


@dataclass(frozen=True, kw_only=True)
class Conclusion(Findings):
    """Everything that a study has found so far."""

    config: StudyConfig
    fingerprint: Fingerprint | None = None
    """Digests of the settings and the data; None where no run folder has them."""
    batches: Batches = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Name of the study."""
        return self.config.study

    @property
    def count(self) -> Count:
        """Rule by which the study's budgets are counted."""
        return self.config.count

    @property
    def seed(self) -> int:
        """Random seed of the study."""
        return self.config.seed

    def offers(self, optimum: Optimum, noise: float | None = None) -> tuple[Offer, ...]:
        """The next trainings of a budget's search; empty while it explores, as trials are then
        drawn one by one. If the search ended with an open answer, the trainings that it would run
        next without limits on depths and seeds."""
        config, records = self.config, self.records_of(optimum.budget)
        if optimum.kind is not Kind.UNFINISHED:
            if not may_gain(optimum):
                return ()
            return offers(records, wider_limits(config, optimum, records), noise=noise)
        batch = self.batches.get(optimum.budget)
        limits = study_limits(config, shapes_of_plan(config, records))
        return offers(records, limits, decided=batch) if batch else ()

    @cached_property
    def audits(self) -> Audits:
        """Budget -> audit of each of its rungs."""
        return audit_budgets(self.records, self.config, self.stalls)

    @cached_property
    def repeats_at_one_decay(self) -> Mapping[int, float]:
        """Budget -> least number of epochs of a training, for budgets of more than one epoch and
        without a finished bracket of weight decays; empty if the data can't be seen here."""
        if self.config.train.command:
            return {}  # what a command reads is not known
        try:
            epoch = self.config.objective.most_train_tokens()
        except ObjectiveError:
            return {}
        return {
            optimum.budget: optimum.tokens / epoch
            for optimum in self.optima
            if 0 < epoch < optimum.tokens
            and not brackets(self.records_of(optimum.budget))[Factor.DECAY]
        }


def conclude(
    records: Sequence[TrialRecord],
    config: StudyConfig,
    *,
    unfinished: Collection[int] = (),
    resume: str = "",
    noise: float | None = None,
    fingerprint: Fingerprint | None = None,
    batches: Batches | None = None,
) -> Conclusion:
    """The conclusion from the records of a study; `noise` between seeds, nats, is measured if None.

    The remedy of an `unfinished` budget is the command `resume`, which first trains the rest of its
    last batch in `batches`.
    """
    trials = by_budget(records)
    optima = [
        replace(optimum, verdict=with_true_remedy(optimum.verdict, config, trials[optimum.budget]))
        for optimum in find_optima(records, seed=config.seed, noise=noise)
    ]
    return Conclusion(
        config=config,
        fingerprint=fingerprint,
        records=tuple(records),
        optima=tuple(_unfinished(o) if o.budget in unfinished else o for o in optima),
        unfinished=tuple(sorted(unfinished)),
        resume=resume,
        batches=batches or {},
    )


def conclude_run(
    folder: RunFolder, config: StudyConfig, past: Past, noise: float | None = None
) -> Conclusion:
    """Returns the conclusion of a search so far, including budgets whose search has not ended;
    `noise` between seeds, nats, is measured if None."""
    return conclude(
        past.ended,
        config,
        unfinished=past.unfinished(config.budgets),
        resume=folder.resume_command,
        noise=noise,
        fingerprint=read_fingerprint(folder),
        batches=past.confirmations,
    )


def _unfinished(optimum: Optimum) -> Optimum:
    cause = SearchUnfinished(sum(optimum.trials.values()))
    return replace(optimum, verdict=Verdict(Kind.UNFINISHED, cause, Advice.RESUME))


def audit_budgets(
    records: Sequence[TrialRecord],
    config: StudyConfig,
    stalls: Mapping[int, Stalls] = MappingProxyType({}),
) -> Audits:
    """Budget -> audit of its early stopping, for each budget that has records; `stalls` are the
    trials of each budget that stalled, if already known."""
    rule = halving_rule(config.stopping)
    trials = by_budget(records)
    sizes = [size for size in config.budgets if size in trials]
    return {size: audit_stopping(trials[size], rule, stalls.get(size)) for size in sizes}
