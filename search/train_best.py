"""`fathom train`: train one exported shape, without Ray; the same command resumes."""

from collections.abc import Callable
from pathlib import Path

import torch
import yaml

from objectives.registry import prepare
from search.budget import Budget, expand_budgets
from search.config import ConfigError, StudyConfig, dump
from search.config_values import parse_count
from search.export import BestShape
from search.folder import write_atomically
from search.records import CurvePoint, Outcome, Stage, TrialSpec
from search.trial import Assignment, RunningTrial


def train_best(
    chosen: BestShape, *, tokens: str | None, out: Path, say: Callable[[str], None]
) -> None:
    """Train, saying each evaluation, and leave the weights in `out/weights.pt`.

    Raises:
        ConfigError: when `tokens` is no number, the folder is another training's, or it diverges.
    """
    config = _without_stopping(chosen.config, tokens)
    budget = _budget(config, chosen.budget)
    objective = prepare(config.objective.name, config.objective.settings())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    _claim(out, config, chosen)
    assignment = Assignment(
        config, budget, _spec(config, budget, chosen), str(out / "checkpoint.pt")
    )
    trial = RunningTrial(assignment, objective.to(device), device)
    said = 0
    for report in trial.reports():
        for point in report.points[said:]:
            say(_line(point, budget))
        said = len(report.points)
        if report.outcome is Outcome.DIVERGED:
            raise ConfigError(f"the training diverged: {report.reason}; lower `learning_rate`")
    trial.save()  # so that the same command again has nothing left to do
    trial.save_weights(out / "weights.pt")
    say(f"weights in {out / 'weights.pt'}")


def _claim(out: Path, config: StudyConfig, chosen: BestShape) -> None:
    """Make the folder this training's own; a checkpoint of another one would not fit."""
    ours = yaml.safe_dump({"budget": chosen.budget, "shape": str(chosen.shape)}) + dump(config)
    note = out / "training.yaml"
    if note.exists() and note.read_text(encoding="utf-8") != ours:
        raise ConfigError(f"{out} holds another training; choose another folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(note, ours)


def _without_stopping(config: StudyConfig, tokens: str | None) -> StudyConfig:
    """The study's settings for a single trial: no rungs, and another horizon where one is asked."""
    changes: dict[str, object] = {"stopping": config.stopping.model_copy(update={"enabled": False})}
    if tokens is not None:
        try:
            changes |= {"tokens": parse_count(tokens), "tokens_per_parameter": None}
        except ValueError as error:
            raise ConfigError(f"`--tokens` {error}") from error
    return config.model_copy(update=changes)


def _budget(config: StudyConfig, params: int) -> Budget:
    budgets = expand_budgets(config)
    return next(budget for budget in budgets if budget.params == params)


def _spec(config: StudyConfig, budget: Budget, chosen: BestShape) -> TrialSpec:
    return TrialSpec(
        trial=f"{budget.label}-best",
        study=config.study,
        stage=Stage.CONFIRM,
        budget=budget.params,
        count=config.count,
        horizon_tokens=budget.tokens,
        shape=chosen.shape,
        seed=0,
        learning_rate=config.train.learning_rate,
        rate_scale=1.0,
        may_stop=False,
    )


def _line(point: CurvePoint, budget: Budget) -> str:
    share = point.step / budget.steps
    metrics = "".join(f"  {name} {value:.4f}" for name, value in point.metrics.items())
    return f"{share:4.0%}  {point.tokens:>12,} tokens  loss {point.loss:.4f}{metrics}"
