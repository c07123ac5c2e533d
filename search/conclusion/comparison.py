"""Comparison of several studies: differences of their best depths and of their best losses."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from fathom.search.analysis.answer.depth_difference import (
    DepthDifference,
    DepthRatio,
    common_ratio,
    cost_in,
    depth_ratio,
    ln_ratios,
)
from fathom.search.analysis.answer.finding import find_with_posterior
from fathom.search.analysis.curve.posterior import Posterior
from fathom.search.analysis.losses.depth_estimates import (
    BestLoss,
    LossDifference,
    best_loss,
    estimate_depths,
    loss_difference,
)
from fathom.search.conclusion.conclude import Conclusion, conclude_run
from fathom.search.formatting import printable
from fathom.search.scheduling.journal import read_run
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.free_size import check_one_size
from fathom.search.study.runs import StudyRun, one_run, runs_of

CONFIDENCE = 0.95
"""Probability that all intervals of a budget hold at once."""
BESIDE_THE_QUESTION = ("study", "budgets", "resources", "tracking", "seed")
"""Keys in which studies may differ without a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedStudy:
    """A study with its answers."""

    name: str
    conclusion: Conclusion
    data: str
    """Digest of the data; empty where it is not known."""
    best: Mapping[int, BestLoss]
    """Budget -> its best loss, with an interval."""
    posteriors: Mapping[int, Posterior]
    """Budget -> the posterior of its losses, for budgets with three finished depths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPair:
    """Two studies at a budget."""

    budget: int
    one: str
    other: str
    depths: DepthDifference | None
    """The difference of the best depths; None where a study's best depth is not settled; `why_not`
    then says which study's."""
    why_not: str
    losses: LossDifference | None
    """The first study's best loss minus the other's; None where losses are not comparable."""

    @property
    def depths_text(self) -> str:
        """Clause that says whether the best depths differ."""
        if self.depths is None:
            return f"not settled: {self.why_not}"
        if self.depths.ratio.is_settled:
            return f"deeper in {self.other if self.depths.ratio.ratio > 1 else self.one}"
        if self.depths.are_interchangeable:
            return "either depth serves both"
        return "not shown to differ"

    @property
    def losses_text(self) -> str:
        """Clause that names the study with the lower best loss, or says that this is not
        settled."""
        if self.losses is None or not self.losses.is_settled:
            return "not settled"
        return f"{self.other if self.losses.difference > 0 else self.one} is better"


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """The ratio of two studies' best depths, assumed equal at several budgets."""

    one: str
    other: str
    budgets: tuple[int, ...]
    ratio: DepthRatio


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedStudies:
    """Studies, and every pair of them at every budget that both have."""

    studies: tuple[ComparedStudy, ...]
    pairs: tuple[ComparedPair, ...]
    together: tuple[Together, ...]
    differing: Mapping[str, tuple[str, ...]]
    """Key in which the studies differ -> its value in each of them."""
    no_losses: str
    """Why best losses are not compared; empty if they are."""


def compare_runs(paths: Sequence[Path], horizon: str | None = None) -> ComparedStudies:
    """Compares the runs in run folders: those at `horizon` or, if None, all that have begun.

    Raises:
        ConfigError: if they can't be compared.
    """
    runs = [run for path in paths for run in _runs(path, horizon)]
    if len(runs) < 2:
        raise ConfigError(f"at least two run folders are needed, got {len(runs)}; name another")
    pairs_of_a_budget = len(runs) * (len(runs) - 1) // 2
    confidence = 1 - (1 - CONFIDENCE) / pairs_of_a_budget
    # A difference of losses has two intervals.
    studies = _named(
        [_study(run, 1 - (1 - confidence) / 2) for run in runs], [run.folder.path for run in runs]
    )
    _check_sizes(studies)
    differing = _differing(studies)
    no_losses = _no_losses(differing)
    pairs, together = [], []
    for one, other in combinations(studies, 2):
        of_pair = list(_pairs(one, other, confidence, with_losses=not no_losses))
        pairs += of_pair
        together += _together(one, other, confidence)
    if not pairs:
        raise ConfigError(
            f"{runs[0].folder.path} and {runs[1].folder.path} must share a budget at which both "
            "have whole trainings; run them with the same `budgets`"
        )
    return ComparedStudies(
        studies=tuple(studies),
        pairs=tuple(sorted(pairs, key=lambda pair: pair.budget)),
        together=tuple(together),
        differing=differing,
        no_losses=no_losses,
    )


def _runs(path: Path, horizon: str | None) -> Iterable[StudyRun]:
    """The run of a folder at `horizon`; if None, all its runs that have begun."""
    if horizon is None:
        return (run for run in runs_of(path) if run.began)
    return (one_run(path, horizon),)


