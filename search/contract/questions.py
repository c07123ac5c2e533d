"""The question of a study at a budget, in the form that programs read."""

from pathlib import Path

from fathom.search.contract.reply import AskedHorizon, AskedQuestion
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget


def planned_horizon(budget: Budget, name: str | None) -> AskedHorizon:
    """How long the trials of a budget that run to the end will train; `name` if a study has several
    horizons."""
    return AskedHorizon(amount=budget.horizon, unit=budget.unit, name=name)


def study_question(
    budget: float, config: StudyConfig, run: Path | None, horizon: AskedHorizon | None
) -> AskedQuestion:
    """The question of a study at a budget."""
    objective = config.objective.model_dump(mode="json", exclude_defaults=True)
    return AskedQuestion(
        source=config.study,
        run=str(run) if run else None,
        count=config.count.value,
        budget=budget,
        horizon=horizon,
        data={"name": config.objective.name, **objective},
        held={},
    )
