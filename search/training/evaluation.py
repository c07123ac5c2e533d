"""Metrics of a training at an evaluation, and the test for divergence. Torch only."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fathom.models.network.transformer import Transformer
from fathom.objectives.contract import Objective
from fathom.objectives.errors import ObjectiveError
from fathom.search.records import HOPELESS_NATS
from fathom.search.training.layer_metrics import Layers, diagnose, divergence_origin, summary
from fathom.search.training.state import Training, TrainPlan
from fathom.search.training.utilisation import utilisation


def autocast(device: torch.device, plan: TrainPlan) -> torch.autocast:
    """Context in which the model computes in the precision of the plan.

    Rounded copies of weights are not cached for a sharded model, since the copies would be of the
    whole model.
    """
    return torch.autocast(
        device.type, torch.bfloat16, enabled=plan.bfloat16, cache_enabled=not plan.shards
    )


@contextmanager
def computing_evaluations(training: Training) -> Iterator[None]:
    """Context in which the model computes as in evaluations: without dropout, in the plan's
    precision."""
    training.model.eval()
    with autocast(training.device, training.plan):
        yield
    training.model.train()


def evaluate(training: Training, objective: Objective) -> tuple[dict[str, float], Layers]:
    """The metrics of an evaluation, among them the held-out `loss`, and its layer metrics. Both
    include the detailed metrics at the plan's detailed steps, and after the best weights were
    restored at the end."""
    details, layers = dict[str, float](), Layers()
    metrics = objective.evaluate(training.model)
    if not isinstance(metrics, dict) or "loss" not in metrics:
        raise ObjectiveError(
            f"`evaluate` of the objective must return metrics with `loss`, got {metrics}; add it"
        )
    if training.ended or training.step in training.plan.detailed_steps:
        details, layers = detailed_metrics(training, objective)
    if training.auto_sizing is not None:
        metrics |= training.auto_sizing.counts()
    return metrics | details, layers


def detailed_metrics(training: Training, objective: Objective) -> tuple[dict[str, float], Layers]:
    """Metrics other than the held-out loss, some of which are only measured at the end of a
    training; and layer metrics."""
    model, plan, metrics, layers = training.model, training.plan, dict[str, float](), Layers()
    at_end = training.is_over
    if at_end:
        metrics |= objective.final_metrics(model)
    if not (plan.diagnostics and isinstance(model, Transformer)):
        return metrics, layers
    layers = diagnose(model, training.optimizer, objective)
    metrics |= summary(layers)
    if at_end:
        tokens = training.step * plan.batch_size * objective.context
        rate = tokens / training.train_seconds / training.ranks.size
        metrics |= utilisation(model, tokens_per_second=rate, bfloat16=plan.bfloat16)
        metrics["compile_seconds"] = training.compile_seconds
    return metrics, layers


def divergence(
    loss: float, train_loss: float, objective: Objective, plan: TrainPlan, *, step: int
) -> str:
    """Returns the reason why a training with these losses, in nats, counts as diverged; empty if it
    does not."""
    if not (math.isfinite(loss) and math.isfinite(train_loss)):
        return f"the loss is not finite (held out {loss}, training {train_loss})"
    warm = step > plan.pretraining_steps + plan.warmup_steps or step == plan.steps
    chance = objective.chance_loss
    if warm and loss > chance + HOPELESS_NATS:
        return f"the loss {loss:.3f} is far above {chance:.3f}, that of a guess"
    return ""


def divergence_with_origin(
    training: Training, loss: float, train_loss: float, objective: Objective
) -> str:
    """Returns a divergence as text: its reason, its step and its layer; empty if there is none."""
    model = training.model
    reason = divergence(loss, train_loss, objective, training.plan, step=training.step)
    if not (reason and training.step_statistics and isinstance(model, Transformer)):
        return reason
    statistics_SX = torch.stack(training.step_statistics)
    origin = divergence_origin(
        model,
        training.optimizer,
        statistics_SX[:, 0],
        statistics_SX[:, 1:],
        first=training.step - len(statistics_SX) + 1,
        limit=objective.chance_loss + HOPELESS_NATS,
    )
    return f"{reason}; {origin}" if origin else reason
