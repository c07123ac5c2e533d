"""Predictions of a published law or of a run's law: for one size, or for each size of a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fathom.search.analysis.law import Law, Prediction, usable
from fathom.search.analysis.optimum import Optimum, find_optima
from fathom.search.analysis.published import GPT3, LEVINE, Trained, levine2020
from fathom.search.conclusion import best_law
from fathom.search.run_folder import RunFolder, read_records
from fathom.search.study.budget import count_of
from fathom.search.study.config import load
from fathom.search.study.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPrediction:
    """A published model with the prediction of its best shape."""

    trained: Trained
    prediction: Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPrediction:
    """A budget of a run with the prediction of the run's law."""

    optimum: Optimum
    fitted: bool
    """True if this budget was one of those that the law was fitted on."""
    prediction: Prediction | None
    """None if the law has no depth of at least 1 at this size."""


def predict_size(params: str, law: str) -> Prediction:
    """The best depth for a size; `law` is `levine2020` or a run folder.

    Raises:
        ConfigError: when the size is no number, or the run has no law.
    """
    size = count_of("--params", params)
    if law == LEVINE:
        return levine2020(size)
    return best_law(_optima(law), Path(law)).predict(size)


def predict_table(law: str) -> Sequence[PublishedPrediction] | Sequence[BudgetPrediction]:
    """Predictions for the sizes of GPT-3 by `levine2020`, or for a run's budgets by its own law.

    Raises:
        ConfigError: when the run has no law.
    """
    if law == LEVINE:
        return [PublishedPrediction(trained=own, prediction=levine2020(own.params)) for own in GPT3]
    optima = _optima(law)
    fitted, used = best_law(optima, Path(law)), usable(optima)
    return [
        BudgetPrediction(optimum=own, fitted=own in used, prediction=_if_any(fitted, own.budget))
        for own in optima
    ]


def _if_any(law: Law, budget: int) -> Prediction | None:
    try:
        return law.predict(budget)
    except ValueError:
        return None


def _optima(run: str) -> tuple[Optimum, ...]:
    folder = RunFolder(Path(run))
    folder.check_files()
    if not folder.config.exists():
        raise ConfigError(f"`--law` must be {LEVINE} or a run folder, got {run}")
    return find_optima(read_records(folder.records), seed=load(folder.config).seed)
