"""The question of a study at a budget, for `--json`."""

from pathlib import Path

from fathom.models.spend import Spend
from fathom.search.contract.reply import AskedHorizon, AskedQuestion
from fathom.search.study.keys.config import StudyConfig


def asked_horizon(spend: Spend, name: str | None = None) -> AskedHorizon | None:
    """The horizon of models with this spend; None where the spend is not known. `name` is the
    horizon's name if a study has several."""
    if not spend.coin:
        return None
    return AskedHorizon(amount=spend.amount, unit=spend.coin.value, name=name)


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
