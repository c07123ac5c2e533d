"""Layer metrics of a training, and the layer in which it diverged."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from fathom.models.network.transformer import Transformer
from fathom.objectives.contract import Batch, Model
from fathom.search.training.layer_metrics import (
    Layers,
    diagnose,
    diagnostics_steps,
    divergence_origin,
    summary,
)
from fathom.search.training.loop import train
from fathom.search.training.state import Measurement, Training, TrainPlan
from fathom.search.training.utilisation import matrix_rate, utilisation
from tests.support.toy import CPU, Successor
from tests.support.training import PARAMETRIZATION, SHAPE
from tests.support.training import SHORT_PLAN as PLAN

WITH_DIAGNOSTICS = replace(PLAN, diagnostics=True)
OBJECTIVE = Successor(context=24)
DEEP = replace(SHAPE, depth=3, context=24)


def trained(
    plan: TrainPlan, objective: Successor = OBJECTIVE
) -> tuple[Training, list[Measurement]]:
    training = Training(DEEP, PARAMETRIZATION, plan, seed=3, device=CPU)
    return training, list(train(training, objective))


def test_diagnostics_change_no_loss() -> None:
    _, measured = trained(WITH_DIAGNOSTICS)
    _, without = trained(PLAN)
    assert [point.loss for point in measured] == [point.loss for point in without]
    assert [point.train_loss for point in measured] == [point.train_loss for point in without]
    assert all(not point.layers and set(point.metrics) == {"sequences"} for point in without)
    *before, last = measured
    assert all(not point.layers for point in before)  # a training of less than fifty steps
    assert {len(values) for values in last.layers.values()} == {DEEP.depth}
    assert last.metrics.items() >= summary(last.layers).items()
    assert {"flop_utilisation", "generation_seconds", "compile_seconds"} <= set(
        measured[-1].metrics
    )
    assert "flop_utilisation" not in measured[0].metrics


def test_the_layers_are_measured_at_the_end_and_at_most_once_in_fifty_steps() -> None:
    assert diagnostics_steps((2, 8, 9, 10, 26, 78)) == (78,)
    assert diagnostics_steps((18, 51, 62, 73, 195, 271, 282, 293, 391)) == (51, 195, 271, 391)
    assert diagnostics_steps((50, 100, 101)) == (50, 100, 101)


def test_the_summary_takes_the_last_layer_the_best_head_and_the_mean() -> None:
    layers: Layers = {
        "rank_ratio": (0.9, 0.5), "induction": (0.8, 0.1), "attention_entropy": (1.0, 2.0),
        "gradient_norm": (3.0, 4.0),
    }  # fmt: skip
    assert summary(layers) == {
        "rank_ratio": 0.5, "induction": 0.8, "attention_entropy": 1.5, "gradient_norm": 5.0,
    }  # fmt: skip


def test_metrics_that_are_not_finite_are_left_out() -> None:
    training, _ = trained(WITH_DIAGNOSTICS)
    with torch.no_grad():
        training.transformer.embedding.weight.fill_(math.nan)
    seen = diagnose(training.transformer, training.optimizer, OBJECTIVE)
    assert set(seen) == {"gradient_norm"}


class Breaks(Successor):
    """At the sixth step one layer alone has a loss and a gradient beyond all others; then none."""

    def loss(self, model: Model, batch: Batch) -> Tensor:
        loss = Successor.loss(self, model, batch)
        step = BROKEN.get("step", 0)
        BROKEN["step"] = step + 1
        assert isinstance(model, Transformer)
        if step == 6:
            return loss + 100 * model.blocks[1].attention.out.weight.square().sum()  # type: ignore[union-attr, operator]
        return loss * math.nan if step == 7 else loss


BROKEN: dict[str, Any] = {}


def test_a_divergence_is_reported_with_its_step_and_layer() -> None:
    BROKEN.clear()
    _, measurements = trained(WITH_DIAGNOSTICS, Breaks(context=24))
    assert measurements[-1].diverged.startswith("the loss is not finite")
    assert "it began at step 6, in layer 2, whose gradient had grown" in measurements[-1].diverged


def test_without_a_step_at_fault_no_origin_is_reported() -> None:
    training, _ = trained(WITH_DIAGNOSTICS)
    model = training.transformer
    norms_SP = torch.ones(3, len(list(model.parameters())))
    place: Any = {"first": 5, "limit": 2.0}
    words = divergence_origin(model, training.optimizer, torch.ones(3), norms_SP, **place)
    assert words == ""
    losses_S = torch.tensor([1.0, 3.0, 1.0])
    words = divergence_origin(model, training.optimizer, losses_S, norms_SP, **place)
    assert words == "it began at step 6"


def test_utilisation_is_the_speed_of_training_relative_to_a_matrix_product() -> None:
    training, _ = trained(PLAN)
    rate = matrix_rate(CPU, False)
    tokens_per_second = 0.5 * rate / DEEP.train_flops_per_token
    measured = utilisation(
        training.transformer, tokens_per_second=tokens_per_second, bfloat16=False
    )
    assert measured["flop_utilisation"] == pytest.approx(0.5)
    assert measured["generation_seconds"] > 0