def _study(run: StudyRun, confidence: float) -> ComparedStudy:
    config = run.config
    check_one_size(config.count, "fathom compare")
    conclusion = conclude_run(run.folder, config, read_run(run.folder, config))
    best, posteriors = {}, {}
    for optimum in conclusion.optima:
        records = conclusion.records_of(optimum.budget)
        if found := best_loss(estimate_depths(records), confidence=confidence):
            best[optimum.budget] = found
        _, posterior = find_with_posterior(records, seed=config.seed)
        if posterior:
            posteriors[optimum.budget] = posterior
    split, data = config.space.split, conclusion.fingerprint
    return ComparedStudy(
        name=f"{config.study} ({split})" if split else config.study,
        conclusion=conclusion,
        data=data.data if data else "",
        best=best,
        posteriors=posteriors,
    )


def _named(studies: Sequence[ComparedStudy], paths: Sequence[Path]) -> list[ComparedStudy]:
    """The studies under distinct names: studies that share a name are named by their folders."""
    names = [study.name for study in studies]
    shared = {name for name in names if names.count(name) > 1}
    return [
        replace(study, name=printable(str(path))) if study.name in shared else study
        for study, path in zip(studies, paths, strict=True)
    ]


def _check_sizes(studies: Sequence[ComparedStudy]) -> None:
    """Raises `ConfigError` if studies count sizes by different rules."""
    first, *others = [study.conclusion.config for study in studies]
    for other in others:
        if other.count != first.count:
            raise ConfigError(
                f"compared studies must have the same `count`, got {first.count} for {first.study} "
                f"and {other.count} for {other.study}; run one of them again"
            )


def _differing(studies: Sequence[ComparedStudy]) -> dict[str, tuple[str, ...]]:
    """Key -> its value in each study, for keys whose values differ; `data` has short digests."""
    flat = [_flat(study.conclusion.config.model_dump(mode="json")) for study in studies]
    names = [name for name in flat[0] if name.partition(".")[0] not in BESIDE_THE_QUESTION]
    names += [name for other in flat[1:] for name in other if name not in flat[0]]
    found = {
        name: tuple(printable(str(one.get(name, "default"))) for one in flat) for name in names
    }
    found["data"] = tuple(study.data[:8] or "not known" for study in studies)
    return {name: values for name, values in found.items() if len(set(values)) > 1}


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Dotted name -> value, for keys nested in groups of keys."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{before}{name}.")
        else:
            found[before + name] = value
    return found


def _no_losses(differing: Mapping[str, object]) -> str:
    """Reason why best losses are not comparable, such as other data; empty if they are."""
    reasons = [name for name in differing if name == "data" or name.startswith("objective.")]
    return f"the studies differ in {reasons[0]}" if reasons else ""


def _pairs(
    one: ComparedStudy, other: ComparedStudy, confidence: float, *, with_losses: bool
) -> Iterator[ComparedPair]:
    for budget in one.best.keys() & other.best.keys():
        losses = loss_difference(one.best[budget], other.best[budget]) if with_losses else None
        why_not = " and ".join(
            f"{study.name} is {_verdict(study, budget)}"
            for study in (one, other)
            if study.conclusion.settled(budget) is None
        )
        yield ComparedPair(
            budget=budget,
            one=one.name,
            other=other.name,
            depths=_depths(one, other, budget, confidence),
            why_not=why_not,
            losses=losses,
        )


def _verdict(study: ComparedStudy, budget: int) -> str:
    (kind,) = (o.kind for o in study.conclusion.optima if o.budget == budget)
    return kind.value


def _depths(
    one: ComparedStudy, other: ComparedStudy, budget: int, confidence: float
) -> DepthDifference | None:
    first, second = one.conclusion.settled(budget), other.conclusion.settled(budget)
    if first is None or second is None:
        return None
    return DepthDifference(
        ratio=depth_ratio(_draws(one, other, budget), confidence),
        first_in_other=cost_in(first, second),
        other_in_first=cost_in(second, first),
    )


def _draws(one: ComparedStudy, other: ComparedStudy, budget: int) -> Any:
    generator = np.random.default_rng(budget)
    return ln_ratios(one.posteriors[budget], other.posteriors[budget], generator)


def _together(one: ComparedStudy, other: ComparedStudy, confidence: float) -> list[Together]:
    """The common ratio over all budgets with a best depth in both studies; empty unless there are
    at least two."""
    both = (one.conclusion, other.conclusion)
    budgets = [b for b in one.conclusion.config.budgets if all(c.settled(b) for c in both)]
    if len(budgets) < 2:
        return []
    draws = [_draws(one, other, budget) for budget in budgets]
    ratio = common_ratio(draws, confidence)
    return [Together(one=one.name, other=other.name, budgets=tuple(budgets), ratio=ratio)]
