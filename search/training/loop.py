"""Trains one model on one objective and yields what is measured. Torch only: no Ray, no MLflow.

The loop reads nothing but its arguments, draws no random number (a batch is a function of seed and
step) and never waits for the device inside a step, so that it can be run, resumed bit-identically
and timed on any machine that has torch.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from fathom.models.methods import method
from fathom.models.network.transformer import Transformer
from fathom.models.optim import set_learning_rate
from fathom.models.options import Residual
from fathom.objectives.contract import Batch, Model, Objective
from fathom.objectives.errors import ObjectiveError
from fathom.search.records import derive_seed
from fathom.search.training.evaluation import (
    autocast,
    computing_evaluations,
    divergence_with_origin,
    evaluate,
)
from fathom.search.training.layer_metrics import Layers
from fathom.search.training.micro_batches import (
    free_memory,
    halved,
    is_out_of_memory,
    weighted_micro_batches,
)
from fathom.search.training.ranks.spread_evaluation import evaluate_on_ranks
from fathom.search.training.recorded_step import recorded_step
from fathom.search.training.state import Measurement, Training

Measured = TypeVar("Measured")


def never() -> bool:
    """Returns False: nothing interrupts the training."""
    return False


def train(
    training: Training,
    objective: Objective,
    interrupted: Callable[[], bool] = never,
) -> Iterator[Measurement]:
    """Trains from `training.step` to the end and yields a measurement at every evaluation step.

    Between two measurements the caller may save `training`. A measurement that has diverged is the
    last one; with patience, the last one is of the best weights. `interrupted` is called after
    every step that no evaluation follows, and may save `training` as well; once it returns True,
    this generator ends.
    """
    plan = training.plan
    if training.ended:
        return
    prepare_steps(training, objective)
    for goal in [step for step in plan.evaluation_steps if step > training.step]:
        train_loss = advance(training, objective, goal=goal, interrupted=interrupted)
        if training.step < goal:
            return
        yield _measure(training, objective, train_loss)
        if training.diverged or training.ended:
            return


def prepare_steps(training: Training, objective: Objective) -> None:
    """Prepares the first step of a new or resumed training: profiles the model for `residual:
    admin`, and compiles or records a step if the plan says so."""
    plan = training.plan
    if training.step == 0 and training.model.shape.residual is Residual.ADMIN:
        first = objective.batch(seed=training.seed, step=0, batch_size=plan.batch_size)
        method("profile")(training.transformer, *first.read)
    if plan.compiled and training.step < plan.steps:
        began = time.perf_counter()
        compile_step(training, objective)
        training.compile_seconds = time.perf_counter() - began
    if plan.recorded and training.recorded is None:
        record_step(training, objective)


def until_over(
    start: Callable[[], Iterator[Measured]], is_over: Callable[[], bool]
) -> Iterator[Measured | None]:
    """Yields every measurement of a training, and None at each interrupt, after which it starts the
    training again unless the training is over."""
    measurements = start()
    while not is_over():
        measured = next(measurements, None)
        if measured is None:
            measurements = start()
        yield measured


def _evaluated(training: Training, objective: Objective) -> tuple[dict[str, float], Layers]:
    """The metrics and layer metrics of an evaluation that all ranks compute together; the same on
    each rank."""
    with training.whole(), computing_evaluations(training):
        return evaluate_on_ranks(
            training.ranks, training.model, lambda: evaluate(training, objective)
        )


def _measure(training: Training, objective: Objective, train_loss: float) -> Measurement:
    """Evaluates the training and returns the measurement; if the training stops early, restores the
    best weights first and returns their measurement."""
    step, plan = training.step, training.plan
    metrics, layers = _evaluated(training, objective)
    loss = metrics.pop("loss")
    training.diverged = divergence_with_origin(training, loss, train_loss, objective)
    training.reset_statistics()
    if plan.patience is not None and step > plan.pretraining_steps and not training.diverged:
        best = training.keep_best_weights(loss)
        if training.restore_best():
            metrics, layers = _evaluated(training, objective)
            loss, metrics["best_step"] = metrics.pop("loss"), float(best.step)
    return Measurement(
        step=step,
        loss=loss,
        train_loss=train_loss,
        train_seconds=training.train_seconds,
        metrics=metrics,
        layers=layers,
        diverged=training.diverged,
    )


def advance(
    training: Training,
    objective: Objective,
    *,
    goal: int,
    interrupted: Callable[[], bool] = never,
) -> float:
    """Trains up to the step `goal` or an interrupt; returns the mean training loss since the last
    evaluation, in nats per token, which takes a single read from the device."""
    plan, ranks, optimizer = training.plan, training.ranks, training.optimizer
    began = time.perf_counter()
    for step in range(training.step, goal):
        rate = plan.learning_rate * plan.rate_fraction(step)
        set_learning_rate(optimizer, rate)
        batch = objective.batch(seed=training.seed, step=step, batch_size=plan.batch_size)
        own_loss = _take_step(training, objective, batch, rate)
        training.loss_sum += own_loss
        if plan.diagnostics and optimizer.norms_P is not None:
            mean = own_loss * ranks.size
            training.step_statistics.append(torch.cat((mean.view(1), optimizer.norms_P)))
        training.step, training.loss_steps = step + 1, training.loss_steps + 1
        training.train_seconds, began = _until_now(training.train_seconds, began)
        if interrupted():
            break
    mean_loss = float(ranks.sum(training.loss_sum.clone())) / training.loss_steps
    training.train_seconds, _ = _until_now(training.train_seconds, began)
    return mean_loss


def _take_step(training: Training, objective: Objective, batch: Batch, rate: float) -> Tensor:
    """Takes a step along the gradients of a batch; returns this rank's part of the batch's loss."""
    if training.recorded is not None:
        return training.recorded(training, batch, rate)
    own_loss = _backward(training, objective, batch)
    update = partial(training.optimizer.clipped_step, training.plan.grad_clip)
    if training.auto_sizing is None:
        update()
    else:
        training.auto_sizing.around(update, step=training.step, learning_rate=rate)
    return own_loss


def _until_now(seconds: float, began: float) -> tuple[float, float]:
    """The seconds plus the time since `began`; and the present time."""
    now = time.perf_counter()
    return seconds + now - began, now


def _backward(training: Training, objective: Objective, batch: Batch) -> Tensor:
    """Computes the gradients of a batch; returns this rank's part of the batch's mean loss.

    If memory runs out, this function starts again with micro-batches of half the size, which later
    steps keep. With several ranks, which wait for each other, the error ends the attempt instead,
    and all ranks start again.
    """
    while True:
        draw_dropout(training)
        try:
            return _backward_in_parts(training, batch, loss_of=_loss_of(training, objective))
        except Exception as error:
            recovers = training.ranks.size == 1 and is_out_of_memory(error)
            if not (recovers and halved(training)):
                raise
        training.model.zero_grad(set_to_none=True)
        free_memory()


def draw_dropout(training: Training) -> None:
    """Seeds the dropout of a step, so that dropout is the same after an interruption."""
    if training.plan.dropout:
        torch.manual_seed(derive_seed(training.seed, "dropout", training.step, training.ranks.rank))


def _backward_in_parts(
    training: Training, batch: Batch, *, loss_of: Callable[[Model, Batch], Tensor]
) -> Tensor:
    losses: list[Tensor] = []
    ranks, network = training.ranks, training.network
    parts = weighted_micro_batches(batch, ranks, training.micro_batches)
    for experts in training.experts:
        experts.pieces = len(parts)
    for part, weight in parts:
        with ranks.accumulating(network, last=len(losses) == len(parts) - 1):
            with autocast(training.device, training.plan):
                loss = loss_of(network, part)
            if not isinstance(loss, Tensor) or loss.numel() != 1:
                got = f"a tensor {(*loss.shape,)}" if isinstance(loss, Tensor) else repr(loss)[:60]
                raise ObjectiveError(f"`loss` of the objective must return one number, got {got}")
            if weight is not None:
                loss = loss * weight
            ranks.backward(loss)
        losses.append(loss.detach())
    return losses[0] if len(losses) == 1 else torch.stack(losses).sum()


def compile_step(training: Training, objective: Objective) -> None:
    """Compiles a training step in advance, so that no timed step includes compiling; changes no
    weight.

    If the compiler fails, the training goes on eagerly if its plan allows that; several ranks,
    which wait for each other in this step, fail instead.
    """
    plan = training.plan
    batch = objective.batch(seed=training.seed, step=training.step, batch_size=plan.batch_size)
    try:
        _backward(training, objective, batch)
    except Exception as error:
        alone = training.ranks.size == 1 and not is_out_of_memory(error)
        if not (alone and plan.may_be_eager):
            raise
        training.become_eager()  # an error of another cause comes again in the first step
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        warnings.warn(f"trials are not compiled, as the compiler failed: {cause}", stacklevel=2)
    training.model.zero_grad(set_to_none=True)


def record_step(training: Training, objective: Objective) -> None:
    """Records a training step, if it can be recorded; changes no weight."""
    began, plan = time.perf_counter(), training.plan
    batch = objective.batch(seed=training.seed, step=training.step, batch_size=plan.batch_size)
    backward = partial(_backward_in_parts, loss_of=objective.loss)
    training.recorded = recorded_step(training, batch, backward)
    training.compile_seconds += time.perf_counter() - began


def _loss_of(training: Training, objective: Objective) -> Callable[[Model, Batch], Tensor]:
    """The objective's loss as a function; for a user's own model, compiled together with the
    model."""
    if not training.plan.compiled or isinstance(training.model, Transformer):
        return objective.loss
    if training.compiled_loss is None:
        training.compiled_loss = torch.compile(objective.loss, dynamic=False)
    return training.compiled_loss
